//! `anycast agents`: everybody who is known here, with their skills and how they are reached.

use agentanycast::{AgentAccess, ErrorKind, ListedAgent, Node, NodeAgent, PathKind};
use clap::{ArgGroup, Args, Subcommand, builder::NonEmptyStringValueParser};
use serde_json::{Value, json};

use super::invite::ended_tasks;
use crate::{
    agent_access,
    context::Context,
    failure::{CommandFailure, FailureCode},
    json, output,
    peer_lookup::{self, PeerNames},
    peer_target, table,
};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct AgentsArgs {
    #[command(subcommand)]
    pub(crate) action: Option<AgentsAction>,
    /// Only agents that have this skill. Without it, registries are asked for the skills that are heard of here: they
    /// answer for one skill at a time
    #[arg(long, value_name = "SKILL", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) skill: Option<String>,
    /// Only this node's agent and those of connected peers: no registry is asked
    #[arg(long)]
    pub(crate) local: bool,
    /// Show ids whole
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentsAction {
    /// Remove an agent of this node for which nobody listens; its tasks that have not ended fail
    Rm {
        /// Its name on this node, as `anycast agents` shows it behind `self/`
        #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
        name: String,
    },
    /// Say who may use an agent of this node, until this says otherwise: no program that registers it changes that
    #[command(group = ArgGroup::new("access").required(true))]
    Set {
        /// Its name on this node, as `anycast agents` shows it behind `self/`
        #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
        name: String,
        /// Only this node, and peers that a rule, an invite or trust lets in
        #[arg(long, group = "access")]
        private: bool,
        /// Every peer that the policy lets in
        #[arg(long, group = "access")]
        open: bool,
    },
}

pub(crate) async fn run(context: &Context, args: AgentsArgs) -> Result<(), CommandFailure> {
    match &args.action {
        Some(AgentsAction::Rm { name }) => return remove(context, name).await,
        Some(AgentsAction::Set { name, open, .. }) => {
            let access = if *open {
                AgentAccess::Open
            } else {
                AgentAccess::Private
            };
            return set_access(context, name, access).await;
        }
        None => {}
    }
    let node = context.connect_or_start().await?;
    let directory = node.agents(args.skill.as_deref(), args.local).await?;
    tell_unanswered(&directory.unanswered);
    let registered = registered(&node, &directory.agents).await?;
    if context.json {
        let documents = directory.agents.iter().map(|agent| document(agent, &registered));
        output::json(&json!({
            "agents": documents.collect::<Vec<_>>(),
            "unanswered": directory.unanswered,
        }))?;
    }
    if directory.agents.is_empty() {
        let Some(skill) = args.skill else {
            output::warn(
                "no agent is known: none runs here, no peer is connected, and no registry tells of one",
            );
            return Ok(());
        };
        let others = directory
            .skills
            .iter()
            .map(String::as_str)
            .filter(|other| *other != skill);
        let meant = agentanycast_daemon_kit::nearest::nearest(&skill, others);
        let meant = meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
        let nobody = format!("no agent with skill {skill} is known{meant}");
        output::warn(&format!("anycast: {nobody}"));
        return Err(CommandFailure::new(FailureCode::NotFound, "SkillNotFound", nobody).already_reported());
    }
    if context.json {
        return Ok(());
    }
    let names = peer_target::names(context, &node).await?;
    let rows: Vec<_> = directory
        .agents
        .iter()
        .map(|agent| row(agent, &names, &registered, args.full))
        .collect();
    Ok(table::print(
        ["AGENT", "PEER", "REACHED", "ACCESS", "SKILLS", "DESCRIPTION"],
        &rows,
        args.full,
    )?)
}

/// The agents of this node as they are registered, if one of them is listed.
async fn registered(node: &Node, listed: &[ListedAgent]) -> Result<Vec<NodeAgent>, CommandFailure> {
    if !listed.iter().any(|agent| agent.own) {
        return Ok(Vec::new());
    }
    match node.node_agents().await {
        Ok(agents) => Ok(agents),
        // The daemon is too old to have several.
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// A listed agent as it is registered here; `None`: it is another node's.
fn own<'a>(agent: &ListedAgent, registered: &'a [NodeAgent]) -> Option<&'a NodeAgent> {
    let is_it = |known: &&NodeAgent| {
        known.name == agent.agent || agent.agent.is_empty() && known.card.name == agent.name
    };
    registered.iter().find(is_it).filter(|_| agent.own)
}

fn document(agent: &ListedAgent, registered: &[NodeAgent]) -> Value {
    let mut document = json::listed_agent(agent);
    if let Value::Object(fields) = &mut document {
        agent_access::put_into(fields, own(agent, registered));
    }
    document
}

async fn set_access(context: &Context, name: &str, access: AgentAccess) -> Result<(), CommandFailure> {
    let node = context.connect().await?;
    let name = own_agent(&node, name).await?;
    let ended = node.set_agent_access(name, access).await?;
    let word = agent_access::word(access);
    if context.json {
        let document = json!({ "agent": name, "access": word, "ended_tasks": ended });
        return Ok(output::json(&document)?);
    }
    let who = match access {
        AgentAccess::Open => "every peer that the policy lets in may use it",
        _ => "only this node and peers that you let in may use it",
    };
    output::line(&format!("{name} is {word}: {who}"))?;
    if ended > 0 {
        output::line(&ended_tasks(ended))?;
    }
    Ok(())
}

/// The name of an agent of this node, which may stand behind `self/` or the id of the node.
async fn own_agent<'a>(node: &Node, name: &'a str) -> Result<&'a str, CommandFailure> {
    match name.split_once('/') {
        None => Ok(name),
        Some(("self", agent)) => Ok(agent),
        Some((peer, agent)) => {
            let me = node.info().await?.peer_id;
            Ok(if me.is_some_and(|me| me.as_str() == peer) {
                agent
            } else {
                name
            })
        }
    }
}

