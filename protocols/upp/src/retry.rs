//! When to try a failed request again. Strategies are pure: they get the error, the number of the try and a
//! random number, and answer with a delay.
//!
//! Only a request without an answer is tried again. A stream that breaks in its middle is not, since its
//! reader has seen a part of it.

use std::time::Duration;

use agentanycast_limits::{Backoff, jittered};

use crate::error::UppError;

/// Decides whether and when a failed try is repeated.
pub trait RetryStrategy: Send + Sync {
    /// How long to wait before the next try; `None` gives up. `tries` is how often the request was tried, at
    /// least 1. `random` lies in 0..1.
    fn delay(&self, error: &UppError, tries: u32, random: f64) -> Option<Duration>;
}

/// Waits twice as long after each try: 1 s, 2 s, 4 s ..., times a random factor of 0.5 to 1.5.
///
/// ```
/// use std::time::Duration;
/// use agentanycast_upp::{ErrorCode, ExponentialBackoff, RetryStrategy, UppError};
///
/// let backoff = ExponentialBackoff::default();
/// let busy = UppError::new(ErrorCode::RateLimited, "busy");
/// assert_eq!(backoff.delay(&busy, 1, 0.5), Some(Duration::from_secs(1)));
/// assert_eq!(backoff.delay(&busy, 2, 0.0), Some(Duration::from_secs(1)));
/// assert_eq!(backoff.delay(&busy, 3, 0.5), None);
/// let named = busy.with_retry_after(Duration::from_secs(7));
/// assert_eq!(backoff.delay(&named, 1, 0.9), Some(Duration::from_secs(7)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExponentialBackoff {
    /// How often a request is tried in all.
    pub max_tries: u32,
    /// The delay after the first try, before the random factor.
    pub base: Duration,
    /// The longest delay, after the random factor. A `Retry-After` may be longer.
    pub max: Duration,
    /// Whether the random factor applies.
    pub jitter: bool,
}

impl Default for ExponentialBackoff {
    /// Three tries, 1 s, at most 30 s, with the random factor (UPP-1.3).
    fn default() -> Self {
        Self {
            max_tries: 3,
            base: Duration::from_secs(1),
            max: Duration::from_secs(30),
            jitter: true,
        }
    }
}

impl RetryStrategy for ExponentialBackoff {
    fn delay(&self, error: &UppError, tries: u32, random: f64) -> Option<Duration> {
        if !may_repeat(error, tries, self.max_tries) {
            return None;
        }
        if let Some(wait) = error.retry_after() {
            return Some(wait);
        }
        let delay = Backoff::new(self.base, self.max).after(tries.saturating_sub(1));
        Some(if self.jitter {
            jittered(delay, 0.5, random).min(self.max)
        } else {
            delay
        })
    }
}

/// Waits longer by the same time after each try: 1 s, 2 s, 3 s ...
///
/// ```
/// use std::time::Duration;
/// use agentanycast_upp::{ErrorCode, LinearBackoff, RetryStrategy, UppError};
///
/// let down = UppError::new(ErrorCode::ProviderError, "down");
/// assert_eq!(LinearBackoff::default().delay(&down, 2, 0.0), Some(Duration::from_secs(2)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearBackoff {
    /// How often a request is tried in all.
    pub max_tries: u32,
    /// The delay after the first try.
    pub step: Duration,
}

impl Default for LinearBackoff {
    /// Three tries, 1 s (UPP-1.3).
    fn default() -> Self {
        Self {
            max_tries: 3,
            step: Duration::from_secs(1),
        }
    }
}

impl RetryStrategy for LinearBackoff {
    fn delay(&self, error: &UppError, tries: u32, _random: f64) -> Option<Duration> {
        may_repeat(error, tries, self.max_tries).then(|| {
            error
                .retry_after()
                .unwrap_or_else(|| self.step.saturating_mul(tries))
        })
    }
}

/// Waits only where the provider says for how long.
///
/// ```
/// use std::time::Duration;
/// use agentanycast_upp::{ErrorCode, RetryAfterOnly, RetryStrategy, UppError};
///
/// let busy = UppError::new(ErrorCode::RateLimited, "busy");
/// let strategy = RetryAfterOnly { max_tries: 2 };
/// assert_eq!(strategy.delay(&busy, 1, 0.0), None);
/// let named = busy.with_retry_after(Duration::from_secs(3));
/// assert_eq!(strategy.delay(&named, 1, 0.0), Some(Duration::from_secs(3)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryAfterOnly {
    /// How often a request is tried in all.
    pub max_tries: u32,
}

impl RetryStrategy for RetryAfterOnly {
    fn delay(&self, error: &UppError, tries: u32, _random: f64) -> Option<Duration> {
        error
            .retry_after()
            .filter(|_| may_repeat(error, tries, self.max_tries))
    }
}

fn may_repeat(error: &UppError, tries: u32, max_tries: u32) -> bool {
    error.is_retryable() && tries < max_tries
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::ErrorCode;

    proptest! {
        #[test]
        fn delays_stay_within_their_bounds(
            tries in 1_u32..200,
            random in 0.0_f64..1.0,
            base_ms in 0_u64..100_000,
        ) {
            let backoff = ExponentialBackoff {
                max_tries: u32::MAX,
                base: Duration::from_millis(base_ms),
                ..ExponentialBackoff::default()
            };
            let error = UppError::new(ErrorCode::NetworkError, "down");
            let delay = backoff.delay(&error, tries, random).unwrap();
            prop_assert!(delay <= backoff.max);
            let exact = ExponentialBackoff { jitter: false, ..backoff };
            let plain = exact.delay(&error, tries, random).unwrap();
            prop_assert!(delay >= plain.mul_f64(0.499));
        }

        #[test]
        fn what_is_not_retryable_is_not_retried(tries in 1_u32..5, random in 0.0_f64..1.0) {
            let error = UppError::invalid_request("no").with_retry_after(Duration::from_secs(1));
            prop_assert_eq!(ExponentialBackoff::default().delay(&error, tries, random), None);
            prop_assert_eq!(LinearBackoff::default().delay(&error, tries, random), None);
            prop_assert_eq!(RetryAfterOnly { max_tries: 9 }.delay(&error, tries, random), None);
        }
    }
}
