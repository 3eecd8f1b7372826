//! Which agents every peer may use: those of before agents could be private, and open ones that run a program or call a service of
//! this host.

use agentanycast::{AgentAccess, NodeAgent};
use agentanycast_core::policy::{AskedFor, Decision, DecisionReason, PeerAttributes, PolicyOutcome};
use agentanycast_identity::PeerId;
use agentanycast_node::load_config;

use super::{
    facts::{DaemonReport, DoctorFacts},
    finding::Finding,
};
use crate::hints;

const CHECK: &str = "access";

/// What `anycast run` and the settings make agents of, by the words of `anycast ps`.
const PROGRAMS: [&str; 5] = ["program", "jsonl", "acp", "http", "mcp"];

/// How the binary id of an Ed25519 key begins; the key follows.
const ID_HEAD: [u8; 6] = [0x00, 0x24, 0x08, 0x01, 0x12, 0x20];

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
    findings.extend(opened_by_rules(facts, told));
    findings
}

/// Private agents that a rule opens to whoever comes.
fn opened_by_rules(facts: &DoctorFacts, told: &DaemonReport) -> Vec<Finding> {
    let rules = facts
        .config()
        .map(|config| load_config::policy_rules(&config.policy));
    // The id of a key that nobody has.
    let anybody = PeerId::from_bytes(&[&ID_HEAD[..], &[0; 32]].concat());
    let (Some(Ok(rules)), Ok(anybody)) = (rules, anybody) else {
        return Vec::new();
    };
    let private = told
        .agents
        .iter()
        .filter(|agent| agent.access == AgentAccess::Private);
    let opened = private.filter_map(|agent| {
        let skills = agent.card.skills.iter().map(|skill| skill.id.as_str());
        let opening = std::iter::once("").chain(skills).find_map(|skill| {
            let asked = AskedFor {
                skill,
                agent: &agent.name,
                is_private: true,
            };
            let nothing = PeerAttributes::default();
            let decision = nothing.with_identity(Some(anybody), |asker| rules.evaluate(asker, asked).0);
            match decision {
                Decision {
                    outcome: PolicyOutcome::Allow,
                    reason: DecisionReason::Rule(number),
                } => Some((skill, number)),
                _ => None,
            }
        });
        let (skill, number) = opening?;
        let with = match skill {
            "" => String::new(),
            skill => format!(" for the skill {skill}"),
        };
        Some(Finding {
            advice: Some("narrow its `source`, unless you want that".to_owned()),
            ..Finding::note(
                CHECK,
                format!(
                    "the agent {} is private, and rule {number} of [[policy.acl]] lets every peer use it{with}",
                    agent.name
                ),
            )
        })
    });
    opened.take(NAMED).collect()
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
