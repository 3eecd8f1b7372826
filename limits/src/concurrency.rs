//! How many of something each one has at a time. PURE. Whoever has none takes no memory.

use std::{collections::HashMap, hash::Hash};

/// The counts of all.
#[derive(Debug)]
pub struct Concurrency<K>(HashMap<K, usize>);

impl<K> Default for Concurrency<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Concurrency<K> {
    /// Counts one more, unless there are `most` already: then false, and nothing is counted.
    pub fn enter(&mut self, who: K, most: usize) -> bool {
        self.add(who, 1, most)
    }

    /// Counts one less.
    pub fn leave(&mut self, who: &K) {
        self.remove(who, 1);
    }

    /// Counts `count` more, unless there would be more than `most`: then false, and nothing is counted.
    pub fn add(&mut self, who: K, count: usize, most: usize) -> bool {
        let there = self.of(&who);
        let then = there.saturating_add(count);
        if count == 0 || then > most {
            return count == 0;
        }
        self.0.insert(who, then);
        true
    }

    /// Counts `count` less; there are that many.
    pub fn remove(&mut self, who: &K, count: usize) {
        if let Some(there) = self.0.get_mut(who) {
            *there = there.saturating_sub(count);
            if *there == 0 {
                self.0.remove(who);
            }
        }
    }

    /// How many somebody has.
    pub fn of(&self, who: &K) -> usize {
        self.0.get(who).copied().unwrap_or_default()
    }

    /// Whether nobody has any.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_has_its_own_count(
            steps in proptest::collection::vec((0..3_u8, any::<bool>(), 0..3_usize), 0..200),
            most in 0..6_usize,
        ) {
            let mut counts = Concurrency::default();
            let mut model = [0_usize; 3];
            for (who, comes, count) in steps {
                let known = &mut model[usize::from(who)];
                if comes {
                    let fits = *known + count <= most || count == 0;
                    prop_assert_eq!(counts.add(who, count, most), fits);
                    *known += if fits { count } else { 0 };
                } else if *known >= count {
                    counts.remove(&who, count);
                    *known -= count;
                }
                prop_assert_eq!(counts.of(&who), *known);
                prop_assert_eq!(counts.is_empty(), model == [0; 3]);
            }
        }
    }
}
