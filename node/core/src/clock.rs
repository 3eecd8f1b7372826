//! The clocks of this machine, as the engine reads them.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::transaction::Now;

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
