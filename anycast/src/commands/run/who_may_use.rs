//! The line that says who may use an agent that `anycast run` serves. PURE.

use agentanycast::{AgentAccess, NodeAgent};

use agentanycast_cli::hints;

/// Who may use the agent, and how to change that. `asks_open`: it was started with `--open`.
pub(super) fn line(agent: &NodeAgent, asks_open: bool) -> String {
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
