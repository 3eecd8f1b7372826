//! How often a server is started: one that ends at once does not keep the device busy with starts. PURE.

use std::{collections::VecDeque, fmt, time::Duration};

use tokio::time::Instant;

/// Starts within [`WINDOW`]. A server that ends by a fault of one command starts again at once; four such
/// commands do no harm either.
const MOST_STARTS: usize = 5;

/// The time in which starts are counted.
const WINDOW: Duration = Duration::from_mins(1);

/// The last starts.
#[derive(Debug, Default)]
pub(super) struct StartBudget(VecDeque<Instant>);

/// A start that has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StartRefused {
    wait: Duration,
}

impl fmt::Display for StartRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (window, wait) = (WINDOW.as_secs(), self.wait.as_secs() + 1);
        write!(
            f,
            "it was started {MOST_STARTS} times within {window} s and may be started again in {wait} s"
        )
    }
}

impl StartBudget {
    /// Counts a start.
    ///
    /// # Errors
    /// When there were too many.
    pub(super) fn start(&mut self, now: Instant) -> Result<(), StartRefused> {
        while self
            .0
            .front()
            .is_some_and(|start| now.duration_since(*start) >= WINDOW)
        {
            self.0.pop_front();
        }
        match self.0.front() {
            Some(oldest) if self.0.len() >= MOST_STARTS => Err(StartRefused {
                wait: WINDOW.saturating_sub(now.duration_since(*oldest)),
            }),
            _ => {
                self.0.push_back(now);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_refusal_says_when_the_next_start_may_be() {
        let now = Instant::now();
        let mut budget = StartBudget::default();
        for _ in 0..MOST_STARTS {
            budget.start(now).unwrap();
        }
        let refused = budget.start(now + Duration::from_secs(20)).unwrap_err();
        assert_eq!(refused.wait, Duration::from_secs(40));
        assert!(refused.to_string().ends_with("again in 41 s"));
        assert!(budget.start(now + refused.wait + Duration::from_secs(20)).is_ok());
    }

    proptest! {
        #[test]
        fn no_window_has_more_starts(steps in prop::collection::vec(0_u64..30, 0..100)) {
            let (mut budget, mut now, mut starts) = (StartBudget::default(), Instant::now(), Vec::new());
            for step in steps {
                now += Duration::from_secs(step);
                let within = starts.iter().filter(|start| now.duration_since(**start) < WINDOW).count();
                prop_assert_eq!(budget.start(now).is_ok(), within < MOST_STARTS);
                if within < MOST_STARTS {
                    starts.push(now);
                }
            }
        }
    }
}
