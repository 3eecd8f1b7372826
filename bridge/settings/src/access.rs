//! Who may use the agents that settings have. PURE.

use agentanycast_proto::v1::AgentAccess;

/// The access of agents whose setting `open` has this value: without one, as `agents.default_access` says.
pub fn access_of(open: Option<bool>) -> AgentAccess {
    match open {
        None => AgentAccess::Default,
        Some(true) => AgentAccess::Open,
        Some(false) => AgentAccess::Private,
    }
}
