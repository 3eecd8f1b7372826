//! `anycast policy show`: the rules of the settings, and what the daemon that runs has beside them.

use std::path::Path;

use agentanycast_core::policy::PolicyRules;
use agentanycast_node::config::{AclRule, Config, PolicyConfig};
use serde_json::{Value, json};

use super::{LoadedPolicy, daemon_grants::DaemonGrants, limits, read, rules_origin};
use crate::{context::Context, failure::CommandFailure, json, output, shared_args::PolicyFile, table};

/// The peers that the daemon trusts, for people.
fn show_trust(grants: Option<&DaemonGrants>) -> Result<(), CommandFailure> {
    let Some(grants) = grants else {
        return Ok(output::line(
            "invites and trust: not known, since the daemon that has them does not run",
        )?);
    };
    let trust = grants.trust.as_deref().unwrap_or_default();
    if trust.is_empty() {
        return Ok(());
    }
    let any = |name: &str| if name.is_empty() { "*" } else { name }.to_owned();
    let rows = trust
        .iter()
        .map(|trust| [trust.peer.to_string(), any(&trust.skill), any(&trust.agent)]);
    let rows: Vec<_> = rows.collect();
    Ok(table::print(["TRUSTS", "SKILL", "AGENT"], &rows, true)?)
}

/// All that the settings and the daemon say about who may do what.
pub(super) async fn show(context: &Context, file: &PolicyFile) -> Result<(), CommandFailure> {
    let LoadedPolicy {
        config: Config { policy, .. },
        rules,
        settings,
    } = read(context, file)?;
    let grants = DaemonGrants::read(context, file).await?;
    if context.json {
        return Ok(output::json(&document(
            &policy,
            &rules,
            grants.as_ref(),
            settings.as_deref(),
        ))?);
    }
    let trust = grants.as_ref().and_then(|grants| grants.trust.as_ref());
    let trusts_nobody = trust.is_some_and(Vec::is_empty);
    output::fields(&[
        ("settings", rules_origin(settings.as_deref())),
        ("trust", policy.trust.word().to_owned()),
        ("peers", policy.trusted_peers.join(", ")),
        ("issuers", policy.trusted_issuers.join(", ")),
        ("limits", limits(&rules.limits.default)),
        (
            "audit log",
            policy
                .audit_log_path
                .as_ref()
                .map_or_else(|| "none".to_owned(), |path| path.display().to_string()),
        ),
        (
            "invites",
            grants
                .as_ref()
                .map_or_else(String::new, |grants| grants.invites.len().to_string()),
        ),
        ("trusts", if trusts_nobody { "no peer" } else { "" }.to_owned()),
    ])?;
    if rules.is_closed() {
        output::line("no other node may send tasks here: nobody is listed in policy.trusted_peers")?;
    }
    for (name, members) in &policy.groups.0 {
        output::fields(&[(&format!("group {name}"), members.join(", "))])?;
    }
    for one in &rules.limits.overrides {
        let bounds = rules.limits.bounds_of(&[one.source.as_str()]);
        output::fields(&[(&format!("limits of {}", one.source.as_str()), limits(&bounds))])?;
    }
    show_trust(grants.as_ref())?;
    show_rules(&policy.acl)
}

/// The rules in their order.
fn show_rules(acl: &[AclRule]) -> Result<(), CommandFailure> {
    if acl.is_empty() {
        return Ok(output::line(
            "no rules: every skill of an open agent is open to everybody who may come",
        )?);
    }
    let word = |allow| if allow { "allow" } else { "deny" };
    let mut rows: Vec<[String; 5]> = acl
        .iter()
        .enumerate()
        .map(|(at, rule)| {
            [
                (at + 1).to_string(),
                word(rule.allow).to_owned(),
                rule.source.clone(),
                rule.skill.clone(),
                rule.agent.clone(),
            ]
        })
        .collect();
    rows.push([
        String::new(),
        word(false).to_owned(),
        "everybody else".into(),
        "*".into(),
        "*".into(),
    ]);
    // A rule that is cut would be another one.
    Ok(table::print(
        ["RULE", "", "SOURCE", "SKILL", "AGENT"],
        &rows,
        true,
    )?)
}

/// All of it for scripts.
fn document(
    policy: &PolicyConfig,
    rules: &PolicyRules,
    grants: Option<&DaemonGrants>,
    settings: Option<&Path>,
) -> Value {
    let acl: Vec<Value> = policy
        .acl
        .iter()
        .map(|rule| json!({"source": rule.source, "skill": rule.skill, "agent": rule.agent, "allow": rule.allow}))
        .collect();
    let overrides: Vec<Value> = policy
        .overrides
        .iter()
        .map(|one| {
            json!({
                "source": one.source, "rps": one.rps, "max_in_flight": one.max_in_flight,
                "max_bytes": one.max_bytes.map(|size| size.0),
            })
        })
        .collect();
    let trust = grants.and_then(|grants| grants.trust.as_ref());
    let peer_trust = trust.map(|trust| trust.iter().map(json::peer_trust).collect::<Vec<_>>());
    let default = rules.limits.default;
    json!({
        "trust": policy.trust.word(),
        "trusted_peers": policy.trusted_peers,
        "trusted_issuers": policy.trusted_issuers,
        "groups": policy.groups.0,
        "acl": acl,
        "rate_limit": {
            "rps": default.rps, "max_in_flight": default.in_flight, "max_bytes": default.bytes,
            "overrides": overrides,
        },
        "audit_log_path": policy.audit_log_path,
        "invites": grants.map(|grants| grants.invites.len()),
        "peer_trust": peer_trust,
        "settings": settings,
    })
}
