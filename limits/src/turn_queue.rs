//! A queue in which sources take turns: one that has many items waiting delays another one by one item each. PURE.
//!
//! Sources have two levels: an outer one that cannot be forged, such as the peer that sends, and an inner one that the outer one
//! names, such as a caller of that peer's gateway. Outer sources take turns, and the inner sources of an outer one share its
//! turns in the same way. So one that invents inner sources gets no larger share.
//!
//! Invariants: items of one source leave in the order in which they came. Between two items of a source, and before its first
//! one, each other source of the same level has one turn at most. A source without items takes no memory.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

/// See the module's text.
#[derive(Debug)]
pub struct TurnQueue<T> {
    outer: Rotation<String, Rotation<String, VecDeque<T>>>,
    len: usize,
}

impl<T> Default for TurnQueue<T> {
    fn default() -> Self {
        Self {
            outer: Rotation::default(),
            len: 0,
        }
    }
}

impl<T> TurnQueue<T> {
    /// Adds an item of `inner`, a source within `outer`.
    pub fn push(&mut self, outer: &str, inner: &str, item: T) {
        let inner_sources = self.outer.entry(outer);
        inner_sources.entry(inner).push_back(item);
        self.len += 1;
    }

    /// Takes the next item of the source whose turn it is.
    pub fn pop(&mut self) -> Option<T> {
        let item = self.outer.next(
            |inner| inner.next(VecDeque::pop_front, VecDeque::is_empty),
            Rotation::is_empty,
        )?;
        self.len -= 1;
        Some(item)
    }

    /// Keeps the items for which `keep` says so. The order of what stays does not change.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        let mut len = 0;
        self.outer.retain(|inner| {
            inner.retain(|items| {
                items.retain(&mut keep);
                len += items.len();
                !items.is_empty()
            });
            !inner.is_empty()
        });
        self.len = len;
    }

    /// The items, in no order.
    pub fn items(&self) -> impl Iterator<Item = &T> {
        let inner = self.outer.each.values();
        inner.flat_map(|inner| inner.each.values().flatten())
    }

    /// The items, in no order, to be changed.
    pub fn items_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let inner = self.outer.each.values_mut();
        inner.flat_map(|inner| inner.each.values_mut().flatten())
    }

    /// How many items wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Sources of one level, and the order in which they have their turns.
#[derive(Debug)]
struct Rotation<K, V> {
    /// What each one has; nobody has nothing.
    each: HashMap<K, V>,
    /// Every source once, the next one first.
    order: VecDeque<K>,
}

impl<K, V> Default for Rotation<K, V> {
    fn default() -> Self {
        Self {
            each: HashMap::new(),
            order: VecDeque::new(),
        }
    }
}

impl<V> Rotation<String, V> {
    /// What the source has; a new one has its turn after all others.
    fn entry(&mut self, source: &str) -> &mut V
    where
        V: Default,
    {
        if !self.each.contains_key(source) {
            self.order.push_back(source.to_owned());
        }
        self.each.entry(source.to_owned()).or_default()
    }
}

impl<K: Clone + Eq + Hash, V> Rotation<K, V> {
    /// Takes something of the source whose turn it is. That one is the last then, or leaves if it has nothing more.
    fn next<T>(
        &mut self,
        take: impl FnOnce(&mut V) -> Option<T>,
        is_empty: impl FnOnce(&V) -> bool,
    ) -> Option<T> {
        let source = self.order.pop_front()?;
        let has = self.each.get_mut(&source)?;
        let taken = take(has);
        if is_empty(has) {
            self.each.remove(&source);
        } else {
            self.order.push_back(source);
        }
        taken
    }

    fn retain(&mut self, mut keep: impl FnMut(&mut V) -> bool) {
        self.each.retain(|_, has| keep(has));
        self.order.retain(|source| self.each.contains_key(source));
    }

    fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_flood_delays_others_by_one_item_each() {
        let mut queue = TurnQueue::default();
        for item in 0..1000 {
            queue.push("flood", "", item);
        }
        queue.push("b", "", 5000);
        queue.push("c", "", 6000);
        let first: Vec<i32> = std::iter::from_fn(|| queue.pop()).take(4).collect();
        assert_eq!(first, [0, 5000, 6000, 1]);
    }

