//! Who may use an agent of this node, in words and for scripts. PURE.

use agentanycast::{AgentAccess, NodeAgent};
use serde_json::{Map, Value};

/// The word for it: an agent without an access is open.
pub(crate) fn word(access: AgentAccess) -> &'static str {
    match access {
        AgentAccess::Private => "private",
        _ => "open",
    }
}

/// Who has said so, for scripts: the owner of the node, the program that registered the agent, or no one since agents of then
/// had no access.
pub(crate) fn said_by(agent: &NodeAgent) -> &'static str {
    match agent.access {
        _ if agent.access_is_set => "owner",
        AgentAccess::Unspecified => "before",
        _ => "registration",
    }
}

/// The word for the agent of this name; empty: it is not known.
pub(crate) fn of_agent(agents: &[NodeAgent], name: &str) -> &'static str {
    let agent = agents.iter().find(|agent| agent.name == name);
    agent.map_or("", |agent| word(agent.access))
}

/// The fields `access` and `access_said_by` of an agent; null: it is not known.
pub fn put_into(document: &mut Map<String, Value>, agent: Option<&NodeAgent>) {
    document.insert("access".to_owned(), agent.map(|agent| word(agent.access)).into());
    document.insert("access_said_by".to_owned(), agent.map(said_by).into());
}
