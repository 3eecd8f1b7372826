//! Where entries stand in the index: sets of places, kept in the order in which discovery lists them.
//!
//! PURE. Proven before unproven, those of sources that have few before those of a crowd, local before federated, fresh
//! before stale (in whole seconds), and then by a salt that says nothing. The one rule: taking the first `n` of a set never looks at more than it takes, so
//! a skill of 50 000 agents is answered as quickly as one of ten.

use std::{
    collections::{BTreeSet, btree_set},
    ops::{Bound, RangeBounds as _},
};

use crate::clock::{Nanos, SECOND};

/// Number of an entry in the table.
pub(super) type RecordId = u32;

/// The place of an entry in every set that it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IndexPosition {
    /// What is alike in this is a tie.
    pub(super) class: RankClass,
    salt: u32,
    pub(super) slot: RecordId,
}

/// What discovery prefers: less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RankClass(u64);

const UNVERIFIED: u64 = 1 << 63;
/// How crowded an entry's source is, from this bit on.
const CROWD: u32 = 60;

const FEDERATED: u64 = 1 << 59;

/// The bits below.
const AGE: u64 = FEDERATED - 1;

/// How crowded the source of an entry was when it came: whoever has many entries is no more likely to be found than
/// somebody who has one. Of 4, 16, 64, 256 and 1024 each is another degree, so that a few agents on a machine are alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Crowding(u8);

/// The greatest degree.
const MAX_DEGREE: u32 = 5;

impl Crowding {
    /// Of a source that has so many entries already.
    pub(super) fn from_entries(entries: usize) -> Self {
        Self::from_degree(entries.checked_ilog(4).unwrap_or(0))
    }

    /// The degree that another relay tells.
    pub(super) fn from_degree(degree: u32) -> Self {
        Self(degree.min(MAX_DEGREE) as u8)
    }

    pub(super) fn degree(self) -> u32 {
        u32::from(self.0)
    }
}

impl RankClass {
    pub(super) fn new(federated: bool, verified: bool, crowd: Crowding, renewed: Nanos) -> Self {
        let age = AGE - renewed / SECOND;
        let origin = if federated { FEDERATED } else { 0 };
        let proof = if verified { 0 } else { UNVERIFIED };
        Self(proof | origin | u64::from(crowd.0) << CROWD | age)
    }

    pub(super) fn crowd(self) -> Crowding {
        Crowding((self.0 >> CROWD & 7) as u8)
    }

    /// The first class behind those that are like it in all but age, if there is one.
    pub(super) fn next_kind(self) -> Option<Self> {
        (self.0 | AGE).checked_add(1).map(Self)
    }

    pub(super) fn is_federated(self) -> bool {
        self.0 & FEDERATED != 0
    }
}

impl IndexPosition {
    pub(super) fn new(class: RankClass, salt: u32, slot: RecordId) -> Self {
        Self { class, salt, slot }
    }

    pub(super) fn with_class(self, class: RankClass) -> Self {
        Self { class, ..self }
    }

    /// In front of all of a class.
    pub(super) fn first_of(class: RankClass) -> Self {
        Self::new(class, 0, 0)
    }

    /// Behind all of a class: there are not as many entries as slots have numbers.
    pub(super) fn last_of(class: RankClass) -> Self {
        Self::new(class, u32::MAX, u32::MAX)
    }
}

/// Entries of which relays are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OriginFilter {
    All,
    Local,
    Federated,
}

impl OriginFilter {
    pub(super) fn has(self, class: RankClass) -> bool {
        match self {
            Self::All => true,
            Self::Local => !class.is_federated(),
            Self::Federated => class.is_federated(),
        }
    }
}

/// A set of places. Most tags and many skills have one agent only, so one takes no memory of its own.
#[derive(Debug, Default)]
pub(super) enum PositionSet {
    #[default]
    None,
    One(IndexPosition),
    Many(BTreeSet<IndexPosition>),
}

impl PositionSet {
    pub(super) fn insert(&mut self, place: IndexPosition) {
        match self {
            Self::None => *self = Self::One(place),
            Self::One(first) if *first == place => {}
            Self::One(first) => *self = Self::Many([*first, place].into()),
            Self::Many(all) => {
                all.insert(place);
            }
        }
    }

    pub(super) fn remove(&mut self, place: IndexPosition) {
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

    /// Those between two bounds, in their order.
    pub(super) fn between(&self, from: Bound<IndexPosition>, to: Bound<IndexPosition>) -> PositionRange<'_> {
        match self {
            Self::None => PositionRange::One(None),
            Self::One(place) => PositionRange::One((from, to).contains(place).then_some(*place)),
            Self::Many(all) => PositionRange::Many(all.range((from, to))),
        }
    }

    /// Walks in order of classes, past those of other origins; within a class from a random place on and round, so that
    /// whoever takes a few of many ties takes others each time. `random` gives the place to begin; `take` ends the walk
    /// by false.
    pub(super) fn walk(
        &self,
        origins: OriginFilter,
        random: impl FnMut() -> u32,
        mut take: impl FnMut(IndexPosition) -> bool,
    ) {
        match self {
            Self::None => {}
            Self::One(place) => {
                if origins.has(place.class) {
                    take(*place);
                }
            }
            Self::Many(all) => walk(all, origins, random, take),
        }
    }
}

