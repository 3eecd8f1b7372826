//! How long a program that ended waits before it is started again: longer after each end, short again after a program
//! ran for a while. PURE.

use std::time::Duration;

use agentanycast_limits::Backoff;

use crate::{RunError, host_want::LOOK};

const PAUSES: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));

/// A program that ran so long did not fail at its start.
const RAN_WELL: Duration = Duration::from_mins(1);

/// The pauses of one program.
#[derive(Debug, Default)]
pub(crate) struct RestartPause {
    ends: u32,
}

impl RestartPause {
    /// The pause after a program that ended with this error after this time. One that was not started since the host lacked
    /// something is tried again soon: that is no end of it.
    pub(crate) fn after_error(&mut self, error: &RunError, ran: Duration) -> Duration {
        if error.is_unstarted() {
            LOOK
        } else {
            self.after(ran)
        }
    }

    /// The pause after a program that ran for this time.
    pub(crate) fn after(&mut self, ran: Duration) -> Duration {
        if ran >= RAN_WELL {
            self.ends = 0;
        }
        self.ends = self.ends.saturating_add(1);
        PAUSES.after(self.ends - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound_and_shrink_again() {
        let mut pause = RestartPause::default();
        let pauses: Vec<u128> = (0..8).map(|_| pause.after(Duration::ZERO).as_millis()).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
        assert_eq!(pause.after(RAN_WELL), PAUSES.after(0));
    }

    #[test]
    fn a_want_of_the_host_makes_no_pause_longer() {
        let mut pause = RestartPause::default();
        for _ in 0..8 {
            let unstarted = RunError::unstarted("no room");
            assert_eq!(pause.after_error(&unstarted, Duration::ZERO), LOOK);
        }
        let ended = RunError::new("exit code 1");
        assert_eq!(pause.after_error(&ended, Duration::ZERO), PAUSES.after(0));
    }
}
