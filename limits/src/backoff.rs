//! PURE: growing waits between attempts that fail, such as to connect, to ask again or to start a program again.
//!
//! Invariant: each wait is twice the one before and none is longer than the longest. The caller has the clock, and
//! gives the random number of [`jittered`].

use std::time::Duration;

/// The waits of one row of failures. A constant of it is a rule; each row takes a copy of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Waits from `first` to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        let next = first;
        Self { first, longest, next }
    }

    /// How long to wait now; the next wait is twice as long.
    pub fn next_wait(&mut self) -> Duration {
        let wait = self.next.min(self.longest);
        self.next = wait.saturating_mul(2);
        wait
    }

    /// Makes the next wait at least this long, up to the longest.
    pub fn raise(&mut self, least: Duration) {
        self.next = self.next.max(least);
    }

    /// Begins with the first wait again.
    pub fn reset(&mut self) {
        self.next = self.first;
    }

    /// The wait behind this many others, for callers that count failures themselves.
    pub fn after(self, waits: u32) -> Duration {
        let doubled = self.first.as_nanos().saturating_mul(1 << waits.min(127));
        Duration::from_nanos_u128(doubled.min(self.longest.as_nanos()))
    }
}

/// The wait, longer or shorter by up to this share of it, so that many do not come back at the same moment.
/// `random` is from 0 (shortest) to 1 (longest).
pub fn jittered(wait: Duration, share: f64, random: f64) -> Duration {
    let factor = 1.0 + share * (2.0 * random.clamp(0.0, 1.0) - 1.0);
    Duration::try_from_secs_f64(factor * wait.as_secs_f64()).unwrap_or(wait)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum BackoffStep {
        Fail,
        Raise(Duration),
        Reset,
    }

    fn time() -> impl Strategy<Value = Duration> {
        prop_oneof![
            (0_u64..100_000).prop_map(Duration::from_millis),
            any::<Duration>(),
            Just(Duration::MAX),
        ]
    }

    fn step() -> impl Strategy<Value = BackoffStep> {
        prop_oneof![
            8 => Just(BackoffStep::Fail),
            1 => time().prop_map(BackoffStep::Raise),
            1 => Just(BackoffStep::Reset),
        ]
    }

    proptest! {
        /// The model: a number of nanoseconds that is doubled, without a bound of its own.
        #[test]
        fn waits_are_those_of_the_model(
            first in time(),
            longest in time(),
            steps in prop::collection::vec(step(), 0..200),
        ) {
            let mut waits = Backoff::new(first, longest);
            let (mut model, mut row) = (first.as_nanos(), Some(0));
            for step in steps {
                match step {
                    BackoffStep::Fail => {
                        let wait = waits.next_wait();
                        prop_assert_eq!(wait.as_nanos(), model.min(longest.as_nanos()));
                        if let Some(row) = &mut row {
                            prop_assert_eq!(waits.after(*row), wait);
                            *row += 1;
                        }
                        model = model.min(longest.as_nanos()) * 2;
                    }
                    BackoffStep::Raise(least) => {
                        waits.raise(least);
                        (model, row) = (model.max(least.as_nanos()), None);
                    }
                    BackoffStep::Reset => {
                        waits.reset();
                        (model, row) = (first.as_nanos(), Some(0));
                        prop_assert_eq!(waits, Backoff::new(first, longest));
                    }
                }
            }
        }

        #[test]
        fn any_count_of_waits_has_a_wait(first in time(), longest in time(), count: u32) {
            let waits = Backoff::new(first, longest);
            let (wait, next) = (waits.after(count), waits.after(count.saturating_add(1)));
            prop_assert!(wait <= next && next <= longest && next <= wait.saturating_mul(2));
            let is_end = wait == longest || first.is_zero();
            prop_assert!(is_end || count < 100);
        }

        #[test]
        fn jitter_stays_within_its_share(wait in time(), share in 0.0..=1.0_f64, random: f64) {
            let part = wait.as_secs_f64() * share;
            let change = jittered(wait, share, random).as_secs_f64() - wait.as_secs_f64();
            prop_assert!(change.abs() <= part * (1.0 + 1e-9) + wait.as_secs_f64() * 1e-9 + 1e-9);
        }
    }

    #[test]
    fn random_numbers_reach_both_ends_of_the_share() {
        let waits = [f64::MIN, 0.0, 0.25, 0.5, 1.0, f64::MAX]
            .map(|random| jittered(Duration::from_secs(10), 0.2, random).as_secs());
        assert_eq!(waits, [8, 8, 9, 10, 12, 12]);
        assert_eq!(jittered(Duration::MAX, 1.0, f64::NAN), Duration::MAX);
    }
}
