//! When an issuer's keys are fetched. PURE.
//!
//! The one rule: however many tokens with unknown keys come, the issuer is asked at most once in [`MIN_INTERVAL`].

use std::time::Duration;

/// Between two fetches at least.
pub(super) const MIN_INTERVAL: Duration = Duration::from_secs(10);

/// After this, keys are fetched again with the next token.
pub(super) const FRESH: Duration = Duration::from_mins(15);

/// After this, keys that could not be fetched again are not used any more.
pub(super) const USABLE: Duration = Duration::from_hours(24);

/// What is known of the fetches. Times are since any fixed moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KeyRefresh {
    record_attempt: Option<Duration>,
    fetched: Option<Duration>,
}

impl KeyRefresh {
    /// Whether keys are to be fetched for a token, whose key is known or not.
    pub(super) fn is_due(&self, now: Duration, known: bool) -> bool {
        let apart = self
            .record_attempt
            .is_none_or(|tried| now >= tried + MIN_INTERVAL);
        let old = self.fetched.is_none_or(|fetched| now >= fetched + FRESH);
        apart && (old || !known)
    }

    /// Whether the keys that there are may be used.
    pub(super) fn is_usable(&self, now: Duration) -> bool {
        self.fetched.is_some_and(|fetched| now < fetched + USABLE)
    }

    /// Notes a fetch, and whether it went well.
    pub(super) fn tried(&mut self, now: Duration, well: bool) {
        self.record_attempt = Some(now);
        if well {
            self.fetched = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_issuer_is_asked_seldom(
            steps in proptest::collection::vec((0..2_000_u64, any::<bool>(), any::<bool>()), 1..200),
        ) {
            let mut schedule = KeyRefresh::default();
            let (mut now, mut last, mut good) = (Duration::ZERO, None::<Duration>, None::<Duration>);
            for (later, known, well) in steps {
                now += Duration::from_secs(later);
                let due = schedule.is_due(now, known);
                let apart = last.is_none_or(|last| now >= last + MIN_INTERVAL);
                let wanted = !known || good.is_none_or(|good| now >= good + FRESH);
                prop_assert_eq!(due, apart && wanted);
                if due {
                    schedule.tried(now, well);
                    last = Some(now);
                    good = if well { Some(now) } else { good };
                }
                prop_assert_eq!(schedule.is_usable(now), good.is_some_and(|good| now < good + USABLE));
            }
        }
    }
}
