//! The clocks of this machine, as the engine reads them, and a moment by both of them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// When something happens: a monotonic clock for waiting, the calendar for what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Time since any fixed moment of this run.
    pub mono: Duration,
    /// Unix time in milliseconds.
    pub unix: u64,
}

/// The daemon's clock.
#[derive(Clone, Copy)]
pub(crate) struct EngineClock {
    start: Instant,
}

impl EngineClock {
    /// Begins to count now.
    pub(crate) fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// The time now.
    pub(crate) fn now(&self) -> Now {
        Now {
            mono: self.start.elapsed(),
            unix: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_millis() as u64),
        }
    }
}
