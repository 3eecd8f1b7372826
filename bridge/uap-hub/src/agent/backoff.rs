//! How long an agent waits before it connects again: 1 s, twice as long each time, at most 60 s, as the
//! protocol has it. PURE. The connection uses it; it begins again once a Listen was accepted.

use std::time::Duration;

/// The wait after the first loss. The protocol says so.
pub const FIRST_DELAY: Duration = Duration::from_secs(1);

/// The longest wait. The protocol says so.
pub const LONGEST_DELAY: Duration = Duration::from_mins(1);

/// The waits between connections that fail one after another.
#[derive(Clone, Debug)]
pub struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST_DELAY }
    }
}

impl Backoff {
    /// How long to wait now. The next wait is twice as long, at most [`LONGEST_DELAY`].
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).min(LONGEST_DELAY);
        delay
    }

    /// A connection stood: the next wait is [`FIRST_DELAY`].
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(backoff: &mut Backoff, count: usize) -> Vec<u64> {
        std::iter::repeat_with(|| backoff.next_delay().as_secs())
            .take(count)
            .collect()
    }

    #[test]
    fn waits_double_up_to_a_minute() {
        assert_eq!(
            seconds(&mut Backoff::default(), 9),
            [1, 2, 4, 8, 16, 32, 60, 60, 60]
        );
    }

    proptest! {
        #[test]
        fn a_reset_begins_anew(before in 0_usize..100) {
            let mut backoff = Backoff::default();
            seconds(&mut backoff, before);
            backoff.reset();
            prop_assert_eq!(seconds(&mut backoff, 3), [1, 2, 4]);
        }
    }
}
