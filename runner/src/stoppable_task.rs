//! A task beside the runner's, such as the one that keeps a program running: it is told to stop, and waited for.

use std::time::Duration;

use tokio::{sync::Mutex, task::JoinHandle, time::timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long it may take to end; then it is aborted. A program that it keeps has 5 s of that.
const STOP_WITHIN: Duration = Duration::from_secs(8);

/// See the module's text. Dropping it tells it to stop.
pub(crate) struct StoppableTask {
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
    _stop: DropGuard,
}

impl StoppableTask {
    /// Starts it; it is to end when the token is cancelled.
    pub(crate) fn spawn(stop: CancellationToken, work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self {
            stop: stop.clone(),
            task: Mutex::new(Some(tokio::spawn(work))),
            _stop: stop.drop_guard(),
        }
    }

    /// Ends it, and waits for its end.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        if let Some(task) = self.task.lock().await.take() {
            let abort = task.abort_handle();
            if timeout(STOP_WITHIN, task).await.is_err() {
                abort.abort();
            }
        }
    }
}
