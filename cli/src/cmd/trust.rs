//! `anycast trust`, `anycast untrust` and `anycast requests`: peers that may use private agents of this node, by their ids, and
//! those that were refused.

use agentanycast::{ErrorKind, Node, PeerId, PeerTrust};
use clap::{Args, Subcommand, builder::NonEmptyStringValueParser};
use serde_json::{Value, json};

use super::invite::ended_tasks;
use crate::{
    context::Context, failure::CommandFailure, hints, json, output, peer_lookup, peer_target,
    peer_target::PeerQuery, table,
};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct TrustArgs {
    #[command(subcommand)]
    pub(crate) command: Option<TrustCommand>,
    /// The peer: an alias, its id or a unique piece of it, did:key or did:web; not the name on its card, since anybody may have that.
    /// It is kept by its id: what the alias means later changes nothing. PEER/AGENT stands for PEER --agent AGENT
    #[arg(value_name = "PEER", required_unless_present = "request", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) peer: Option<String>,
    /// The agent of this node that the peer may use [default: all, also those that come later]
    #[arg(long, value_name = "NAME", conflicts_with = "request", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) agent: Option<String>,
    /// The skill that the peer may ask for [default: all]
    #[arg(long, value_name = "SKILL", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) skill: Option<String>,
    /// The peer and the agent of this request, as `anycast requests` shows it
    #[arg(long, value_name = "ID", conflicts_with = "peer", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) request: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TrustCommand {
    /// List the peers that this node trusts
    Ls {
        /// Show ids whole
        #[arg(long)]
        full: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct UntrustArgs {
    /// The peer, as for `anycast trust`; PEER/AGENT stands for PEER --agent AGENT
    #[arg(value_name = "PEER", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) peer: String,
    /// Take back only the trust for this agent [default: all]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) agent: Option<String>,
    /// Take back only the trust for this skill [default: all]
    #[arg(long, value_name = "SKILL", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) skill: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RequestsArgs {
    /// Show ids whole
    #[arg(long)]
    pub(crate) full: bool,
}

pub(crate) async fn trust(context: &Context, args: TrustArgs) -> Result<(), CommandFailure> {
    if let Some(TrustCommand::Ls { full }) = args.command {
        return list(context, full).await;
    }
    let node = context.connect_or_start().await?;
    let skill = args.skill.unwrap_or_default();
    let trust = match (args.request, args.peer) {
        (Some(id), _) => node.trust_request(&id, &skill).await?,
        (None, peer) => {
            let peer = peer.unwrap_or_default();
            let named = PeerQuery::parse_with_agent(context, &peer)?.0;
            let (peer, agent) = peer_and_agent(context, &node, &peer, args.agent).await?;
            if let PeerQuery::Name(name) = named {
                refuse_own_claim(context, &node, &name, &peer).await?;
            }
            node.trust_peer(&peer, &agent, &skill).await?
        }
    };
    if context.json {
        return Ok(output::json(&json::peer_trust(&trust))?);
    }
    let back = hints::command(&format!("untrust {}{}", trust.peer, options(&trust)));
    Ok(output::line(&format!(
        "{} may use {}; take it back: {back}",
        trust.peer,
        allowed(&trust)
    ))?)
}

pub(crate) async fn untrust(context: &Context, args: UntrustArgs) -> Result<(), CommandFailure> {
    let node = context.connect_or_start().await?;
    let (peer, agent) = peer_and_agent(context, &node, &args.peer, args.agent).await?;
    let skill = args.skill.unwrap_or_default();
    let ended = node.untrust_peer(&peer, &agent, &skill).await?;
    if context.json {
        let trust: Vec<_> = ended.trust.iter().map(json::peer_trust).collect();
        return Ok(output::json(
            &json!({"trust": trust, "ended_tasks": ended.ended_tasks}),
        )?);
    }
    for trust in &ended.trust {
        output::line(&format!(
            "{} is not trusted any more to use {}",
            trust.peer,
            allowed(trust)
        ))?;
    }
    if ended.ended_tasks > 0 {
        output::line(&ended_tasks(ended.ended_tasks))?;
    }
    tell_invites(&node, &ended.trust).await
}

/// Says which invites still let those in that are not trusted any more.
async fn tell_invites(node: &Node, ended: &[PeerTrust]) -> Result<(), CommandFailure> {
    let invites = match node.invites().await {
        Ok(invites) => invites,
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let is_gone = |peer: &PeerId| ended.iter().any(|trust| trust.peer == *peer);
    for invite in invites.iter().filter(|invite| invite.peers.iter().any(is_gone)) {
        let agents = match invite.agent.as_str() {
            "" => "agents of this node".to_owned(),
            agent => format!("the agent {}", output::brief(agent)),
        };
        output::warn(&format!(
            "the invite {} still lets it in to {agents}; take that back: {}",
            output::brief(&invite.label),
            hints::command(&format!("invite revoke {}", invite.id))
        ));
    }
    Ok(())
}

pub(crate) async fn requests(context: &Context, args: RequestsArgs) -> Result<(), CommandFailure> {
    let node = context.connect_or_start().await?;
    let requests = node.access_requests().await?;
    if context.json {
        let documents = requests.iter().map(json::access_request);
        return Ok(output::json(&Value::Array(documents.collect()))?);
    }
    if requests.is_empty() {
        output::warn("no peer was refused lately since an agent of this node is private");
        return Ok(());
    }
    let names = peer_target::names(context, &node).await?;
    let rows = requests.iter().map(|request| {
        [
            request.id.clone(),
            peer_lookup::display_by_right(&names, &request.peer, args.full),
            output::brief(&request.agent),
            output::brief(&request.skill),
            request.tasks.to_string(),
            output::ago(request.last_at),
        ]
    });
    let rows: Vec<_> = rows.collect();
    table::print(
        ["REQUEST", "PEER", "AGENT", "SKILL", "TASKS", "LAST"],
        &rows,
        args.full,
    )?;
    output::warn(&format!(
        "let one in, for all skills of the agent: {}; for one: with --skill SKILL",
        hints::command("trust --request REQUEST")
    ));
    Ok(())
}

async fn list(context: &Context, full: bool) -> Result<(), CommandFailure> {
    let node = context.connect_or_start().await?;
    let trusted = node.trusted_peers().await?;
    if context.json {
        let documents = trusted.iter().map(json::peer_trust);
        return Ok(output::json(&Value::Array(documents.collect()))?);
    }
    if trusted.is_empty() {
        output::warn(&format!(
            "no peer is trusted; `{}` trusts one",
            hints::command("trust PEER")
        ));
        return Ok(());
    }
    let names = peer_target::names(context, &node).await?;
    let any = |name: &str| match name {
        "" => "any".to_owned(),
        name => output::brief(name),
    };
    let rows = trusted.iter().map(|trust| {
        [
            peer_lookup::display_by_right(&names, &trust.peer, full),
            any(&trust.agent),
            any(&trust.skill),
            output::ago(trust.created_at),
        ]
    });
    let rows: Vec<_> = rows.collect();
    Ok(table::print(["PEER", "AGENT", "SKILL", "SINCE"], &rows, full)?)
}

/// The id of the peer that a text means, and the agent of this node: what `PEER/AGENT` or the option says. The agent that an alias
/// means is one of the other node, and says nothing here.
async fn peer_and_agent(
    context: &Context,
    node: &Node,
    text: &str,
    option: Option<String>,
) -> Result<(PeerId, String), CommandFailure> {
    let (wanted, typed) = PeerQuery::parse_with_agent(context, text)?;
    if wanted == PeerQuery::OwnNode {
        return Err(own_node());
    }
    let agent = match option {
        Some(option) if !typed.is_empty() && typed != option => {
            return Err(CommandFailure::usage(format!(
                "{text} names the agent {typed}, and --agent {option}; give one of them"
            )));
        }
        Some(option) => option.strip_prefix("self/").unwrap_or(&option).to_owned(),
        None => typed,
    };
    let peer = wanted.find(context, node).await?.peer;
    if node.info().await?.peer_id.as_ref() == Some(&peer) {
        return Err(own_node());
    }
    Ok((peer, agent))
}

/// Refuses a name that a peer has given itself: anybody may call itself so.
async fn refuse_own_claim(
    context: &Context,
    node: &Node,
    name: &str,
    peer: &PeerId,
) -> Result<(), CommandFailure> {
    let names = peer_target::names(context, node).await?;
    if !names.is_own_claim(name, peer) {
        return Ok(());
    }
    let trust = hints::command(&format!("trust {peer}"));
    Err(CommandFailure::usage(format!(
        "{} is what the peer {peer} calls itself, and anybody may; if it is the one that you mean: {trust}",
        output::brief(name)
    )))
}

/// The options that mean this trust alone.
fn options(trust: &PeerTrust) -> String {
    let option = |name: &str, value: &str| match value {
        "" => String::new(),
        value => format!(" --{name} {}", hints::quoted(value)),
    };
    option("agent", &trust.agent) + &option("skill", &trust.skill)
}

fn own_node() -> CommandFailure {
    CommandFailure::usage("that is this node itself, which may use its agents anyway; name another node")
}

/// What trust allows, for people.
fn allowed(trust: &PeerTrust) -> String {
    let skill = match trust.skill.as_str() {
        "" => String::new(),
        skill => format!(", for the skill {}", output::brief(skill)),
    };
    match trust.agent.as_str() {
        "" => format!("every agent of this node{skill}"),
        agent => format!("the agent {}{skill}", output::brief(agent)),
    }
}
