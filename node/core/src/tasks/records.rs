//! The records of tasks in the store. How a task lies in them is in `task_layout`.

mod external;
mod result;
mod timeline;

use std::{collections::BTreeMap, sync::Arc};

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::Message;
use sha2::{Digest as _, Sha256};

pub(super) use self::result::{ResultRecord, weight_of_result};
use self::{
    external::ExternalRecord,
    timeline::{SentRecord, TimelineRecord},
};
use crate::task::{Attempt, GroupKey, Output, Role, Route, SealedOrigin, Status, Task, TraceRecording};

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HeadRecord {
    #[prost(string, tag = "1")]
    context_id: String,
    #[prost(uint32, tag = "2")]
    role: u32,
    #[prost(bytes = "vec", tag = "3")]
    peer: Vec<u8>,
    #[prost(string, tag = "4")]
    skill: String,
    #[prost(btree_map = "string, string", tag = "5")]
    metadata: BTreeMap<String, String>,
    #[prost(uint64, tag = "6")]
    created_at: u64,
    #[prost(uint64, optional, tag = "7")]
    deadline: Option<u64>,
    /// Of the span that this node's is part of, 0 for none; absent: not recorded.
    #[prost(fixed64, optional, tag = "8")]
    trace_parent: Option<u64>,
}

/// A task as far as it is in one record: whole, or spread (then head, messages and results have their own).
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TaskRecord {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(message, optional, tag = "2")]
    pub state: Option<StateRecord>,
    #[prost(bool, tag = "3")]
    pub spread: bool,
    #[prost(message, optional, tag = "4")]
    pub head: Option<HeadRecord>,
    #[prost(message, repeated, tag = "5")]
    pub messages: Vec<Message>,
    #[prost(message, repeated, tag = "6")]
    pub results: Vec<ResultRecord>,
}

/// What of a [`TaskRecord`] the index needs; the rest is not even decoded.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TaskSummary {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(message, optional, tag = "2")]
    pub state: Option<StateRecord>,
    #[prost(bool, tag = "3")]
    pub spread: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StateRecord {
    #[prost(uint32, tag = "1")]
    status: u32,
    #[prost(uint64, tag = "2")]
    pub updated_at: u64,
    #[prost(bool, tag = "3")]
    has_status_message: bool,
    #[prost(bool, tag = "5")]
    pub claimed: bool,
    #[prost(uint64, tag = "6")]
    pub bytes: u64,
    #[prost(bool, tag = "7")]
    pub open_streams: bool,
    #[prost(bool, tag = "8")]
    pub is_assignee: bool,
    #[prost(uint64, optional, tag = "9")]
    pub deadline: Option<u64>,
    #[prost(bytes = "vec", tag = "10")]
    peer: Vec<u8>,
    #[prost(message, optional, tag = "11")]
    route: Option<RouteRecord>,
    #[prost(bool, tag = "12")]
    pub held: bool,
    #[prost(message, optional, tag = "13")]
    external: Option<ExternalRecord>,
    #[prost(bytes = "vec", tag = "14")]
    group: Vec<u8>,
    /// [`context_mark`] of its conversation.
    #[prost(fixed64, tag = "15")]
    pub context: u64,
    #[prost(uint64, optional, tag = "16")]
    arrived_at: Option<u64>,
    #[prost(bool, tag = "17")]
    pub returnable: bool,
    #[prost(message, optional, tag = "18")]
    timeline: Option<TimelineRecord>,
    #[prost(message, optional, tag = "19")]
    sealed: Option<SealedRecord>,
    #[prost(uint32, tag = "20")]
    pub agent_ends: u32,
    /// When it was written, by the clock of what has passed (`engine/durable_clock`); 0: an older version wrote it.
    #[prost(uint64, tag = "21")]
    pub changed_clock_ms: u64,
    /// The agent that it is for; empty: the primary one.
    #[prost(string, tag = "22")]
    agent: String,
    /// Its agent has begun work that must not be done twice.
    #[prost(bool, tag = "23")]
    begun: bool,
    #[prost(bool, tag = "24")]
    pub awaits_skill: bool,
}

