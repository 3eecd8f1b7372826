//! Types that several parts of the engine, and those who use it, share.

mod counters;
mod invite;
mod node_agent;
mod note;
mod offered_task;
mod refusal;
mod task_list;

pub use agentanycast_proto::agent_name::{MAX_AGENT_NAME, agent_name_of_card, is_agent_name};

pub use self::{
    counters::{BucketCounts, Direction, EngineCounters},
    invite::NewInvite,
    node_agent::{
        AgentAccess, AgentOrigin, CallerKey, NodeAgent, RegisteredName, RegistrationAccess, ShownCard,
    },
    note::Note,
    offered_task::OfferedTask,
    refusal::RecentRefusal,
    task_list::{TaskListPage, TaskQuery},
};

/// Tasks a listener is sent ahead of what it has read.
pub(crate) const LISTENER_CREDIT: usize = 64;
