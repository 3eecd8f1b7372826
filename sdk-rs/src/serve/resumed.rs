//! Takes up a task that an earlier process of this agent had claimed. No subscription hands it over: its changes come by
//! the updates of the task itself.

use std::{sync::Arc, time::Duration};

use futures::StreamExt as _;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    error::{Error, ErrorKind},
    message::Role,
    node::Node,
    serve::{IncomingTask, catch_up, fetch_task, task_claim::TaskClaim, task_inbox::TaskInbox, task_reports},
    task::{Task, TaskStatus},
    task_handle::get_task,
};

/// Pause before the updates of a task are asked for again, after they could not be.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// How often it is looked whether the daemon is reached by another connection.
const CONNECTION_CHECK: Duration = Duration::from_secs(5);

impl Node {
    /// Takes up a task of this node's agent that an earlier process claimed and did not end: claims it for this process, and
    /// follows it while the result is held. An agent that keeps a record of what it has begun calls this when it starts.
    ///
    /// Fails with kind `Conflict` when the task has ended, is not claimed yet, or another process has it, and with
    /// `TaskNotFound` when the daemon does not know it.
    pub async fn resume_task(&self, id: impl Into<String>) -> Result<IncomingTask, Error> {
        let id = id.into();
        let given = Box::pin(fetch_task(self, &id)).await?;
        claim_again(self, &given.task).await?;
        let inbox = Arc::new(TaskInbox::new(TaskClaim::made(CancellationToken::new())));
        inbox.open_with(&given.task);
        let following = follow(self.clone(), id, Arc::clone(&inbox));
        let follower = AbortOnDropHandle::new(tokio::spawn(following));
        Ok(IncomingTask::new(self.clone(), given, inbox).followed_by(follower))
    }
}

/// Claims a task that was claimed before, for this connection.
pub(super) async fn claim_again(node: &Node, task: &Task) -> Result<(), Error> {
    match task.status {
        TaskStatus::Working => task_reports::renew_claim(node, &task.id).await,
        TaskStatus::InputRequired => {
            // The same question with the same id is known, so it is not asked again.
            let question = task
                .messages
                .iter()
                .rev()
                .find(|message| message.role == Role::Agent);
            task_reports::update(node, &task.id, TaskStatus::InputRequired, question.cloned()).await
        }
        status => {
            let text = format!("task {} is {status}: there is nothing to resume", task.id);
            Err(Error::new(ErrorKind::Conflict, text))
        }
    }
}

/// Tells the inbox of each change of the task until it has ended, and claims the task anew on each new connection.
async fn follow(node: Node, id: String, inbox: Arc<TaskInbox>) {
    let mut claimed_on = node.session().connections();
    let mut look = interval(CONNECTION_CHECK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let mut updates = node.task_handle(&id).updates();
        loop {
            let update = tokio::select! {
                update = updates.next() => update,
                // A state that is as it was before a loss is not told again.
                _ = look.tick() => {
                    if claimed_on != node.session().connections() {
                        catch_up(&node, &id, &inbox).await;
                        claimed_on = node.session().connections();
                    }
                    continue;
                }
            };
            match update {
                Some(Ok(update)) => {
                    match get_task(&node, &id).await {
                        Ok(task) => inbox.update(&task),
                        Err(error) => tracing::debug!(task = id, %error, "a resumed task could not be read"),
                    }
                    if update.status.is_terminal() {
                        return;
                    }
                }
                Some(Err(error)) if error.kind() == ErrorKind::TaskNotFound => {
                    inbox.mark_lost();
                    inbox.cancel();
                    return;
                }
                Some(Err(error)) => {
                    tracing::debug!(task = id, %error, "a resumed task is not followed for now");
                }
                None => break,
            }
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}
