//! A task that came in, as its handler sees it.

use std::{collections::BTreeMap, fmt, sync::Arc};

use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    card::AgentCard,
    error::{Error, ErrorKind},
    message::{Artifact, Message, Role},
    node::Node,
    peer_id::PeerId,
    serve::{
        artifact_writer::ArtifactWriter,
        claim,
        open_tasks::DeliveredTask,
        task_inbox::TaskInbox,
        task_reports::{self, EndRequest, TaskEnd},
    },
    task::{Task, TaskStatus},
};

/// A task that came in and is this process's.
///
/// ```no_run
/// # async fn run(node: agentanycast::Node) -> Result<(), agentanycast::Error> {
/// use agentanycast::Artifact;
///
/// node.serve(|task| async move {
///     let answer = task.ask("In which language?").await?;
///     let mut report = task.stream_artifact("report", "text/plain").await?;
///     report.write(format!("You said {}.", answer.text_content())).await?;
///     report.finish().await?;
///     task.complete([]).await?;
///     Ok(())
/// })
/// .await
/// # }
/// ```
#[derive(Debug)]
pub struct IncomingTask {
    node: Node,
    given: Box<DeliveredTask>,
    conversation: Arc<TaskInbox>,
    /// What is asked of a task without a message.
    nothing: Message,
    /// Tells a resumed task what becomes of it; the serving loop does that for every other one.
    follower: Option<AbortOnDropHandle<()>>,
}

impl IncomingTask {
    pub(super) fn new(node: Node, given: Box<DeliveredTask>, conversation: Arc<TaskInbox>) -> Self {
        let nothing = Message {
            id: String::new(),
            role: Role::User,
            parts: Vec::new(),
            created_at: None,
        };
        Self {
            node,
            given,
            conversation,
            nothing,
            follower: None,
        }
    }

    /// The same, with what tells it of changes for as long as it is held.
    pub(super) fn followed_by(mut self, follower: AbortOnDropHandle<()>) -> Self {
        self.follower = Some(follower);
        self
    }

    /// Names the task on both sides.
    pub fn id(&self) -> &str {
        &self.given.task.id
    }

    /// The conversation that it belongs to.
    pub fn context_id(&self) -> &str {
        &self.given.task.context_id
    }

    /// What is asked: the first message.
    pub fn message(&self) -> &Message {
        self.task().messages.first().unwrap_or(&self.nothing)
    }

    /// All that the sender has said so far, oldest first.
    pub fn messages(&self) -> Vec<Message> {
        let mut messages = self.task().messages.clone();
        messages.extend(self.conversation.later_messages());
        messages
    }

    /// The peer that asks; `None` if the daemon does not know.
    pub fn sender(&self) -> Option<&PeerId> {
        self.given.task.originator.as_ref()
    }

    /// The card of the agent that asks, if its daemon has sent one.
    pub fn sender_card(&self) -> Option<&AgentCard> {
        self.given.sender_card.as_ref()
    }

    /// The skill that is asked for; empty when the task was sent to this peer as such.
    pub fn skill(&self) -> &str {
        &self.given.task.skill
    }

