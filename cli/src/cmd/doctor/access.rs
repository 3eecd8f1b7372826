//! Which agents every peer may use: those of before agents could be private, and open ones that run a program or call a service of
//! this host.

use agentanycast::{AgentAccess, NodeAgent};

use super::{
    facts::{DaemonReport, DoctorFacts},
    finding::Finding,
};
use crate::hints;

const CHECK: &str = "access";

/// What `anycast run` and the settings make agents of, by the words of `anycast ps`.
const PROGRAMS: [&str; 5] = ["program", "jsonl", "acp", "http", "mcp"];

/// Most agents that are named.
const NAMED: usize = 10;

pub(super) fn check(facts: &DoctorFacts) -> Vec<Finding> {
    let Some(told) = facts.daemon_report() else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let names = |wanted: &dyn Fn(&NodeAgent) -> bool| -> Vec<&str> {
        let agents = told.agents.iter().filter(|agent| wanted(agent));
        agents.map(|agent| agent.name.as_str()).collect()
    };
    let before = names(&|agent| agent.access == AgentAccess::Unspecified && !agent.access_is_set);
    findings.extend(finding(
        &before,
        "every peer may use them, since they were registered before agents could be private",
        "every peer may use it, since it was registered before agents could be private",
    ));
    let open = names(&|agent| agent.access == AgentAccess::Open && runs_a_program(told, agent));
    findings.extend(finding(
        &open,
        "they are open, so every peer that the policy lets in may have their programs and services work for it",
        "it is open, so every peer that the policy lets in may have its program or service work for it",
    ));
    findings
}

/// Whether a program or a service of this host does the agent's tasks.
fn runs_a_program(told: &DaemonReport, agent: &NodeAgent) -> bool {
    let mut serving = told.programs.iter().filter(|program| program.agent == agent.name);
    serving.any(|program| PROGRAMS.contains(&program.kind.as_str()))
}

/// One line of these agents, with the command that closes them; `None`: there are none.
fn finding(names: &[&str], several: &str, one: &str) -> Option<Finding> {
    let first = names.first()?;
    let says = match names.len() {
        1 => format!("the agent {first}: {one}"),
        count => {
            let more = if count > NAMED { ", …" } else { "" };
            let named = &names[..count.min(NAMED)];
            format!("the agents {}{more}: {several}", named.join(", "))
        }
    };
    let closing = match names {
        [only] => hints::command(&format!("agents set {only} --private")),
        _ => hints::command("agents set NAME --private"),
    };
    Some(Finding {
        advice: Some(format!("`{closing}` unless you want that")),
        ..Finding::note(CHECK, says)
    })
}
