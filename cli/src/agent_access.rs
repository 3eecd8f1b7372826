//! Who may use an agent of this node, in words and for scripts. PURE.

use agentanycast::{AgentAccess, NodeAgent};
use serde_json::{Map, Value};

use crate::hints;

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
pub(crate) fn put_into(document: &mut Map<String, Value>, agent: Option<&NodeAgent>) {
    document.insert("access".to_owned(), agent.map(|agent| word(agent.access)).into());
    document.insert("access_said_by".to_owned(), agent.map(said_by).into());
}

/// What `anycast run` tells of it in a line: who may use the agent, and how to change that. `asks_open`: it was started with
/// `--open`.
pub(crate) fn told(agent: &NodeAgent, asks_open: bool) -> String {
    let name = &agent.name;
    let close = || {
        let close = hints::command(&format!("agents set {name} --private"));
        format!("every peer may send it tasks; close it: {close}")
    };
    let invite = hints::command(&format!("invite --agent {name}"));
    match (agent.access, agent.access_is_set) {
        (AgentAccess::Private, true) if asks_open => {
            let open = hints::command(&format!("agents set {name} --open"));
            format!(
                "{name} stays private, as `agents set` has said, though --open was given; let a peer in: {invite}; or open it: \
                 {open}"
            )
        }
        (AgentAccess::Private, _) => format!(
            "{name} is private: only this node and peers that you let in may use it; let one in: {invite}"
        ),
        (AgentAccess::Unspecified, _) => format!(
            "{name} is open, since it was registered before agents could be private: {}",
            close()
        ),
        (_, true) if !asks_open => {
            format!("{name} is open, as `agents set` has said: {}", close())
        }
        _ => format!("{name} is open: {}", close()),
    }
}
