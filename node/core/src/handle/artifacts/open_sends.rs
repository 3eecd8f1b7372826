//! Which artifacts agents are sending, and on which connection. A task is completed only once the artifacts of its
//! agent's earlier connections have ended: those of a process that was killed end a moment after it, while the process
//! that took its task up may be done already.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, time};
use tokio_util::sync::CancellationToken;

/// How long the completion of a task waits for artifacts of other connections. A closed connection is seen at once; one
/// that is open after this is at work.
const PATIENCE: Duration = Duration::from_secs(5);

/// The artifacts that are being sent.
#[derive(Clone, Default)]
pub(super) struct OpenSends(Arc<OpenSendsParts>);

#[derive(Default)]
struct OpenSendsParts {
    /// By task. An artifact is here until its end is kept.
    open: Mutex<HashMap<String, Vec<OpenSend>>>,
    ended: Notify,
    begun: AtomicU64,
}

struct OpenSend {
    number: u64,
    connection: u64,
    hurry: CancellationToken,
}

/// An artifact that is being sent. Dropping it says that its end is kept.
pub(crate) struct OpenSendGuard {
    sends: OpenSends,
    task_id: String,
    number: u64,
    hurry: CancellationToken,
}

impl OpenSends {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<OpenSend>>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An artifact of a task begins.
    pub(super) fn begin(&self, task_id: &str, connection: u64) -> OpenSendGuard {
        let hurry = CancellationToken::new();
        let number = self.0.begun.fetch_add(1, Ordering::Relaxed);
        let send = OpenSend {
            number,
            connection,
            hurry: hurry.clone(),
        };
        self.lock().entry(task_id.to_owned()).or_default().push(send);
        OpenSendGuard {
            sends: self.clone(),
            task_id: task_id.to_owned(),
            number,
            hurry,
        }
    }

    /// Waits until the task's artifacts of connections other than this one have ended, at most [`PATIENCE`]. Those that
    /// are broken off do not wait for their peer.
    pub(super) async fn end_of_others(&self, task_id: &str, connection: u64) {
        let all_ended = async {
            loop {
                let ended = self.0.ended.notified();
                if !self.hurry_others(task_id, connection) {
                    return;
                }
                ended.await;
            }
        };
        if time::timeout(PATIENCE, all_ended).await.is_err() {
            tracing::debug!(task = task_id, "artifacts of another connection have not ended");
        }
    }

    /// Whether there are any.
    fn hurry_others(&self, task_id: &str, connection: u64) -> bool {
        let open = self.lock();
        let sends = open.get(task_id).into_iter().flatten();
        let mut others = sends.filter(|send| send.connection != connection).peekable();
        let any = others.peek().is_some();
        others.for_each(|send| send.hurry.cancel());
        any
    }
}

impl OpenSendGuard {
    /// Resolves when the end of this artifact is waited for.
    pub(super) async fn hurried(&self) {
        self.hurry.cancelled().await;
    }
}

impl Drop for OpenSendGuard {
    fn drop(&mut self) {
        let mut open = self.sends.lock();
        if let Some(sends) = open.get_mut(&self.task_id) {
            sends.retain(|send| send.number != self.number);
            if sends.is_empty() {
                open.remove(&self.task_id);
            }
        }
        drop(open);
        self.sends.0.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_waits_for_artifacts_of_other_connections_only() {
        let sends = OpenSends::default();
        let (own, first, second) = (sends.begin("t", 7), sends.begin("t", 1), sends.begin("t", 1));
        let _elsewhere = sends.begin("u", 1);
        let mut waiting = Box::pin(sends.end_of_others("t", 7));
        assert!(waiting.as_mut().now_or_never().is_none());
        // Both are told, and neither is before it is waited for.
        assert!(first.hurried().now_or_never().is_some() && second.hurried().now_or_never().is_some());
        assert!(own.hurried().now_or_never().is_none());
        drop(first);
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(second);
        assert!(waiting.as_mut().now_or_never().is_some());
        drop(own);
        assert_eq!(sends.lock().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_artifact_that_goes_on_is_not_waited_for_for_ever() {
        let sends = OpenSends::default();
        let _open = sends.begin("t", 1);
        let began = time::Instant::now();
        sends.end_of_others("t", 2).await;
        assert_eq!(began.elapsed(), PATIENCE);
    }
}
