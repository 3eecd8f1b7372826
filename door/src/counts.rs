//! How many of something each one has at a time. PURE. Whoever has none takes no memory.

use std::{collections::HashMap, hash::Hash};

/// The counts of all.
#[derive(Debug)]
pub struct Counts<K>(HashMap<K, usize>);

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Counts<K> {
    /// Counts one more, unless there are `most` already: then false, and nothing is counted.
    pub fn enter(&mut self, who: K, most: usize) -> bool {
        if most == 0 {
            return false;
        }
        let count = self.0.entry(who).or_default();
        let free = *count < most;
        *count += usize::from(free);
        free
    }

    /// Counts one less.
    pub fn leave(&mut self, who: &K) {
        if let Some(count) = self.0.get_mut(who) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(who);
            }
        }
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
        fn each_has_its_own_count(steps in proptest::collection::vec((0..3_u8, any::<bool>()), 0..200), most in 1..4_usize) {
            let mut counts = Counts::default();
            let mut model = [0_usize; 3];
            for (who, comes) in steps {
                let known = &mut model[usize::from(who)];
                if comes {
                    prop_assert_eq!(counts.enter(who, most), *known < most);
                    *known = (*known + 1).min(most);
                } else if *known > 0 {
                    counts.leave(&who);
                    *known -= 1;
                }
                prop_assert_eq!(counts.is_empty(), model == [0; 3]);
            }
        }
    }
}
