//! How another relay does: whether it has answered, and when it is asked again if not.
//!
//! PURE. The one rule: nobody is given up; a relay that does not answer is asked ever more rarely, for ever.

use std::time::Duration;

use agentanycast_limits::{Backoff, jittered};

use crate::{
    clock::{Nanos, Now, nanos},
    metrics::FederationPeerCounts,
};

/// The waits after failures, before jitter.
const WAITS: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_mins(5));

/// How one relay does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncHealth {
    /// It has answered at least once.
    pub contacted: bool,
    /// Calls that have failed since its last answer.
    pub failures: u32,
    /// It is not asked before, in passed time.
    pub backoff_until: Option<Nanos>,
    /// What it failed with last, in one line.
    pub reason: Option<String>,
}

impl SyncHealth {
    /// Whether its last answer was one.
    pub fn is_healthy(&self) -> bool {
        self.contacted && self.failures == 0
    }

    /// Whether it has been asked and failed. One that was not asked yet is neither healthy nor failing.
    pub fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// It has answered.
    pub fn answered(&mut self) {
        *self = Self {
            contacted: true,
            ..Self::default()
        };
    }

    /// It has not. `jitter` is from 0 to 1.
    pub fn failed(&mut self, now: impl Into<Now>, reason: String, jitter: f64) {
        let wait = nanos(jittered(WAITS.after(self.failures), 0.2, jitter));
        self.failures = self.failures.saturating_add(1);
        self.backoff_until = Some(now.into().passed.saturating_add(wait));
        self.reason = Some(reason);
    }
}

/// How many relays do how.
pub fn counts<'a>(relays: impl IntoIterator<Item = &'a SyncHealth>) -> FederationPeerCounts {
    let mut counts = FederationPeerCounts::default();
    for health in relays {
        match (health.is_failing(), health.is_healthy()) {
            (true, _) => counts.failing += 1,
            (false, true) => counts.healthy += 1,
            (false, false) => counts.unknown += 1,
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SECOND;

    #[test]
    fn each_relay_is_counted_by_how_it_does() {
        let [mut healthy, mut failing] = [SyncHealth::default(), SyncHealth::default()];
        healthy.answered();
        failing.failed(0, "down".to_owned(), 0.5);
        let all = [&failing, &healthy, &SyncHealth::default(), &failing];
        let expected = FederationPeerCounts {
            healthy: 1,
            failing: 2,
            unknown: 1,
        };
        assert_eq!(counts(all), expected);
        // One that has answered before and fails now.
        healthy.failed(0, "down".to_owned(), 0.5);
        let expected = FederationPeerCounts {
            failing: 1,
            ..FederationPeerCounts::default()
        };
        assert_eq!(counts([&healthy]), expected);
    }

    #[test]
    fn waits_double_to_five_minutes_and_end_with_an_answer() {
        let mut health = SyncHealth::default();
        assert!(!health.is_healthy() && !health.is_failing());
        let mut waits = Vec::new();
        for _ in 0..9 {
            health.failed(SECOND, "down".into(), 0.5);
            waits.push((health.backoff_until.unwrap() - SECOND) / SECOND);
        }
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
        assert!(health.is_failing() && health.failures == 9);
        health.answered();
        assert!(health.is_healthy() && health.backoff_until.is_none());
        for failures in [0, 3, u32::MAX] {
            let mut health = SyncHealth {
                failures,
                ..SyncHealth::default()
            };
            health.failed(0, String::new(), 1.0);
            assert!(health.backoff_until.unwrap() <= 360 * SECOND);
        }
    }
}
