//! A task: its states, who may do what to it, and what each side has to send for it.
//!
//! Pure: no I/O, no clock (`now` is an argument), no randomness. The engine keeps tasks, commits
//! them, and lets out what this file decides. States and transitions are those of the wire
//! contract (docs/protocol.md, "Tasks"); terminal states never change.

mod delivery_log;
mod timeline;

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    sync::Arc,
};

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{Artifact, Message, MessageRole, TaskStatus};

pub use self::{
    delivery_log::DeliveryLog,
    timeline::{NetworkPath, SentMark, TaskTimeline},
};

/// What the reason of a task begins with that its assignee knows no more; the assignee's own reason follows.
pub const LOST_BY_ASSIGNEE: &str = "lost by the assignee: ";

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// Handed over; nobody works on it yet.
    Submitted,
    /// An agent works on it.
    Working,
    /// The agent waits for a further message of the originator.
    InputRequired,
    /// Done, with its results.
    Completed,
    /// Ended by an error.
    Failed,
    /// Ended by one of the two sides.
    Canceled,
    /// Never accepted.
    Rejected,
}

impl Status {
    /// Every state, for tables and tests.
    pub const ALL: [Self; 7] = [
        Self::Submitted,
        Self::Working,
        Self::InputRequired,
        Self::Completed,
        Self::Failed,
        Self::Canceled,
        Self::Rejected,
    ];

    /// True when nothing can change any more.
    pub fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Failed | Self::Canceled | Self::Rejected
        )
    }

    /// True when a peer may be told `next` right after `self`. WORKING after WORKING is progress.
    pub fn may_become(self, next: Self) -> bool {
        use Status::{Canceled, Completed, Failed, InputRequired, Rejected, Submitted, Working};
        match self {
            Submitted => matches!(next, Working | Rejected | Canceled),
            Working => matches!(next, Working | Completed | Failed | Canceled | InputRequired),
            InputRequired => matches!(next, Working | Canceled),
            Completed | Failed | Canceled | Rejected => false,
        }
    }

    /// The states to pass through from `self` to `next`, `next` last: one step where the table has
    /// it, or WORKING first (an agent that completes a SUBMITTED task at once). None: forbidden.
    pub fn steps_to(self, next: Self) -> Option<&'static [Self]> {
        use Status::{Canceled, Completed, Failed, InputRequired, Rejected, Submitted, Working};
        if self.may_become(next) {
            return Some(match next {
                Submitted => &[Submitted],
                Working => &[Working],
                InputRequired => &[InputRequired],
                Completed => &[Completed],
                Failed => &[Failed],
                Canceled => &[Canceled],
                Rejected => &[Rejected],
            });
        }
        if !self.may_become(Working) || !Working.may_become(next) {
            return None;
        }
        match next {
            Completed => Some(&[Working, Completed]),
            Failed => Some(&[Working, Failed]),
            InputRequired if self == Submitted => Some(&[Working, InputRequired]),
            _ => None,
        }
    }

    /// The wire's number for it.
    pub fn to_wire(self) -> TaskStatus {
        match self {
            Self::Submitted => TaskStatus::Submitted,
            Self::Working => TaskStatus::Working,
            Self::InputRequired => TaskStatus::InputRequired,
            Self::Completed => TaskStatus::Completed,
            Self::Failed => TaskStatus::Failed,
            Self::Canceled => TaskStatus::Canceled,
            Self::Rejected => TaskStatus::Rejected,
        }
    }

    /// Reads the wire's number; None for UNSPECIFIED and numbers of the future.
    pub fn from_wire(number: i32) -> Option<Self> {
        Some(match TaskStatus::try_from(number).ok()? {
            TaskStatus::Unspecified => return None,
            TaskStatus::Submitted => Self::Submitted,
            TaskStatus::Working => Self::Working,
            TaskStatus::InputRequired => Self::InputRequired,
            TaskStatus::Completed => Self::Completed,
            TaskStatus::Failed => Self::Failed,
            TaskStatus::Canceled => Self::Canceled,
            TaskStatus::Rejected => Self::Rejected,
        })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Submitted => "SUBMITTED",
            Self::Working => "WORKING",
            Self::InputRequired => "INPUT_REQUIRED",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Canceled => "CANCELED",
            Self::Rejected => "REJECTED",
        })
    }
}

