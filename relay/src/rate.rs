//! How many requests each source may make: a rate, and a burst on top of it.
//!
//! PURE. A source takes 16 bytes and is forgotten when many others have come since; then it begins with a full
//! burst again. The one rule: what one source does never takes anything from another.

use std::num::NonZeroUsize;

use lru::LruCache;

use crate::{
    federation::merge::{Nanos, SECOND},
    registry::Source,
};

/// Sources that are remembered.
const SOURCES: NonZeroUsize = NonZeroUsize::new(65_536).expect("not zero");

/// Seconds of the rate that may come at once.
const BURST: u64 = 10;

/// The requests of all sources.
#[derive(Debug)]
pub struct Rates {
    /// Between two requests at the full rate; 0 for no limit.
    gap: Nanos,
    /// When each source has paid for everything that it has asked (a leaky bucket as a time).
    paid: LruCache<Source, Nanos>,
}

impl Rates {
    /// At most `per_second` requests of each source, in bursts of ten seconds' worth; 0 for no limit.
    pub fn new(per_second: u64) -> Self {
        Self {
            gap: SECOND.checked_div(per_second).unwrap_or(0),
            paid: LruCache::new(SOURCES),
        }
    }

    /// Whether `source` may make one more request, which costs as much as `cost` of them.
    pub fn take(&mut self, now: Nanos, source: Source, cost: u64) -> bool {
        if self.gap == 0 {
            return true;
        }
        let paid = self.paid.get_or_insert_mut(source, || now);
        let next = (*paid).max(now).saturating_add(self.gap.saturating_mul(cost));
        let allowed = next - now <= BURST * SECOND;
        if allowed {
            *paid = next;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn a_burst_then_the_rate_and_each_for_itself() {
        let mut rates = Rates::new(10);
        let (one, other) = (
            IpAddr::from([192, 0, 2, 1]).into(),
            IpAddr::from([192, 0, 2, 2]).into(),
        );
        let now = 1_000 * SECOND;
        assert_eq!((0..500).filter(|_| rates.take(now, one, 1)).count(), 100);
        assert!(rates.take(now, other, 1));
        assert_eq!(
            (0..500).filter(|_| rates.take(now + 2 * SECOND, one, 1)).count(),
            20
        );
        assert!(rates.take(now, other, 90) && !rates.take(now, other, 90));
        let mut unlimited = Rates::new(0);
        assert!((0..100_000).all(|_| unlimited.take(now, one, 1)));
    }
}
