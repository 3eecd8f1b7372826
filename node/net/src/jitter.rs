//! PURE spread of waits, so that many nodes do not do the same thing at the same moment, such as all nodes of a
//! relay that was restarted.

use std::time::Duration;

/// Share of a wait that is added or taken at most.
pub(super) const SHARE: f64 = 0.2;

/// A wait near `wait`; `jitter` is uniform in 0..1.
pub(super) fn spread(wait: Duration, jitter: f64) -> Duration {
    wait.mul_f64(1.0 + SHARE * (2.0 * jitter.clamp(0.0, 1.0) - 1.0))
}
