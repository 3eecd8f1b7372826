//! PURE: how the database holds what it is given: keys with their cells in *blocks*, runs of some 8 KiB in
//! ascending order.
//!
//! Writing a pair of its own costs sled some 10 µs, whatever its size; most that is written are records of
//! tasks, half a kilobyte each, in the order of arrival. A block stands under its *fence*: it has what is not
//! below its own fence and below the next block's.

use std::iter::Peekable;

/// Bytes after which a block is full.
const FULL_BLOCK: usize = 8 << 10;

/// Fewer bytes than that, and the block takes in the one behind it.
const MIN_BLOCK: usize = FULL_BLOCK / 4;

/// Full blocks after which weaving pauses: bounds how long readers wait.
const MAX_BLOCKS: usize = 8;

/// Length of a key, length of its cell.
const HEADER: usize = 2 + 4;

/// A block that is none that was written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DamagedBlock;

/// A key with its cell.
type BlockPair<'a> = (&'a [u8], &'a [u8]);

/// The pairs of a block, in order.
#[derive(Clone, Debug)]
pub(super) struct BlockPairs<'a>(&'a [u8]);

impl<'a> BlockPairs<'a> {
    /// Those in these bytes.
    pub(super) fn new(block: &'a [u8]) -> Self {
        Self(block)
    }

    fn split(bytes: &'a [u8]) -> Option<(BlockPair<'a>, &'a [u8])> {
        let (key, rest) = bytes.split_first_chunk()?;
        let (cell, rest) = rest.split_first_chunk()?;
        let (key, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*key)))?;
        let (cell, rest) = rest.split_at_checked(u32::from_le_bytes(*cell) as usize)?;
        Some(((key, cell), rest))
    }

    /// The cell of a key.
    pub(super) fn find(self, wanted: &[u8]) -> Result<Option<&'a [u8]>, DamagedBlock> {
        for pair in self {
            let (key, cell) = pair?;
            if key >= wanted {
                return Ok((key == wanted).then_some(cell));
            }
        }
        Ok(None)
    }
}

impl<'a> Iterator for BlockPairs<'a> {
    type Item = Result<BlockPair<'a>, DamagedBlock>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let split = Self::split(self.0);
        self.0 = split.map_or(&[], |(_, rest)| rest);
        Some(split.map(|(pair, _)| pair).ok_or(DamagedBlock))
    }
}

/// A key or a cell that is too long for a block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PairTooLong;

/// Writes blocks out of pairs in ascending order.
#[derive(Debug)]
pub(super) struct BlockWriter {
    blocks: Vec<(Vec<u8>, Vec<u8>)>,
    fence: Vec<u8>,
    open: Vec<u8>,
}

impl BlockWriter {
    /// The first block will stand under this fence.
    pub(super) fn new(fence: Vec<u8>) -> Self {
        Self {
            blocks: Vec::new(),
            fence,
            open: Vec::new(),
        }
    }

    /// Adds a pair.
    pub(super) fn push(&mut self, key: &[u8], cell: &[u8]) -> Result<(), PairTooLong> {
        let key_length = u16::try_from(key.len()).map_err(|_| PairTooLong)?;
        let cell_length = u32::try_from(cell.len()).map_err(|_| PairTooLong)?;
        if !self.open.is_empty() && self.open.len() + HEADER + key.len() + cell.len() > FULL_BLOCK {
            self.close();
            self.fence = key.to_vec();
        }
        self.open.extend_from_slice(&key_length.to_le_bytes());
        self.open.extend_from_slice(&cell_length.to_le_bytes());
        self.open.extend_from_slice(key);
        self.open.extend_from_slice(cell);
        Ok(())
    }

    fn close(&mut self) {
        let fence = std::mem::take(&mut self.fence);
        self.blocks.push((fence, std::mem::take(&mut self.open)));
    }

    /// Whether so much is there that it should be written before more is woven.
    pub(super) fn has_enough(&self) -> bool {
        self.blocks.len() >= MAX_BLOCKS
    }

    /// Whether all of it is so short that it should take in the block behind.
    pub(super) fn is_short(&self) -> bool {
        self.blocks.is_empty() && self.open.len() < MIN_BLOCK
    }

    /// The blocks with their fences. None: there are no pairs.
    pub(super) fn finish(mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        if self.open.len() < MIN_BLOCK
            && let Some((fence, full)) = self.blocks.pop()
        {
            // Two that are half full: what comes between them later finds room.
            let joined = [full, std::mem::take(&mut self.open)].concat();
            let (first, second) = halves(&joined);
            self.blocks.push((fence, first.to_vec()));
            self.fence = BlockPairs::new(second)
                .next()
                .and_then(Result::ok)
                .map_or_else(Vec::new, |(key, _)| key.to_vec());
            self.open = second.to_vec();
        }
        if !self.open.is_empty() {
            self.close();
        }
        self.blocks
    }
}

/// Two parts of these pairs, neither of them too long, as even as that goes.
fn halves(pairs: &[u8]) -> (&[u8], &[u8]) {
    let mut rest = BlockPairs::new(pairs);
    let mut at = 0;
    while let Some(Ok((key, cell))) = rest.next() {
        let after = at + HEADER + key.len() + cell.len();
        if at > 0 && after > FULL_BLOCK {
            break;
        }
        at = after;
        if at >= pairs.len() / 2 {
            break;
        }
    }
    pairs.split_at(at)
}

