//! What the daemon knows of the way of one task.

use std::time::{Duration, SystemTime};

use agentanycast_proto::v1;

use super::{Node, activity::Refusal, peers::PathKind};
use crate::{
    error::Error,
    message::{Role, to_system_time},
    peer_id::PeerId,
    target::Target,
    task::Task,
};

/// The way of a task, as the daemon knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The daemon that says so.
    pub node: Option<PeerId>,
    /// Its clock.
    pub now: Option<SystemTime>,
    /// The task without messages and artifacts; `None`: only the audit log or a refusal knows it.
    pub task: Option<Task>,
    /// What the daemon is in the task.
    pub side: TaskSide,
    /// When it was first known here that the assignee has it.
    pub arrived_at: Option<SystemTime>,
    /// Beside the task's attempts, in the same order: when each was left.
    pub attempts_left_at: Vec<Option<SystemTime>>,
    /// When it last left for its assignee before that one was known to have it.
    pub sent: Option<SendRecord>,
    /// Beside the task's attempts, in the same order: when it was last sent to each.
    pub attempts_sent: Vec<Option<SendRecord>>,
    /// What it came over, at the daemon that it was sent to.
    pub came_over: Option<Hop>,
    /// When an agent here was first given it.
    pub given_at: Option<SystemTime>,
    /// When an agent here first took it.
    pub claimed_at: Option<SystemTime>,
    /// How many agents here ended while they had it, before they reported anything of it.
    pub agent_ends: u32,
    /// Who gets it next if the assignee does not take it.
    pub candidates: Vec<PeerId>,
    /// It is not the agent's here before its originator confirms it.
    pub held: bool,
    /// An agent here has taken it.
    pub claimed: bool,
    /// An agent listens for tasks here.
    pub agent_listens: bool,
    /// When it fails if it has not ended.
    pub deadline: Option<SystemTime>,
    /// Where it was sent, if that is an agent beyond the network; else empty.
    pub url: String,
    /// What was done to give it to that agent, in the order of `last_at`: the first step and the last ones.
    pub external_steps: Vec<ExternalStep>,
    /// How many steps between the first and the others are not kept any more.
    pub external_steps_left_out: u32,
    /// What that agent calls the task; empty: it has none, or it is not known yet.
    pub remote_task: String,
    /// The id of a sealed task where it was sealed; empty: it is not sealed.
    pub sealed_task: String,
    /// The other daemon, if there is one.
    pub peer: Option<PeerReach>,
    /// Who that was before it changed its key, the latest first.
    pub peer_before: Vec<FormerKey>,
    /// Envelopes about it that wait here.
    pub queued: Vec<QueuedEnvelope>,
    /// When messages of it came, and from which side; the last ones.
    pub turns: Vec<(Option<SystemTime>, Role)>,
    /// `None`: no audit log is kept.
    pub audit: Option<AuditTrail>,
    /// Of a task that is not there: those that were refused here lately under this id, or sealed under it; the newest first.
    pub refusals: Vec<Refusal>,
    /// Of a task that was sent from here: whom it was sent to. `None`: it was not, or the daemon is too old
    /// to say it.
    pub addressee: Option<TaskAddressee>,
}

/// Whom a task was sent to, as whoever sent it has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskAddressee {
    /// The peer, the skill or the URL.
    pub target: Target,
    /// Of a peer: the skill that was asked of its agent; empty: none.
    pub skill_of_peer: String,
    /// Of a URL: the agent may be on the daemon's host or on a private network.
    pub allow_private: bool,
    /// Of a peer: the agent of its node; empty: none was named.
    pub agent: String,
}

/// What something goes over between two daemons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// How.
    pub via: PathKind,
    /// Through which relay, if it goes through one.
    pub relay: Option<PeerId>,
}

/// A task that has left for another daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendRecord {
    /// When.
    pub at: Option<SystemTime>,
    /// What it went over.
    pub over: Hop,
}

