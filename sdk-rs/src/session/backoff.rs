//! Pauses between the attempts of a call.

use std::time::Duration;

use agentanycast_limits::Backoff as Pauses;
use tokio::time::Instant;

/// The pauses before a call is made again. A restarting daemon needs some 100 ms, and people notice more than
/// 2 s.
const PAUSES: Pauses = Pauses::new(Duration::from_millis(50), Duration::from_secs(2));

/// Growing pauses, until the patience is over. Without jitter: the callers of one daemon are the few
/// agents on its own host.
#[derive(Debug)]
pub(crate) struct Backoff {
    patience: Option<Duration>,
    /// When the patience is over; unknown before the first pause, endless without a patience.
    end: Option<Instant>,
    pauses: Pauses,
}

impl Backoff {
    /// Without a patience it never ends.
    pub(crate) fn new(patience: Option<Duration>) -> Self {
        Self {
            patience,
            end: None,
            pauses: PAUSES,
        }
    }

    /// Waits before the next attempt; false, at once, when the patience is over.
    pub(crate) async fn pause(&mut self) -> bool {
        let mut pause = self.pauses.next_wait();
        if let Some(patience) = self.patience {
            let now = Instant::now();
            let left = self
                .end
                .get_or_insert(now + patience)
                .saturating_duration_since(now);
            if left.is_zero() {
                return false;
            }
            pause = pause.min(left);
        }
        tokio::time::sleep(pause).await;
        true
    }

    /// Something worked: the next loss starts a new run.
    pub(crate) fn reset(&mut self) {
        (self.end, self.pauses) = (None, PAUSES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn patience_bounds_the_pauses() {
        let start = Instant::now();
        let mut backoff = Backoff::new(Some(Duration::from_secs(10)));
        while backoff.pause().await {}
        assert_eq!(start.elapsed(), Duration::from_secs(10));
        backoff.reset();
        assert!(backoff.pause().await);
        assert!(!Backoff::new(Some(Duration::ZERO)).pause().await);
    }
}
