//! A walk through several sets of places as if they were one, which can be gone on with later.
//!
//! PURE. In the order of [`Places::walk`]. The one rule: how far it has come is said by places alone, so that it goes on
//! whatever became of the sets meanwhile, and passes nothing that stands where it stood.

use std::{iter::Peekable, ops::Bound};

use super::places::{Between, Origins, Place, Places, Seeded};

/// How far a walk has come.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    /// None: it has not begun.
    at: Option<At>,
    /// Where it begins in each class.
    random: Seeded,
}

/// A place in a class that is walked from its middle on, and round.
#[derive(Clone, Copy, Debug)]
struct At {
    middle: Place,
    /// In front of the middle, its end having come.
    is_round: bool,
    /// What was walked past last, in this part.
    last: Option<Place>,
}

impl Progress {
    /// In front of everything.
    pub(super) fn new(random: Seeded) -> Self {
        Self { at: None, random }
    }
}

impl At {
    /// What is left of this part of the class.
    fn rest(self) -> (Bound<Place>, Bound<Place>) {
        let class = self.middle.class;
        let (first, end) = if self.is_round {
            (Place::first_of(class), Bound::Excluded(self.middle))
        } else {
            (self.middle, Bound::Included(Place::last_of(class)))
        };
        (self.last.map_or(Bound::Included(first), Bound::Excluded), end)
    }
}

/// A walk that is under way.
pub(super) struct Walk<'a> {
    sets: &'a [&'a Places],
    origins: Origins,
    progress: Progress,
    /// Of each set what is left of this part of the class.
    ahead: Vec<Peekable<Between<'a>>>,
}

impl<'a> Walk<'a> {
    /// Goes on from where another one was.
    pub(super) fn new(sets: &'a [&'a Places], origins: Origins, progress: Progress) -> Self {
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
    pub(super) fn progress(self) -> Progress {
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

    fn step(&mut self) -> Option<Place> {
        let heads = self.ahead.iter_mut().enumerate();
        let heads = heads.filter_map(|(set, rest)| Some((*rest.peek()?, set)));
        let (_, set) = heads.min()?;
        self.ahead[set].next()
    }

    /// Turns to the other part of the class, or to the next class; false at the end.
    fn turn(&mut self) -> bool {
        let next = match self.progress.at {
            Some(at) if !at.is_round => Some(At {
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

    fn next_class(&mut self) -> Option<At> {
        let mut from = self.progress.at.map_or(Bound::Unbounded, |at| {
            Bound::Excluded(Place::last_of(at.middle.class))
        });
        loop {
            let sets = self.sets.iter();
            let class = sets
                .filter_map(|set| set.between(from, Bound::Unbounded).next())
                .min()?
                .class;
            if self.origins.has(class) {
                return Some(At {
                    middle: Place::new(class, self.progress.random.next() as u32, 0),
                    is_round: false,
                    last: None,
                });
            }
            from = Bound::Included(Place::first_of(class.next_kind()?));
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = Place;

    fn next(&mut self) -> Option<Place> {
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
        federation::merge::SECOND,
        registry::places::{Class, Crowd, Slot},
    };

    const ORIGINS: [Origins; 3] = [Origins::All, Origins::Here, Origins::Elsewhere];

    fn place((federated, verified, second): (bool, bool, u64), slot: usize) -> Place {
        let class = Class::new(federated, verified, Crowd::default(), second * SECOND);
        // Salts at both ends, and some alike.
        let salt = [0, 7, u32::MAX, 7][slot % 4];
        Place::new(class, salt, slot as Slot)
    }

    fn in_one(places: &[Place], origins: Origins, seed: u64) -> Vec<Place> {
        let mut one = Places::default();
        for place in places {
            one.insert(*place);
        }
        let (mut random, mut walked) = (Seeded::new(seed), Vec::new());
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
            let places: Vec<Place> = kinds.iter().enumerate().map(|(slot, (kind, _))| place(*kind, slot)).collect();
            let mut sets: [Places; 5] = Default::default();
            for (place, (_, set)) in places.iter().zip(&kinds) {
                sets[*set].insert(*place);
            }
            let sets = sets.each_ref();
            for origins in ORIGINS {
                let mut progress = Progress::new(Seeded::new(seed));
                let mut walked = Vec::new();
                for most in &pieces {
                    let mut walk = Walk::new(&sets, origins, progress);
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
            let still: Vec<Place> = still.into_iter().enumerate().map(|(slot, kind)| place(kind, slot)).collect();
            let others: Vec<Place> = others.into_iter().enumerate().map(|(slot, kind)| place(kind, 100 + slot)).collect();
            let mut set = Places::default();
            for place in &still {
                set.insert(*place);
            }
            let mut progress = Progress::new(Seeded::new(seed));
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
                let mut walk = Walk::new(&sets, Origins::All, progress);
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
