//! Lines of the log that anybody can cause: one a second at most, with the number of those that were left out. Pure.
//!
//! Used by listeners and the relay.

use std::time::Duration;

use tokio::time::Instant;

/// How far two lines are apart at least.
const APART: Duration = Duration::from_secs(1);

/// One kind of line of the log.
#[derive(Debug, Default)]
pub struct LogThrottle {
    last: Option<Instant>,
    unsaid: u64,
}

impl LogThrottle {
    /// Whether to say it now, and how many were not said before.
    pub fn allow(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.duration_since(last) < APART) {
            self.unsaid += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_a_second_is_said_and_none_is_forgotten() {
        let (mut seldom, begun) = (LogThrottle::default(), Instant::now());
        let mut at = |millis| seldom.allow(begun + Duration::from_millis(millis));
        assert_eq!(at(0), Some(0));
        assert_eq!((at(1), at(999)), (None, None));
        assert_eq!(at(1000), Some(2));
        assert_eq!(at(5000), Some(0));
    }
}
