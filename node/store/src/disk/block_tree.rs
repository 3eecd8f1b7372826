//! The database's pairs in blocks ([`super::block`]): a tree of sled with a block under each fence.

use std::{
    ops::Bound,
    sync::{PoisonError, RwLock},
};

use super::block::{self, BlockPairs, BlockWriter, DamagedBlock, MergeItem, PairTooLong};
use crate::database::DatabaseError;

/// A key and what it has.
type KeyCell = (Vec<u8>, Vec<u8>);

/// Keys with their cells. One thread changes them.
pub(super) struct BlockTree {
    tree: sled::Tree,
    /// Taken to read, and to change some blocks: a reader meets each pair once.
    write_lock: RwLock<()>,
}

impl BlockTree {
    /// Those in this tree.
    pub(super) fn new(tree: sled::Tree) -> Self {
        Self {
            tree,
            write_lock: RwLock::new(()),
        }
    }

    /// The cell of a key.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, DatabaseError> {
        let _turn = self.write_lock.read().unwrap_or_else(PoisonError::into_inner);
        let Some((fence, block)) = self.block_of(key)? else {
            return Ok(None);
        };
        match BlockPairs::new(&block).find(key) {
            Ok(cell) => Ok(cell.map(<[u8]>::to_vec)),
            Err(DamagedBlock) => Err(damaged(&fence)),
        }
    }

    /// All pairs from a key on. Nothing is changed until the iterator is dropped.
    pub(super) fn from(
        &self,
        from: Bound<&[u8]>,
    ) -> Result<impl Iterator<Item = Result<KeyCell, DatabaseError>>, DatabaseError> {
        let turn = self.write_lock.read().unwrap_or_else(PoisonError::into_inner);
        let first = match from {
            Bound::Included(key) | Bound::Excluded(key) => self.block_of(key)?.map(|(fence, _)| fence),
            Bound::Unbounded => None,
        };
        let first = first.map_or(Bound::Unbounded, Bound::Included);
        let pairs = self.tree.range((first, Bound::Unbounded)).flat_map(move |block| {
            let _held = &turn;
            pairs_of(block)
        });
        Ok(pairs.filter(move |pair| match (pair, from) {
            (Ok((key, _)), Bound::Included(from)) => &key[..] >= from,
            (Ok((key, _)), Bound::Excluded(from)) => &key[..] > from,
            _ => true,
        }))
    }

    /// Changes keys, in ascending order: `cell` says what one has from now on, and is told what it had. Those
    /// of one block change at once; a crash may be between blocks.
    pub(super) fn change<'k, C>(
        &self,
        changes: impl Iterator<Item = (&'k [u8], C)>,
        mut cell: impl FnMut(&[u8], C, Option<&[u8]>) -> Result<Option<Vec<u8>>, DatabaseError>,
    ) -> Result<(), DatabaseError> {
        let mut changes = changes.peekable();
        while let Some((key, _)) = changes.peek() {
            let _turn = self.write_lock.write().unwrap_or_else(PoisonError::into_inner);
            let (fence, mut block) = self.block_of(key)?.unwrap_or_default();
            let mut behind = self.behind(&fence)?;
            let mut gone = vec![fence.clone()];
            let mut weaver = BlockWriter::new(fence.to_vec());
            loop {
                let within = |key: &[u8]| behind.as_ref().is_none_or(|(fence, _)| key < &fence[..]);
                let mut pairs = BlockPairs::new(&block).peekable();
                while pairs.peek().is_some() || !weaver.has_enough() {
                    let next = block::next(&mut pairs, &mut changes, |(key, _)| key, within);
                    let pushed = match next.map_err(|DamagedBlock| damaged(&fence))? {
                        None => break,
                        Some(MergeItem::Unchanged(key, stands)) => weaver.push(key, stands),
                        Some(MergeItem::Changed((key, change), before)) => match cell(key, change, before)? {
                            Some(cell) => weaver.push(key, &cell),
                            None => Ok(()),
                        },
                    };
                    pushed.map_err(|PairTooLong| too_long())?;
                }
                if !weaver.is_short() {
                    break;
                }
                let Some((next, its)) = behind else { break };
                behind = self.behind(&next)?;
                gone.push(next);
                block = its;
            }
            self.replace(gone, weaver.finish())?;
        }
        Ok(())
    }

    /// Puts blocks in the place of others.
    fn replace(&self, gone: Vec<sled::IVec>, blocks: Vec<KeyCell>) -> sled::Result<()> {
        if let ([fence], [(same, block)]) = (&gone[..], &blocks[..])
            && fence == same
        {
            return self.tree.insert(fence, &block[..]).map(drop);
        }
        let mut batch = sled::Batch::default();
        for fence in gone {
            batch.remove(fence);
        }
        for (fence, block) in blocks {
            batch.insert(fence, block);
        }
        self.tree.apply_batch(batch)
    }

    /// Fills an empty tree with these, in ascending order.
    pub(super) fn fill(
        &self,
        pairs: impl Iterator<Item = Result<KeyCell, DatabaseError>>,
    ) -> Result<(), DatabaseError> {
        let mut weaver = BlockWriter::new(Vec::new());
        for pair in pairs {
            let (key, cell) = pair?;
            if weaver.has_enough() {
                let full = std::mem::replace(&mut weaver, BlockWriter::new(key.clone()));
                self.insert(full.finish())?;
            }
            weaver.push(&key, &cell).map_err(|PairTooLong| too_long())?;
        }
        Ok(self.insert(weaver.finish())?)
    }

    fn insert(&self, blocks: Vec<KeyCell>) -> sled::Result<()> {
        for (fence, block) in blocks {
            self.tree.insert(fence, block)?;
        }
        Ok(())
    }

    /// The block in which a key is, if it is there.
    fn block_of(&self, key: &[u8]) -> sled::Result<Option<(sled::IVec, sled::IVec)>> {
        self.tree.range::<&[u8], _>(..=key).next_back().transpose()
    }

    fn behind(&self, fence: &[u8]) -> sled::Result<Option<(sled::IVec, sled::IVec)>> {
        self.tree.get_gt(fence)
    }
}

fn pairs_of(block: sled::Result<(sled::IVec, sled::IVec)>) -> Vec<Result<KeyCell, DatabaseError>> {
    match block {
        Err(error) => vec![Err(error.into())],
        Ok((fence, block)) => BlockPairs::new(&block)
            .map(|pair| match pair {
                Ok((key, cell)) => Ok((key.to_vec(), cell.to_vec())),
                Err(DamagedBlock) => Err(damaged(&fence)),
            })
            .collect(),
    }
}

fn damaged(fence: &[u8]) -> DatabaseError {
    DatabaseError::Damaged(format!("the records from the key {} on", fence.escape_ascii()))
}

fn too_long() -> DatabaseError {
    DatabaseError::from(std::io::Error::other("a key or value is too long"))
}
