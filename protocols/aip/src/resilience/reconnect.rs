//! How long to wait before connecting again, and when to give up. PURE but for [`wait_and_connect`].

use std::time::Duration;

use agentanycast_limits::{Backoff, jittered};
use tokio::time::Instant;

use crate::transport::{Connector, Transport, TransportError};

/// The part of a wait by which it is made shorter or longer at random.
const JITTER: f64 = 0.2;

/// How the waits between tries grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconnectWaits {
    /// Twice as long each time.
    Exponential {
        /// The first wait.
        first: Duration,
        /// The longest one.
        longest: Duration,
    },
    /// Longer by the same each time.
    Linear {
        /// The first wait, by which each one grows.
        step: Duration,
        /// The longest one.
        longest: Duration,
    },
    /// None at all.
    Immediate,
}

/// When to connect again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReconnectPolicy {
    /// The waits; `None`: the connection is not made again.
    pub waits: Option<ReconnectWaits>,
    /// Tries that may fail one after another.
    pub tries: u32,
}

impl Default for ReconnectPolicy {
    /// 1 s, twice as long each time, at most 60 s, 5 tries: the protocol's figures.
    fn default() -> Self {
        Self {
            waits: Some(ReconnectWaits::Exponential {
                first: Duration::from_secs(1),
                longest: Duration::from_mins(1),
            }),
            tries: 5,
        }
    }
}

impl ReconnectPolicy {
    /// Not again.
    pub const NONE: Self = Self {
        waits: None,
        tries: 0,
    };

    /// The same policy with this many tries.
    #[must_use]
    pub const fn with_tries(mut self, tries: u32) -> Self {
        self.tries = tries;
        self
    }
}

/// The waits of one connection that is lost.
#[derive(Clone, Debug)]
pub struct ReconnectSchedule {
    policy: ReconnectPolicy,
    failed: u32,
    /// The wait before the last try.
    waited: Duration,
    /// Since when the connection stands.
    stands: Option<Instant>,
}

impl ReconnectSchedule {
    /// A schedule whose connection stands.
    pub const fn new(policy: ReconnectPolicy) -> Self {
        Self {
            policy,
            failed: 0,
            waited: Duration::ZERO,
            stands: None,
        }
    }

    /// How long to wait before the next try; `None`: give up. `random` is from 0 to 1, and shifts the wait by up to
    /// 20 % either way; no wait exceeds the longest one.
    pub fn next_wait(&mut self, random: f64) -> Option<Duration> {
        let waits = self.policy.waits?;
        if self.failed >= self.policy.tries {
            return None;
        }
        self.failed += 1;
        let (wait, longest) = match waits {
            ReconnectWaits::Exponential { first, longest } => {
                (Backoff::new(first, longest).after(self.failed - 1), longest)
            }
            ReconnectWaits::Linear { step, longest } => (step.saturating_mul(self.failed), longest),
            ReconnectWaits::Immediate => return Some(Duration::ZERO),
        };
        self.waited = jittered(wait.min(longest), JITTER, random).min(longest);
        Some(self.waited)
    }

    /// Tries that failed since the connection stood.
    pub const fn failed(&self) -> u32 {
        self.failed
    }

    /// The connection stands since `now`.
    pub fn connected(&mut self, now: Instant) {
        self.stands = Some(now);
    }

    /// The connection is lost. One that stood for longer than the wait before it begins with the first wait again; one
    /// that a peer ends at once each time is made ever more rarely, and then no more.
    pub fn lost(&mut self, now: Instant) {
        let Some(since) = self.stands.take() else {
            return;
        };
        if now.saturating_duration_since(since) >= self.waited {
            self.failed = 0;
            self.waited = Duration::ZERO;
        }
    }
}

