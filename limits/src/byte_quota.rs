//! Bytes that requests and answers have in memory: of each asker, and of all. PURE.

use std::hash::Hash;

use crate::Concurrency;

/// The bytes that are there, and how many there may be.
#[derive(Debug)]
pub struct ByteQuota<K> {
    each: Concurrency<K>,
    all: usize,
    most_of_each: usize,
    most_of_all: usize,
}

impl<K: Eq + Hash> ByteQuota<K> {
    /// None, of at most so many.
    pub fn new(most_of_each: usize, most_of_all: usize) -> Self {
        Self {
            each: Concurrency::default(),
            all: 0,
            most_of_each,
            most_of_all,
        }
    }

    /// Counts so many more, unless there would be too many: then false, and nothing is counted.
    pub fn take(&mut self, who: K, count: usize) -> bool {
        let fits = self.all.saturating_add(count) <= self.most_of_all
            && self.each.add(who, count, self.most_of_each);
        if fits {
            self.all += count;
        }
        fits
    }

    /// Counts so many less; they were taken.
    pub fn give_back(&mut self, who: &K, count: usize) {
        self.each.remove(who, count);
        self.all = self.all.saturating_sub(count);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.each.is_empty() && self.all == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Neither bound is ever passed, nothing is refused that fits, and nothing stays when all is given back.
        #[test]
        fn both_bounds_hold(steps in proptest::collection::vec((0..4_u8, 1..40_usize, any::<bool>()), 0..100)) {
            let mut bulk = ByteQuota::new(50, 120);
            let mut model: Vec<(u8, usize)> = Vec::new();
            for (who, count, comes) in steps {
                if comes {
                    let own: usize = model.iter().filter(|(other, _)| *other == who).map(|(_, n)| n).sum();
                    let all: usize = model.iter().map(|(_, n)| n).sum();
                    let fits = own + count <= 50 && all + count <= 120;
                    prop_assert_eq!(bulk.take(who, count), fits);
                    if fits {
                        model.push((who, count));
                    }
                } else if let Some((who, count)) = model.pop() {
                    bulk.give_back(&who, count);
                }
            }
            for (who, count) in model {
                bulk.give_back(&who, count);
            }
            prop_assert!(bulk.is_empty());
        }
    }
}
