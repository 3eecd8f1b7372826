//! A task that somebody waits for, and that is of no use without them.
//!
//! Invariant: a task that was begun has ended, or is being cancelled, when its [`AwaitedTask`], or the future
//! that begins it, is dropped.

use std::sync::Arc;

use super::{CallerMessage, GatewayTasks, TaskRefusal};
use crate::{ErrorKind, GatewayError, TaskHandle, caller::Caller};

/// A task that was begun. Dropping it cancels the task, unless it has ended.
pub struct AwaitedTask {
    handle: Arc<dyn TaskHandle>,
    has_ended: bool,
}

impl AwaitedTask {
    /// Begins a task of this caller. Dropping the future cancels the task, also in the middle of its begin.
    ///
    /// # Errors
    /// Those of [`CallerTasks::send`](super::CallerTasks::send).
    pub async fn begin(
        tasks: &Arc<GatewayTasks>,
        caller: Caller,
        message: CallerMessage,
    ) -> Result<Self, TaskRefusal> {
        let tasks = Arc::clone(tasks);
        // In a task of its own: the node may have begun the task before it answers.
        let begun = tokio::spawn(async move {
            let handle = tasks.of_caller(caller).send(message).await?;
            Ok(Self {
                handle,
                has_ended: false,
            })
        });
        begun.await.unwrap_or_else(|error| {
            if let Ok(panic) = error.try_into_panic() {
                std::panic::resume_unwind(panic);
            }
            let text = "the program stops; the task was not sent";
            Err(GatewayError::new(ErrorKind::Unavailable, text).into())
        })
    }

    /// The task.
    pub fn handle(&self) -> &Arc<dyn TaskHandle> {
        &self.handle
    }

    /// The task has ended: there is nothing to cancel.
    pub fn set_ended(&mut self) {
        self.has_ended = true;
    }

    /// Cancels the task, and waits for the node's answer.
    pub async fn cancel(mut self) {
        cancel(&*self.handle).await;
        self.has_ended = true;
    }
}

async fn cancel(task: &dyn TaskHandle) {
    // A task that ended meanwhile refuses, which is as good.
    if let Err(error) = task.cancel().await {
        tracing::debug!(task = task.id(), %error, "a task is not cancelled");
    }
}

impl Drop for AwaitedTask {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        // Without a runtime the process ends.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let handle = Arc::clone(&self.handle);
        runtime.spawn(async move { cancel(&*handle).await });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

    use std::time::Duration;

    use agentanycast_proto::v1::{Message, Part, TaskStatus, TextPart, part::Content};
    use tokio::sync::Semaphore;

    use super::*;
    use crate::{
        Gateway, Target,
        caller::{CallerIdentity, GatewayLabels},
        fake::FakeGateway,
    };

    const LABELS: GatewayLabels = GatewayLabels::new("echo");

    /// A message that the fake's agent does not answer.
    fn endless() -> CallerMessage {
        let text = "wait".to_owned();
        let part = Part {
            content: Some(Content::TextPart(TextPart { text })),
            ..Part::default()
        };
        CallerMessage::new(
            Target::Own,
            Message {
                parts: vec![part],
                ..Message::default()
            },
        )
    }

    async fn canceled(node: &FakeGateway) {
        let first = node.task("t0");
        let wait = async {
            while first.snapshot().await.map(|task| task.status()) != Ok(TaskStatus::Canceled) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), wait).await.unwrap();
    }

    fn caller() -> Caller {
        Caller::with_one_list(LABELS, CallerIdentity::local())
    }

    #[tokio::test]
    async fn a_begin_that_is_dropped_cancels_the_task() {
        let held = Arc::new(Semaphore::new(0));
        let node = FakeGateway::default().with_held_answers(Arc::clone(&held));
        let tasks = Arc::new(GatewayTasks::new(Arc::new(node.clone()), 1));
        let begin = AwaitedTask::begin(&tasks, caller(), endless());
        assert!(
            tokio::time::timeout(Duration::from_millis(20), begin)
                .await
                .is_err()
        );
        // The node has begun it, and has not answered.
        assert_eq!(
            node.task("t0").snapshot().await.unwrap().status(),
            TaskStatus::Working
        );
        held.add_permits(1);
        canceled(&node).await;
    }

    #[tokio::test]
    async fn dropping_cancels_what_has_not_ended() {
        let node = FakeGateway::default();
        let tasks = Arc::new(GatewayTasks::new(Arc::new(node.clone()), 1));
        let task = AwaitedTask::begin(&tasks, caller(), endless()).await.unwrap();
        drop(task);
        canceled(&node).await;
        let mut ended = AwaitedTask::begin(&tasks, caller(), endless()).await.unwrap();
        let handle = Arc::clone(ended.handle());
        ended.set_ended();
        drop(ended);
        tokio::task::yield_now().await;
        assert_eq!(handle.snapshot().await.unwrap().status(), TaskStatus::Working);
    }
}
