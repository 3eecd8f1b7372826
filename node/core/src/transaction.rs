//! The running transaction: one batch for the store and the effects that may be let out once that batch is durable.
//!
//! Every part of the engine is given the transaction by reference and adds to it. It also holds what is the same for
//! all parts: this node's id, the store for reading, the clock for what is kept, the generator of ids. The other types
//! here are what goes into the engine and comes out of it: the time, the limits, effects, and why a call is refused.

use std::{sync::Arc, time::Duration};

use agentanycast_daemon_kit::spans::Span;
use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{
    AckPayload, AgentCard, Message, MessageRole, Part, StreamStart, TextPart, a2a_envelope::Payload,
    part::Content,
};
use agentanycast_store::{Batch, Store, StoreError, error_latch::ErrorLatch};
use bytes::Bytes;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::{clock::Now, durable_clock::DurableClock, wire};
use crate::{
    policy::audit::log_line::AuditEntry,
    task::{NetworkPath, Output, Status, Task, TransitionError},
};

/// An open SubscribeIncomingTasks stream.
pub(crate) type ListenerId = u64;

/// To which of an agent's listeners a task goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliverMode {
    /// To one at a time.
    One,
    /// To all of them.
    All,
}

/// How the tasks of an agent are handed to its listeners.
#[derive(Clone, Debug)]
pub struct HandOverLimits {
    /// To which of them.
    pub deliver: DeliverMode,
    /// With [`DeliverMode::One`]: how long a task stays with a listener that does not take it off its stream.
    pub timeout: Duration,
    /// With [`DeliverMode::One`]: how long a task stays with a listener that has read it and not claimed it, and that claims
    /// its tasks; None: as long as it listens.
    pub claim_within: Option<Duration>,
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
    /// Most agents of this node.
    pub max_agents: usize,
    /// The name on the node's card where it has several agents; None: that of the primary agent.
    pub node_name: Option<String>,
    /// How long an agent that came by a card is known without listening.
    pub agent_forget: Duration,
    /// A task fails when so many agents have ended while they had it; 0: never.
    pub max_agent_ends: u32,
    /// How the tasks of an agent are handed to its listeners.
    pub hand_over: HandOverLimits,
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
pub(crate) enum Effect {
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
    /// The card of this node is another.
    NodeCard(Option<Arc<AgentCard>>),
    /// What this peer may see of this node's agents is another than before.
    PeerCard(PeerId),
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
        /// Artifacts that its peer was sending. They end here, also those that no piece came of since a start.
        incoming: Vec<String>,
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

/// The running transaction.
pub(crate) struct Transaction {
    me: PeerId,
    store: Arc<ErrorLatch>,
    clock: DurableClock,
    rng: StdRng,
    batch: Batch,
    effects: Vec<Effect>,
    early: Vec<Effect>,
    /// See [`Transaction::time`].
    time: Now,
    /// What the frame that is looked at came over, where that is known.
    inbound_path: Option<NetworkPath>,
    /// Transactions with a batch that were finished.
    finished: u64,
    /// The first so many of them are durable.
    durable: u64,
    /// The last transaction whose deliveries to agents wait until it is durable.
    last_late: u64,
}

/// What a transaction came to.
#[derive(Debug, Default)]
pub(crate) struct FinishedTransaction {
    /// To be written, then made durable.
    pub batch: Batch,
    /// To be let out after that.
    pub effects: Vec<Effect>,
    /// To be let out at once: it promises nothing.
    pub early: Vec<Effect>,
}

impl Transaction {
    /// The first transaction of a run. `seed` feeds ids and epochs: random in a daemon, fixed in a simulation.
    pub(crate) fn new(me: PeerId, store: Arc<dyn Store>, now: Now, seed: u64) -> Result<Self, StoreError> {
        let store = Arc::new(ErrorLatch::new(store));
        Ok(Self {
            me,
            clock: DurableClock::load(&*store, now)?,
            store,
            rng: StdRng::seed_from_u64(seed),
            batch: Batch::default(),
            effects: Vec::new(),
            early: Vec::new(),
            time: now,
            inbound_path: None,
            finished: 0,
            durable: 0,
            last_late: 0,
        })
    }

    /// This node.
    pub(crate) fn me(&self) -> PeerId {
        self.me
    }

    /// The store, for reading: it does not have yet what the batch holds.
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// The same store, to be kept.
    pub(crate) fn shared_store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as Arc<dyn Store>
    }

    /// An error when reading the store has failed since the last call.
    pub(crate) fn take_store_failure(&self) -> Result<(), StoreError> {
        self.store.take_failure().map_or(Ok(()), Err)
    }

    /// What will be written.
    pub(crate) fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    /// The store and the batch, to write while reading.
    pub(crate) fn store_and_batch(&mut self) -> (&dyn Store, &mut Batch) {
        (&*self.store, &mut self.batch)
    }

