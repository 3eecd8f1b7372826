//! Sending a task: whom to, with which options. Every send carries an idempotency key, so that the
//! SDK may send again after a lost answer and the daemon still makes one task.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use agentanycast_proto::v1;

use crate::{
    error::{Error, ErrorKind, Subject},
    message::Message,
    node::{Node, missing, notes::TaskNote},
    peer_id::PeerId,
    target::Target,
    task::{Task, TaskError},
    task_handle::TaskHandle,
};

/// The metadata key that ends a task when the time in it passes.
const DEADLINE_KEY: &str = "deadline";

impl Node {
    /// Sends a task. When this returns, the task is durable: it is delivered also if the peer is
    /// away now, and if either daemon is restarted.
    pub async fn send_task(&self, target: Target, message: impl Into<Message>) -> Result<TaskHandle, Error> {
        self.task(target, message).send().await
    }

    /// Sends a task, and waits for its end, in one call to the daemon: [`TaskBuilder::run`].
    ///
    /// ```no_run
    /// # use agentanycast::{Node, Target};
    /// # async fn run(node: Node) -> Result<(), Box<dyn std::error::Error>> {
    /// let task = node.run_task(Target::skill("translate"), "Good morning").await?;
    /// println!("{}", task.text_content());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_task(&self, target: Target, message: impl Into<Message>) -> Result<Task, TaskError> {
        self.task(target, message).run().await
    }

    /// As [`Node::send_task`] and [`Node::run_task`], with options.
    pub fn task(&self, target: Target, message: impl Into<Message>) -> TaskBuilder {
        TaskBuilder::new(self.clone(), Some(target), message.into())
    }
}

impl TaskHandle {
    /// Answers a task that asks for input. A task in another state is a `Conflict` or `InvalidArgument`.
    pub async fn reply(&self, message: impl Into<Message>) -> Result<(), Error> {
        self.follow_up(message).send().await.map(drop)
    }

    /// A further message, with options; as [`TaskHandle::reply`] when it is sent.
    pub fn follow_up(&self, message: impl Into<Message>) -> TaskBuilder {
        // Without a peer, as of a task that was sent to a URL, the daemon knows where it is.
        let target = self.assignee().cloned().map(Target::Peer);
        TaskBuilder::new(self.node().clone(), target, message.into()).task_id(self.id().to_owned())
    }
}

/// A task about to be sent, made by [`Node::task`].
///
/// ```no_run
/// # use agentanycast::{Node, Target};
/// # use std::time::Duration;
/// # async fn run(node: Node) -> Result<(), Box<dyn std::error::Error>> {
/// let handle = node
///     .task(Target::skill("summarize"), "a long text")
///     .metadata("priority", "low")
///     .timeout(Duration::from_secs(60))
///     .send()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a task is sent by `send` or `run`"]
pub struct TaskBuilder {
    node: Node,
    /// None: where the task is that this is a further message of.
    target: Option<Target>,
    request: v1::SendTaskRequest,
    deadline: Option<SystemTime>,
}

impl TaskBuilder {
    pub(crate) fn new(node: Node, target: Option<Target>, message: Message) -> Self {
        let request = v1::SendTaskRequest {
            message: Some(message.into()),
            idempotency_key: uuid::Uuid::new_v4().to_string(),
            brief: true,
            ..v1::SendTaskRequest::default()
        };
        Self {
            node,
            target,
            request,
            deadline: None,
        }
    }

    /// A task whose request is made.
    pub(crate) fn of_request(node: Node, target: Target, request: v1::SendTaskRequest) -> Self {
        Self {
            node,
            target: Some(target),
            request,
            deadline: None,
        }
    }

    #[cfg(test)]
    pub(crate) fn into_request(self) -> (Option<Target>, v1::SendTaskRequest) {
        (self.target, self.request)
    }