    /// What the sender attached.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.given.task.metadata
    }

    /// The task as it came in.
    pub fn task(&self) -> &Task {
        &self.given.task
    }

    /// Cancelled when the sender cancels the task, or the daemon ends it (a deadline, for one). The
    /// handler should stop then; whatever it reports is refused as a `Conflict`.
    pub fn cancelled(&self) -> CancellationToken {
        self.conversation.cancelled().clone()
    }

    /// Claims the task and waits until the daemon has stored the claim. After that the daemon hands the task to no other
    /// agent of its node, also when the daemon restarts. If this process ends first, the daemon waits `agent_grace`;
    /// then it ends the task or, if the task was sent by skill, gives it back for another node. Fails with kind `Conflict` when
    /// another agent has the task or the task is over.
    pub async fn claim(&self) -> Result<(), Error> {
        self.ensure_claimed().await?;
        // The claim alone is no report: the daemon hands a task without a report out again when its agent ends.
        task_reports::renew_claim(&self.node, self.id()).await
    }

    /// As [`IncomingTask::claim`], for work that must not be done twice: a handler with such effects calls this before them. If
    /// this process ends first, the daemon waits `agent_grace`, and then fails the task; it goes to no other agent or node.
    pub async fn begin(&self) -> Result<(), Error> {
        self.ensure_claimed().await?;
        task_reports::begin(&self.node, self.id()).await
    }

    async fn ensure_claimed(&self) -> Result<(), Error> {
        claim::make(&self.conversation, &self.node, self.id()).await
    }

    /// Reports progress.
    pub async fn working(&self, text: impl Into<Message>) -> Result<(), Error> {
        self.ensure_claimed().await?;
        let message = self.as_agent_message(text.into());
        task_reports::update(&self.node, self.id(), TaskStatus::Working, Some(message)).await
    }

    /// Asks the sender for input and waits for the answer. Fails with kind `Canceled` when the task is
    /// canceled meanwhile.
    pub async fn ask(&self, question: impl Into<Message>) -> Result<Message, Error> {
        self.ensure_claimed().await?;
        let question = self.as_agent_message(question.into());
        task_reports::update(&self.node, self.id(), TaskStatus::InputRequired, Some(question)).await?;
        let canceled = || Error::new(ErrorKind::Canceled, format!("task {} was canceled", self.id()));
        self.conversation.next().await.ok_or_else(canceled)
    }

    /// Starts an artifact that is sent piece by piece. It is part of the task once
    /// [`ArtifactWriter::finish`] has returned; do not pass it to [`IncomingTask::complete`] again.
    pub async fn stream_artifact(
        &self,
        name: impl Into<String>,
        media_type: impl Into<String>,
    ) -> Result<ArtifactWriter, Error> {
        self.ensure_claimed().await?;
        ArtifactWriter::open(
            &self.node,
            &self.conversation,
            self.id(),
            name.into(),
            media_type.into(),
        )
        .await
    }

    /// Ends the task with its results.
    pub async fn complete(&self, artifacts: impl IntoIterator<Item = Artifact>) -> Result<(), Error> {
        let artifacts = artifacts.into_iter().collect();
        self.end_by(task_reports::complete(self.id(), artifacts, None))
            .await
    }

    /// Ends the task with its results and a closing message.
    pub async fn complete_with(
        &self,
        artifacts: impl IntoIterator<Item = Artifact>,
        message: impl Into<Message>,
    ) -> Result<(), Error> {
        let message = self.as_agent_message(message.into());
        let artifacts = artifacts.into_iter().collect();
        self.end_by(task_reports::complete(self.id(), artifacts, Some(message)))
            .await
    }

    /// Ends the task with an error that the sender sees.
    pub async fn fail(&self, reason: impl AsRef<str>) -> Result<(), Error> {
        self.end_by(task_reports::fail(self.id(), reason.as_ref())).await
    }

    /// Lets go of the task without ending it: it is not failed when its handler returns. If it was claimed by
    /// [`IncomingTask::claim`] or reported on, it stays so for the daemon's `agent_grace`, and [`Node::resume_task`] takes it
    /// up again. Else the daemon hands it out again when this process ends.
    pub fn leave(&self) {
        self.conversation.mark_left();
    }

    /// Gives the task back, since it cannot be done now: another program that serves the agent gets it at once, or it waits; this one
    /// gets it again after 10 s at the earliest. The handler returns after that. For a task on which nothing was done: after
    /// [`IncomingTask::working`], [`IncomingTask::ask`] or an artifact it fails with kind `Conflict`, as it does with a daemon that
    /// does not know this, and the task stays this process's.
    pub async fn give_back(&self) -> Result<(), Error> {
        self.ensure_claimed().await?;
        task_reports::give_back(&self.node, self.id()).await?;
        self.conversation.mark_given_back();
        Ok(())
    }

    /// Whether the task has ended, by this process or otherwise, or was left or given back.
    pub fn is_over(&self) -> bool {
        self.conversation.is_over() || self.conversation.is_left() || self.conversation.is_given_back()
    }

    async fn end_by<C: EndRequest>(&self, end: TaskEnd<C>) -> Result<(), Error> {
        self.conversation.wait_for_closing().await;
        let reported = claim::end(&self.conversation, &self.node, end).await;
        match &reported {
            Ok(()) => self.conversation.mark_ended(),
            Err(error) if error.kind() == ErrorKind::TaskNotFound => self.conversation.mark_lost(),
            Err(_) => {}
        }
        reported
    }

    fn as_agent_message(&self, message: Message) -> Message {
        let message = message.with_role(Role::Agent);
        self.conversation.record_own(&message);
        message
    }
}

/// Why a handler gave up; its text becomes the reason of the failed task. Made from any error by `?`,
/// or from text by [`HandlerError::new`].
///
/// ```
/// use agentanycast::HandlerError;
///
/// fn parse(text: &str) -> Result<i64, HandlerError> {
///     let number: i64 = text.parse()?;
///     if number < 0 {
///         return Err(HandlerError::new("negative numbers are not handled"));
///     }
///     Ok(number)
/// }
/// assert!(parse("x").unwrap_err().to_string().contains("invalid digit"));
/// ```
pub struct HandlerError(String);

impl HandlerError {
    /// With this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

// Not an `std::error::Error` itself: that would forbid the conversion from all of them.
impl<E: std::error::Error> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HandlerError({:?})", self.0)
    }
}
