//! Connects again and again, with the protocol's waits between. It knows nothing of what a connection is; the
//! connection's own file says how one went.

use std::{convert::Infallible, time::Duration};

use agentanycast_limits::Backoff;
use tokio::time::Instant;

use crate::agent::error::HubError;

/// The waits between connections that fail one after another. The protocol says so.
const DELAYS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));

/// How a connection went.
#[derive(Debug)]
pub(super) struct ConnectionEnd {
    /// The hub accepted its Listen. The next wait is the shortest, unless this connection and the one before stood
    /// for less than the waits before them.
    pub(super) stood: bool,
    /// Why it is over.
    pub(super) error: HubError,
}

/// Makes one connection after another; `lost` hears why each ended, and after which wait the next one is
/// tried.
pub(super) async fn reconnect<F: Future<Output = ConnectionEnd>>(
    mut connection: impl FnMut() -> F,
    mut lost: impl FnMut(&HubError, Duration),
) -> Infallible {
    let mut delays = DELAYS;
    let mut delay = Duration::ZERO;
    let mut was_short = false;
    loop {
        let begun = Instant::now();
        let end = connection().await;
        if end.stood {
            // A hub that ends one Listen after another at once is asked ever more rarely.
            let is_short = begun.elapsed() < delay;
            if !is_short || !was_short {
                delays.reset();
            }
            was_short = is_short;
        }
        delay = delays.next_wait();
        lost(&end.error, delay);
        tokio::time::sleep(delay).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// When connections were tried, in seconds from the first on; each stands or not as `stood` says, and
    /// lasts `lasts`.
    async fn tried_at(stood: &[bool], lasts: Duration) -> Vec<u64> {
        let begun = Instant::now();
        let tried = Mutex::new(Vec::new());
        let delays = Mutex::new(Vec::new());
        let connection = || {
            let attempt = tried.lock().unwrap().len();
            tried.lock().unwrap().push(begun.elapsed().as_secs());
            let stood = stood.get(attempt).copied();
            async move {
                let Some(stood) = stood else {
                    return std::future::pending().await;
                };
                tokio::time::sleep(lasts).await;
                ConnectionEnd {
                    stood,
                    error: HubError::Closed,
                }
            }
        };
        let never = reconnect(connection, |error, delay| {
            assert!(matches!(error, HubError::Closed));
            delays.lock().unwrap().push(delay);
        });
        tokio::time::timeout(Duration::from_secs(10_000), never)
            .await
            .unwrap_err();
        let tried = tried.into_inner().unwrap();
        let waited: Duration = delays.into_inner().unwrap().iter().sum();
        assert_eq!(
            tried.last().unwrap(),
            &(waited + lasts * stood.len() as u32).as_secs()
        );
        tried
    }

    #[tokio::test(start_paused = true)]
    async fn waits_double_while_no_connection_stands() {
        let waits = [1, 2, 4, 8, 16, 32, 60, 60];
        let mut at = 0;
        let expected: Vec<u64> = std::iter::once(0)
            .chain(waits.map(|wait| {
                at += wait;
                at
            }))
            .collect();
        assert_eq!(tried_at(&[false; 8], Duration::ZERO).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_that_are_ended_at_once_are_made_ever_more_rarely() {
        assert_eq!(
            tried_at(&[true; 6], Duration::ZERO).await,
            [0, 1, 2, 4, 8, 16, 32]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_stood_resets_the_wait() {
        let stood = [false, false, false, true, false, true, true];
        // 1, 2, 4, then 1 after it stood; 2; 1; 1. Each connection lasts 100 s.
        assert_eq!(
            tried_at(&stood, Duration::from_secs(100)).await,
            [0, 101, 203, 307, 408, 510, 611, 712]
        );
    }
}