    /// Adds a label that travels to the agent.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.metadata.insert(key.into(), value.into());
        self
    }

    /// Adds labels that travel to the agent.
    pub fn metadata_from(mut self, labels: BTreeMap<String, String>) -> Self {
        self.request.metadata.extend(labels);
        self
    }

    /// Sends it to this agent of the peer's node; without, to one with the skill, else to the node's primary agent. Only for
    /// tasks to a peer.
    pub fn agent(mut self, name: impl Into<String>) -> Self {
        self.request.target_agent = name.into();
        self
    }

    /// Puts the task into a conversation; without, it starts a new one.
    pub fn context_id(mut self, context_id: impl Into<String>) -> Self {
        self.request.context_id = context_id.into();
        self
    }

    /// The task ends as failed, on both sides, if it has not ended by then.
    pub fn deadline(mut self, deadline: SystemTime) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// As [`TaskBuilder::deadline`], from now on.
    pub fn timeout(self, timeout: Duration) -> Self {
        let deadline = SystemTime::now().checked_add(timeout);
        Self { deadline, ..self }
    }

    /// The same key within 24 h names the same task, also from another process. Without, each send
    /// is a task of its own.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.request.idempotency_key = key.into();
        self
    }

    /// Has the daemon remember this about the task, as durably as the message: both are taken, or neither.
    pub fn note(mut self, note: TaskNote) -> Self {
        self.request.note = Some(note.into());
        self
    }

    /// Puts a new task into the group by which it can be listed ([`TaskFilter::group`](crate::TaskFilter)); peers are
    /// not told.
    pub fn group(mut self, group: [u8; 16]) -> Self {
        self.request.group = group.into();
        self
    }

    /// Of a task that is sent to a peer: the skill that is asked of its agent, which its policy goes by.
    pub fn skill_of_peer(mut self, skill: impl Into<String>) -> Self {
        self.request.skill_of_peer = skill.into();
        self
    }

    /// Of a task that is sent to a URL: the daemon may call an agent on its own host or on a private network for it, which it
    /// does not otherwise unless its settings say so (`bridge.outbound.allow_private`).
    pub fn allow_private(mut self) -> Self {
        self.request.allow_private = true;
        self
    }

    /// Of a task that is sent to a URL: seals what it says for this peer, the node of the agent there, so that neither
    /// who carries it nor the bridge before the agent can read or change it. What comes back is taken only if that peer has
    /// sealed it. Fails with kind `Unsupported`, and sends nothing, if the daemon is too old to do so.
    pub fn sealed_for(mut self, peer: &PeerId) -> Self {
        self.request.sealed_for = peer.to_string();
        self
    }

    /// Makes this a further message of an existing task.
    pub(crate) fn task_id(mut self, task_id: String) -> Self {
        self.request.task_id = task_id;
        self
    }

    /// Sends. When this returns the task is durable at the daemon.
    pub async fn send(self) -> Result<TaskHandle, Error> {
        let (node, subject, request) = self.ready().await?;
        send(node, subject, request).await
    }

    /// Sends, and waits for the end, as [`TaskHandle::wait`] does, over restarts of the daemon; one call to it where two would cost it
    /// more. Dropping the future ends the wait, and not the task. The task's id is known with its end only: whoever may
    /// want it before uses [`TaskBuilder::send`]. When the wait fails after the task was accepted, the error's text names the task; whoever would
    /// try again gives an [idempotency key](TaskBuilder::idempotency_key), or it is another task.
    pub async fn run(self) -> Result<Task, TaskError> {
        let (node, subject, request) = self.ready().await?;
        let handle = match node.session().run_task(subject, &request).await? {
            Some(task) => {
                let task = Task::from(task);
                if task.status.is_terminal() {
                    return task.into_result();
                }
                TaskHandle::new(node, task.id, None)
            }
            None => Box::pin(send(node, subject, request)).await?,
        };
        Box::pin(wait(handle)).await
    }

    /// What is asked for, as it is sent.
    async fn ready(self) -> Result<(Node, Subject, v1::SendTaskRequest), Error> {
        let Self {
            node,
            target,
            mut request,
            deadline,
        } = self;
        if let Some(deadline) = deadline {
            request
                .metadata
                .insert(DEADLINE_KEY.to_owned(), rfc3339(deadline)?);
        }
        let subject = match (&target, request.task_id.is_empty()) {
            (_, false) => Subject::Task,
            (Some(Target::Skill(_)), true) => Subject::Skill,
            (Some(Target::Peer(_) | Target::Url(_)) | None, true) => Subject::Target,
        };
        // An older daemon would not know the field, and send in the clear.
        if !request.sealed_for.is_empty() && !Box::pin(node.info()).await?.seals_tasks {
            let text = "the daemon is too old to seal tasks; nothing was sent";
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        request.target = target.map(Into::into);
        Ok((node, subject, request))
    }
}

/// Waits for a task that is accepted; if that fails, the error says which task it is.
async fn wait(handle: TaskHandle) -> Result<Task, TaskError> {
    handle.wait().await.map_err(|error| match error {
        TaskError::Node(error) => {
            let text = format!(
                "task {} was accepted; the wait for its end failed: {error}",
                handle.id()
            );
            Error::new(error.kind(), text).because(error).into()
        }
        ended => ended,
    })
}

async fn send(node: Node, subject: Subject, request: v1::SendTaskRequest) -> Result<TaskHandle, Error> {
    let answer = node.session().task_call(subject, request).await?;
    let task = answer
        .task
        .filter(|task| !task.task_id.is_empty())
        .ok_or_else(|| missing("task"))?;
    let assignee = PeerId::from_daemon(task.assignee_peer_id);
    Ok(TaskHandle::new(node, task.task_id, assignee))
}

fn rfc3339(time: SystemTime) -> Result<String, Error> {
    let stamp = jiff::Timestamp::try_from(time).map_err(|error| {
        Error::new(ErrorKind::InvalidArgument, "the deadline is beyond the year 9999").because(error)
    })?;
    Ok(stamp.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_daemon::{CallMode, FakeDaemon};

    #[tokio::test]
    async fn a_daemon_that_would_send_in_the_clear_is_sent_nothing() {
        let fake = FakeDaemon::start(CallMode::Unary);
        let peer = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK"
            .parse()
            .unwrap();
        let task = fake
            .node()
            .await
            .task(Target::url("https://bridge.example"), "secret");
        let error = task.sealed_for(&peer).send().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(fake.state().keys.is_empty());
    }

    #[test]
    fn a_deadline_is_rfc_3339() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_250);
        assert_eq!(rfc3339(time).unwrap(), "2023-11-14T22:13:20.25Z");
    }
}
