//! A number of places of which each source may take a share only.
//!
//! PURE but for a lock. The one rule: a place is free again when its [`Seat`] is dropped.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::registry::Source;

/// All places; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Seats(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    all: usize,
    per_source: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    sources: HashMap<Source, usize>,
}

/// A place that is taken.
#[derive(Debug)]
pub(crate) struct Seat(Arc<Shared>, Source);

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// All are taken.
    All,
    /// The source has its share.
    Source,
}

impl Seats {
    /// So many, and so many of one source.
    pub(crate) fn new(all: usize, per_source: usize) -> Self {
        Self(Arc::new(Shared {
            all,
            per_source,
            taken: Mutex::default(),
        }))
    }

    /// How many are taken.
    pub(crate) fn taken(&self) -> usize {
        self.0.lock().all
    }

    /// A place for `source`.
    pub(crate) fn take(&self, source: Source) -> Result<Seat, Full> {
        let mut taken = self.0.lock();
        if taken.all >= self.0.all {
            return Err(Full::All);
        }
        if taken.sources.get(&source).copied().unwrap_or(0) >= self.0.per_source {
            return Err(Full::Source);
        }
        *taken.sources.entry(source).or_default() += 1;
        taken.all += 1;
        Ok(Seat(Arc::clone(&self.0), source))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.0.lock();
        taken.all = taken.all.saturating_sub(1);
        if let Some(of_source) = taken.sources.get_mut(&self.1) {
            *of_source -= 1;
            if *of_source == 0 {
                taken.sources.remove(&self.1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;

    fn source(last: u8) -> Source {
        IpAddr::from([192, 0, 2, last]).into()
    }

    #[test]
    fn a_source_takes_its_share_and_no_more() {
        let seats = Seats::new(3, 2);
        let (_one, two) = (seats.take(source(1)), seats.take(source(1)));
        assert_eq!(seats.take(source(1)).unwrap_err(), Full::Source);
        let _other = seats.take(source(2)).unwrap();
        assert_eq!(seats.take(source(3)).unwrap_err(), Full::All);
        drop(two);
        assert!(seats.take(source(1)).is_ok());
    }

    proptest! {
        /// Against a list of who sits where.
        #[test]
        fn places_are_counted(steps in prop::collection::vec((0..4_u8, any::<bool>()), 0..200)) {
            const ALL: usize = 6;
            const SHARE: usize = 3;
            let seats = Seats::new(ALL, SHARE);
            let mut sitting: Vec<(u8, Seat)> = Vec::new();
            for (who, comes) in steps {
                prop_assert_eq!(seats.taken(), sitting.len());
                let mine = sitting.iter().filter(|(other, _)| *other == who).count();
                if !comes {
                    if let Some(at) = sitting.iter().position(|(other, _)| *other == who) {
                        drop(sitting.remove(at));
                    }
                    continue;
                }
                let expected = match (sitting.len() >= ALL, mine >= SHARE) {
                    (true, _) => Some(Full::All),
                    (false, true) => Some(Full::Source),
                    (false, false) => None,
                };
                match seats.take(source(who)) {
                    Ok(seat) => { prop_assert_eq!(None, expected); sitting.push((who, seat)); }
                    Err(full) => prop_assert_eq!(Some(full), expected),
                }
            }
            sitting.clear();
            let taken = seats.0.lock();
            prop_assert_eq!((taken.all, taken.sources.len()), (0, 0));
        }
    }
}