    #[test]
    fn invented_inner_sources_get_no_larger_share() {
        let mut queue = TurnQueue::default();
        for item in 0..100 {
            queue.push("forger", &format!("name {item}"), "forged");
        }
        queue.push("honest", "", "good");
        queue.push("honest", "", "good");
        let first: Vec<&str> = std::iter::from_fn(|| queue.pop()).take(4).collect();
        assert_eq!(first, ["forged", "good", "forged", "good"]);
    }

    type Source = (u8, u8);

    #[derive(Clone, Debug)]
    enum QueueStep {
        Push(Source),
        Pop,
        /// All items whose number has this remainder by five.
        Remove(u64),
    }

    fn step() -> impl Strategy<Value = QueueStep> {
        prop_oneof![
            6 => (0..4_u8, 0..3_u8).prop_map(QueueStep::Push),
            5 => Just(QueueStep::Pop),
            1 => (0..5_u64).prop_map(QueueStep::Remove),
        ]
    }

    /// How often each other source of a level had its turn since a source had its own, or began to wait.
    #[derive(Default)]
    struct Delays<K>(BTreeMap<K, BTreeMap<K, u32>>);

    impl<K: Copy + Ord> Delays<K> {
        fn waits(&mut self, source: K) {
            self.0.entry(source).or_default();
        }

        fn leaves(&mut self, source: K) {
            self.0.remove(&source);
        }

        /// The source has its turn: the most turns of another one that anybody has waited for.
        fn has_turn(&mut self, source: K) -> u32 {
            self.0.insert(source, BTreeMap::new());
            let mut most = 0;
            for (waiting, others) in &mut self.0 {
                if *waiting != source {
                    let turns = others.entry(source).or_default();
                    *turns += 1;
                    most = most.max(*turns);
                }
            }
            most
        }
    }

    proptest! {
        #[test]
        fn turns_are_fair_and_nothing_is_lost(steps in proptest::collection::vec(step(), 0..200)) {
            let mut queue = TurnQueue::default();
            let mut model: BTreeMap<Source, VecDeque<u64>> = BTreeMap::new();
            let mut outer = Delays::default();
            let mut inner: BTreeMap<u8, Delays<u8>> = BTreeMap::new();
            let (mut next, mut len) = (0, 0);
            for step in steps {
                match step {
                    QueueStep::Push(source) => {
                        queue.push(&source.0.to_string(), &source.1.to_string(), (source, next));
                        model.entry(source).or_default().push_back(next);
                        outer.waits(source.0);
                        inner.entry(source.0).or_default().waits(source.1);
                        next += 1;
                    }
                    QueueStep::Pop => {
                        let popped = queue.pop();
                        prop_assert_eq!(popped.is_none(), len == 0);
                        if let Some((source, number)) = popped {
                            let first = model.get_mut(&source).and_then(VecDeque::pop_front);
                            prop_assert_eq!(first, Some(number), "items of a source leave in their order");
                            prop_assert!(outer.has_turn(source.0) <= 1);
                            prop_assert!(inner.entry(source.0).or_default().has_turn(source.1) <= 1);
                        }
                    }
                    QueueStep::Remove(rest) => {
                        queue.retain(|(_, number)| number % 5 != rest);
                        for items in model.values_mut() {
                            items.retain(|number| number % 5 != rest);
                        }
                    }
                }
                model.retain(|_, items| !items.is_empty());
                for at in 0..4 {
                    for of in 0..3 {
                        if !model.contains_key(&(at, of)) {
                            inner.entry(at).or_default().leaves(of);
                        }
                    }
                    if !model.keys().any(|source| source.0 == at) {
                        outer.leaves(at);
                    }
                }
                len = model.values().map(VecDeque::len).sum();
                prop_assert_eq!(queue.len(), len);
                prop_assert_eq!(queue.is_empty(), len == 0);
                let mut shown: Vec<u64> = queue.items().map(|(_, number)| *number).collect();
                shown.sort_unstable();
                let mut expected: Vec<u64> = model.values().flatten().copied().collect();
                expected.sort_unstable();
                prop_assert_eq!(shown, expected);
            }
        }
    }
}
