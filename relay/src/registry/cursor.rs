//! A walk through several sets of places as if they were one, which can be gone on with later.
//!
//! PURE. In the order of [`PositionSet::walk`]. The one rule: how far it has come is said by places alone, so that it goes on
//! whatever became of the sets meanwhile, and passes nothing that stands where it stood.

use std::{iter::Peekable, ops::Bound};

use super::index::{IndexPosition, OriginFilter, PositionRange, PositionSet, SeededRng};

/// How far a walk has come.
#[derive(Clone, Debug)]
pub(super) struct CursorState {
    /// None: it has not begun.
    at: Option<ClassPosition>,
    /// Where it begins in each class.
    random: SeededRng,
}

/// A place in a class that is walked from its middle on, and round.
#[derive(Clone, Copy, Debug)]
struct ClassPosition {
    middle: IndexPosition,
    /// In front of the middle, its end having come.
    is_round: bool,
    /// What was walked past last, in this part.
    last: Option<IndexPosition>,
}

impl CursorState {
    /// In front of everything.
    pub(super) fn new(random: SeededRng) -> Self {
        Self { at: None, random }
    }
}

impl ClassPosition {
    /// What is left of this part of the class.
    fn rest(self) -> (Bound<IndexPosition>, Bound<IndexPosition>) {
        let class = self.middle.class;
        let (first, end) = if self.is_round {
            (IndexPosition::first_of(class), Bound::Excluded(self.middle))
        } else {
            (self.middle, Bound::Included(IndexPosition::last_of(class)))
        };
        (self.last.map_or(Bound::Included(first), Bound::Excluded), end)
    }
}

/// A walk that is under way.
pub(super) struct MergeCursor<'a> {
    sets: &'a [&'a PositionSet],
    origins: OriginFilter,
    progress: CursorState,
    /// Of each set what is left of this part of the class.
    ahead: Vec<Peekable<PositionRange<'a>>>,
}

impl<'a> MergeCursor<'a> {
    /// Goes on from where another one was.
    pub(super) fn new(sets: &'a [&'a PositionSet], origins: OriginFilter, progress: CursorState) -> Self {
        let mut walk = Self {
            sets,
            origins,
            progress,
            ahead: Vec::with_capacity(sets.len()),
        };
        walk.look_ahead();
        walk
    }

    /// How far it has come.
    pub(super) fn progress(self) -> CursorState {
        self.progress
    }

    fn look_ahead(&mut self) {
        self.ahead.clear();
        if let Some(at) = self.progress.at {
            let (from, to) = at.rest();
            let rests = self.sets.iter().map(|set| set.between(from, to).peekable());
            self.ahead.extend(rests);
        }
    }

    fn step(&mut self) -> Option<IndexPosition> {
        let heads = self.ahead.iter_mut().enumerate();
        let heads = heads.filter_map(|(set, rest)| Some((*rest.peek()?, set)));
        let (_, set) = heads.min()?;
        self.ahead[set].next()
    }

    /// Turns to the other part of the class, or to the next class; false at the end.
    fn turn(&mut self) -> bool {
        let next = match self.progress.at {
            Some(at) if !at.is_round => Some(ClassPosition {
                is_round: true,
                last: None,
                ..at
            }),
            _ => self.next_class(),
        };
        self.progress.at = next.or(self.progress.at);
        self.look_ahead();
        next.is_some()
    }

    fn next_class(&mut self) -> Option<ClassPosition> {
        let mut from = self.progress.at.map_or(Bound::Unbounded, |at| {
            Bound::Excluded(IndexPosition::last_of(at.middle.class))
        });
        loop {
            let sets = self.sets.iter();
            let class = sets
                .filter_map(|set| set.between(from, Bound::Unbounded).next())
                .min()?
                .class;
            if self.origins.has(class) {
                return Some(ClassPosition {
                    middle: IndexPosition::new(class, self.progress.random.next() as u32, 0),
                    is_round: false,
                    last: None,
                });
            }
            from = Bound::Included(IndexPosition::first_of(class.next_kind()?));
        }
    }
}

