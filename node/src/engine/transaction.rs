//! What goes into the core and comes out of it: the time, the limits, a turn's batch and effects,
//! and why a call is refused.

use std::{sync::Arc, time::Duration};

use agentanycast_daemon_kit::spans::Span;
use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{AckPayload, AgentCard, Message, StreamStart, a2a_envelope::Payload};
use agentanycast_store::{Batch, StoreError};
use bytes::Bytes;

use super::dispatcher::ListenerId;
use crate::{
    policy::audit::log_line::AuditEntry,
    task::{Output, Status, Task, TransitionError},
};

/// When something happens: a monotonic clock for waiting, the calendar for what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Time since any fixed moment of this run.
    pub mono: Duration,
    /// Unix time in milliseconds.
    pub unix: u64,
}

/// What the operator may set.
#[derive(Clone, Debug)]
pub struct EngineLimits {
    /// Waits before an un-acknowledged envelope is sent again.
    pub retry_delays: Vec<Duration>,
    /// How long an envelope waits for its peer; None = for ever.
    pub offline_ttl: Option<Duration>,
    /// How long a claimed task survives without any agent attached.
    pub agent_grace: Duration,
    /// A task fails when so many agents have ended while they had it; 0: never.
    pub max_agent_ends: u32,
    /// How long agents may have a task; None: for ever.
    pub max_task_time: Option<Duration>,
    /// How long a terminal task is kept.
    pub retention: Duration,
    /// How many terminal tasks are kept.
    pub retention_count: usize,
    /// Bytes of messages and results kept.
    pub quota: u64,
    /// Most tasks that have not ended.
    pub max_open_tasks: usize,
    /// Largest streamed artifact that becomes part of its task, in bytes.
    pub max_artifact_bytes: u64,
    /// Share of the traces that begin here that are recorded, 0 to 1; None: this node takes no part in traces.
    pub trace_share: Option<f64>,
}

/// What has to happen once the turn's batch is durable, in order.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Open envelope stream number `stream` to the peer and report it.
    OpenStream {
        /// To whom.
        peer: PeerId,
        /// Its number, never used before.
        stream: u64,
    },
    /// Write an envelope on that stream; drop it if the stream is gone.
    Send {
        /// To whom.
        peer: PeerId,
        /// On which stream.
        stream: u64,
        /// The encoded envelope.
        frame: Bytes,
    },
    /// Write an acknowledgement on whatever stream to the peer is open, or opens next.
    Ack {
        /// To whom.
        peer: PeerId,
        /// The encoded envelope.
        frame: Bytes,
    },
    /// Keep trying to reach the peer, or stop it.
    Wanted {
        /// Whom.
        peer: PeerId,
        /// Whether something waits for it.
        wanted: bool,
    },
    /// A task changed: tell its subscribers.
    Changed(Arc<TaskChange>),
    /// A task with open notes, or its notes, changed: tell whoever looks after them.
    NotesChanged {
        /// Which task.
        task_id: String,
    },
    /// Hand a task to a listener.
    Incoming {
        /// To whom.
        listener: ListenerId,
        /// The task as it is now.
        task: Arc<Task>,
        /// The card of its originator, if it is known.
        sender_card: Option<Arc<AgentCard>>,
        /// Unix milliseconds: since then it is this listener's alone, as long as that listens.
        exclusive_since: Option<u64>,
    },
    /// A peer opened the stream of an artifact; it was accepted.
    StreamAccepted {
        /// Who sends it.
        peer: PeerId,
        /// Its opening.
        start: StreamStart,
        /// The envelope to acknowledge.
        envelope_id: String,
    },
    /// A piece, or the end, of an artifact's stream: to whoever receives that artifact.
    StreamPiece {
        /// Who sends it.
        peer: PeerId,
        /// The envelope to acknowledge.
        envelope_id: String,
        /// The piece.
        payload: Box<Payload>,
    },
    /// An acknowledgement that no queue waits for: of an artifact's stream, if of anything.
    StreamAck {
        /// Who acknowledges.
        peer: PeerId,
        /// What it says.
        ack: AckPayload,
    },
    /// A new task was let in, or not: to be written down.
    Audit(Box<AuditEntry>),
    /// Something became of a task that was sent by skill: how its peer is doing.
    Routed(RouteOutcome),
    /// A piece of work is over, to be told to whoever collects traces.
    Traced(Box<Span>),
    /// A gateway has something to do for a task that is with an agent beyond this network.
    External {
        /// Which task.
        task_id: String,
    },
    /// The task ended: streams of its artifacts stop.
    StopStreams {
        /// Which task.
        task_id: String,
    },
    /// The task is no more: its artifact files can go.
    Forget {
        /// Which task.
        task_id: String,
    },
}

