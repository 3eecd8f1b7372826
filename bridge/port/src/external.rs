//! The other half of the port: tasks of the node's own agents that go to agents outside, which a gateway carries
//! there. The node keeps them and what was said of them; the gateway keeps nothing that must survive it.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use agentanycast_proto::v1::{Artifact, ExternalAction, ExternalFailure, Message, Task, TaskStatus};
use async_trait::async_trait;

use super::GatewayError;

/// The labels of a trace (W3C Trace Context): they change on the way, so of a sealed task they go beside its boxes.
pub const TRACE_LABELS: [&str; 2] = ["traceparent", "tracestate"];

/// A task that is to be carried to an agent outside.
#[derive(Clone, Debug)]
pub struct ExternalTask {
    /// Where the agent is.
    pub url: String,
    /// It may be on the node's host, or on a private network.
    pub allow_private: bool,
    /// The task as the node has it. What was sent by the node's agent has the role of the user.
    pub task: Task,
    /// The note that was left with the last report; empty at first.
    pub checkpoint: Vec<u8>,
    /// The ids of its artifacts of which more may come.
    pub growing: BTreeSet<String>,
    /// Whether a report has said that nothing is left to be said to the agent.
    pub settled: bool,
    /// How it is kept from those who carry it; `None`: they may read and change it.
    pub seal: Option<Arc<dyn TaskSeal>>,
}

/// The boxes of one task: what its messages and results are, but for the two nodes between which it goes.
pub trait TaskSeal: fmt::Debug + Send + Sync {
    /// The message as it leaves. `first`: it begins the task, whose labels go in the box too.
    ///
    /// # Errors
    /// Why not, for people.
    fn seal(&self, message: &Message, first: bool) -> Result<Message, String>;

    /// What the agent has said; `None`: that is not sealed.
    ///
    /// # Errors
    /// Why what is sealed there is none of its answers to this task, for people.
    fn open(&self, message: &Message) -> Result<Option<UnsealedAnswer>, String>;

    /// What came out.
    ///
    /// # Errors
    /// The same, also of what is not sealed.
    fn open_artifact(&self, artifact: &Artifact) -> Result<Artifact, String>;
}

/// What an agent has said, out of its box.
#[derive(Clone, Debug, PartialEq)]
pub struct UnsealedAnswer {
    /// Without parts when it has only said in which state the task is.
    pub message: Message,
    /// The state that it came with.
    pub status: TaskStatus,
    /// With COMPLETED, the ids of all results.
    pub results: Vec<String>,
}

/// What a gateway has heard of an errand. It is kept whole, or not at all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeliveryReport {
    /// How far the gateway has got, for itself, 8 KiB at most; `None`: as before.
    pub checkpoint: Option<Vec<u8>>,
    /// What came out: results that are new or have grown.
    pub artifacts: Vec<Artifact>,
    /// The ids of those of which more may come; the others are complete. When the task is COMPLETED, all are.
    pub growing: BTreeSet<String>,
    /// The states that the task went through, each with what came with it.
    pub changes: Vec<(TaskStatus, Option<Message>)>,
    /// Nothing is left to be said to the agent.
    pub settled: bool,
    /// What was done since the last report, oldest first: for whoever asks how the errand goes.
    pub events: Vec<DeliveryEvent>,
}

/// Something that was done to run an errand, just now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryEvent {
    /// What.
    pub action: ExternalAction,
    /// Whom it was about: the agent's interface, or before that is known where the errand leads. Without secrets.
    pub url: String,
    /// How that is spoken to; empty before it is known.
    pub binding: String,
    /// Where the card is, the agent's id of the task, or why it failed.
    pub detail: String,
    /// What kind of failure, if it is one.
    pub failure: ExternalFailure,
    /// After how long it is tried again, if it is.
    pub retry_in: Option<Duration>,
}

impl DeliveryReport {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A node that has errands to be run. For one gateway at a time.
#[async_trait]
pub trait ExternalTasks: Send + Sync {
    /// The id of an errand that has begun or that something has come to: a message, a cancel, its deadline. After a
    /// start, each that is not settled. Nothing is lost when it is dropped.
    async fn next(&self) -> String;

    /// An errand as it stands; `None`: there is none, or none any more.
    async fn get(&self, id: &str) -> Result<Option<ExternalTask>, GatewayError>;

    /// Keeps what was heard, durably when this returns. An errand that has ended takes only `place`,
    /// `settled` and `events`.
    async fn report(&self, id: &str, report: DeliveryReport) -> Result<(), GatewayError>;
}
