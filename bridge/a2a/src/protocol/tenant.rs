//! Agents that are named by a tenant. PURE.
//!
//! A channel of gRPC has no path, so cards tell its clients to name another agent of the mesh by the tenant: `agents/PEER`,
//! `agents/PEER/NAME` for one of several agents there, or `skills/ID`. A tenant of that agent follows `agents/PEER/NAME/` or
//! `skills/ID/`. It means the same in every binding, wherever the request's path names no agent.

use agentanycast_gateway::{OWN_NODE, Target, agent_address};

/// The agent that a tenant names, and the tenant of that agent.
pub(crate) fn parse(tenant: &str) -> (Target, &str) {
    if let Some(rest) = tenant.strip_prefix("agents/") {
        let (peer, rest) = split_segment(rest);
        let (agent, tenant) = split_segment(rest);
        return (Target::from_peer_and_agent(peer, agent), tenant);
    }
    if let Some(rest) = tenant.strip_prefix("skills/") {
        let (skill, tenant) = split_segment(rest);
        return (Target::Skill(skill.to_owned()), tenant);
    }
    (Target::Own, tenant)
}

/// A text up to its first slash, and what is behind that.
fn split_segment(text: &str) -> (&str, &str) {
    let (segment, rest) = text.split_once('/').unwrap_or((text, ""));
    (segment, rest.trim_start_matches('/'))
}

/// The tenant that names this agent; empty for the one beside the node.
pub(crate) fn of_target(target: &Target) -> String {
    match target {
        Target::Peer(peer) => format!("agents/{peer}"),
        Target::Agent { peer, agent } => {
            format!(
                "agents/{}",
                agent_address(peer.as_deref().unwrap_or(OWN_NODE), agent)
            )
        }
        Target::Skill(skill) => format!("skills/{skill}"),
        Target::Own | Target::Url(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_names_an_agent() {
        assert_eq!(parse(""), (Target::Own, ""));
        assert_eq!(parse("acme"), (Target::Own, "acme"));
        assert_eq!(parse("agents/12D3"), (Target::Peer("12D3".to_owned()), ""));
        assert_eq!(parse("agents/self"), (Target::Own, ""));
        assert_eq!(
            parse("skills/echo/acme"),
            (Target::Skill("echo".to_owned()), "acme")
        );
        for (tenant, peer) in [("agents/12D3/one", "12D3"), ("agents/self/one", "self")] {
            let target = Target::from_peer_and_agent(peer, "one");
            assert_eq!(parse(tenant), (target.clone(), ""));
            assert_eq!(parse(&format!("{tenant}/acme")), (target.clone(), "acme"));
            assert_eq!(of_target(&target), tenant);
        }
    }
}