/// What became of tasks that were sent by skill: by this their next ones are routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteOutcome {
    /// A task is the peer's to take.
    Assigned(PeerId),
    /// The peer acknowledged a task.
    Accepted {
        /// Who.
        peer: PeerId,
        /// How long after it was given; None: not known, it was before a restart.
        after: Option<Duration>,
    },
    /// The peer did not acknowledge a task in time.
    TimedOut(PeerId),
    /// The peer refused a task.
    Refused(PeerId),
    /// A task is no longer with the peer: it ended, or went to another one.
    Left(PeerId),
}

/// Told what becomes of tasks that are sent by skill; returns at once.
pub type OnRoute = Arc<dyn Fn(RouteOutcome) + Send + Sync>;

/// Told of the card of a peer, encoded, as it came; returns at once whether the core will be told what is proven by it.
pub type OnCard = Arc<dyn Fn(PeerId, &[u8]) -> bool + Send + Sync>;

/// Told that something of a peer could be decided otherwise when more is known of it; returns at once. The core is told
/// what is proven of it.
pub type OnIdentityNeeded = Arc<dyn Fn(PeerId) + Send + Sync>;

/// A change of a task, as its subscribers see it.
#[derive(Clone, Debug)]
pub struct TaskChange {
    /// Which task.
    pub task_id: String,
    /// Its state now.
    pub status: Status,
    /// What came with it.
    pub message: Option<Arc<Message>>,
    /// Results: the new ones, or all of them when the task has ended.
    pub results: Vec<Arc<Output>>,
}

impl TaskChange {
    /// The task as it stands, as if all of it had just changed.
    pub fn from_task(task: Task) -> Self {
        Self {
            task_id: task.id,
            status: task.status,
            message: task.status_message,
            results: task.results,
        }
    }
}

/// What came of one input.
#[derive(Debug, Default)]
pub struct Transaction {
    /// To be written, then made durable.
    pub batch: Batch,
    /// To be let out after that.
    pub effects: Vec<Effect>,
    /// To be let out at once: it promises nothing.
    pub early: Vec<Effect>,
}

/// Why a call was refused; each kind is one gRPC status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The caller's mistake, or more than a task ever takes: the same again is refused again.
    #[error("{0}")]
    Invalid(String),
    /// No such task.
    #[error("no task {0}")]
    NotFound(String),
    /// Not in this state.
    #[error("{0}")]
    Precondition(String),
    /// Not this side.
    #[error("{0}")]
    Denied(String),
    /// A bound is reached.
    #[error("{0}")]
    Exhausted(String),
    /// Nothing was done, and a restart or another try may help.
    #[error("{0}")]
    Unavailable(String),
    /// The store failed, or what it has is damaged: nothing was done, and waiting does not help.
    #[error("{0}")]
    Store(String),
}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.to_string())
    }
}

impl From<TransitionError> for EngineError {
    fn from(refused: TransitionError) -> Self {
        match refused {
            // A task is never emptied.
            TransitionError::LimitReached { .. } => Self::Invalid(refused.to_string()),
            _ => Self::Precondition(refused.to_string()),
        }
    }
}
