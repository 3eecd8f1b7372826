//! The clock that gives versions: it follows the wall clock, and never goes back.
//!
//! PURE: the time is an argument. The one rule: it comes after every version it has given or has been told of and believes.

use super::{Nanos, SECOND};

/// How far in the future a version may be before it is not believed (the contract's figure).
pub const MAX_FUTURE: Nanos = 60 * SECOND;

/// How far versions of our own origin may pull our clock ahead: a relay whose clock was set back has to get
/// past what it wrote before, and a stranger who invents versions must not send it to the end of time.
const MAX_OWN_FUTURE: Nanos = 3600 * SECOND;

/// A hybrid logical clock: the wall clock's time, but always after everything it has seen and said.
#[derive(Clone, Copy, Debug, Default)]
pub struct HybridClock {
    last: Nanos,
}

impl HybridClock {
    /// One that has said `last` before, from a store.
    pub fn after(last: Nanos) -> Self {
        Self { last }
    }

    /// What it has said last.
    pub fn last(self) -> Nanos {
        self.last
    }

    /// The next version: `now`, or one above the last where that is not later.
    pub fn next(&mut self, now: Nanos) -> Nanos {
        self.last = now.max(self.last.saturating_add(1));
        self.last
    }

    /// Takes note of somebody's version, believed up to a minute ahead of `now`.
    pub fn observe(&mut self, version: Nanos, now: Nanos) {
        self.last = self.last.max(version.min(now.saturating_add(MAX_FUTURE)));
    }

    /// Takes note of a version that bears our own name, believed up to an hour ahead of `now`.
    pub fn observe_own(&mut self, version: Nanos, now: Nanos) {
        self.last = self.last.max(version.min(now.saturating_add(MAX_OWN_FUTURE)));
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        #[test]
        fn the_clock_only_goes_up(steps in vec((any::<bool>(), 0..1_000_000_u64, any::<u64>()), 1..50)) {
            let mut clock = HybridClock::default();
            let mut before = 0;
            for (ask, now, seen) in steps {
                if ask {
                    let said = clock.next(now);
                    prop_assert!(said > before && said >= now);
                    before = said;
                } else {
                    clock.observe(seen, now);
                    prop_assert!(clock.last() <= before.max(now + MAX_FUTURE));
                    before = clock.last();
                }
            }
        }
    }

    #[test]
    fn a_slow_clock_gets_past_what_it_has_seen() {
        let mut clock = HybridClock::default();
        clock.observe(50 * SECOND, 10 * SECOND);
        assert!(clock.next(11 * SECOND) > 50 * SECOND);
        clock.observe(u64::MAX, 12 * SECOND);
        assert_eq!(clock.last(), 12 * SECOND + MAX_FUTURE);
        clock.observe_own(u64::MAX, 12 * SECOND);
        assert_eq!(clock.last(), 12 * SECOND + MAX_OWN_FUTURE);
    }
}
