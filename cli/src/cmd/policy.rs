//! `anycast policy`: what the rules in the daemon's settings say, without a daemon.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use agentanycast_identity::{DidDns, DidWeb, PeerId, did_key_of, peer_of_did_key};
use agentanycast_node::{
    config::{self, Config, Loaded},
    policy::{Asker, By, HTTP, LOCAL, Outcome, Rules, limits::Bounds},
};
use serde_json::{Value, json};

use crate::{
    args::{PolicyCommand, PolicyFile},
    context::Context,
    failure::{Code, Failure},
    output,
};

pub(crate) fn run(context: &Context, command: PolicyCommand) -> Result<(), Failure> {
    match command {
        PolicyCommand::Check { source, skill, file } => check(context, &source, &skill, &file),
        PolicyCommand::Show(file) => show(context, &file),
    }
}

/// What would become of a task, and by which rule. It is an error if it would be denied.
fn check(context: &Context, source: &str, skill: &str, file: &PolicyFile) -> Result<(), Failure> {
    let Read {
        config,
        rules,
        settings,
    } = read(file)?;
    let (names, keys) = names(source)?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let asker = Asker {
        names: &names,
        keys: &keys,
        is_remote: source != LOCAL && !source.starts_with(HTTP),
        vouched: false,
    };
    let (decision, bounds) = rules.judge(asker, skill);
    let rule = match decision.by {
        By::Rule(number) => config.policy.acl.get(number - 1),
        _ => None,
    };
    let shown = rule.map(agentanycast_node::config::AclRule::written);
    let limits = limits(&bounds);
    if context.json {
        let rule = rule.map(|rule| json!({"source": rule.source, "skill": rule.skill, "allow": rule.allow}));
        output::json(&json!({
            "decision": decision.outcome.word(),
            "by": decision.by.to_string(),
            "rule": rule,
            "limits": {"rps": bounds.rps, "max_in_flight": bounds.in_flight, "max_bytes": bounds.bytes},
            "settings": settings,
        }))?;
    } else {
        output::fields(&[
            ("decision", decision.outcome.word().to_owned()),
            ("by", decision.by.to_string()),
            ("rule", shown.unwrap_or_default()),
            ("limits", limits),
            ("settings", told(settings.as_deref())),
        ])?;
    }
    if decision.outcome == Outcome::Allow {
        return Ok(());
    }
    Err(Failure::new(Code::General, "Denied", decision.by.reason()).told())
}

/// All that the settings say about who may do what.
fn show(context: &Context, file: &PolicyFile) -> Result<(), Failure> {
    let Read {
        config: Config { policy, .. },
        rules,
        settings,
    } = read(file)?;
    if context.json {
        let acl: Vec<Value> = policy
            .acl
            .iter()
            .map(|rule| json!({"source": rule.source, "skill": rule.skill, "allow": rule.allow}))
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
        let default = rules.limits.default;
        return Ok(output::json(&json!({
            "trust": policy.trust.word(),
            "trusted_peers": policy.trusted_peers,
            "groups": policy.groups.0,
            "acl": acl,
            "rate_limit": {
                "rps": default.rps, "max_in_flight": default.in_flight, "max_bytes": default.bytes,
                "overrides": overrides,
            },
            "audit_log_path": policy.audit_log_path,
            "settings": settings,
        }))?);
    }
    output::fields(&[
        ("settings", told(settings.as_deref())),
        ("trust", policy.trust.word().to_owned()),
        ("peers", policy.trusted_peers.join(", ")),
        ("limits", limits(&rules.limits.default)),
        (
            "audit log",
            policy
                .audit_log_path
                .as_ref()
                .map_or_else(|| "none".to_owned(), |path| path.display().to_string()),
        ),
    ])?;
    for (name, members) in &policy.groups.0 {
        output::fields(&[(&format!("group {name}"), members.join(", "))])?;
    }
    for one in &rules.limits.overrides {
        let bounds = rules.limits.of(&[one.source.as_str()]);
        output::fields(&[(&format!("limits of {}", one.source.as_str()), limits(&bounds))])?;
    }
    if policy.acl.is_empty() {
        return Ok(output::line(
            "no rules: every skill is open to everybody who may come",
        )?);
    }
    let word = |allow| if allow { "allow" } else { "deny" };
    let mut rows: Vec<[String; 4]> = policy
        .acl
        .iter()
        .enumerate()
        .map(|(at, rule)| {
            [
                (at + 1).to_string(),
                word(rule.allow).to_owned(),
                rule.source.clone(),
                rule.skill.clone(),
            ]
        })
        .collect();
    rows.push([
        String::new(),
        word(false).to_owned(),
        "everybody else".into(),
        "*".into(),
    ]);
    Ok(output::table(["RULE", "", "SOURCE", "SKILL"], &rows)?)
}

/// Settings, and the rules in them.
struct Read {
    config: Config,
    rules: Rules,
    /// The file that they are from, if there is one.
    settings: Option<PathBuf>,
}

/// As a daemon would read them.
fn read(file: &PolicyFile) -> Result<Read, Failure> {
    let mut args: Vec<OsString> = vec!["agentanycastd".into()];
    if let Some(path) = &file.config {
        let path: &PathBuf = path;
        args.extend(["--config".into(), path.into()]);
    }
    let (path, loaded) = config::load_again(&args);
    match loaded {
        Ok(Loaded::Run { config, .. }) => {
            let rules = Rules::read(&config.policy)
                .map_err(|bad| Failure::usage(format!("{} must be {}", bad.key, bad.allowed)))?;
            Ok(Read {
                config: *config,
                rules,
                settings: path.filter(|path| path.exists()),
            })
        }
        Ok(_) => Err(Failure::usage("these are no settings of a daemon")),
        Err(error) => Err(Failure::usage(error.to_string())),
    }
}

/// The names by which a source is known, and its key.
fn names(source: &str) -> Result<(Vec<String>, Vec<PeerId>), Failure> {
    let is_proven =
        source.parse::<DidWeb>().is_ok() || source.strip_prefix("did:dns:").is_some_and(is_domain);
    if source == LOCAL || source.starts_with(HTTP) || is_proven {
        return Ok((vec![source.to_owned()], Vec::new()));
    }
    let peer = source.parse().ok().or_else(|| peer_of_did_key(source));
    let Some(peer) = peer else {
        return Err(Failure::usage(format!(
            "{source:?} is no source; give a peer id, did:key:…, did:web:…, did:dns:…, http:CALLER or local"
        )));
    };
    let names = std::iter::once(peer.to_string()).chain(did_key_of(peer));
    Ok((names.collect(), vec![peer]))
}

/// Where the rules are from. With none of a daemon that has its settings elsewhere everything would seem to be allowed.
fn told(settings: Option<&Path>) -> String {
    settings.map_or_else(
        || "no file, so there are no rules; give the daemon's with --config".to_owned(),
        |path| path.display().to_string(),
    )
}

fn is_domain(text: &str) -> bool {
    text.parse::<DidDns>().is_ok()
}

fn limits(bounds: &Bounds) -> String {
    let mut limits = Vec::new();
    if bounds.rps > 0.0 {
        limits.push(format!("{} tasks a second", bounds.rps));
    }
    if bounds.in_flight > 0 {
        limits.push(format!("{} tasks open", bounds.in_flight));
    }
    if bounds.bytes > 0 {
        limits.push(format!("{} bytes of open tasks", bounds.bytes));
    }
    if limits.is_empty() {
        "none".to_owned()
    } else {
        limits.join(", ")
    }
}