    /// Number of changes so far.
    pub(crate) fn changes(&self) -> usize {
        self.batch.changes.len()
    }

    /// Lets something out once the batch is durable.
    pub(crate) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Lets something out at once, whether the batch becomes durable or not.
    pub(crate) fn early_effect(&mut self, effect: Effect) {
        self.early.push(effect);
    }

    /// Lets a task's delivery to an agent out: at once if the task is new to agents, unless an earlier delivery still
    /// waits for its batch, since what was handed over before goes first.
    ///
    /// A new task need not wait: an agent that acts on it makes calls whose answers wait for what came before. A crash in
    /// between loses a task of which nobody was told that it is here; its sender has no answer, and sends it again.
    pub(crate) fn deliver(&mut self, is_new: bool, delivery: Effect) {
        if is_new && self.last_late <= self.durable {
            self.early.push(delivery);
        } else {
            self.last_late = self.commit();
            self.effects.push(delivery);
        }
    }

    /// Number of effects so far.
    #[cfg(test)]
    pub(crate) fn pending_effects(&self) -> usize {
        self.effects.len()
    }

    /// The effects so far. What the batch holds must be durable before they are let out.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// What may be let out at once.
    pub(crate) fn take_early(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.early)
    }

    /// The last inputs of the transaction end at this time: what is written from now on bears it.
    pub(crate) fn set_time(&mut self, now: Now) {
        self.time = now;
    }

    /// The time of the transaction: when it is finished, and before that when the one before it was.
    pub(crate) fn time(&self) -> Now {
        self.time
    }

    /// The next frame came over this path.
    pub(crate) fn set_inbound_path(&mut self, path: NetworkPath) {
        self.inbound_path = Some(path);
    }

    /// What the frame that is looked at came over, where that is known.
    pub(crate) fn inbound_path(&self) -> Option<NetworkPath> {
        self.inbound_path
    }

    /// Ends the transaction and begins the next one. One batch has to be submitted for each that is not empty, in order.
    pub(crate) fn finish(&mut self) -> FinishedTransaction {
        if !self.batch.is_empty() {
            self.finished += 1;
        }
        FinishedTransaction {
            batch: std::mem::take(&mut self.batch),
            effects: self.take_effects(),
            early: self.take_early(),
        }
    }

    /// The number that the batch of this transaction will have.
    pub(crate) fn commit(&self) -> u64 {
        self.finished + 1
    }

    /// The first so many batches are durable.
    pub(crate) fn durable(&self) -> u64 {
        self.durable
    }

    /// The first `batches` batches are durable from now on.
    pub(crate) fn set_durable(&mut self, batches: u64) {
        self.durable = batches;
    }

    /// The time by which things are kept, in milliseconds: see [`DurableClock`].
    pub(crate) fn clock_ms(&self, now: Now) -> u64 {
        self.clock.now_ms(now)
    }

    /// Writes that clock down now and then.
    pub(crate) fn save_clock(&mut self, now: Now) {
        self.clock.save(now, &mut self.batch);
    }

    /// The generator of everything random.
    pub(crate) fn rng(&mut self) -> &mut StdRng {
        &mut self.rng
    }

    /// A new id of a task, message or envelope.
    pub(crate) fn new_id(&mut self) -> String {
        uuid::Builder::from_random_bytes(self.rng.random())
            .into_uuid()
            .to_string()
    }

    /// A random number that is not 0.
    pub(crate) fn new_epoch(&mut self) -> u64 {
        self.rng.random_range(1..=u64::MAX)
    }

    /// A message of the node itself: why it ended a task.
    pub(crate) fn node_message(&mut self, now: Now, text: impl Into<String>) -> Message {
        Message {
            message_id: self.new_id(),
            role: MessageRole::Agent as i32,
            parts: vec![Part {
                content: Some(Content::TextPart(TextPart { text: text.into() })),
                ..Part::default()
            }],
            created_at: Some(wire::timestamp(now.unix)),
        }
    }

    /// Fills in what a message of an agent may leave out.
    pub(crate) fn complete_message(&mut self, now: Now, message: &mut Message, role: MessageRole) {
        if message.message_id.is_empty() {
            message.message_id = self.new_id();
        }
        if message.role == MessageRole::Unspecified as i32 {
            message.role = role as i32;
        }
        message
            .created_at
            .get_or_insert_with(|| wire::timestamp(now.unix));
    }
}

/// Why a call was refused; each kind is one gRPC status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The caller's mistake, or more than a task ever takes: the same again is refused again.
    #[error("{0}")]
    Invalid(String),
    /// No such task.
    #[error("no task {0}")]
    NotFound(String),
    /// No such agent on this node.
    #[error("{0}")]
    NotRegistered(String),
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
