//! The agents of a node, and who calls for them, as the rest of the node sees them.

use std::sync::Arc;

use agentanycast_proto::v1::AgentCard;

/// How an agent came to be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentOrigin {
    /// Its process set a card and listened, as deployed SDKs do. It is forgotten when nobody has listened for long.
    Card,
    /// By name. It stays until it is removed.
    Service,
}

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CallerKey {
    /// Each caller on the socket of this agent.
    AgentSocket(Arc<str>),
    /// A process of this host: boot id, process id and start time.
    Process(Arc<str>),
    /// A gRPC connection of which no more is known.
    Connection(u64),
}

/// An agent of this node.
#[derive(Clone, Debug)]
pub struct NodeAgent {
    /// Its name on the node.
    pub name: Arc<str>,
    /// Its card.
    pub card: Arc<AgentCard>,
    /// How it came to be registered.
    pub origin: AgentOrigin,
    /// Tasks without an agent are its.
    pub is_primary: bool,
    /// How many listen for it.
    pub listeners: usize,
    /// Tasks that it has and that have not ended.
    pub open_tasks: usize,
    /// When it listened last, Unix milliseconds; 0: never.
    pub last_attached: u64,
}
