//! How many requests each source may make: a rate, and a burst on top of it.
//!
//! PURE. A source takes a few bytes and is forgotten when many others have come since; then it begins with a full
//! burst again. The one rule: what one source does never takes anything from another.

use std::{hash::Hash, num::NonZeroUsize, time::Duration};

use lru::LruCache;

/// Nanoseconds since any fixed moment.
pub type Nanos = u64;

/// Longest gap and burst, 146 years: far more than that is ahead of any moment, so that what saturates is refused.
const LONGEST: Nanos = Nanos::MAX / 4;

/// A rate, and how much of it may come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Between two requests at the full rate.
    gap: Nanos,
    /// How far ahead of the rate a source may be; a gap at least.
    burst: Nanos,
}

impl Rate {
    /// `per_second` requests, of which those of `burst` may come at once, and one always. None: no limit, which is
    /// what a rate of 0 (or less, or none that is a number) says.
    pub fn new(per_second: f64, burst: Duration) -> Option<Self> {
        if per_second.is_nan() || per_second <= 0.0 {
            return None;
        }
        // A float too large for an integer becomes the largest one.
        let gap = ((1e9 / per_second) as Nanos).min(LONGEST);
        let burst = Nanos::try_from(burst.as_nanos()).map_or(LONGEST, |burst| burst.clamp(gap, LONGEST));
        Some(Self { gap, burst })
    }
}

/// What all sources have asked for.
#[derive(Debug)]
pub struct Rates<K: Hash + Eq> {
    /// When each source has paid for everything that it has asked (a leaky bucket as a time).
    paid: LruCache<K, Nanos>,
}

impl<K: Hash + Eq> Rates<K> {
    /// Of at most `sources` of them, the latest.
    pub fn new(sources: NonZeroUsize) -> Self {
        Self {
            paid: LruCache::new(sources),
        }
    }

    /// Whether `source` may make one more request, which costs as much as `cost` of them. What is refused costs
    /// nothing.
    pub fn take(&mut self, now: Nanos, source: K, rate: Rate, cost: u64) -> bool {
        self.try_take(now, source, rate, cost).is_ok()
    }

    /// The same; the error is how long `source` has to wait until it may, unless it wants more than a burst.
    pub fn try_take(&mut self, now: Nanos, source: K, rate: Rate, cost: u64) -> Result<(), Duration> {
        let paid = self.paid.get_or_insert_mut(source, || now);
        let next = (*paid).max(now).saturating_add(rate.gap.saturating_mul(cost));
        let missing = (next - now).saturating_sub(rate.burst);
        if missing > 0 {
            return Err(Duration::from_nanos(missing));
        }
        *paid = next;
        Ok(())
    }

    /// Sources that are remembered.
    pub fn sources(&self) -> usize {
        self.paid.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    const SECOND: Nanos = 1_000_000_000;
    const MANY: NonZeroUsize = NonZeroUsize::new(1000).unwrap();

    #[test]
    fn a_burst_then_the_rate_and_each_for_itself() {
        let ten = Rate::new(10.0, Duration::from_secs(10)).unwrap();
        let mut rates = Rates::new(MANY);
        let now = 1_000 * SECOND;
        let mut passed = |now, source, tries| (0..tries).filter(|_| rates.take(now, source, ten, 1)).count();
        assert_eq!(passed(now, "one", 500), 100);
        assert_eq!(passed(now, "other", 1), 1);
        assert_eq!(passed(now + 2 * SECOND, "one", 500), 20);
        assert!(rates.take(now, "other", ten, 90) && !rates.take(now, "other", ten, 90));
    }

    #[test]
    fn no_rate_is_no_limit_and_a_slow_one_lets_one_through() {
        for none in [0.0, -1.0, f64::NAN] {
            assert_eq!(Rate::new(none, Duration::from_secs(1)), None);
        }
        let slow = Rate::new(0.1, Duration::from_secs(1)).unwrap();
        let mut rates = Rates::new(MANY);
        assert!(rates.take(0, (), slow, 1) && !rates.take(9 * SECOND, (), slow, 1));
        assert!(rates.take(10 * SECOND, (), slow, 1));
        let fast = Rate::new(f64::MAX, Duration::from_secs(1)).unwrap();
        assert!((0..10_000).all(|_| rates.take(20 * SECOND, (), fast, 1)));
        for next_to_none in [1e-10, 1e-15, f64::MIN_POSITIVE, 5e-324] {
            for burst in [Duration::ZERO, Duration::MAX] {
                let never = Rate::new(next_to_none, burst).unwrap();
                let mut rates = Rates::new(MANY);
                assert!(rates.take(SECOND, (), never, 1), "{never:?}");
                assert!(!rates.take(2 * SECOND, (), never, 1), "{never:?}");
                assert!(!rates.take(SECOND << 30, (), never, u64::MAX), "{never:?}");
            }
        }
    }

    #[test]
    fn the_latest_sources_are_remembered() {
        let one = Rate::new(1.0, Duration::from_secs(1)).unwrap();
        let mut rates = Rates::new(NonZeroUsize::new(2).unwrap());
        assert!(
            ["a", "b", "a", "c"].map(|source| rates.take(0, source, one, 1)) == [true, true, false, true]
        );
        assert_eq!(rates.sources(), 2);
        assert!(!rates.take(0, "a", one, 1) && rates.take(0, "b", one, 1));
    }

    proptest! {
        /// Against buckets that hold a burst of tokens and are filled by hand, in nanoseconds' worth.
        #[test]
        fn it_is_a_token_bucket(
            per_second in 1..50_u32,
            burst in 1..5_u64,
            steps in prop::collection::vec((0..3_u8, 0..1500_u64, 1..4_u64), 1..200),
        ) {
            let rate = Rate::new(f64::from(per_second), Duration::from_secs(burst)).unwrap();
            let price = SECOND / u64::from(per_second);
            let full = (burst * SECOND).max(price);
            let mut rates = Rates::new(MANY);
            let (mut tokens, mut last): (HashMap<u8, u64>, Nanos) = (HashMap::new(), 0);
            let mut now = 0;
            for (source, wait, cost) in steps {
                now += wait * 1_000_000;
                for held in tokens.values_mut() {
                    *held = (*held + now - last).min(full);
                }
                last = now;
                let held = tokens.entry(source).or_insert(full);
                let taken = rates.try_take(now, source, rate, cost);
                if let Some(left) = held.checked_sub(price * cost) {
                    *held = left;
                    prop_assert_eq!(taken, Ok(()));
                } else {
                    // Exactly what is missing.
                    prop_assert_eq!(taken, Err(Duration::from_nanos(price * cost - *held)));
                }
            }
        }
    }
}
