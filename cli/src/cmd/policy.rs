//! `anycast policy`: what the rules in the daemon's settings say, and the agents, invites and trust of the daemon that runs beside
//! them.

mod daemon_grants;
mod show;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use agentanycast_core::{
    agent_choice::{AgentList as _, TaskTarget, choose},
    policy::{
        AskedFor, Decision, DecisionReason, LOCAL, PeerAttributes, PolicyOutcome, PolicyRules, SourceName,
        grants::{GrantedAgents, PeerGrant},
        limits::SourceBounds,
    },
};
use agentanycast_identity::PeerId;
use agentanycast_node::{
    config::{AclRule, Config},
    load_config::{self, LoadedConfig},
};
use clap::Subcommand;
use serde_json::json;

use self::daemon_grants::DaemonGrants;
use crate::{
    context::Context,
    failure::{CommandFailure, FailureCode},
    hints, output,
    shared_args::PolicyFile,
};

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Say what would become of a task, and what decides: rules, and the agents, invites and trust of the daemon if it runs; exit code
    /// 1 if it would be denied
    Check {
        /// Who sends it: an alias, a peer id, did:key:…, did:web:…, did:dns:… or invited:LABEL (taken as proven), http:CALLER, or local; can be
        /// repeated for a peer with several names, a second key being one that it had before
        #[arg(long = "source", value_name = "SOURCE", required = true)]
        sources: Vec<String>,
        /// As if the peer had shown a credential of one of the trusted_issuers
        #[arg(long)]
        vouched: bool,
        /// The skill it is for; tasks sent to a peer by name have none
        #[arg(long, default_value = "")]
        skill: String,
        /// The agent of the node that it is for, by its name there; without, one that the daemon would choose; without a daemon, rules
        /// about agents do not match then
        #[arg(long, default_value = "")]
        agent: String,
        /// As if the agent were private: then another node needs a rule, an invite (--source invited:LABEL) or trust. Without, it is as
        /// the daemon has it
        #[arg(long)]
        private: bool,
        #[command(flatten)]
        file: PolicyFile,
    },
    /// Show the rules in their order, and what the daemon that runs has beside them: how many invites, and the peers it trusts
    Show(PolicyFile),
}

pub(crate) async fn run(context: &Context, command: PolicyCommand) -> Result<(), CommandFailure> {
    match command {
        PolicyCommand::Check {
            sources,
            vouched,
            skill,
            agent,
            private,
            file,
        } => {
            let meant = |source: String| Ok(context.alias(&source)?.unwrap_or(source));
            let sources = sources
                .into_iter()
                .map(meant)
                .collect::<Result<Vec<_>, CommandFailure>>()?;
            let beside = DaemonGrants::read(context, &file).await?;
            let query = PolicyQuery::parse(&sources, beside.as_ref())?;
            let wanted = WantedTask {
                skill,
                agent,
                private,
            };
            check(context, &query, vouched, &wanted, beside.as_ref(), &file)
        }
        PolicyCommand::Show(file) => show::show(context, &file).await,
    }
}

/// What a task asks for.
struct WantedTask {
    skill: String,
    /// The agent that it names; may be empty.
    agent: String,
    /// Every agent is taken as private.
    private: bool,
}

