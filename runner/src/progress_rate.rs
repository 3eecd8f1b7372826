//! Bounds how often a task says that it works: a message is sent at once, and of those that follow within
//! [`INTERVAL`] only the last one is.

use std::time::Duration;

use agentanycast_proto::v1;
use tokio::time::Instant;

/// The shortest time between two messages.
const INTERVAL: Duration = Duration::from_millis(500);

/// Progress of one task that waits to be told.
#[derive(Debug, Default)]
pub(crate) struct ProgressRate {
    waiting: Option<v1::Message>,
    not_before: Option<Instant>,
}

impl ProgressRate {
    /// Takes a message in place of one that still waits.
    pub(crate) fn put(&mut self, message: v1::Message) {
        self.waiting = Some(message);
    }

    /// The next message to be told, when it is time; never, while none waits. Dropping the future loses nothing.
    pub(crate) async fn due(&mut self) -> v1::Message {
        if self.waiting.is_some()
            && let Some(time) = self.not_before
        {
            tokio::time::sleep_until(time).await;
        }
        match self.waiting.take() {
            Some(message) => {
                self.not_before = Some(Instant::now() + INTERVAL);
                message
            }
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::{text_message, text_of};

    #[tokio::test(start_paused = true)]
    async fn the_first_is_told_at_once_and_then_the_last() {
        let mut rate = ProgressRate::default();
        let began = Instant::now();
        rate.put(text_message("1"));
        assert_eq!(text_of(&rate.due().await), "1");
        assert_eq!(began.elapsed(), Duration::ZERO);
        rate.put(text_message("2"));
        rate.put(text_message("3"));
        assert_eq!(text_of(&rate.due().await), "3");
        assert_eq!(began.elapsed(), INTERVAL);
        let nothing = tokio::time::timeout(Duration::from_hours(1), rate.due()).await;
        assert!(nothing.is_err());
    }
}
