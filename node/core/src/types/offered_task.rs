//! A task that is handed over to an agent.

use std::sync::Arc;

use agentanycast_proto::v1::AgentCard;

use crate::task::Task;

/// A task for the local agent, as a listener gets it.
#[derive(Clone, Debug)]
pub struct OfferedTask {
    /// As it is now.
    pub task: Arc<Task>,
    /// Who sent it.
    pub sender_card: Option<Arc<AgentCard>>,
    /// Unix milliseconds: since then it is this listener's alone, as long as that listens.
    pub exclusive_since: Option<u64>,
}