/// Something that was done to give a task to an agent beyond the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalStep {
    /// When; of steps that are alike, the first time.
    pub at: Option<SystemTime>,
    /// The last time.
    pub last_at: Option<SystemTime>,
    /// How often.
    pub count: u32,
    /// What.
    pub action: ExternalAction,
    /// The agent's interface that it was about, or before one is known where the task was sent.
    pub url: String,
    /// How that is spoken to, such as `JSONRPC 1.0`; empty before it is known.
    pub binding: String,
    /// Where the card is, the agent's id of the task, or why it failed.
    pub detail: String,
    /// What kind of failure; `None`: it is none.
    pub failure: Option<ExternalFailure>,
    /// When it was to be tried again; `None`: it was not.
    pub next_at: Option<SystemTime>,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExternalAction {
    /// The agent's card was read, and how it is spoken to was chosen.
    CardRead,
    /// The agent has taken a message.
    Accepted,
    /// A call failed, and by it the agent has taken nothing.
    Failed,
    /// A message was on its way when the connection broke: it is looked for, and not sent again.
    InDoubt,
    /// The agent was told that the task is over.
    Withdrawn,
    /// The task is over here, and the agent could not be told so, or did not take it.
    NotWithdrawn,
    /// The agent answered otherwise than A2A says. What it said counts, as the detail tells.
    ProtocolBreach,
    /// Nothing that this SDK knows.
    Unknown,
}

/// What kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExternalFailure {
    /// Nobody was reached.
    Unreached,
    /// The agent takes nothing now.
    Busy,
    /// The connection broke.
    Broken,
    /// The agent does not know the task.
    TaskGone,
    /// The agent cannot do this.
    Unsupported,
    /// The agent wants to know who calls.
    Unauthorized,
    /// Trying again changes nothing.
    Final,
    /// The agent answered that it does not take it.
    Refused,
    /// Nothing that this SDK knows.
    Unknown,
}

/// A key that a daemon had before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerKey {
    /// Its peer id with that key.
    pub id: PeerId,
    /// When the next key followed.
    pub until: Option<SystemTime>,
}

/// What a daemon is in a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskSide {
    /// It sent the task to another daemon.
    Originator,
    /// Another daemon sent it here.
    Assignee,
    /// Its agent sent the task to itself.
    Both,
    /// It sent the task to an agent beyond the network.
    External,
    /// Not said, or nothing that this SDK knows.
    Unknown,
}

/// How it stands with the way to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerReach {
    /// Who.
    pub id: Option<PeerId>,
    /// Whether it is connected.
    pub connected: bool,
    /// How, if it is.
    pub via: PathKind,
    /// Since when.
    pub connected_at: Option<SystemTime>,
    /// Of the last ping.
    pub round_trip: Option<Duration>,
    /// In use, or known.
    pub addresses: Vec<String>,
    /// Attempts to reach it that failed since the last connection.
    pub failures: u32,
    /// Until the next attempt.
    pub next_attempt_in: Option<Duration>,
    /// Why the last attempt failed; empty if none did.
    pub last_error: String,
    /// The relay that the connection leads through, if it does.
    pub relay: Option<PeerId>,
    /// In use towards that relay.
    pub relay_addresses: Vec<String>,
}

/// How far an envelope in a queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueState {
    /// It waits for its turn, or for the peer.
    Queued,
    /// It was sent, and is to be acknowledged.
    Sent,
    /// It was sent as often as retries allow, and waits for a new connection or a reminder.
    Parked,
    /// Nothing that this SDK knows.
    Unknown,
}

/// An envelope that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedEnvelope {
    /// Its id.
    pub id: String,
    /// For whom.
    pub peer: Option<PeerId>,
    /// It carries the task, or a further message of it; else news of it.
    pub carries_task: bool,
    /// How far it is.
    pub state: QueueState,
    /// Times sent on the present connection.
    pub sent: u32,
    /// The peer may have it.
    pub exposed: bool,
    /// Envelopes before it.
    pub ahead: u32,
    /// When it is given up; `None`: never.
    pub expires_at: Option<SystemTime>,
}

/// What the audit log says of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditTrail {
    /// Where the log is.
    pub path: String,
    /// Its lines, JSON, oldest first.
    pub lines: Vec<String>,
    /// All of the log was searched, not only its end.
    pub whole: bool,
    /// Why it could not be read; empty if it could.
    pub error: String,
}

impl Node {
    /// The way of a task, as far as the daemon knows it. Kind `TaskNotFound`: neither its store nor its audit log does.
    pub async fn trace(&self, task_id: impl Into<String>) -> Result<Trace, Error> {
        self.traced(task_id.into(), false).await
    }

    /// The same without the audit log, which takes long to search: for a task that is watched.
    pub async fn trace_without_audit(&self, task_id: impl Into<String>) -> Result<Trace, Error> {
        self.traced(task_id.into(), true).await
    }

    async fn traced(&self, task_id: String, without_audit: bool) -> Result<Trace, Error> {
        let request = v1::TraceTaskRequest {
            task_id,
            without_audit,
        };
        Ok(self.session().trace_task(request).await?.into())
    }
}

