//! Agents that are named by a tenant. PURE.
//!
//! A channel of gRPC has no path, so cards tell its clients to name another agent of the mesh by the tenant, `agents/ID` or
//! `skills/ID`, with a tenant of that agent behind a slash. It means the same in every binding, wherever the request's path
//! names no agent.

use agentanycast_gateway::{Target, parse_peer};

/// The agent that a tenant names, and the tenant of that agent.
pub(crate) fn parse(tenant: &str) -> (Target, &str) {
    for (kind, of) in [
        (
            "agents/",
            (|name| Target::Peer(parse_peer(name))) as fn(&str) -> Target,
        ),
        ("skills/", |name| Target::Skill(name.to_owned())),
    ] {
        if let Some(rest) = tenant.strip_prefix(kind) {
            let (name, behind) = rest.split_once('/').unwrap_or((rest, ""));
            return (of(name), behind.trim_start_matches('/'));
        }
    }
    (Target::Own, tenant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_names_an_agent() {
        assert_eq!(parse(""), (Target::Own, ""));
        assert_eq!(parse("acme"), (Target::Own, "acme"));
        assert_eq!(parse("agents/12D3"), (Target::Peer("12D3".to_owned()), ""));
        assert_eq!(
            parse("skills/echo/acme"),
            (Target::Skill("echo".to_owned()), "acme")
        );
    }
}
