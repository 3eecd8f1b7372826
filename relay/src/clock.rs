//! The time: how much of it has passed, and what the wall clock shows.
//!
//! Lives, limits, windows and back-offs are measured in passed time, which no setting of the clock changes.
//! The wall clock counts for what is signed, for versions, and for what is shown. [`Now`] is pure; `now`
//! reads both clocks. `hybrid_clock` gives versions.

mod hybrid_clock;

use std::{
    sync::LazyLock,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

pub use hybrid_clock::{HybridClock, MAX_FUTURE};

/// Nanoseconds: of a span, or since a moment that its use names, as 1970 is for the wall clock.
pub type Nanos = u64;

/// One second in [`Nanos`].
pub const SECOND: Nanos = 1_000_000_000;

/// The passed time at the start of the process: 36 years, so that no moment before it is below zero.
const START: Nanos = 1 << 60;

/// When the process read the clock first.
static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

/// One moment, by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Nanoseconds that have passed since a fixed moment. It is never set.
    pub passed: Nanos,
    /// Nanoseconds since 1970 by the wall clock, which may be wrong and may be set at any time.
    pub wall: Nanos,
}

impl Now {
    /// What the wall clock shows at another moment, if it is not set until then.
    pub fn wall_at(self, passed: Nanos) -> Nanos {
        if passed >= self.passed {
            self.wall.saturating_add(passed - self.passed)
        } else {
            self.wall.saturating_sub(self.passed - passed)
        }
    }
}

/// A time in [`Nanos`]; durations beyond 584 years do not occur.
pub fn nanos(time: Duration) -> Nanos {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(any(test, feature = "fuzz"))]
impl From<Nanos> for Now {
    /// A moment of a test whose wall clock is right.
    fn from(time: Nanos) -> Self {
        Self {
            passed: time,
            wall: time,
        }
    }
}

/// Begins to count passed time, if nothing has read the clock yet.
pub(crate) fn begin() {
    LazyLock::force(&STARTED);
}

/// This moment.
pub(crate) fn now() -> Now {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    Now {
        passed: START.saturating_add(nanos(STARTED.elapsed())),
        wall: since_1970.map_or(0, nanos),
    }
}

/// How long this process has read the clock.
pub(crate) fn since_start(now: Now) -> Duration {
    Duration::from_nanos(now.passed.saturating_sub(START))
}
