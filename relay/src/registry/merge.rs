//! Last writer wins: which of two records of one registration stands.
//!
//! PURE. A registration is known by its peer and the relay it was made at (its origin); every relay may hold
//! a copy. The one rule: the order of [`Stamp`]s is total and depends on nothing but the records themselves,
//! so that merging is commutative, associative and idempotent whatever way a record has taken.

/// What decides between two records of one registration: the greater one stands. Compared in the order of
/// the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp {
    /// When the peer signed what the record says, in milliseconds since 1970 by the peer's clock; 0 if it did
    /// not. In front, so that nobody who cannot sign for the peer outdoes what it has signed.
    pub(super) proven_ms: u64,
    /// The version, by the hybrid clock of the origin.
    pub(super) version: u64,
    /// Whether it says that the registration is over.
    pub(super) over: bool,
    /// Of the content: an origin that gives one version to two contents must not divide the relays.
    pub(super) digest: u64,
}

/// A record as merging sees it.
pub(super) trait Versioned {
    /// Its stamp.
    fn stamp(&self) -> Stamp;
}

/// Whether `incoming` takes the place of what stands.
pub(super) fn replaces(incoming: &impl Versioned, standing: Option<&impl Versioned>) -> bool {
    standing.is_none_or(|standing| incoming.stamp() > standing.stamp())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Record(u8, Stamp);

    impl Versioned for Record {
        fn stamp(&self) -> Stamp {
            self.1
        }
    }

    type Table = BTreeMap<u8, Record>;

    fn merged(mut table: Table, records: impl IntoIterator<Item = Record>) -> Table {
        for record in records {
            if replaces(&record, table.get(&record.0)) {
                table.insert(record.0, record);
            }
        }
        table
    }

    prop_compose! {
        fn record()(key in 0_u8..4, proven_ms in 0_u64..3, version in 0_u64..6, over: bool, digest in 0_u64..3) -> Record {
            Record(key, Stamp { proven_ms, version, over, digest })
        }
    }

    proptest! {
        #[test]
        fn merging_is_commutative_associative_and_idempotent(
            a in vec(record(), 0..12), b in vec(record(), 0..12), c in vec(record(), 0..12),
        ) {
            let [a, b, c] = [a, b, c].map(|records| merged(Table::new(), records));
            let merge = |one: &Table, other: &Table| merged(one.clone(), other.values().copied());
            prop_assert_eq!(merge(&a, &b), merge(&b, &a));
            prop_assert_eq!(merge(&merge(&a, &b), &c), merge(&a, &merge(&b, &c)));
            prop_assert_eq!(merge(&a, &a), a);
        }

        #[test]
        fn any_order_and_any_repetition_ends_the_same(records in vec(record(), 0..12), picks in vec(any::<usize>(), 0..40)) {
            let once = merged(Table::new(), records.iter().copied());
            if !records.is_empty() {
                let again = picks.iter().map(|pick| records[pick % records.len()]);
                let shuffled = merged(Table::new(), again.chain(records.iter().rev().copied()));
                prop_assert_eq!(shuffled, once);
            }
        }
    }
}
