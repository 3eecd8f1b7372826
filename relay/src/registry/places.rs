//! Where entries stand in the index: sets of places, kept in the order in which discovery lists them.
//!
//! PURE. Local before federated, proven before unproven, fresh before stale (in whole seconds), and then by a
//! salt that says nothing. The one rule: taking the first `n` of a set never looks at more than it takes, so
//! a skill of 50 000 agents is answered as quickly as one of ten.

use std::collections::BTreeSet;

use crate::federation::merge::{Nanos, SECOND};

/// Number of an entry in the table.
pub(super) type Slot = u32;

/// The place of an entry in every set that it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// What is alike in this is a tie.
    pub(super) class: Class,
    salt: u32,
    pub(super) slot: Slot,
}

/// What discovery prefers: less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Class(u64);

const FEDERATED: u64 = 1 << 63;
const UNVERIFIED: u64 = 1 << 62;

impl Class {
    pub(super) fn new(federated: bool, verified: bool, renewed: Nanos) -> Self {
        let age = (UNVERIFIED - 1) - renewed / SECOND;
        let origin = if federated { FEDERATED } else { 0 };
        Self(origin | if verified { 0 } else { UNVERIFIED } | age)
    }

    pub(super) fn is_federated(self) -> bool {
        self.0 & FEDERATED != 0
    }
}

impl Place {
    pub(super) fn new(class: Class, salt: u32, slot: Slot) -> Self {
        Self { class, salt, slot }
    }

    pub(super) fn with_class(self, class: Class) -> Self {
        Self { class, ..self }
    }
}

/// A set of places. Most tags and many skills have one agent only, so one takes no memory of its own.
#[derive(Debug, Default)]
pub(super) enum Places {
    #[default]
    None,
    One(Place),
    Many(BTreeSet<Place>),
}

impl Places {
    pub(super) fn insert(&mut self, place: Place) {
        match self {
            Self::None => *self = Self::One(place),
            Self::One(first) if *first == place => {}
            Self::One(first) => *self = Self::Many([*first, place].into()),
            Self::Many(all) => {
                all.insert(place);
            }
        }
    }

    pub(super) fn remove(&mut self, place: Place) {
        match self {
            Self::One(first) if *first == place => *self = Self::None,
            Self::None | Self::One(_) => {}
            Self::Many(all) => {
                all.remove(&place);
                if all.is_empty() {
                    *self = Self::None;
                }
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::One(_) => 1,
            Self::Many(all) => all.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Walks in order of classes; within a class from a random place on and round, so that whoever takes a
    /// few of many ties takes others each time. `random` gives the place to begin; `take` ends the walk by false.
    pub(super) fn walk(&self, random: impl FnMut() -> u32, mut take: impl FnMut(Place) -> bool) {
        match self {
            Self::None => {}
            Self::One(place) => {
                take(*place);
            }
            Self::Many(all) => walk(all, random, take),
        }
    }
}

fn walk(all: &BTreeSet<Place>, mut random: impl FnMut() -> u32, mut take: impl FnMut(Place) -> bool) {
    let mut next = all.first().map(|place| place.class);
    while let Some(class) = next.take() {
        let middle = Place::new(class, random(), 0);
        for place in all.range(middle..) {
            if place.class != class {
                next = Some(place.class);
                break;
            }
            if !take(*place) {
                return;
            }
        }
        if !all
            .range(Place::new(class, 0, 0)..middle)
            .all(|place| take(*place))
        {
            return;
        }
    }
}

/// A small generator of numbers that need not be unguessable (splitmix64 by Steele, Lea and Flood).
#[derive(Clone, Debug)]
pub(super) struct Seeded(u64);

impl Seeded {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Shuffles in place (Fisher and Yates).
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.next() % (last as u64 + 1);
            items.swap(last, other as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(second: u64, slot: Slot) -> Place {
        let salt = Seeded::new(u64::from(slot)).next() as u32;
        Place::new(Class::new(false, false, second * SECOND), salt, slot)
    }

    #[test]
    fn classes_are_in_the_order_of_preference() {
        let now = 1_800_000_000 * SECOND;
        let order = [
            Class::new(false, true, now),
            Class::new(false, true, now - SECOND),
            Class::new(false, false, now),
            Class::new(false, false, 0),
            Class::new(true, true, now),
            Class::new(true, false, now),
        ];
        assert!(order.is_sorted_by(|a, b| a < b), "{order:?}");
        assert!(!order[3].is_federated() && order[4].is_federated());
    }

    #[test]
    fn a_walk_takes_each_once_and_the_fresh_ones_first() {
        for count in [0_u32, 1, 2, 50] {
            let mut places = Places::default();
            for slot in 0..count {
                places.insert(place(100 + u64::from(slot % 5), slot));
            }
            for seed in 0..20 {
                let mut random = Seeded::new(seed);
                let mut seen = Vec::new();
                places.walk(
                    || random.next() as u32,
                    |place| {
                        seen.push(place);
                        true
                    },
                );
                assert!(seen.is_sorted_by_key(|place| place.class));
                seen.sort();
                seen.dedup();
                assert_eq!(seen.len(), count as usize);
            }
        }
    }

    #[test]
    fn each_of_many_ties_comes_first_at_times() {
        let mut places = Places::default();
        for slot in 0..10 {
            places.insert(place(7, slot));
        }
        let mut firsts = BTreeSet::new();
        for seed in 0..400 {
            let mut random = Seeded::new(seed);
            places.walk(
                || random.next() as u32,
                |place| {
                    firsts.insert(place.slot);
                    false
                },
            );
        }
        assert!(firsts.len() >= 9, "{firsts:?}");
    }
}