/// What would become of a task, and by which rule. It is an error if it would be denied.
fn check(
    context: &Context,
    asked: &PolicyQuery,
    vouched: bool,
    wanted: &WantedTask,
    beside: Option<&DaemonGrants>,
    file: &PolicyFile,
) -> Result<(), CommandFailure> {
    let LoadedPolicy {
        config,
        rules,
        settings,
    } = read(context, file)?;
    if vouched {
        may_be_vouched_for(asked, &rules)?;
    }
    let (decision, bounds) = asked.decide(&rules, vouched, wanted, beside)?;
    // What keeps it out is that nobody vouches for it, and somebody could.
    let is_unknown = decision.reason == DecisionReason::Unknown && !rules.issuers.is_empty();
    let if_vouched = if is_unknown {
        Some(asked.decide(&rules, true, wanted, beside)?.0)
    } else {
        None
    };
    let rule = match decision.reason {
        DecisionReason::Rule(number) => config.policy.acl.get(number - 1),
        _ => None,
    };
    let shown = rule.map(AclRule::to_toml);
    let limits = limits(&bounds);
    if context.json {
        let rule = rule.map(|rule| json!({"source": rule.source, "skill": rule.skill, "agent": rule.agent, "allow": rule.allow}));
        output::json(&json!({
            "decision": decision.outcome.word(),
            "by": decision.reason.to_string(),
            "rule": rule,
            "if_vouched": if_vouched.map(|decision| json!({
                "decision": decision.outcome.word(),
                "by": decision.reason.to_string(),
                "issuers": rules.issuers,
            })),
            "limits": {"rps": bounds.rps, "max_in_flight": bounds.in_flight, "max_bytes": bounds.bytes},
            "with_daemon": beside.is_some(),
            "settings": settings,
        }))?;
    } else {
        output::fields(&[
            ("decision", decision.outcome.word().to_owned()),
            ("by", decision.reason.to_string()),
            ("rule", shown.unwrap_or_default()),
            (
                "if vouched",
                if_vouched
                    .map(|decision| hint(&decision, &rules))
                    .unwrap_or_default(),
            ),
            ("limits", limits),
            ("settings", rules_origin(settings.as_deref())),
        ])?;
        if beside.is_none() {
            output::warn(
                "by the rules alone: the daemon that has the agents, invites and trust does not run",
            );
        }
    }
    if decision.outcome == PolicyOutcome::Allow {
        return Ok(());
    }
    Err(CommandFailure::new(FailureCode::General, "Denied", decision.reason.message()).already_reported())
}

/// Settings, and the rules in them.
struct LoadedPolicy {
    config: Config,
    rules: PolicyRules,
    /// The file that they are from, if there is one.
    settings: Option<PathBuf>,
}

/// As a daemon would read them: those that were given, or of the home that was given.
fn read(context: &Context, file: &PolicyFile) -> Result<LoadedPolicy, CommandFailure> {
    if context.daemon_given() && file.config.is_none() {
        let text =
            "rules are read from a file, and none is asked of --daemon; give that daemon's with --config";
        return Err(CommandFailure::usage(text));
    }
    let mut args: Vec<OsString> = vec!["agentanycastd".into()];
    if let Some(path) = context.settings(file)? {
        args.extend(["--config".into(), path.into()]);
    }
    let (path, loaded) = load_config::reload(&args);
    match loaded {
        Ok(LoadedConfig::Run { config, .. }) => {
            let rules = load_config::policy_rules(&config.policy)
                .map_err(|bad| CommandFailure::usage(format!("{} must be {}", bad.key, bad.allowed)))?;
            Ok(LoadedPolicy {
                config: *config,
                rules,
                settings: path.filter(|path| path.exists()),
            })
        }
        Ok(_) => Err(CommandFailure::usage("these are no settings of a daemon")),
        Err(error) => Err(CommandFailure::usage(error.to_string())),
    }
}

/// Who is asked about.
enum PolicyQuery {
    /// Another node, by its key if that was said, and all that is known of it besides.
    Peer(Option<PeerId>, PeerAttributes),
    /// The agent beside the node or a caller of its bridge, by its name.
    Local(String),
}

impl PolicyQuery {
    /// One source, by all its names.
    fn parse(sources: &[String], beside: Option<&DaemonGrants>) -> Result<Self, CommandFailure> {
        let mut keys = Vec::new();
        let mut names = Vec::new();
        let mut grants = Vec::new();
        for source in sources {
            let name: SourceName = source
                .parse()
                .map_err(|error| CommandFailure::usage(format!("--source: {error}")))?;
            let here = match name {
                SourceName::Key(peer) => {
                    keys.push(peer);
                    continue;
                }
                SourceName::Proven(name) => {
                    names.push(name);
                    continue;
                }
                SourceName::Invited(label) => {
                    grants.extend(granted_by(&label, beside)?);
                    continue;
                }
                SourceName::Caller(caller) => caller,
                SourceName::Local => LOCAL.to_owned(),
            };
            if sources.len() > 1 {
                return Err(CommandFailure::usage(format!(
                    "--source {here} has one name; only another node has several, so ask about {here} alone"
                )));
            }
            return Ok(Self::Local(here));
        }
        let mut keys = keys.into_iter();
        let peer = keys.next();
        let mut standing = PeerAttributes {
            names,
            former: keys.collect(),
            vouched: false,
            grants,
        };
        if let Some(beside) = beside {
            beside.add_to(peer, &mut standing);
        }
        Ok(Self::Peer(peer, standing))
    }