/// Waits by `schedule` and connects, until it succeeds or the schedule gives up. `random` gives numbers from 0 to 1.
///
/// # Errors
/// The last error, or `last` where the schedule gives up at once.
pub async fn wait_and_connect<C: Connector + ?Sized>(
    connector: &C,
    schedule: &mut ReconnectSchedule,
    mut random: impl FnMut() -> f64,
    mut last: TransportError,
) -> Result<Transport, TransportError> {
    while let Some(wait) = schedule.next_wait(random()) {
        tokio::time::sleep(wait).await;
        match connector.connect().await {
            Ok(transport) => return Ok(transport),
            Err(error) => {
                tracing::debug!(%error, tries = schedule.failed(), "a connection is not made again yet");
                last = error;
            }
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use async_trait::async_trait;
    use proptest::prelude::*;

    use super::*;
    use crate::transport::memory_pair;

    const MIDDLE: f64 = 0.5;

    fn waits(policy: ReconnectPolicy) -> Vec<u64> {
        let mut schedule = ReconnectSchedule::new(policy);
        std::iter::from_fn(|| schedule.next_wait(MIDDLE))
            .map(|wait| wait.as_secs())
            .collect()
    }

    #[test]
    fn waits_grow_as_the_policy_says() {
        assert_eq!(waits(ReconnectPolicy::default()), [1, 2, 4, 8, 16]);
        assert_eq!(
            waits(ReconnectPolicy::default().with_tries(9)),
            [1, 2, 4, 8, 16, 32, 60, 60, 60]
        );
        let linear = ReconnectWaits::Linear {
            step: Duration::from_secs(5),
            longest: Duration::from_secs(12),
        };
        let policy = |waits| ReconnectPolicy {
            waits: Some(waits),
            tries: 4,
        };
        assert_eq!(waits(policy(linear)), [5, 10, 12, 12]);
        assert_eq!(waits(policy(ReconnectWaits::Immediate)), [0, 0, 0, 0]);
        assert!(waits(ReconnectPolicy::NONE).is_empty());
    }

    proptest! {
        #[test]
        fn a_wait_is_within_its_jitter_and_the_longest(random in 0.0..=1.0_f64, before in 0_u32..40) {
            let mut schedule = ReconnectSchedule::new(ReconnectPolicy::default().with_tries(100));
            for _ in 0..before {
                schedule.next_wait(random);
            }
            let plain = 2_f64.powi(before as i32).min(60.0);
            let wait = schedule.next_wait(random).unwrap().as_secs_f64();
            prop_assert!(wait >= plain * 0.8 - 1e-6 && wait <= (plain * 1.2).min(60.0) + 1e-6);
            let now = Instant::now();
            schedule.connected(now);
            schedule.lost(now + Duration::from_mins(2));
            prop_assert!(schedule.next_wait(random).unwrap() <= Duration::from_millis(1200));
        }
    }

    #[test]
    fn a_connection_that_is_ended_at_once_each_time_is_given_up() {
        let mut schedule = ReconnectSchedule::new(ReconnectPolicy::default());
        let mut now = Instant::now();
        let mut waits = Vec::new();
        loop {
            schedule.connected(now);
            now += Duration::from_millis(100);
            schedule.lost(now);
            let Some(wait) = schedule.next_wait(MIDDLE) else {
                break;
            };
            waits.push(wait.as_secs());
            now += wait;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16]);
    }

    struct UpAt(u32, AtomicU32);

    #[async_trait]
    impl Connector for UpAt {
        async fn connect(&self) -> Result<Transport, TransportError> {
            let tried = self.1.fetch_add(1, Ordering::SeqCst) + 1;
            if tried < self.0 {
                Err(TransportError::Closed)
            } else {
                Ok(memory_pair().0)
            }
        }

        fn address(&self) -> String {
            "memory".to_owned()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connecting_again_takes_the_waits_of_the_schedule() {
        let begun = tokio::time::Instant::now();
        let mut schedule = ReconnectSchedule::new(ReconnectPolicy::default());
        let up = UpAt(4, AtomicU32::new(0));
        wait_and_connect(&up, &mut schedule, || MIDDLE, TransportError::Closed)
            .await
            .unwrap();
        assert_eq!(begun.elapsed().as_secs(), 1 + 2 + 4 + 8);

        let never = UpAt(u32::MAX, AtomicU32::new(0));
        schedule.connected(begun);
        schedule.lost(tokio::time::Instant::now());
        let begun = tokio::time::Instant::now();
        wait_and_connect(&never, &mut schedule, || MIDDLE, TransportError::Closed)
            .await
            .unwrap_err();
        assert_eq!(begun.elapsed().as_secs(), 1 + 2 + 4 + 8 + 16);
        assert_eq!(never.1.load(Ordering::SeqCst), 5);
    }
}