impl From<v1::TraceTaskResponse> for Trace {
    fn from(answer: v1::TraceTaskResponse) -> Self {
        let side = match v1::TaskSide::try_from(answer.side) {
            Ok(v1::TaskSide::Originator) => TaskSide::Originator,
            Ok(v1::TaskSide::Assignee) => TaskSide::Assignee,
            Ok(v1::TaskSide::Both) => TaskSide::Both,
            Ok(v1::TaskSide::External) => TaskSide::External,
            Ok(v1::TaskSide::Unspecified) | Err(_) => TaskSide::Unknown,
        };
        let left = answer
            .attempts_left_at
            .into_iter()
            .map(|at| to_system_time(Some(at)));
        let turns = answer.turns.into_iter();
        Self {
            node: PeerId::from_daemon(answer.node_peer_id),
            now: to_system_time(answer.now),
            task: answer.task.map(Task::from),
            side,
            arrived_at: to_system_time(answer.arrived_at),
            attempts_left_at: left.collect(),
            sent: answer.sent.and_then(SendRecord::from_daemon),
            attempts_sent: answer
                .attempts_sent
                .into_iter()
                .map(SendRecord::from_daemon)
                .collect(),
            came_over: answer.came_over.map(Hop::from_daemon),
            given_at: to_system_time(answer.given_at),
            claimed_at: to_system_time(answer.claimed_at),
            agent_ends: answer.agent_ends,
            candidates: answer
                .candidate_peer_ids
                .into_iter()
                .filter_map(PeerId::from_daemon)
                .collect(),
            held: answer.held,
            claimed: answer.claimed,
            agent_listens: answer.agent_listens,
            deadline: to_system_time(answer.deadline),
            url: answer.url,
            external_steps: answer
                .external_steps
                .into_iter()
                .map(ExternalStep::from)
                .collect(),
            external_steps_left_out: answer.external_steps_omitted,
            remote_task: answer.remote_task_id,
            sealed_task: answer.sealed_task_id,
            peer: answer.peer.map(PeerReach::from),
            peer_before: answer
                .peer_before
                .into_iter()
                .filter_map(FormerKey::from_daemon)
                .collect(),
            queued: answer.queued.into_iter().map(QueuedEnvelope::from).collect(),
            turns: turns
                .map(|turn| (to_system_time(turn.at), turn.role.into()))
                .collect(),
            audit: answer.audit.map(AuditTrail::from),
            refusals: answer.refusals.into_iter().map(Refusal::from).collect(),
            addressee: answer.addressee.and_then(TaskAddressee::from_daemon),
        }
    }
}

impl TaskAddressee {
    /// `None`: whom it was sent to is of a kind that is not known here.
    fn from_daemon(told: v1::TaskAddressee) -> Option<Self> {
        let v1::TaskAddressee {
            target,
            skill_of_peer,
            allow_private,
            target_agent,
        } = told;
        let target = match target? {
            v1::task_addressee::Target::PeerId(peer) => Target::Peer(PeerId::from_daemon(peer)?),
            v1::task_addressee::Target::SkillId(skill) => Target::Skill(skill),
            v1::task_addressee::Target::Url(url) => Target::Url(url),
        };
        Some(Self {
            target,
            skill_of_peer,
            allow_private,
            agent: target_agent,
        })
    }
}

impl Hop {
    fn from_daemon(road: v1::TaskPath) -> Self {
        Self {
            via: PathKind::from_daemon(road.connection_type),
            relay: PeerId::from_daemon(road.relay_peer_id),
        }
    }
}

impl SendRecord {
    fn from_daemon(sent: v1::TaskSent) -> Option<Self> {
        Some(Self {
            at: to_system_time(sent.at),
            over: Hop::from_daemon(sent.over?),
        })
    }
}

