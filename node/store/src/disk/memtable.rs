//! PURE: changes that are in the journal but not yet in the database, the newest of each key, and how
//! they lie over what is below them.

use std::{collections::BTreeMap, iter::Peekable, ops::Bound};

use bytes::Bytes;

use super::{
    super::{Batch, KeyValue},
    journal::ValueOffset,
};

/// What a key was changed to: its new value, or None for "removed".
pub(super) type ValueChange = Option<Bytes>;

/// The newest change of each key, and where in the segment its value lies, if it is a large one.
#[derive(Debug, Default)]
pub(super) struct Memtable(BTreeMap<Vec<u8>, (ValueChange, Option<u64>)>);

impl Memtable {
    /// Lays a batch over what is there. `spots`, in ascending order: where its large values lie.
    pub(super) fn absorb(&mut self, batch: Batch, spots: &[ValueOffset]) {
        let mut spots = spots.iter().peekable();
        for (number, (key, change)) in batch.changes.into_iter().enumerate() {
            let spot = spots.next_if(|spot| spot.number == number);
            self.0.insert(key, (change, spot.map(|spot| spot.offset)));
        }
    }

    /// The change of a key, if there is one.
    pub(super) fn get(&self, key: &[u8]) -> Option<&ValueChange> {
        self.0.get(key).map(|(change, _)| change)
    }

    /// All changes, in ascending order of the keys, and where their values lie.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &ValueChange, Option<u64>)> {
        self.0.iter().map(|(key, (change, at))| (&key[..], change, *at))
    }

    /// Bytes of the values of which is known where they lie.
    pub(super) fn journal_value_bytes(&self) -> u64 {
        let lying = self.iter().filter_map(|(_, change, at)| at.and(change.as_ref()));
        lying.map(|value| value.len() as u64).sum()
    }

    /// The changes from a key on, in ascending order.
    pub(super) fn from(&self, from: Bound<&[u8]>) -> impl Iterator<Item = (Vec<u8>, ValueChange)> {
        let range = self.0.range::<[u8], _>((from, Bound::Unbounded));
        range.map(|(key, (change, _))| (key.clone(), change.clone()))
    }
}

/// Two ordered sources as one; where both have a key, the upper one's value counts.
pub(super) struct MergeIter<U: Iterator, L: Iterator> {
    upper: Peekable<U>,
    lower: Peekable<L>,
}

impl<U: Iterator, L: Iterator> MergeIter<U, L> {
    /// `upper` over `lower`, both in ascending order of their keys, each key once.
    pub(super) fn new(upper: U, lower: L) -> Self {
        Self {
            upper: upper.peekable(),
            lower: lower.peekable(),
        }
    }
}

impl<U, L, C, E> Iterator for MergeIter<U, L>
where
    U: Iterator<Item = (Vec<u8>, C)>,
    L: Iterator<Item = Result<(Vec<u8>, C), E>>,
{
    type Item = Result<(Vec<u8>, C), E>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some((upper, _)) = self.upper.peek() else {
            return self.lower.next();
        };
        match self.lower.peek() {
            Some(Err(_)) => return self.lower.next(),
            Some(Ok((lower, _))) if lower < upper => return self.lower.next(),
            Some(Ok((lower, _))) if lower == upper => {
                self.lower.next();
            }
            _ => {}
        }
        self.upper.next().map(Ok)
    }
}

/// The first `limit` pairs under `prefix` that were not removed. `value` says what a key has; it is asked
/// only of those that nothing lies over.
pub(super) fn page<C, E>(
    merged: impl Iterator<Item = Result<(Vec<u8>, C), E>>,
    prefix: &[u8],
    limit: usize,
    value: impl Fn(&[u8], C) -> Result<ValueChange, E>,
) -> Result<Vec<KeyValue>, E> {
    let mut pairs = Vec::new();
    if limit == 0 {
        return Ok(pairs);
    }
    for change in merged {
        let (key, change) = change?;
        if !key.starts_with(prefix) {
            break;
        }
        let Some(value) = value(&key, change)? else {
            continue;
        };
        pairs.push((key, value));
        if pairs.len() == limit {
            break;
        }
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn changes() -> impl Strategy<Value = BTreeMap<Vec<u8>, ValueChange>> {
        let key = prop::collection::vec(0..3_u8, 0..4);
        let value = prop::option::of(prop::collection::vec(any::<u8>(), 0..2).prop_map(Bytes::from));
        prop::collection::btree_map(key, value, 0..20)
    }

    proptest! {
        #[test]
        fn layers_read_as_one_map(
            low in changes(), middle in changes(), high in changes(),
            prefix in prop::collection::vec(0..3_u8, 0..2), limit in 0..12_usize,
        ) {
            let mut model = BTreeMap::new();
            for layer in [&low, &middle, &high] {
                model.extend(layer.clone());
            }
            let expected: Vec<KeyValue> = model
                .into_iter()
                .filter(|(key, _)| key.starts_with(&prefix))
                .filter_map(|(key, value)| Some((key, value?)))
                .take(limit)
                .collect();
            let from = |layer: &BTreeMap<Vec<u8>, ValueChange>| {
                let mut table = Memtable::default();
                table.absorb(Batch { changes: layer.clone().into_iter().collect() }, &[]);
                table.from(Bound::Included(&prefix)).collect::<Vec<_>>()
            };
            let lowest = from(&low).into_iter().map(Ok::<_, ()>);
            let merged = MergeIter::new(from(&high).into_iter(), MergeIter::new(from(&middle).into_iter(), lowest));
            prop_assert_eq!(page(merged, &prefix, limit, |_, change| Ok(change)), Ok(expected));
        }
    }
}
