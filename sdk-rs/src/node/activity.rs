//! What the daemon is doing.

use std::time::SystemTime;

use agentanycast_proto::v1;

use super::Node;
use crate::{error::Error, message::to_system_time, peer_id::PeerId, task::TaskStatus};

/// What a daemon is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    /// Who it is.
    pub node: Option<PeerId>,
    /// Its version.
    pub version: String,
    /// Since when it runs.
    pub started_at: Option<SystemTime>,
    /// Its clock.
    pub now: Option<SystemTime>,
    /// Why its store has failed; empty while it works.
    pub store_failure: String,
    /// What does not work as its settings say; tasks go on. Older daemons say nothing.
    pub problems: Vec<String>,
    /// An agent listens for tasks.
    pub agent_listens: bool,
    /// Tasks by state.
    pub tasks: Vec<StatusCount>,
    /// Envelopes that wait for their turn or their peer.
    pub queued: u64,
    /// Those that were sent and are to be acknowledged.
    pub sent: u64,
    /// Those that were sent as often as retries allow.
    pub parked: u64,
    /// For whom most waits.
    pub queues: Vec<PeerQueue>,
    /// What was refused last, the newest first.
    pub refusals: Vec<Refusal>,
    /// What was logged last, oldest first.
    pub log: Vec<String>,
}

/// Tasks in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusCount {
    /// The state.
    pub status: TaskStatus,
    /// Tasks that are in it.
    pub now: u64,
    /// Sent from the daemon, and come to it since its start.
    pub outbound_total: u64,
    /// For the agent beside it, and come to it since its start.
    pub inbound_total: u64,
}

/// What waits for a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerQueue {
    /// Who.
    pub peer: Option<PeerId>,
    /// Envelopes.
    pub waiting: u64,
    /// Whether it is connected.
    pub connected: bool,
}

/// Something that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The last time.
    pub at: Option<SystemTime>,
    /// The other daemon; `None`: the agent or bridge beside this one asked.
    pub peer: Option<PeerId>,
    /// The peer refused it; else this daemon did.
    pub by_peer: bool,
    /// The last task that it was about; may be empty.
    pub task_id: String,
    /// Why.
    pub reason: String,
    /// How often.
    pub count: u64,
    /// In a trace, of a task that the policy here refused: what the peer said of itself and did not count, and why.
    pub unproven: Vec<String>,
}

impl Node {
    /// What the daemon is doing, with so many lines of its log, 256 at most.
    pub async fn activity(&self, log_lines: usize) -> Result<Activity, Error> {
        let request = v1::GetActivityRequest {
            log_lines: u32::try_from(log_lines).unwrap_or(u32::MAX),
        };
        Ok(self.session().activity(request).await?.into())
    }
}

impl From<v1::GetActivityResponse> for Activity {
    fn from(answer: v1::GetActivityResponse) -> Self {
        Self {
            node: PeerId::from_daemon(answer.node_peer_id),
            version: answer.version,
            started_at: to_system_time(answer.started_at),
            now: to_system_time(answer.now),
            store_failure: answer.store_failure,
            problems: answer.problems,
            agent_listens: answer.agent_listens,
            tasks: answer.tasks.into_iter().map(Into::into).collect(),
            queued: answer.queued,
            sent: answer.sent,
            parked: answer.parked,
            queues: answer.queues.into_iter().map(Into::into).collect(),
            refusals: answer.refusals.into_iter().map(Into::into).collect(),
            log: answer.log,
        }
    }
}

impl From<v1::StatusCount> for StatusCount {
    fn from(count: v1::StatusCount) -> Self {
        Self {
            status: count.status.into(),
            now: count.now,
            outbound_total: count.outbound_total,
            inbound_total: count.inbound_total,
        }
    }
}

impl From<v1::PeerQueue> for PeerQueue {
    fn from(queue: v1::PeerQueue) -> Self {
        Self {
            peer: PeerId::from_daemon(queue.peer_id),
            waiting: queue.waiting,
            connected: queue.connected,
        }
    }
}

impl From<v1::Refusal> for Refusal {
    fn from(refusal: v1::Refusal) -> Self {
        Self {
            at: to_system_time(refusal.at),
            peer: PeerId::from_daemon(refusal.peer_id),
            by_peer: refusal.by_peer,
            task_id: refusal.task_id,
            reason: refusal.reason,
            count: refusal.count,
            unproven: refusal.unproven,
        }
    }
}
