//! Last writer wins, with a hybrid clock: which of two records of one registration stands.
//!
//! PURE. A registration is known by its peer and the relay it was made at (its origin); every relay may hold
//! a copy. The one rule: the order of [`Stamp`]s is total and depends on nothing but the records themselves,
//! so that merging is commutative, associative and idempotent whatever way a record has taken.

use std::time::Duration;

/// Nanoseconds: of a span, or since a moment that its use names, as 1970 is for the wall clock.
pub type Nanos = u64;

/// How far in the future a version may be before it is not believed (the contract's figure).
pub const MAX_FUTURE: Nanos = 60 * SECOND;

/// One second in [`Nanos`].
pub const SECOND: Nanos = 1_000_000_000;

/// How far versions of our own origin may pull our clock ahead: a relay whose clock was set back has to get
/// past what it wrote before, and a stranger who invents versions must not send it to the end of time.
const MAX_OWN_FUTURE: Nanos = 3600 * SECOND;

/// A time in [`Nanos`]; durations beyond 584 years do not occur.
pub fn nanos(time: Duration) -> Nanos {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What decides between two records of one registration: the greater one stands. Compared in the order of
/// the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// When the peer signed what the record says, in milliseconds since 1970 by the peer's clock; 0 if it did
    /// not. In front, so that nobody who cannot sign for the peer outdoes what it has signed.
    pub proven_ms: u64,
    /// The version, by the hybrid clock of the origin.
    pub version: u64,
    /// Whether it says that the registration is over.
    pub over: bool,
    /// Of the content: an origin that gives one version to two contents must not divide the relays.
    pub digest: u64,
}

/// A record as merging sees it.
pub trait Versioned {
    /// Its stamp.
    fn stamp(&self) -> Stamp;
}

/// Whether `incoming` takes the place of what stands.
pub fn replaces(incoming: &impl Versioned, standing: Option<&impl Versioned>) -> bool {
    standing.is_none_or(|standing| incoming.stamp() > standing.stamp())
}

/// A hybrid logical clock: the wall clock's time, but always after everything it has seen and said.
#[derive(Clone, Copy, Debug, Default)]
pub struct HybridClock {
    last: Nanos,
}

impl HybridClock {
    /// One that has said `last` before, from a store.
    pub fn after(last: Nanos) -> Self {
        Self { last }
    }

    /// What it has said last.
    pub fn last(self) -> Nanos {
        self.last
    }

    /// The next version: `now`, or one above the last where that is not later.
    pub fn next(&mut self, now: Nanos) -> Nanos {
        self.last = now.max(self.last.saturating_add(1));
        self.last
    }

    /// Takes note of somebody's version, believed up to a minute ahead of `now`.
    pub fn observe(&mut self, version: Nanos, now: Nanos) {
        self.last = self.last.max(version.min(now.saturating_add(MAX_FUTURE)));
    }

    /// Takes note of a version that bears our own name, believed up to an hour ahead of `now`.
    pub fn observe_own(&mut self, version: Nanos, now: Nanos) {
        self.last = self.last.max(version.min(now.saturating_add(MAX_OWN_FUTURE)));
    }
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

        #[test]
        fn the_clock_only_goes_up(steps in vec((any::<bool>(), 0..1_000_000_u64, any::<u64>()), 1..50)) {
            let mut clock = HybridClock::default();
            let mut before = 0;
            for (ask, now, seen) in steps {
                if ask {
                    let said = clock.next(now);
                    prop_assert!(said > before && said >= now);
                    before = said;
                } else {
                    clock.observe(seen, now);
                    prop_assert!(clock.last() <= before.max(now + MAX_FUTURE));
                    before = clock.last();
                }
            }
        }
    }

    #[test]
    fn a_slow_clock_gets_past_what_it_has_seen() {
        let mut clock = HybridClock::default();
        clock.observe(50 * SECOND, 10 * SECOND);
        assert!(clock.next(11 * SECOND) > 50 * SECOND);
        clock.observe(u64::MAX, 12 * SECOND);
        assert_eq!(clock.last(), 12 * SECOND + MAX_FUTURE);
        clock.observe_own(u64::MAX, 12 * SECOND);
        assert_eq!(clock.last(), 12 * SECOND + MAX_OWN_FUTURE);
    }
}