async fn remove(context: &Context, name: &str) -> Result<(), CommandFailure> {
    let node = context.connect().await?;
    let name = own_agent(&node, name).await?;
    let failed = node.remove_agent(name).await?;
    if context.json {
        return Ok(output::json(&json!({ "removed": name, "failed_tasks": failed }))?);
    }
    let tasks = match failed {
        0 => String::new(),
        1 => "; 1 task failed".to_owned(),
        several => format!("; {several} tasks failed"),
    };
    Ok(output::line(&format!("removed agent {name}{tasks}"))?)
}

/// Says which registries did not answer.
pub(super) fn tell_unanswered(unanswered: &[String]) {
    if !unanswered.is_empty() {
        let who = output::flat(&unanswered.join("; "));
        output::warn(&format!(
            "anycast: agents may be missing, not every registry answered: {who}"
        ));
    }
}

/// How an agent is reached, for people.
pub(super) fn reached(agent: &ListedAgent) -> &'static str {
    match agent.via {
        _ if agent.own => "this node",
        Some(PathKind::Direct) if agent.lan => "LAN",
        Some(PathKind::Relay) => "relay",
        Some(_) => "direct",
        None => "registry",
    }
}

fn row(agent: &ListedAgent, names: &PeerNames, registered: &[NodeAgent], full: bool) -> [String; 6] {
    let skills: Vec<_> = agent.skills.iter().map(|skill| skill.id.as_str()).collect();
    let peer = agent.peer_id.as_ref().map(|peer| {
        let own = Some(peer).filter(|_| agent.own);
        peer_lookup::display_agent(names, own, peer, &agent.agent, full)
    });
    [
        output::brief(&agent.name),
        peer.unwrap_or_default(),
        reached(agent).to_owned(),
        own(agent, registered)
            .map(|agent| agent_access::word(agent.access))
            .unwrap_or_default()
            .to_owned(),
        output::brief(&skills.join(" ")),
        output::brief(&agent.description),
    ]
}