impl Iterator for MergeCursor<'_> {
    type Item = IndexPosition;

    fn next(&mut self) -> Option<IndexPosition> {
        loop {
            let Some(place) = self.step() else {
                if !self.turn() {
                    return None;
                }
                continue;
            };
            let at = self.progress.at.as_mut()?;
            // Whoever is in two of the sets is met once.
            if at.last.replace(place) != Some(place) {
                return Some(place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::{
        clock::SECOND,
        registry::index::{Crowding, RankClass, RecordId},
    };

    const ORIGINS: [OriginFilter; 3] = [OriginFilter::All, OriginFilter::Local, OriginFilter::Federated];

    fn place((federated, verified, second): (bool, bool, u64), slot: usize) -> IndexPosition {
        let class = RankClass::new(federated, verified, Crowding::default(), second * SECOND);
        // Salts at both ends, and some alike.
        let salt = [0, 7, u32::MAX, 7][slot % 4];
        IndexPosition::new(class, salt, slot as RecordId)
    }

    fn in_one(places: &[IndexPosition], origins: OriginFilter, seed: u64) -> Vec<IndexPosition> {
        let mut one = PositionSet::default();
        for place in places {
            one.insert(*place);
        }
        let (mut random, mut walked) = (SeededRng::new(seed), Vec::new());
        one.walk(
            origins,
            || random.next() as u32,
            |place| {
                walked.push(place);
                true
            },
        );
        walked
    }

    proptest! {
        #[test]
        fn several_sets_are_walked_as_one_and_in_pieces(
            kinds in vec(((any::<bool>(), any::<bool>(), 0..4_u64), 0..5_usize), 0..40),
            pieces in vec(1..9_usize, 40),
            seed in any::<u64>(),
        ) {
            let places: Vec<IndexPosition> = kinds.iter().enumerate().map(|(slot, (kind, _))| place(*kind, slot)).collect();
            let mut sets: [PositionSet; 5] = Default::default();
            for (place, (_, set)) in places.iter().zip(&kinds) {
                sets[*set].insert(*place);
            }
            let sets = sets.each_ref();
            for origins in ORIGINS {
                let mut progress = CursorState::new(SeededRng::new(seed));
                let mut walked = Vec::new();
                for most in &pieces {
                    let mut walk = MergeCursor::new(&sets, origins, progress);
                    walked.extend(walk.by_ref().take(*most));
                    progress = walk.progress();
                }
                prop_assert_eq!(&walked, &in_one(&places, origins, seed));
            }
        }

        #[test]
        fn what_stands_still_is_walked_once_whoever_comes_and_goes(
            still in vec((any::<bool>(), any::<bool>(), 0..4_u64), 0..30),
            others in vec((any::<bool>(), any::<bool>(), 0..4_u64), 0..30),
            pieces in vec((1..5_usize, any::<prop::sample::Index>()), 80),
            seed in any::<u64>(),
        ) {
            let still: Vec<IndexPosition> = still.into_iter().enumerate().map(|(slot, kind)| place(kind, slot)).collect();
            let others: Vec<IndexPosition> = others.into_iter().enumerate().map(|(slot, kind)| place(kind, 100 + slot)).collect();
            let mut set = PositionSet::default();
            for place in &still {
                set.insert(*place);
            }
            let mut progress = CursorState::new(SeededRng::new(seed));
            let mut walked = Vec::new();
            for (most, other) in pieces {
                if !others.is_empty() {
                    let other = *other.get(&others);
                    let stands = set.between(Bound::Included(other), Bound::Included(other)).next().is_some();
                    if stands {
                        set.remove(other);
                    } else {
                        set.insert(other);
                    }
                }
                let sets = [&set];
                let mut walk = MergeCursor::new(&sets, OriginFilter::All, progress);
                walked.extend(walk.by_ref().take(most));
                progress = walk.progress();
            }
            walked.retain(|place| still.contains(place));
            walked.sort();
            let mut all = still.clone();
            all.sort();
            prop_assert_eq!(walked, all);
        }
    }
}
