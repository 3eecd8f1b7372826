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

/// Which peers may use an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentAccess {
    /// Each that the policy lets in.
    Open,
    /// Those that a rule, an invite or trust lets in. This node itself always.
    Private,
}

/// What a registration says of the access of its agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistrationAccess {
    /// Nothing: it stays as it is; a new agent is open.
    AsBefore,
    /// This.
    Is(AgentAccess),
    /// What the operator has set for programs that say nothing; an agent that was registered before there was access stays open.
    Default(AgentAccess),
}

/// An agent as it was registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredName {
    /// Its name on the node.
    pub name: Arc<str>,
    /// As [`NodeAgent::access`].
    pub access: Option<AgentAccess>,
    /// As [`NodeAgent::access_is_set`].
    pub access_is_set: bool,
}

/// What of this node's agents others see.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownCard {
    /// The card with all agents, for this node itself.
    pub own: Option<Arc<AgentCard>>,
    /// The card with the open ones, for everybody.
    pub public: Option<Arc<AgentCard>>,
    /// Some peers may see more than that.
    pub has_private: bool,
    /// Another number than before: each peer may see something else than before.
    pub rights: u64,
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
    /// Who may use it; `None`: everybody, since it was registered before there was access.
    pub access: Option<AgentAccess>,
    /// The owner has said so, not a registration.
    pub access_is_set: bool,
}