/// See [`PositionSet::between`].
#[derive(Clone, Debug)]
pub(super) enum PositionRange<'a> {
    One(Option<IndexPosition>),
    Many(btree_set::Range<'a, IndexPosition>),
}

impl Iterator for PositionRange<'_> {
    type Item = IndexPosition;

    fn next(&mut self) -> Option<IndexPosition> {
        match self {
            Self::One(place) => place.take(),
            Self::Many(places) => places.next().copied(),
        }
    }
}

fn walk(
    all: &BTreeSet<IndexPosition>,
    origins: OriginFilter,
    mut random: impl FnMut() -> u32,
    mut take: impl FnMut(IndexPosition) -> bool,
) {
    let mut next = all.first().map(|place| place.class);
    while let Some(class) = next.take() {
        if !origins.has(class) {
            let behind = class.next_kind().map(|kind| IndexPosition::new(kind, 0, 0));
            let behind = behind.and_then(|behind| all.range(behind..).next());
            next = behind.map(|place| place.class);
            continue;
        }
        let middle = IndexPosition::new(class, random(), 0);
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
            .range(IndexPosition::new(class, 0, 0)..middle)
            .all(|place| take(*place))
        {
            return;
        }
    }
}

/// A small generator of numbers that need not be unguessable (splitmix64 by Steele, Lea and Flood).
#[derive(Clone, Debug)]
pub(super) struct SeededRng(u64);

impl SeededRng {
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

    fn place(second: u64, slot: RecordId) -> IndexPosition {
        let salt = SeededRng::new(u64::from(slot)).next() as u32;
        IndexPosition::new(
            RankClass::new(false, false, Crowding::default(), second * SECOND),
            salt,
            slot,
        )
    }

    #[test]
    fn classes_are_in_the_order_of_preference() {
        let now = 1_800_000_000 * SECOND;
        let few = Crowding::default();
        let order = [
            RankClass::new(false, true, few, now),
            RankClass::new(false, true, few, now - SECOND),
            RankClass::new(true, true, few, now),
            RankClass::new(true, true, few, 0),
            RankClass::new(false, true, Crowding::from_entries(4), now),
            RankClass::new(true, true, Crowding::from_entries(4), now),
            RankClass::new(false, false, few, now),
            RankClass::new(false, false, few, 0),
            RankClass::new(true, false, few, now),
            RankClass::new(false, false, Crowding::from_entries(usize::MAX), now),
            RankClass::new(true, false, Crowding::from_degree(u32::MAX), now),
        ];
        assert!(order.is_sorted_by(|a, b| a < b), "{order:?}");
        let federated = order.map(RankClass::is_federated);
        assert_eq!(
            federated,
            [
                false, false, true, true, false, true, false, false, true, false, true
            ]
        );
    }

    #[test]
    fn crowds_have_degrees() {
        let degrees =
            [0, 3, 4, 15, 16, 64, 256, 1024, 1 << 20].map(|entries| Crowding::from_entries(entries).0);
        assert_eq!(degrees, [0, 0, 1, 1, 2, 3, 4, 5, 5]);
        for degree in 0..=5 {
            assert_eq!(
                RankClass::new(true, false, Crowding(degree), SECOND).crowd(),
                Crowding(degree)
            );
        }
    }

    #[test]
    fn a_walk_passes_other_origins_by() {
        let kinds = [(false, true), (true, true), (false, false), (true, false)];
        for present in 0..16_u32 {
            let mut places = PositionSet::default();
            for slot in (0..40).filter(|slot| present & (1 << (slot % 4)) != 0) {
                let (federated, verified) = kinds[slot as usize % 4];
                let crowd = Crowding::from_entries(slot as usize);
                let class = RankClass::new(federated, verified, crowd, u64::from(slot % 3) * SECOND);
                places.insert(IndexPosition::new(class, slot, slot));
            }
            let walked = |origins| {
                let mut seen = Vec::new();
                let taken = |place: IndexPosition| {
                    seen.push(place);
                    true
                };
                places.walk(origins, || 0, taken);
                seen
            };
            let all = walked(OriginFilter::All);
            assert!(all.is_sorted() && all.len() == 10 * present.count_ones() as usize);
            for (origins, federated) in [(OriginFilter::Local, false), (OriginFilter::Federated, true)] {
                let mut wanted = all.clone();
                wanted.retain(|place| place.class.is_federated() == federated);
                assert_eq!(walked(origins), wanted);
            }
        }
    }

    #[test]
    fn a_walk_takes_each_once_and_the_fresh_ones_first() {
        for count in [0_u32, 1, 2, 50] {
            let mut places = PositionSet::default();
            for slot in 0..count {
                places.insert(place(100 + u64::from(slot % 5), slot));
            }
            for seed in 0..20 {
                let mut random = SeededRng::new(seed);
                let mut seen = Vec::new();
                places.walk(
                    OriginFilter::All,
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
        let mut places = PositionSet::default();
        for slot in 0..10 {
            places.insert(place(7, slot));
        }
        let mut firsts = BTreeSet::new();
        for seed in 0..400 {
            let mut random = SeededRng::new(seed);
            places.walk(
                OriginFilter::All,
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
