//! The agent side of the port: a gateway behind which agents are attaches them to the node, takes their tasks and reports what
//! becomes of these.

use std::sync::Arc;

use agentanycast_proto::v1;
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub use self::resending_stream::{ResendingStream, stream_whole};
use crate::{ErrorKind, GatewayError};

mod resending_stream;

/// A node that agents can be attached to.
#[async_trait]
pub trait Agents: Send + Sync {
    /// The same node; agents that are attached to it by this have this access, until its owner says otherwise.
    fn with_access(&self, access: v1::AgentAccess) -> Arc<dyn Agents>;

    /// Attaches an agent of this name with this card: 1 to 64 of `a-z`, `0-9`, `.`, `_` and `-`, with a letter or digit first;
    /// an empty name is made of the card's. It stays registered when it is detached. `program` is what serves it, for people.
    async fn attach(
        &self,
        name: &str,
        card: v1::AgentCard,
        program: Option<v1::AgentProgram>,
    ) -> Result<Arc<dyn AgentPort>, GatewayError>;

    /// The same of an agent that may have been attached before and whose skills are not all known yet: those of its last card
    /// stay beside those of this one until [`AgentPort::set_card`].
    async fn attach_again(
        &self,
        name: &str,
        card: v1::AgentCard,
        program: Option<v1::AgentProgram>,
    ) -> Result<Arc<dyn AgentPort>, GatewayError> {
        self.attach(name, card, program).await
    }

    /// Removes an agent that is detached, with its card: its tasks that have not ended fail.
    async fn forget(&self, name: &str) -> Result<(), GatewayError>;
}

/// An agent that is attached. Dropping it detaches it.
#[async_trait]
pub trait AgentPort: Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// Its next task, which no other agent has; `None`: it is detached. A task is claimed only when it is asked for here:
    /// what waits is not claimed. Dropping the future loses nothing; the next call gets the task that it would have got.
    async fn next(&self) -> Option<Box<dyn AgentTask>>;

    /// Takes up a task that an earlier process of this agent claimed by [`AgentTask::claim`] and did not end. `None`: there
    /// is nothing to resume, since the task has ended, is unknown, waits to be handed out, or another process has it.
    async fn resume(&self, id: &str) -> Result<Option<Box<dyn AgentTask>>, GatewayError>;

    /// The ids of tasks that it works on: of an agent that has just been attached, those that an earlier process of it claimed and
    /// did not end, to be taken up by [`AgentPort::resume`].
    async fn unfinished(&self) -> Result<Vec<String>, GatewayError>;

    /// Sets its card anew, as skills come and go.
    async fn set_card(&self, card: v1::AgentCard) -> Result<(), GatewayError>;

    /// Takes no more tasks. Those that it has go on.
    fn detach(&self);
}

/// A task that an agent has. One that is dropped before it has ended fails, unless it was left.
#[async_trait]
pub trait AgentTask: Send + Sync {
    /// The task as it came.
    fn task(&self) -> &v1::Task;

    /// Cancelled when the task has ended without the agent: its sender has canceled it, for one.
    fn cancelled(&self) -> CancellationToken;

    /// Claims it for good, and returns when the claim is durable: from then on it is never handed out as new again, but
    /// waits for [`AgentPort::resume`] for the daemon's `agent_grace` if this process ends. For a task whose work must not
    /// be done twice. A task that another agent has, or that has ended, is a [`Conflict`](crate::ErrorKind::Conflict).
    async fn claim(&self) -> Result<(), GatewayError>;

    /// Lets go of it: it is not failed when it is dropped. If it was claimed for good or reported on, it waits for
    /// [`AgentPort::resume`]; else it is handed out again when this process ends.
    fn leave(&self);

    /// Gives it back, which was claimed and of which nothing was said, since it cannot be done now: another program of the agent gets
    /// it, or it waits. An error: it stays the agent's, as with a daemon that does not know this.
    async fn give_back(&self) -> Result<(), GatewayError> {
        let text = "tasks cannot be given back here";
        Err(GatewayError::new(ErrorKind::Unsupported, text))
    }

    /// Says that it works on it, and how far it is.
    async fn working(&self, message: v1::Message) -> Result<(), GatewayError>;

    /// Asks the sender for something, and waits for the answer. A task that ends meanwhile is a
    /// [`Conflict`](crate::ErrorKind::Conflict).
    async fn ask(&self, question: v1::Message) -> Result<v1::Message, GatewayError>;

    /// Begins a result that is sent piece by piece.
    async fn stream(&self, name: &str, media_type: &str) -> Result<Box<dyn ArtifactSink>, GatewayError>;

    /// Ends it with these results, besides those that were streamed, and a last message.
    async fn complete(
        &self,
        artifacts: Vec<v1::Artifact>,
        message: Option<v1::Message>,
    ) -> Result<(), GatewayError>;

    /// Ends it as failed, for this reason.
    async fn fail(&self, reason: &str) -> Result<(), GatewayError>;
}

/// A result that is sent piece by piece. One that is dropped before it was finished is broken off.
#[async_trait]
pub trait ArtifactSink: Send {
    /// Sends bytes; waits while the reader is behind. [`ErrorKind::Unavailable`]: the daemon
    /// went away, and nobody has what was sent before; see [`ResendingStream`].
    async fn write(&mut self, bytes: &[u8]) -> Result<(), GatewayError>;

    /// Ends it as whole; the other side has it all when this returns.
    async fn finish(self: Box<Self>) -> Result<(), GatewayError>;
}

/// A message as the agent's own. It has an id before it is sent, so that it is known again when it comes back in its task.
#[must_use]
pub fn own_message(mut message: v1::Message) -> v1::Message {
    message.set_role(v1::MessageRole::Agent);
    if message.message_id.is_empty() {
        message.message_id = Uuid::new_v4().to_string();
    }
    message
}

/// The text by which a task fails that its agent has dropped.
pub const DROPPED: &str = "the agent gave the task up";