/// Between whom a task is sealed.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SealedRecord {
    #[prost(bytes = "vec", tag = "1")]
    peer: Vec<u8>,
    #[prost(string, tag = "2")]
    task: String,
}

/// How a task that was sent by skill finds its assignee.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RouteRecord {
    #[prost(bytes = "vec", repeated, tag = "1")]
    candidates: Vec<Vec<u8>>,
    #[prost(bool, tag = "2")]
    taken: bool,
    #[prost(message, repeated, tag = "3")]
    attempts: Vec<AttemptRecord>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AttemptRecord {
    #[prost(bytes = "vec", tag = "1")]
    peer: Vec<u8>,
    #[prost(string, tag = "2")]
    reason: String,
    #[prost(uint64, tag = "3")]
    left_at: u64,
    #[prost(message, optional, tag = "4")]
    sent: Option<SentRecord>,
}

impl HeadRecord {
    pub(super) fn from_task(task: &Task) -> Self {
        let (role, peer) = match task.role {
            Role::Originator(peer) => (0, peer.to_bytes()),
            Role::Assignee(peer) => (1, peer.to_bytes()),
            Role::Both => (2, Vec::new()),
            Role::External => (3, Vec::new()),
        };
        Self {
            context_id: task.context_id.clone(),
            role,
            peer,
            skill: task.skill.clone(),
            metadata: task.metadata.clone(),
            created_at: task.created_at,
            deadline: task.deadline,
            trace_parent: task.traced.map(|traced| traced.parent),
        }
    }

    /// The task of this head and state, still without messages and results.
    pub(super) fn task(self, id: &str, state: &StateRecord) -> Option<Task> {
        let role = match self.role {
            // It may have moved on since the head was written.
            0 => Role::Originator(state.peer()?),
            // It may have changed its key since.
            1 => Role::Assignee(state.peer().or_else(|| PeerId::from_bytes(&self.peer).ok())?),
            3 => Role::External,
            _ => Role::Both,
        };
        Some(Task {
            id: id.to_owned(),
            context_id: self.context_id,
            role,
            status: state.status()?,
            status_message: None,
            messages: Vec::new(),
            results: Vec::new(),
            skill: self.skill,
            metadata: self.metadata,
            created_at: self.created_at,
            updated_at: state.updated_at,
            deadline: self.deadline,
            claimed: state.claimed,
            agent_ends: state.agent_ends,
            begun: state.begun,
            agent: state.agent(),
            route: match &state.route {
                Some(record) => Some(record.route()?),
                None => None,
            },
            held: state.held,
            returnable: state.returnable,
            awaits_skill: state.awaits_skill,
            traced: self.trace_parent.map(|parent| TraceRecording { parent }),
            external: state.external.as_ref().map(ExternalRecord::delivery),
            group: state.group(),
            sealed: match &state.sealed {
                Some(record) => Some(SealedOrigin {
                    peer: PeerId::from_bytes(&record.peer).ok()?,
                    task: record.task.clone(),
                }),
                None => None,
            },
            arrived_at: state.arrived_at,
            timeline: state
                .timeline
                .as_ref()
                .map(TimelineRecord::timeline)
                .unwrap_or_default(),
        })
    }
}

impl StateRecord {
    pub(super) fn from_task(task: &Task, bytes: u64) -> Self {
        Self {
            status: task.status.to_wire() as u32,
            updated_at: task.updated_at,
            has_status_message: task.status_message.is_some(),
            claimed: task.claimed,
            bytes,
            open_streams: task.open_streams().next().is_some(),
            is_assignee: task.role.is_assignee(),
            deadline: task.deadline,
            peer: task.role.peer().map(PeerId::to_bytes).unwrap_or_default(),
            route: task.route.as_ref().map(RouteRecord::from_route),
            held: task.held,
            returnable: task.returnable,
            awaits_skill: task.awaits_skill,
            external: task.external.as_ref().map(ExternalRecord::from_delivery),
            group: task.group.map(Vec::from).unwrap_or_default(),
            context: context_mark(&task.context_id),
            arrived_at: task.arrived_at,
            sealed: task.sealed.as_ref().map(|sealed| SealedRecord {
                peer: sealed.peer.to_bytes(),
                task: sealed.task.clone(),
            }),
            timeline: TimelineRecord::from_timeline(&task.timeline),
            agent_ends: task.agent_ends,
            agent: task.agent.as_deref().unwrap_or_default().to_owned(),
            begun: task.begun,
            changed_clock_ms: 0,
        }
    }