/// What this node is in a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// It sent the task to this peer.
    Originator(PeerId),
    /// It got the task from this peer.
    Assignee(PeerId),
    /// Both: the local agent sent the task to itself.
    Both,
    /// It sent the task to an agent beyond this network; a gateway of this node carries it there ([`ExternalDelivery`]).
    External,
}

impl Role {
    /// True when the local agent works on the task.
    pub fn is_assignee(self) -> bool {
        !matches!(self, Self::Originator(_) | Self::External)
    }

    /// The other side, if it is another node.
    pub fn peer(self) -> Option<PeerId> {
        match self {
            Self::Originator(peer) | Self::Assignee(peer) => Some(peer),
            Self::Both | Self::External => None,
        }
    }
}

/// One result of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Kept with the task.
    Whole(Artifact),
    /// Kept as a file of chunks, assembled when it is read.
    Streamed(Streamed),
}

/// An artifact that came, or goes, as a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Streamed {
    /// The artifact's id, unique in its task.
    pub artifact_id: String,
    /// Its name.
    pub name: String,
    /// Its media type; may be empty.
    pub media_type: String,
    /// Content bytes, once it has ended.
    pub bytes: u64,
    /// How it ended; None while it runs.
    pub outcome: Option<StreamOutcome>,
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamOutcome {
    /// All of it is there.
    Complete,
    /// Ended by one of the two sides.
    Canceled,
    /// Broke off.
    Error,
}

impl Output {
    /// Content bytes that are kept as a file.
    pub fn streamed_bytes(&self) -> u64 {
        match self {
            Self::Streamed(streamed) => streamed.bytes,
            Self::Whole(_) => 0,
        }
    }

    /// The artifact's id.
    pub fn id(&self) -> &str {
        match self {
            Self::Whole(artifact) => &artifact.artifact_id,
            Self::Streamed(streamed) => &streamed.artifact_id,
        }
    }
}

/// Of a task whose trace is recorded. This node's own context is in the task's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecording {
    /// The span that this node's is part of; 0: the trace began here.
    pub parent: u64,
}

/// A task as this node knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Chosen by the originator, at most [`MAX_ID`] bytes.
    pub id: String,
    /// The conversation it belongs to.
    pub context_id: String,
    /// What this node is in it.
    pub role: Role,
    /// Where it stands.
    pub status: Status,
    /// What came with the status: progress, a question, the reason of the end. Also the last of
    /// `messages`.
    pub status_message: Option<Arc<Message>>,
    /// All messages, oldest first.
    pub messages: Vec<Arc<Message>>,
    /// All results, in the order in which they came.
    pub results: Vec<Arc<Output>>,
    /// The skill it was sent for; may be empty.
    pub skill: String,
    /// What the originator sent along.
    pub metadata: BTreeMap<String, String>,
    /// Unix time in milliseconds.
    pub created_at: u64,
    /// Unix time in milliseconds of the last change.
    pub updated_at: u64,
    /// Unix time in milliseconds at which it fails if it has not ended.
    pub deadline: Option<u64>,
    /// An agent took it: it has reported something since the originator's last message.
    pub claimed: bool,
    /// How many agents ended while they had it, before they reported anything.
    pub agent_ends: u32,
    /// Its agent has begun work that must not be done twice.
    pub begun: bool,
    /// Whose it is, of the agents of its node; None: the primary agent's. Where it was sent: whom it was sent for by name.
    pub agent: Option<Arc<str>>,
    /// Where it may go instead, when its originator sent it by skill.
    pub route: Option<Route>,
    /// Here, but not the agent's before the originator confirms it: until then it may go elsewhere.
    pub held: bool,
    /// Here, but not its agent's before that lists the skill again for which it was sent.
    pub awaits_skill: bool,
    /// It came while its originator knew others who could have it: to be given back, once, if no agent comes for it here.
    pub returnable: bool,
    /// Its trace is recorded here.
    pub traced: Option<TraceRecording>,
    /// Where it is, when it was sent to an agent beyond this network.
    pub external: Option<ExternalDelivery>,
    /// By which a gateway lists it.
    pub group: Option<GroupKey>,
    /// What it says is sealed wherever others carry it.
    pub sealed: Option<SealedOrigin>,
    /// When its originator first knew that the assignee has it, Unix milliseconds. Written with the next change: of
    /// no consequence but for who asks.
    pub arrived_at: Option<u64>,
    /// How it went otherwise.
    pub timeline: TaskTimeline,
}

