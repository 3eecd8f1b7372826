//! `anycast policy`: what the rules in the daemon's settings say, without a daemon.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use agentanycast_identity::PeerId;
use agentanycast_node::{
    config::{self, AclRule, Config, Loaded},
    policy::{By, Decision, HTTP, LOCAL, Name, Outcome, Rules, Standing, invites::Right, limits::Bounds},
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
        PolicyCommand::Check {
            sources,
            vouched,
            skill,
            file,
        } => {
            let meant = |source: String| Ok(context.alias(&source)?.unwrap_or(source));
            let sources = sources
                .into_iter()
                .map(meant)
                .collect::<Result<Vec<_>, Failure>>()?;
            check(context, &Asked::read(&sources)?, vouched, &skill, &file)
        }
        PolicyCommand::Show(file) => show(context, &file),
    }
}

/// What would become of a task, and by which rule. It is an error if it would be denied.
fn check(
    context: &Context,
    asked: &Asked,
    vouched: bool,
    skill: &str,
    file: &PolicyFile,
) -> Result<(), Failure> {
    let Read {
        config,
        rules,
        settings,
    } = read(context, file)?;
    if vouched {
        may_be_vouched_for(asked, &rules)?;
    }
    let (decision, bounds) = asked.judged(&rules, vouched, skill);
    // What keeps it out is that nobody vouches for it, and somebody could.
    let is_unknown = decision.by == By::Unknown && !rules.issuers.is_empty();
    let if_vouched = is_unknown.then(|| asked.judged(&rules, true, skill).0);
    let rule = match decision.by {
        By::Rule(number) => config.policy.acl.get(number - 1),
        _ => None,
    };
    let shown = rule.map(AclRule::written);
    let limits = limits(&bounds);
    if context.json {
        let rule = rule.map(|rule| json!({"source": rule.source, "skill": rule.skill, "allow": rule.allow}));
        output::json(&json!({
            "decision": decision.outcome.word(),
            "by": decision.by.to_string(),
            "rule": rule,
            "if_vouched": if_vouched.map(|decision| json!({
                "decision": decision.outcome.word(),
                "by": decision.by.to_string(),
                "issuers": rules.issuers,
            })),
            "limits": {"rps": bounds.rps, "max_in_flight": bounds.in_flight, "max_bytes": bounds.bytes},
            "settings": settings,
        }))?;
    } else {
        output::fields(&[
            ("decision", decision.outcome.word().to_owned()),
            ("by", decision.by.to_string()),
            ("rule", shown.unwrap_or_default()),
            (
                "if vouched",
                if_vouched
                    .map(|decision| hint(&decision, &rules))
                    .unwrap_or_default(),
            ),
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
    } = read(context, file)?;
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
            "trusted_issuers": policy.trusted_issuers,
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
        ("issuers", policy.trusted_issuers.join(", ")),
        ("limits", limits(&rules.limits.default)),
        (
            "audit log",
            policy
                .audit_log_path
                .as_ref()
                .map_or_else(|| "none".to_owned(), |path| path.display().to_string()),
        ),
    ])?;
    if rules.is_closed() {
        output::line("no other node may send tasks here: nobody is listed in policy.trusted_peers")?;
    }
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

/// As a daemon would read them: those that were given, or of the home that was given.
fn read(context: &Context, file: &PolicyFile) -> Result<Read, Failure> {
    if context.daemon_given() && file.config.is_none() {
        let text =
            "rules are read from a file, and none is asked of --daemon; give that daemon's with --config";
        return Err(Failure::usage(text));
    }
    let mut args: Vec<OsString> = vec!["agentanycastd".into()];
    if let Some(path) = context.settings(file)? {
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

/// Who is asked about.
enum Asked {
    /// Another node, by its key if that was said, and all that is known of it besides.
    Peer(Option<PeerId>, Standing),
    /// The agent beside the node or a caller of its bridge, by its name.
    Here(String),
}

impl Asked {
    /// One source, by all its names.
    fn read(sources: &[String]) -> Result<Self, Failure> {
        let mut keys = Vec::new();
        let mut names = Vec::new();
        let mut invited = Vec::new();
        for source in sources {
            let name: Name = source
                .parse()
                .map_err(|error| Failure::usage(format!("--source: {error}")))?;
            let here = match name {
                Name::Key(peer) => {
                    keys.push(peer);
                    continue;
                }
                Name::Proven(name) => {
                    names.push(name);
                    continue;
                }
                Name::Invited(label) => {
                    // As one that is for all skills: of which it is, only the node knows.
                    let skill = String::new();
                    invited.push(Right { label, skill });
                    continue;
                }
                Name::Caller(caller) => format!("{HTTP}{caller}"),
                Name::Local => LOCAL.to_owned(),
            };
            if sources.len() > 1 {
                return Err(Failure::usage(format!(
                    "--source {here} has one name; only another node has several, so ask about {here} alone"
                )));
            }
            return Ok(Self::Here(here));
        }
        let mut keys = keys.into_iter();
        let peer = keys.next();
        let standing = Standing {
            names,
            former: keys.collect(),
            vouched: false,
            invited,
        };
        Ok(Self::Peer(peer, standing))
    }

    /// As the daemon judges it.
    fn judged(&self, rules: &Rules, vouched: bool, skill: &str) -> (Decision, Bounds) {
        match self {
            Self::Here(name) => rules.judge_caller(name, skill),
            Self::Peer(peer, standing) => {
                let standing = Standing {
                    vouched,
                    ..standing.clone()
                };
                standing.as_asker(*peer, |asker| rules.judge(asker, skill))
            }
        }
    }
}

/// Refuses a question that no daemon would ever ask itself: whether a credential counts where none does.
fn may_be_vouched_for(asked: &Asked, rules: &Rules) -> Result<(), Failure> {
    if let Asked::Here(name) = asked {
        return Err(Failure::usage(format!(
            "--vouched is for other nodes: nobody has to vouch for {name}"
        )));
    }
    if rules.issuers.is_empty() {
        return Err(Failure::usage(
            "--vouched: no credential counts here, since policy.trusted_issuers names nobody",
        ));
    }
    Ok(())
}

/// What a credential would change, for people.
fn hint(decision: &Decision, rules: &Rules) -> String {
    format!(
        "{}, by {}: with a credential of {} (--vouched)",
        decision.outcome.word(),
        decision.by,
        rules.issuers.join(" or ")
    )
}

/// Where the rules are from. With none of a daemon that has its settings elsewhere everything would seem to be allowed.
fn told(settings: Option<&Path>) -> String {
    settings.map_or_else(
        || "no file, so there are no rules; give the daemon's with --config".to_owned(),
        |path| path.display().to_string(),
    )
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