    /// The agent that it is for; None: the primary one.
    pub(super) fn agent(&self) -> Option<Arc<str>> {
        (!self.agent.is_empty()).then(|| Arc::from(self.agent.as_str()))
    }

    /// By which a gateway lists it.
    pub(super) fn group(&self) -> Option<GroupKey> {
        self.group.as_slice().try_into().ok()
    }

    /// Whether a gateway has something to do for it.
    pub(super) fn has_external_work(&self) -> bool {
        self.external.as_ref().is_some_and(|outside| !outside.settled)
    }

    /// [`context_mark`] of the id that it has where it was sealed; None: what it says is not sealed.
    pub(super) fn sealed_mark(&self) -> Option<u64> {
        self.sealed.as_ref().map(|sealed| context_mark(&sealed.task))
    }

    /// Sent by skill, and not acknowledged by anybody yet.
    pub(super) fn awaits_assignee(&self) -> bool {
        self.route.as_ref().is_some_and(|route| !route.taken)
    }

    /// Sent by skill.
    pub(super) fn is_routed(&self) -> bool {
        self.route.is_some()
    }

    pub(super) fn status(&self) -> Option<Status> {
        Status::from_wire(i32::try_from(self.status).ok()?)
    }

    pub(super) fn peer(&self) -> Option<PeerId> {
        PeerId::from_bytes(&self.peer).ok()
    }

    /// Puts the messages into the task that this state belongs to.
    pub(super) fn fill(&self, task: &mut Task, messages: Vec<Arc<Message>>, results: Vec<Arc<Output>>) {
        task.status_message = self
            .has_status_message
            .then(|| messages.last().cloned())
            .flatten();
        task.messages = messages;
        task.results = results;
    }
}

impl RouteRecord {
    fn from_route(route: &Route) -> Self {
        let attempts = route.attempts.iter().map(|attempt| AttemptRecord {
            peer: attempt.peer.to_bytes(),
            reason: attempt.reason.clone(),
            left_at: attempt.left_at,
            sent: attempt.sent.map(SentRecord::from_mark),
        });
        Self {
            candidates: route.candidates.iter().map(|peer| peer.to_bytes()).collect(),
            taken: route.taken,
            attempts: attempts.collect(),
        }
    }

    fn route(&self) -> Option<Route> {
        let peer = |bytes: &Vec<u8>| PeerId::from_bytes(bytes).ok();
        let attempts = self.attempts.iter().map(|record| {
            Some(Attempt {
                peer: peer(&record.peer)?,
                reason: record.reason.clone(),
                left_at: record.left_at,
                sent: record.sent.as_ref().and_then(SentRecord::mark),
            })
        });
        Some(Route {
            candidates: self.candidates.iter().map(peer).collect::<Option<_>>()?,
            taken: self.taken,
            attempts: attempts.collect::<Option<_>>()?,
        })
    }
}

/// What of a conversation's name stands in the index: enough to tell it from others.
pub(crate) fn context_mark(context_id: &str) -> u64 {
    let digest = Sha256::digest(context_id.as_bytes());
    digest
        .iter()
        .take(8)
        .fold(0, |mark, byte| mark << 8 | u64::from(*byte))
}

/// Bytes that a message or artifact counts against the quota.
pub(super) fn weight<M: prost::Message>(message: &M) -> u64 {
    weight_of(message.encoded_len())
}

fn weight_of(encoded: usize) -> u64 {
    encoded as u64 + 64
}
