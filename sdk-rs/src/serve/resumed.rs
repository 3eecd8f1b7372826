//! Takes up a task that an earlier process of this agent had claimed. No subscription hands it over: its changes come by
//! the updates of the task itself.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::StreamExt as _;
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval},
};
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

/// How long a task that another process has is asked for. The daemon needs a moment to see that the connection of
/// a process that ended is closed; longer than this, the other process lives.
const TAKE_UP_PATIENCE: Duration = Duration::from_secs(10);

/// Pause between two attempts at such a task.
const TAKE_UP_PAUSE: Duration = Duration::from_millis(100);

/// A task that was taken up, and the inbox of its handler.
pub(super) struct ResumedTask {
    pub(super) incoming: IncomingTask,
    pub(super) inbox: Arc<TaskInbox>,
}

/// The tasks of an earlier process that a service takes up when it starts.
#[derive(Default)]
pub(super) struct ResumeQueue {
    waiting: VecDeque<String>,
    taking_up: JoinSet<Option<ResumedTask>>,
}

impl ResumeQueue {
    pub(super) fn new(ids: impl IntoIterator<Item = String>) -> Self {
        Self {
            waiting: ids.into_iter().collect(),
            taking_up: JoinSet::new(),
        }
    }

    /// How many tasks are being taken up.
    pub(super) fn under_way(&self) -> usize {
        self.taking_up.len()
    }

    /// Begins to take up the next task; false if there is none.
    pub(super) fn begin_next(&mut self, node: &Node) -> bool {
        let Some(id) = self.waiting.pop_front() else {
            return false;
        };
        self.taking_up.spawn(take_up_patiently(node.clone(), id));
        true
    }

    /// The next task that was taken up, or was not (`Some(None)`); `None` while no task is being taken up.
    pub(super) async fn next(&mut self) -> Option<Option<ResumedTask>> {
        let taken = self.taking_up.join_next().await?;
        Some(taken.ok().flatten())
    }
}

/// Takes up a task; `None` if it has ended, or another process has it.
async fn take_up_patiently(node: Node, id: String) -> Option<ResumedTask> {
    let mut refused_since = None;
    loop {
        let error = match take_up(&node, id.clone()).await {
            Ok(task) => return Some(task),
            Err(error) => error,
        };
        if error.is_retryable() {
            tokio::time::sleep(RETRY_PAUSE).await;
            continue;
        }
        let is_open = error.kind() == ErrorKind::Conflict
            && get_task(&node, &id)
                .await
                .is_ok_and(|task| is_claimed(task.status));
        let since = *refused_since.get_or_insert_with(Instant::now);
        if !is_open || since.elapsed() >= TAKE_UP_PATIENCE {
            tracing::info!(task = id, %error, "a task of an earlier process was not taken up");
            return None;
        }
        tokio::time::sleep(TAKE_UP_PAUSE).await;
    }
}

fn is_claimed(status: TaskStatus) -> bool {
    matches!(status, TaskStatus::Working | TaskStatus::InputRequired)
}

async fn take_up(node: &Node, id: String) -> Result<ResumedTask, Error> {
    let given = Box::pin(fetch_task(node, &id)).await?;
    claim_again(node, &given.task).await?;
    let inbox = Arc::new(TaskInbox::new(TaskClaim::made(CancellationToken::new())));
    inbox.open_with(&given.task);
    let following = follow(node.clone(), id, Arc::clone(&inbox));
    let follower = AbortOnDropHandle::new(tokio::spawn(following));
    let incoming = IncomingTask::new(node.clone(), given, Arc::clone(&inbox)).followed_by(follower);
    Ok(ResumedTask { incoming, inbox })
}

impl Node {
    /// Takes up a task of this node's agent that an earlier process claimed and did not end: claims it for this process, and
    /// follows it while the result is held. An agent that keeps a record of what it has begun calls this when it starts;
    /// a service does it by [`Serve::resume`](crate::Serve::resume).
    ///
    /// Fails with kind `Conflict` when the task has ended, is not claimed yet, or another process has it, and with
    /// `TaskNotFound` when the daemon does not know it.
    pub async fn resume_task(&self, id: impl Into<String>) -> Result<IncomingTask, Error> {
        let task = take_up(self, id.into()).await?;
        Ok(task.incoming)
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