impl Task {
    /// A task that begins now, Unix milliseconds, with this message. It is for no skill and has nothing but that.
    pub(crate) fn submitted(
        id: String,
        context_id: String,
        role: Role,
        message: impl Into<Arc<Message>>,
        now: u64,
    ) -> Self {
        Self {
            id,
            context_id,
            role,
            status: Status::Submitted,
            status_message: None,
            messages: vec![message.into()],
            results: Vec::new(),
            skill: String::new(),
            metadata: BTreeMap::new(),
            created_at: now,
            updated_at: now,
            deadline: None,
            claimed: false,
            agent_ends: 0,
            begun: false,
            agent: None,
            route: None,
            held: false,
            awaits_skill: false,
            returnable: false,
            traced: None,
            external: None,
            group: None,
            sealed: None,
            arrived_at: None,
            timeline: TaskTimeline::default(),
        }
    }
}

/// What a gateway lists tasks by, in its own terms.
pub type GroupKey = [u8; 16];

/// Between whom a task is sealed (docs/protocol.md, "Boxes"). What a node keeps of it is plain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedOrigin {
    /// The other end: who sealed it, at the assignee; whom it is sealed for, where it was sent.
    pub peer: PeerId,
    /// The id of the task where it was sent.
    pub task: String,
}

/// How a task stands with an agent beyond this network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExternalDelivery {
    /// Where the agent is.
    pub url: String,
    /// It may be on this host, or on a private network.
    pub allow_private: bool,
    /// How far the gateway has got, in its own words: it goes on from there after a restart. At most [`MAX_CHECKPOINT`]
    /// bytes.
    pub checkpoint: Vec<u8>,
    /// Artifacts that were told of before they were complete, by id, and whether they are complete now.
    pub grown: BTreeMap<String, bool>,
    /// Nothing is left to be said to the agent.
    pub settled: bool,
    /// What was done so far.
    pub log: DeliveryLog,
}

/// How an artifact stands that comes in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArtifactGrowth {
    /// More may come.
    Open,
    /// All of it is there.
    Complete,
    /// Its task ended before its agent said that it is complete.
    Unfinished,
}

/// Longest note of a gateway on one task, in bytes: ids and a URL.
pub const MAX_CHECKPOINT: usize = 8 << 10;

/// Longest URL that a task is sent to, in bytes: what servers take.
pub const MAX_URL: usize = 2 << 10;

/// How a task that was sent by skill finds its assignee.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// Who gets it if the assignee does not take it, or gives it back, in this order.
    pub candidates: Vec<PeerId>,
    /// The assignee acknowledged it: it stays there, unless that one gives it back.
    pub taken: bool,
    /// Who had it before, oldest first.
    pub attempts: Vec<Attempt>,
}

/// A peer that did not take a task, or gave it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Who.
    pub peer: PeerId,
    /// Why, for people.
    pub reason: String,
    /// When it was given up, Unix milliseconds; 0: written by a version that did not keep it.
    pub left_at: u64,
    /// The last time that it was sent there.
    pub sent: Option<SentMark>,
}

/// Longest id of a task, context, message or artifact, in bytes: UUIDs take 36, deployed peers use
/// nothing longer.
pub const MAX_ID: usize = 256;

/// Most messages a task keeps, besides the one that ends it. 1 000 progress messages are ordinary;
/// ten times that is a runaway.
pub const MAX_MESSAGES: usize = 10_000;

/// How far back a report is looked for that is made again: more than an agent has under way at once.
const RECENT: usize = 64;

/// Most results of a task.
pub const MAX_RESULTS: usize = 1_000;

/// Why a change was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransitionError {
    /// The state machine forbids it.
    #[error("task {id} is {from} and cannot become {to}")]
    Transition {
        /// The task.
        id: String,
        /// Its state.
        from: Status,
        /// The state asked for.
        to: Status,
    },
    /// A bound of the task is reached.
    #[error("task {id} has {limit} {what}, the most one task may have")]
    LimitReached {
        /// The task.
        id: String,
        /// What there are too many of.
        what: &'static str,
        /// The bound.
        limit: usize,
    },
    /// The task does not wait for a message.
    #[error("task {id} is {status} and takes no further message; only an INPUT_REQUIRED task does")]
    NotWaiting {
        /// The task.
        id: String,
        /// Its state.
        status: Status,
    },
}

