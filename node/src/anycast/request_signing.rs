//! When requests to one registry are signed.
//!
//! PURE: the time is an argument. The rule: each is signed later than the one before, also when this node's clock was set
//! back, since a registry refuses what is older than what it has; and none much later than now, whatever a registry says.
//! No two registries have a time in common: they may be one relay, which would take the second request for the first,
//! repeated. And none moves the clock of another.

use std::time::{SystemTime, UNIX_EPOCH};

use agentanycast_identity::proof::MAX_SKEW;

/// The times of signing, in milliseconds since 1970.
#[derive(Debug)]
pub(super) struct SigningTimes {
    last: u64,
    /// Every time is this much more than a multiple of that.
    offset: u64,
    count: u64,
}

impl SigningTimes {
    /// Of the registry at this place of so many.
    pub(super) fn new(place: usize, count: usize) -> Self {
        let count = count.max(1) as u64;
        Self {
            last: 0,
            offset: place as u64 % count,
            count,
        }
    }

    /// The time to sign the next request with.
    pub(super) fn next(&mut self, now: SystemTime) -> u64 {
        let earliest = millis(now).max(self.last.saturating_add(1));
        let past = (earliest % self.count + self.count - self.offset) % self.count;
        self.last = earliest.saturating_add((self.count - past) % self.count);
        self.last
    }

    /// A registry says after when a request has to be signed; whether that can be done: its clock may be five
    /// minutes ahead, and what it has five minutes more.
    pub(super) fn advance_past(&mut self, now: SystemTime, after_ms: u64) -> bool {
        let latest = millis(now).saturating_add((MAX_SKEW * 2).as_millis() as u64);
        let is_near = after_ms <= latest;
        if is_near {
            self.last = self.last.max(after_ms);
        }
        is_near
    }

    /// A registry refuses a time: the clock may have been wrong when the last request was signed.
    pub(super) fn forget(&mut self) {
        self.last = 0;
    }
}

fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn each_is_later_than_the_one_before_whatever_the_clock_does() {
        let mut times = SigningTimes::new(0, 1);
        assert_eq!(times.next(at(1000)), 1_000_000);
        assert_eq!(times.next(at(1000)), 1_000_001);
        assert_eq!(times.next(at(950)), 1_000_002);
        assert_eq!(times.next(at(1001)), 1_001_000);
        // It was wrong, and a registry has said so.
        times.forget();
        assert_eq!(times.next(at(500)), 500_000);
    }

    #[test]
    fn a_registry_moves_it_ahead_a_little() {
        let mut times = SigningTimes::new(0, 1);
        assert!(times.advance_past(at(1000), 1_050_000));
        assert_eq!(times.next(at(1000)), 1_050_001);
        assert!(!times.advance_past(at(1000), 1_600_001));
        assert!(!times.advance_past(at(1000), u64::MAX));
        assert!(times.advance_past(at(1000), 3), "signing anew is enough");
        assert_eq!(times.next(at(1000)), 1_050_002);
    }

    #[test]
    fn two_registries_never_have_the_same_time() {
        for count in [1, 2, 3, 8] {
            let mut used = std::collections::BTreeSet::new();
            for place in 0..count {
                let mut times = SigningTimes::new(place, count);
                for step in 0..20 {
                    let now = at(1000) + Duration::from_millis(step / 3);
                    let time = times.next(now);
                    assert!(
                        time >= millis(now) && used.insert(time),
                        "{time} twice of {count}"
                    );
                }
            }
        }
    }
}
