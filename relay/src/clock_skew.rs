//! How far the clocks of those who sign are from this relay's, and whose clock is wrong.
//!
//! PURE. A signature carries the time of its signer's clock. One signer that differs says nothing of which
//! clock is wrong. Where three sources or more have signed within the last hour, the clock is wrong that most
//! of them disagree with. One source counts once, however much it signs.

use std::{fmt, num::NonZeroUsize, time::Duration};

use agentanycast_identity::proof::MAX_SKEW;
use lru::LruCache;

use crate::{
    clock::{Nanos, Now, nanos},
    registry::Source,
};

/// Sources that are remembered.
const SOURCES: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// How long a source's word counts.
const COUNTS: Duration = Duration::from_hours(1);

/// Fewest sources that say whose clock is wrong.
const FEWEST: usize = 3;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct SignerClocks(LruCache<Source, ClockSample>);

/// What a source signed last.
#[derive(Clone, Copy, Debug)]
struct ClockSample {
    /// In passed time.
    at: Nanos,
    /// Milliseconds that its clock is ahead of passed time. So it counts also after this relay's clock was
    /// set.
    ahead_of_passed: i128,
}

/// Whose clock is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrongClock {
    /// Fewer sources than three have signed something, or they do not agree.
    Unknown,
    /// The signer's: so many sources of so many agree with this relay.
    Signer {
        /// Those who agree with this relay.
        agree: usize,
        /// All.
        of: usize,
    },
    /// This relay's: so many sources of so many agree with the signer.
    Relay {
        /// Those who agree with the signer.
        agree: usize,
        /// All.
        of: usize,
    },
}

impl fmt::Display for WrongClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("set the clock that is wrong"),
            Self::Signer { agree, of } => write!(
                f,
                "{agree} of {of} sources that signed within the last hour agree with this relay: set the signer's clock"
            ),
            Self::Relay { agree, of } => write!(
                f,
                "{agree} of {of} sources that signed within the last hour agree with the signer: set this relay's clock"
            ),
        }
    }
}

impl Default for SignerClocks {
    fn default() -> Self {
        Self(LruCache::new(SOURCES))
    }
}

impl SignerClocks {
    /// A source has signed something that holds, by its clock at `signed_ms`; whose clock is wrong, if it is
    /// too far off.
    pub(crate) fn note(&mut self, now: Now, source: Source, signed_ms: u64) -> WrongClock {
        let heard = ClockSample {
            at: now.passed,
            ahead_of_passed: i128::from(signed_ms) - millis(now.passed),
        };
        self.0.put(source, heard);
        let offset = heard.offset(now);
        if is_near(offset, 0) {
            return WrongClock::Unknown;
        }
        let all = self.offsets(now);
        let near = |to: i128| all.iter().filter(|other| is_near(**other, to)).count();
        let (of, with_relay, with_signer) = (all.len(), near(0), near(offset));
        if of < FEWEST {
            WrongClock::Unknown
        } else if with_relay * 2 > of {
            WrongClock::Signer {
                agree: with_relay,
                of,
            }
        } else if with_signer * 2 > of {
            WrongClock::Relay {
                agree: with_signer,
                of,
            }
        } else {
            WrongClock::Unknown
        }
    }

    /// How far this relay's clock is ahead of the others', in seconds, where most of them agree that it is
    /// wrong.
    pub(crate) fn own_error(&mut self, now: Now) -> Option<i64> {
        let mut all = self.offsets(now);
        all.sort_unstable();
        let median = *all.get(all.len() / 2)?;
        let with_median = all.iter().filter(|other| is_near(**other, median)).count();
        let is_wrong = all.len() >= FEWEST && !is_near(median, 0) && with_median * 2 > all.len();
        is_wrong.then(|| i64::try_from(-median / 1000).unwrap_or(i64::MAX))
    }

    /// What each source's clock is ahead of this one's, in milliseconds.
    fn offsets(&mut self, now: Now) -> Vec<i128> {
        let is_old = |heard: &ClockSample| now.passed.saturating_sub(heard.at) > nanos(COUNTS);
        while self.0.peek_lru().is_some_and(|(_, heard)| is_old(heard)) {
            self.0.pop_lru();
        }
        self.0.iter().map(|(_, heard)| heard.offset(now)).collect()
    }
}

impl ClockSample {
    fn offset(self, now: Now) -> i128 {
        self.ahead_of_passed + millis(now.passed) - millis(now.wall)
    }
}

fn is_near(one: i128, other: i128) -> bool {
    (one - other).unsigned_abs() <= MAX_SKEW.as_millis()
}

fn millis(time: Nanos) -> i128 {
    i128::from(time / 1_000_000)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::clock::SECOND;

    const WALL: Nanos = 1_800_000_000 * SECOND;
    const HOUR: i64 = 3600;

    fn at(seconds: u64, ahead: i64) -> Now {
        let passed = seconds * SECOND;
        Now {
            passed,
            wall: (WALL + passed).saturating_add_signed(ahead * 1_000_000_000),
        }
    }

    /// A source whose clock is off by so many seconds signs.
    fn signs(offsets: &mut SignerClocks, now: Now, source: u8, off: i64) -> WrongClock {
        let right = (WALL + now.passed) / 1_000_000;
        let source = IpAddr::from([192, 0, 2, source]).into();
        offsets.note(now, source, right.saturating_add_signed(off * 1000))
    }

    #[test]
    fn two_sources_say_of_no_clock_that_it_is_wrong() {
        let mut offsets = SignerClocks::default();
        for _ in 0..9 {
            assert_eq!(signs(&mut offsets, at(1, 0), 1, HOUR), WrongClock::Unknown);
            assert_eq!(signs(&mut offsets, at(1, 0), 2, 0), WrongClock::Unknown);
        }
        assert_eq!(offsets.own_error(at(1, 0)), None);
    }

    #[test]
    fn most_sources_say_whose_clock_is_wrong() {
        let mut offsets = SignerClocks::default();
        for source in 1..=3 {
            signs(&mut offsets, at(1, 0), source, 2);
        }
        let suspect = signs(&mut offsets, at(2, 0), 4, -HOUR);
        assert_eq!(suspect, WrongClock::Signer { agree: 3, of: 4 });
        assert!(
            suspect.to_string().ends_with("set the signer's clock"),
            "{suspect}"
        );
        assert_eq!(offsets.own_error(at(2, 0)), None);
        // The relay's clock is set an hour ahead: those who have not signed since say it too.
        let suspect = signs(&mut offsets, at(3, HOUR), 1, 0);
        assert_eq!(suspect, WrongClock::Relay { agree: 3, of: 4 });
        assert_eq!(offsets.own_error(at(3, HOUR)), Some(HOUR - 2));
    }

    #[test]
    fn sources_that_do_not_agree_say_nothing() {
        let mut offsets = SignerClocks::default();
        for (source, off) in [(1, 0), (2, HOUR), (3, 2 * HOUR), (4, 3 * HOUR)] {
            assert_eq!(signs(&mut offsets, at(1, 0), source, off), WrongClock::Unknown);
        }
        assert_eq!(offsets.own_error(at(1, 0)), None);
    }

    #[test]
    fn what_was_signed_more_than_an_hour_ago_says_nothing() {
        let mut offsets = SignerClocks::default();
        for source in 1..=3 {
            signs(&mut offsets, at(1, 0), source, 0);
        }
        assert_eq!(signs(&mut offsets, at(3602, 0), 4, HOUR), WrongClock::Unknown);
        assert!(offsets.0.len() == 1);
    }
}