impl Task {
    /// Applies what the assignee says: a new status, with a message and results. Returns the
    /// states passed through, the new one last; nothing is changed when it is refused.
    pub fn advance(
        &mut self,
        now: u64,
        next: Status,
        message: Option<Message>,
        results: Vec<Artifact>,
    ) -> Result<&'static [Status], TransitionError> {
        let steps = self.check_advance(next, message.is_some(), &results)?;
        for artifact in results {
            self.put_result(artifact);
        }
        let message = message.map(Arc::new);
        self.messages.extend(message.clone());
        self.status = next;
        self.status_message = message;
        self.updated_at = now;
        Ok(steps)
    }

    /// Whether [`Task::advance`] would be taken, and the states that it passes through.
    pub fn check_advance(
        &self,
        next: Status,
        has_message: bool,
        results: &[Artifact],
    ) -> Result<&'static [Status], TransitionError> {
        let steps = self
            .status
            .steps_to(next)
            .ok_or_else(|| TransitionError::Transition {
                id: self.id.clone(),
                from: self.status,
                to: next,
            })?;
        // The last word always finds room: a full task must still be able to end.
        if has_message && !next.is_terminal() {
            self.room_for_message()?;
        }
        if self.results.len() + self.count_new(results) > MAX_RESULTS {
            return Err(self.limit_reached("artifacts", MAX_RESULTS));
        }
        Ok(steps)
    }

    /// Whether [`Task::answer`] would be taken.
    pub fn check_answer(&self) -> Result<(), TransitionError> {
        if self.status != Status::InputRequired {
            return Err(TransitionError::NotWaiting {
                id: self.id.clone(),
                status: self.status,
            });
        }
        self.room_for_message()
    }

    /// Applies a further message of the originator: an INPUT_REQUIRED task works on.
    pub fn answer(&mut self, now: u64, message: Message) -> Result<(), TransitionError> {
        self.check_answer()?;
        self.messages.push(Arc::new(message));
        self.claimed = false;
        self.status = Status::Working;
        self.status_message = None;
        self.updated_at = now;
        Ok(())
    }

    /// Gives a task that its assignee has not taken to the next candidate, one that `is_there` if there is one; the
    /// new one. None: there is none, or the task is no longer open to that, and nothing is changed.
    pub fn try_next_candidate(
        &mut self,
        now: u64,
        reason: &str,
        is_there: impl Fn(PeerId) -> bool,
    ) -> Option<PeerId> {
        let Role::Originator(first) = self.role else {
            return None;
        };
        let route = self.route.as_mut()?;
        if route.taken || self.status != Status::Submitted || route.candidates.is_empty() {
            return None;
        }
        let there = route.candidates.iter().position(|peer| is_there(*peer));
        let next = route.candidates.remove(there.unwrap_or(0));
        route.attempts.push(Attempt {
            peer: first,
            reason: reason.to_owned(),
            left_at: now,
            sent: self.timeline.sent.take(),
        });
        self.role = Role::Originator(next);
        self.updated_at = now;
        Some(next)
    }

    /// Whether its originator has answered a question of its agent, and the agent has reported nothing since.
    pub fn is_answered(&self) -> bool {
        self.status == Status::Working && !self.claimed && !self.has_no_report()
    }

    /// Whether its agent has said no more than that it works on it, so that another one may begin anew.
    pub fn has_no_report(&self) -> bool {
        matches!(self.status, Status::Submitted | Status::Working)
            && self.messages.len() == 1
            && self.results.is_empty()
    }

    /// The agent that had claimed it gives it back, having done nothing: it is as new.
    pub fn give_back(&mut self, now: u64) {
        (self.claimed, self.begun) = (false, false);
        self.status = Status::Submitted;
        self.timeline.claimed_at = None;
        self.updated_at = now;
    }

    /// Its assignee gives it back: it is open to the next candidate again, if there is one that `is_there`. False: there
    /// is none, or more was said of it than that somebody works on it, and nothing is changed.
    pub fn reopen_route(&mut self, is_there: impl Fn(PeerId) -> bool) -> bool {
        let is_untold = self.has_no_report();
        let Some(route) = &mut self.route else {
            return false;
        };
        if !is_untold || !route.candidates.iter().any(|peer| is_there(*peer)) {
            return false;
        }
        route.taken = false;
        self.status = Status::Submitted;
        self.status_message = None;
        true
    }

    /// Ends the task on a node's own authority (expiry, refusal, an agent that vanished, a cancel).
    /// False when it had ended already.
    pub fn end(&mut self, now: u64, status: Status, reason: Option<Message>) -> bool {
        if self.status.is_terminal() || !status.is_terminal() {
            return false;
        }
        let reason = reason.map(Arc::new);
        self.status = status;
        self.messages.extend(reason.clone());
        self.status_message = reason;
        self.updated_at = now;
        true
    }

    /// Adds the record of a stream, or changes it.
    pub fn put_stream(&mut self, streamed: Streamed) -> Result<(), TransitionError> {
        match self.position(&streamed.artifact_id) {
            Some(at) => self.results[at] = Arc::new(Output::Streamed(streamed)),
            None if self.results.len() >= MAX_RESULTS => {
                return Err(self.limit_reached("artifacts", MAX_RESULTS));
            }
            None => self.results.push(Arc::new(Output::Streamed(streamed))),
        }
        Ok(())
    }

    /// How an artifact of an agent beyond this network stands that has come, or comes, in pieces. None: it came at once.
    pub fn growth(&self, artifact_id: &str) -> Option<ArtifactGrowth> {
        let is_whole = *self.external.as_ref()?.grown.get(artifact_id)?;
        Some(match self.status {
            _ if is_whole => ArtifactGrowth::Complete,
            Status::Completed => ArtifactGrowth::Complete,
            status if status.is_terminal() => ArtifactGrowth::Unfinished,
            _ => ArtifactGrowth::Open,
        })
    }

    /// The record of a stream.
    pub fn stream(&self, artifact_id: &str) -> Option<&Streamed> {
        self.results.iter().find_map(|result| match &**result {
            Output::Streamed(streamed) if streamed.artifact_id == artifact_id => Some(streamed),
            _ => None,
        })
    }

    /// The streams that have not ended.
    pub fn open_streams(&self) -> impl Iterator<Item = &Streamed> {
        self.results.iter().filter_map(|result| match &**result {
            Output::Streamed(streamed) if streamed.outcome.is_none() => Some(streamed),
            _ => None,
        })
    }

    /// True when a message with this id is part of the task.
    pub fn has_message_id(&self, message_id: &str) -> bool {
        !message_id.is_empty() && self.messages.iter().any(|known| known.message_id == message_id)
    }

    /// True when this message, with its id and what it says, is part of the task.
    pub fn has_message(&self, message: &Message) -> bool {
        !message.message_id.is_empty()
            && self
                .messages
                .iter()
                .any(|known| known.message_id == message.message_id && known.parts == message.parts)
    }

    /// True when the agent has said this already, with the same id, among the last `RECENT` messages: a report
    /// that it makes again because the answer was lost.
    pub fn has_reported(&self, message: &Message) -> bool {
        !message.message_id.is_empty()
            && message.role != MessageRole::User as i32
            && self.messages.iter().rev().take(RECENT).any(|known| {
                known.message_id == message.message_id
                    && known.role == MessageRole::Agent as i32
                    && known.parts == message.parts
            })
    }

    fn position(&self, artifact_id: &str) -> Option<usize> {
        if artifact_id.is_empty() {
            return None; // Nameless results are each their own.
        }
        self.results.iter().position(|known| known.id() == artifact_id)
    }

    /// How many of `results` the task does not have yet, each id counted once.
    fn count_new(&self, results: &[Artifact]) -> usize {
        let (nameless, named): (Vec<_>, Vec<_>) = results
            .iter()
            .map(|result| result.artifact_id.as_str())
            .partition(|id| id.is_empty());
        let unknown = named.into_iter().filter(|id| self.position(id).is_none());
        nameless.len() + unknown.collect::<HashSet<_>>().len()
    }

    fn put_result(&mut self, artifact: Artifact) {
        match self.position(&artifact.artifact_id) {
            Some(at) => self.results[at] = Arc::new(Output::Whole(artifact)),
            None => self.results.push(Arc::new(Output::Whole(artifact))),
        }
    }

    fn room_for_message(&self) -> Result<(), TransitionError> {
        if self.messages.len() >= MAX_MESSAGES {
            return Err(self.limit_reached("messages", MAX_MESSAGES));
        }
        Ok(())
    }

    fn limit_reached(&self, what: &'static str, limit: usize) -> TransitionError {
        TransitionError::LimitReached {
            id: self.id.clone(),
            what,
            limit,
        }
    }
}

#[cfg(test)]
mod tests;