/// What lies on top of what: pairs that stay, changes, and what they replace.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MergeItem<'a, C> {
    /// This pair stays as it is.
    Unchanged(&'a [u8], &'a [u8]),
    /// This change comes, over the cell that the key had.
    Changed(C, Option<&'a [u8]>),
}

/// The next of a block's pairs and of changes to it, in ascending order of their keys. `key` says which key
/// a change is about; changes that are not `within` the block are left alone.
pub(super) fn next<'a, 'k, C: 'k>(
    pairs: &mut Peekable<BlockPairs<'a>>,
    changes: &mut Peekable<impl Iterator<Item = C>>,
    key: impl Fn(&C) -> &'k [u8],
    within: impl Fn(&[u8]) -> bool,
) -> Result<Option<MergeItem<'a, C>>, DamagedBlock> {
    let change = changes.peek().map(&key).filter(|key| within(key));
    let pair = match pairs.peek() {
        Some(Err(DamagedBlock)) => return Err(DamagedBlock),
        Some(Ok(pair)) => Some(*pair),
        None => None,
    };
    Ok(match (change, pair) {
        (None, None) => None,
        (Some(changed), Some((stands, cell))) if changed == stands => {
            pairs.next();
            changes
                .next()
                .map(|change| MergeItem::Changed(change, Some(cell)))
        }
        (Some(changed), Some((stands, _))) if changed < stands => {
            changes.next().map(|change| MergeItem::Changed(change, None))
        }
        (Some(_), None) => changes.next().map(|change| MergeItem::Changed(change, None)),
        (_, Some((stands, cell))) => {
            pairs.next();
            Some(MergeItem::Unchanged(stands, cell))
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn pairs_of(blocks: &[(Vec<u8>, Vec<u8>)]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let pairs = blocks.iter().flat_map(|(_, block)| BlockPairs::new(block));
        pairs
            .map(|pair| pair.map(|(key, cell)| (key.to_vec(), cell.to_vec())).unwrap())
            .collect()
    }

    proptest! {
        #[test]
        fn blocks_have_what_was_woven(
            map in prop::collection::btree_map(
                prop::collection::vec(any::<u8>(), 0..6), prop::collection::vec(any::<u8>(), 0..6000), 0..30),
        ) {
            let mut weaver = BlockWriter::new(b"".to_vec());
            for (key, cell) in &map {
                weaver.push(key, cell).unwrap();
            }
            let blocks = weaver.finish();
            prop_assert_eq!(pairs_of(&blocks), map.clone().into_iter().collect::<Vec<_>>());
            for (at, (fence, block)) in blocks.iter().enumerate() {
                let first = BlockPairs::new(block).next().unwrap().unwrap();
                prop_assert!(&fence[..] <= first.0 && (at == 0 || fence == first.0));
                prop_assert!(block.len() <= FULL_BLOCK || BlockPairs::new(block).count() == 1);
                for (key, cell) in &map {
                    let here = BlockPairs::new(block).any(|pair| pair.unwrap().0 == key);
                    prop_assert_eq!(BlockPairs::new(block).find(key), Ok(here.then_some(&cell[..])));
                }
            }
        }

        #[test]
        fn changes_lie_over_pairs(
            below in prop::collection::btree_map(0..20_u8, any::<u8>(), 0..12),
            above in prop::collection::btree_map(0..20_u8, prop::option::of(any::<u8>()), 0..12),
            end in 0..21_u8,
        ) {
            let mut weaver = BlockWriter::new(Vec::new());
            for (key, cell) in below.range(..end) {
                weaver.push(&[*key], &[*cell]).unwrap();
            }
            let block = weaver.finish().pop().map_or_else(Vec::new, |(_, block)| block);
            let changes: Vec<(Vec<u8>, Option<u8>)> = above.iter().map(|(key, new)| (vec![*key], *new)).collect();
            let mut changes = changes.iter().peekable();
            let mut pairs = BlockPairs::new(&block).peekable();
            let mut found = BTreeMap::new();
            while let Some(came) = next(&mut pairs, &mut changes, |change| &change.0, |key| key < &[end][..]).unwrap() {
                match came {
                    MergeItem::Unchanged(key, cell) => prop_assert_eq!(found.insert(key[0], cell[0]), None),
                    MergeItem::Changed((key, new), before) => {
                        prop_assert_eq!(before.map(|cell| cell[0]), below.get(&key[0]).copied());
                        if let Some(new) = new {
                            prop_assert_eq!(found.insert(key[0], *new), None);
                        }
                    }
                }
            }
            let mut model: BTreeMap<u8, u8> = below.range(..end).map(|(key, cell)| (*key, *cell)).collect();
            for (key, new) in above.range(..end) {
                match new {
                    Some(new) => drop(model.insert(*key, *new)),
                    None => drop(model.remove(key)),
                }
            }
            prop_assert_eq!(found, model);
            prop_assert_eq!(changes.count(), above.range(end..).count(), "what is not within is left alone");
        }

        #[test]
        fn bytes_that_are_no_block_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let pairs: Vec<_> = BlockPairs::new(&bytes).collect();
            prop_assert!(pairs.iter().rev().skip(1).all(Result::is_ok), "nothing comes after a damaged pair");
            let _ = BlockPairs::new(&bytes).find(b"k");
        }
    }
}