    /// As the daemon judges it: by the agent that it would choose.
    ///
    /// # Errors
    /// The daemon has no agent for the task.
    fn decide(
        &self,
        rules: &PolicyRules,
        vouched: bool,
        wanted: &WantedTask,
        beside: Option<&DaemonGrants>,
    ) -> Result<(Decision, SourceBounds), CommandFailure> {
        let WantedTask {
            skill,
            agent,
            private,
        } = wanted;
        let on = |agent: &str, is_private: bool| {
            let asked = AskedFor {
                skill,
                agent,
                is_private,
            };
            self.decide_on(rules, vouched, asked)
        };
        let Some(beside) = beside else {
            return Ok(on(agent, *private));
        };
        let list = beside.agents(*private);
        let may_use = |name: &&str| match self {
            // A task of this node's own goes to the agent that has the skill, and is judged then.
            Self::Local(caller) => !is_anonymous(caller) || !list.is_private(name),
            Self::Peer(..) => on(name, list.is_private(name)).0.outcome == PolicyOutcome::Allow,
        };
        let task = TaskTarget {
            agent,
            skill,
            sender: None,
        };
        let chosen = choose(&list, task, |names| {
            names.iter().copied().filter(may_use).collect()
        });
        match chosen {
            Ok(Some(name)) => Ok(on(name, list.is_private(name))),
            // A node without agents takes every task.
            Ok(None) => Ok(on(agent, *private)),
            Err(_) if list.names().next().is_none() => Ok(on(agent, *private)),
            Err(reason) => Err(CommandFailure::usage(format!(
                "the daemon would refuse the task: {reason}"
            ))),
        }
    }

    fn decide_on(&self, rules: &PolicyRules, vouched: bool, asked: AskedFor<'_>) -> (Decision, SourceBounds) {
        match self {
            Self::Local(name) => rules.evaluate_caller(name, is_anonymous(name), asked),
            Self::Peer(peer, standing) => {
                let standing = PeerAttributes {
                    vouched,
                    ..standing.clone()
                };
                standing.with_identity(*peer, |asker| rules.evaluate(asker, asked))
            }
        }
    }
}

/// Of who is anonymous the policy knows no more: it may be on another host.
fn is_anonymous(caller: &str) -> bool {
    caller.ends_with(":anonymous")
}

/// What a peer may that an invite with this label let in.
fn granted_by(label: &str, beside: Option<&DaemonGrants>) -> Result<Vec<PeerGrant>, CommandFailure> {
    let Some(beside) = beside else {
        // As one that is for all: of which agents and skill it is, only the node knows.
        return Ok(vec![PeerGrant {
            label: Some(label.to_owned()),
            agents: GrantedAgents::All,
            skill: String::new(),
        }]);
    };
    let grants = beside.of_label(label);
    if grants.is_empty() {
        return Err(CommandFailure::usage(format!(
            "--source: no invite of this node has the label {label:?}; `{}` lists them",
            hints::command("invite ls")
        )));
    }
    Ok(grants)
}

/// Refuses a question that no daemon would ever ask itself: whether a credential counts where none does.
fn may_be_vouched_for(asked: &PolicyQuery, rules: &PolicyRules) -> Result<(), CommandFailure> {
    if let PolicyQuery::Local(name) = asked {
        return Err(CommandFailure::usage(format!(
            "--vouched is for other nodes: nobody has to vouch for {name}"
        )));
    }
    if rules.issuers.is_empty() {
        return Err(CommandFailure::usage(
            "--vouched: no credential counts here, since policy.trusted_issuers names nobody",
        ));
    }
    Ok(())
}

/// What a credential would change, for people.
fn hint(decision: &Decision, rules: &PolicyRules) -> String {
    format!(
        "{}, by {}: with a credential of {} (--vouched)",
        decision.outcome.word(),
        decision.reason,
        rules.issuers.join(" or ")
    )
}

/// Where the rules are from. With none of a daemon that has its settings elsewhere everything would seem to be allowed.
fn rules_origin(settings: Option<&Path>) -> String {
    settings.map_or_else(
        || "no file, so there are no rules; give the daemon's with --config".to_owned(),
        |path| path.display().to_string(),
    )
}

fn limits(bounds: &SourceBounds) -> String {
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
