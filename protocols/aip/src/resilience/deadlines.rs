//! Requests that wait, and until when. PURE: time is an argument.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
};

use tokio::time::Instant;

/// Keys with a deadline each.
#[derive(Clone, Debug)]
pub struct DeadlineTable<K> {
    by_key: HashMap<K, Instant>,
    by_time: BTreeSet<(Instant, K)>,
}

impl<K: Clone + Eq + Hash + Ord> Default for DeadlineTable<K> {
    fn default() -> Self {
        Self {
            by_key: HashMap::new(),
            by_time: BTreeSet::new(),
        }
    }
}

impl<K: Clone + Eq + Hash + Ord> DeadlineTable<K> {
    /// `key` waits until `at`; a deadline that it has already is replaced.
    pub fn set(&mut self, key: K, at: Instant) {
        self.remove(&key);
        self.by_key.insert(key.clone(), at);
        self.by_time.insert((at, key));
    }

    /// `key` does not wait any more. Whether it did.
    pub fn remove(&mut self, key: &K) -> bool {
        let Some(at) = self.by_key.remove(key) else {
            return false;
        };
        self.by_time.remove(&(at, key.clone()))
    }

    /// The next deadline.
    pub fn next(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes out a key whose deadline has passed at `now`; the earliest first.
    pub fn take_passed(&mut self, now: Instant) -> Option<K> {
        if self.next()? > now {
            return None;
        }
        let (_, key) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }

    /// How many keys wait.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether no key waits.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn keys_pass_in_the_order_of_their_last_deadlines(
            steps in prop::collection::vec((0_u8..8, prop::option::weighted(0.8, 0_u64..100)), 0..60),
            until in 0_u64..120,
        ) {
            let begun = Instant::now();
            let at = |seconds| begun + Duration::from_secs(seconds);
            let mut table = DeadlineTable::default();
            let mut model: HashMap<u8, u64> = HashMap::new();
            for (key, deadline) in steps {
                if let Some(seconds) = deadline {
                    table.set(key, at(seconds));
                    model.insert(key, seconds);
                } else {
                    prop_assert_eq!(table.remove(&key), model.remove(&key).is_some());
                }
            }
            let mut expected: Vec<(u64, u8)> =
                model.into_iter().map(|(key, seconds)| (seconds, key)).collect();
            expected.sort_unstable();
            prop_assert_eq!(table.len(), expected.len());
            prop_assert_eq!(table.next(), expected.first().map(|(seconds, _)| at(*seconds)));
            let passed: Vec<u8> = std::iter::from_fn(|| table.take_passed(at(until))).collect();
            let due = expected.iter().filter(|(seconds, _)| *seconds <= until).map(|(_, key)| *key);
            prop_assert_eq!(passed, due.collect::<Vec<_>>());
            prop_assert_eq!(table.is_empty(), table.next().is_none());
        }
    }
}