impl From<v1::ExternalStep> for ExternalStep {
    fn from(step: v1::ExternalStep) -> Self {
        let action = match v1::ExternalAction::try_from(step.action) {
            Ok(v1::ExternalAction::CardRead) => ExternalAction::CardRead,
            Ok(v1::ExternalAction::Accepted) => ExternalAction::Accepted,
            Ok(v1::ExternalAction::Failed) => ExternalAction::Failed,
            Ok(v1::ExternalAction::InDoubt) => ExternalAction::InDoubt,
            Ok(v1::ExternalAction::Withdrawn) => ExternalAction::Withdrawn,
            Ok(v1::ExternalAction::NotWithdrawn) => ExternalAction::NotWithdrawn,
            Ok(v1::ExternalAction::ProtocolBreach) => ExternalAction::ProtocolBreach,
            Ok(v1::ExternalAction::Unspecified) | Err(_) => ExternalAction::Unknown,
        };
        let failure = match v1::ExternalFailure::try_from(step.failure) {
            Ok(v1::ExternalFailure::Unspecified) => None,
            Ok(v1::ExternalFailure::Unreached) => Some(ExternalFailure::Unreached),
            Ok(v1::ExternalFailure::Busy) => Some(ExternalFailure::Busy),
            Ok(v1::ExternalFailure::Broken) => Some(ExternalFailure::Broken),
            Ok(v1::ExternalFailure::TaskGone) => Some(ExternalFailure::TaskGone),
            Ok(v1::ExternalFailure::Unsupported) => Some(ExternalFailure::Unsupported),
            Ok(v1::ExternalFailure::Unauthorized) => Some(ExternalFailure::Unauthorized),
            Ok(v1::ExternalFailure::Final) => Some(ExternalFailure::Final),
            Ok(v1::ExternalFailure::Refused) => Some(ExternalFailure::Refused),
            Err(_) => Some(ExternalFailure::Unknown),
        };
        Self {
            at: to_system_time(step.at),
            last_at: to_system_time(step.last_at),
            count: step.count,
            action,
            url: step.url,
            binding: step.binding,
            detail: step.detail,
            failure,
            next_at: to_system_time(step.next_at),
        }
    }
}

impl FormerKey {
    fn from_daemon(key: v1::FormerKey) -> Option<Self> {
        Some(Self {
            id: PeerId::from_daemon(key.peer_id)?,
            until: to_system_time(key.until),
        })
    }
}

impl From<v1::PeerReach> for PeerReach {
    fn from(reach: v1::PeerReach) -> Self {
        Self {
            id: PeerId::from_daemon(reach.peer_id),
            connected: reach.connected,
            via: PathKind::from_daemon(reach.connection_type),
            connected_at: to_system_time(reach.connected_at),
            round_trip: reach.round_trip.and_then(|rtt| rtt.try_into().ok()),
            addresses: reach.addresses,
            failures: reach.failures,
            next_attempt_in: reach.next_attempt_in.and_then(|wait| wait.try_into().ok()),
            last_error: reach.last_error,
            relay: PeerId::from_daemon(reach.relay_peer_id),
            relay_addresses: reach.relay_addresses,
        }
    }
}

impl From<v1::QueuedEnvelope> for QueuedEnvelope {
    fn from(queued: v1::QueuedEnvelope) -> Self {
        let state = match v1::QueueState::try_from(queued.state) {
            Ok(v1::QueueState::Queued) => QueueState::Queued,
            Ok(v1::QueueState::Sent) => QueueState::Sent,
            Ok(v1::QueueState::Parked) => QueueState::Parked,
            Ok(v1::QueueState::Unspecified) | Err(_) => QueueState::Unknown,
        };
        Self {
            id: queued.envelope_id,
            peer: PeerId::from_daemon(queued.peer_id),
            carries_task: queued.carries_task,
            state,
            sent: queued.sent,
            exposed: queued.exposed,
            ahead: queued.ahead,
            expires_at: to_system_time(queued.expires_at),
        }
    }
}

impl From<v1::AuditTrail> for AuditTrail {
    fn from(trail: v1::AuditTrail) -> Self {
        Self {
            path: trail.path,
            lines: trail.lines,
            whole: trail.whole,
            error: trail.error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ErrorKind,
        fake_daemon::{CallMode, FakeDaemon},
    };

    #[tokio::test]
    async fn an_older_daemon_does_not_know_the_call() {
        let fake = FakeDaemon::start(CallMode::Unary);
        let error = fake.node().await.trace("t").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn what_a_newer_daemon_says_is_not_lost() {
        let trace = Trace::from(v1::TraceTaskResponse {
            side: 77,
            queued: vec![v1::QueuedEnvelope {
                state: 78,
                ahead: 3,
                ..v1::QueuedEnvelope::default()
            }],
            external_steps: vec![v1::ExternalStep {
                action: 79,
                failure: 80,
                ..v1::ExternalStep::default()
            }],
            ..v1::TraceTaskResponse::default()
        });
        assert_eq!(trace.side, TaskSide::Unknown);
        let step = &trace.external_steps[0];
        assert_eq!(
            (step.action, step.failure),
            (ExternalAction::Unknown, Some(ExternalFailure::Unknown))
        );
        assert_eq!(
            (trace.queued[0].state, trace.queued[0].ahead),
            (QueueState::Unknown, 3)
        );
    }
}
