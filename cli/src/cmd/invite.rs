//! `anycast invite`: a string for another node, the invites that were given out, and taking them back.

use std::{
    io::{self, IsTerminal as _},
    time::{Duration, Instant},
};

use agentanycast::{ErrorKind, Invite, Network, NewInvite, Node, NodeAgent, ReservationState};
use clap::{Args, Subcommand, builder::NonEmptyStringValueParser};
use qrcode::{QrCode, render::unicode::Dense1x2};
use serde_json::{Value, json};

use crate::{
    arg_values::parse_duration,
    context::Context,
    failure::{CommandFailure, FailureCode},
    hints,
    invite_code::{self, Invitation},
    json,
    output::{self, Paint},
    peer_lookup, peer_target,
    progress_line::ProgressLine,
    table,
};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct InviteArgs {
    #[command(subcommand)]
    pub(crate) command: Option<InviteCommand>,
    #[command(flatten)]
    pub(crate) new: NewInviteArgs,
}

#[derive(Debug, Args)]
pub(crate) struct NewInviteArgs {
    /// The agent of this node that it is for; it is an error if there is none of that name. Without, it covers every open agent and
    /// the agents that this node has today: not a private one that comes later
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) agent: Option<String>,
    /// The only skill that may be asked for with it; it is an error if the agent beside this node does not have it
    #[arg(long, value_name = "SKILL", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) skill: Option<String>,
    /// How many peers it lets in; each may then send any number of tasks
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) uses: u32,
    /// How long peers can accept it, such as 30m, 1h or 24h; 0 for ever. Those that have accepted it stay until it is revoked
    #[arg(long, default_value = "24h", value_parser = parse_duration, value_name = "TIME")]
    pub(crate) expires: Duration,
    /// What rules call those that accept it: invited:LABEL [default: the id of the invite]
    #[arg(long, value_name = "LABEL", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) label: Option<String>,
    /// Say only how this node is reached, and let nobody in
    #[arg(long, conflicts_with_all = ["skill", "uses", "expires", "label"])]
    pub(crate) no_right: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum InviteCommand {
    /// List the invites that this node has given out
    Ls {
        /// Show ids whole
        #[arg(long)]
        full: bool,
    },
    /// Take invites back, with what they let in. Tasks that an agent has begun go on; those that it has not begun, and that
    /// their peers may not send any more, are rejected
    Revoke {
        /// The ids of invites, or their labels
        #[arg(required = true, value_name = "ID|LABEL")]
        names: Vec<String>,
    },
}

/// How long a relay may take to give this node a slot: without one, hosts outside cannot reach it.
const SLOT_WITHIN: Duration = Duration::from_secs(10);

/// Most agents that are named of those that an invite covers.
const MOST_NAMED: usize = 10;

/// How often is looked whether it has.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) async fn run(context: &Context, args: InviteArgs) -> Result<(), CommandFailure> {
    let node = context.connect_or_start().await?;
    match args.command {
        None => create(context, &node, args.new).await,
        Some(InviteCommand::Ls { full }) => list(context, &node, full).await,
        Some(InviteCommand::Revoke { names }) => revoke(context, &node, &names).await,
    }
}

async fn create(context: &Context, node: &Node, args: NewInviteArgs) -> Result<(), CommandFailure> {
    let agents = match node.node_agents().await {
        Ok(agents) => agents,
        // The daemon is too old to have several.
        Err(error) if error.kind() == ErrorKind::Unsupported => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let agent = args
        .agent
        .map(|named| name_of(&agents, &named))
        .unwrap_or_default();
    let network = reachable(context, node).await?;
    let (relays, addresses) = invite_code::reachable(&network.direct_addresses, &network.relayed_addresses);
    if relays.is_empty() && addresses.is_empty() {
        let message = format!(
            "this node has no address that others can use; check `{}` and `{}`",
            hints::command("status"),
            hints::command("relays")
        );
        return Err(CommandFailure::new(FailureCode::General, "Unreachable", message));
    }
    let registries: Vec<String> = network
        .registries
        .into_iter()
        .map(|registry| registry.address)
        .collect();
    let me = node
        .info()
        .await?
        .peer_id
        .ok_or_else(CommandFailure::unnamed_daemon)?;
    let mut invitation = Invitation {
        peer: me
            .as_str()
            .parse()
            .map_err(|_| CommandFailure::unnamed_daemon())?,
        registries: invite_code::registries_to_name(&registries, &relays),
        relays,
        addresses,
        secret: None,
        agent,
        skill: args.skill.clone().unwrap_or_default(),
        expires_at: None,
    };
    // What does not fit is told before anything is made.
    invitation
        .encode()
        .map_err(|error| CommandFailure::usage(error.to_string()))?;
    let mut made = None;
    if !args.no_right {
        let (invite, secret) = node
            .create_invite(NewInvite {
                label: args.label.unwrap_or_default(),
                agent: invitation.agent.clone(),
                skill: invitation.skill.clone(),
                uses: args.uses,
                valid_for: (!args.expires.is_zero()).then_some(args.expires),
            })
            .await?;
        let short = || {
            CommandFailure::new(
                FailureCode::General,
                "Protocol",
                "the daemon gave no right of 16 bytes",
            )
        };
        invitation.secret = Some(secret.try_into().map_err(|_| short())?);
        let since = invite
            .expires_at
            .and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        invitation.expires_at = since.map(|since| since.as_secs());
        made = Some(invite);
    }
    let text = invitation
        .encode()
        .map_err(|error| CommandFailure::new(FailureCode::General, "Invite", error.to_string()))?;
    if context.json {
        let mut document = made.as_ref().map_or_else(|| json!({}), json::invite);
        document["invite"] = text.into();
        return Ok(output::json(&document)?);
    }
    show(&text)?;
    output::warn(&match &made {
        Some(invite) => format!(
            "{}; {}; the other node runs: anycast join STRING",
            allowance(invite),
            covered(invite, !agents.is_empty())
        ),
        None => {
            "it lets nobody in, and says how this node is reached; the other node runs: anycast join STRING"
                .to_owned()
        }
    });
    Ok(())
}

/// What an agent of this node is called there, by that or by the name on its card; what no agent is called is for the daemon to
/// refuse.
fn name_of(agents: &[NodeAgent], named: &str) -> String {
    let named = named.strip_prefix("self/").unwrap_or(named);
    let mut by_card = agents.iter().filter(|agent| agent.card.name == named);
    match (by_card.next(), by_card.next()) {
        (Some(agent), None) if !agents.iter().any(|agent| agent.name == named) => agent.name.clone(),
        _ => named.to_owned(),
    }
}

/// The network, once a relay that this node has has given it a slot, or after a while.
async fn reachable(context: &Context, node: &Node) -> Result<Network, CommandFailure> {
    let until = Instant::now() + SLOT_WITHIN;
    let mut progress = ProgressLine::new(context.json);
    loop {
        let network = node.network().await?;
        let asks = network.relays.iter().any(|relay| {
            matches!(
                relay.state,
                ReservationState::Asking | ReservationState::Waiting | ReservationState::Away
            )
        });
        let has_slot = !network.relayed_addresses.is_empty();
        if has_slot || !asks {
            return Ok(network);
        }
        if Instant::now() >= until {
            progress.clear();
            output::warn(&format!(
                "anycast: no relay has a slot for this node; who is not on its network may not reach it (`{}` says why)",
                hints::command("relays")
            ));
            return Ok(network);
        }
        progress.show("waiting for a slot at the relay");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// The string, and its QR code on a terminal: in capital letters, for which it needs fewer dots.
fn show(text: &str) -> Result<(), CommandFailure> {
    output::line(text)?;
    if io::stdout().is_terminal()
        && let Ok(code) = QrCode::new(text.to_ascii_uppercase())
    {
        // Dark dots on a light ground: what is drawn is light.
        let drawn = code
            .render::<Dense1x2>()
            .dark_color(Dense1x2::Light)
            .light_color(Dense1x2::Dark)
            .build();
        for line in drawn.lines() {
            output::pieces(&[(line, Paint::Dots)])?;
        }
    }
    Ok(())
}

/// What an invite allows, for people.
fn allowance(invite: &Invite) -> String {
    let who = match invite.uses {
        1 => "one peer may accept it".to_owned(),
        uses => format!("{uses} peers may accept it"),
    };
    let until = match invite.expires_at {
        Some(at) => format!(" within {}", output::ahead(Some(at))),
        None => String::new(),
    };
    let skill = match invite.skill.as_str() {
        "" => String::new(),
        skill => format!(", for the skill {}", output::brief(skill)),
    };
    format!("invite {}: {who}{until}{skill}", invite.id)
}

/// Which agents an invite is for, for people. `has_agents`: the node has some; an older daemon does not say which of them.
fn covered(invite: &Invite, has_agents: bool) -> String {
    if !invite.agent.is_empty() {
        return format!("it is for the agent {}", output::brief(&invite.agent));
    }
    let named: Vec<_> = invite
        .agents
        .iter()
        .take(MOST_NAMED)
        .map(|name| output::brief(name))
        .collect();
    let more = match invite.agents.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match named.as_slice() {
        [] if has_agents => "it is for every agent".to_owned(),
        [] => "this node has no agent yet, so it is for open agents only".to_owned(),
        named => format!(
            "it is for open agents and those that this node has today: {}{more}",
            named.join(", ")
        ),
    }
}

async fn list(context: &Context, node: &Node, full: bool) -> Result<(), CommandFailure> {
    let invites = node.invites().await?;
    if context.json {
        let documents = invites.iter().map(json::invite);
        return Ok(output::json(&Value::Array(documents.collect()))?);
    }
    if invites.is_empty() {
        output::warn(&format!("no invite; `{}` makes one", hints::command("invite")));
        return Ok(());
    }
    let names = peer_target::names(context, node).await?;
    let rows = invites.iter().map(|invite| {
        let is_over = invite
            .expires_at
            .is_some_and(|at| at <= std::time::SystemTime::now());
        let expires = match invite.expires_at {
            None => "never".to_owned(),
            Some(_) if is_over => "expired".to_owned(),
            at => output::ahead(at),
        };
        let peers = invite
            .peers
            .iter()
            .map(|peer| peer_lookup::display_by_right(&names, peer, full));
        [
            invite.id.clone(),
            output::brief(&invite.label),
            format!("{} of {}", invite.peers.len(), invite.uses),
            expires,
            match invite.agent.as_str() {
                "" => output::brief(&invite.agents.join(" ")),
                agent => output::brief(agent),
            },
            output::brief(&invite.skill),
            peers.collect::<Vec<_>>().join(", "),
        ]
    });
    let rows: Vec<_> = rows.collect();
    Ok(table::print(
        ["INVITE", "LABEL", "USED", "EXPIRES", "AGENTS", "SKILL", "PEERS"],
        &rows,
        full,
    )?)
}

async fn revoke(context: &Context, node: &Node, names: &[String]) -> Result<(), CommandFailure> {
    let mut revoked = Vec::new();
    for name in names {
        revoked.push(node.revoke_invite(name).await?);
    }
    if context.json {
        let documents = revoked.iter().flat_map(|revoked| {
            revoked.invites.iter().map(|invite| {
                let mut document = json::invite(invite);
                document["ended_tasks"] = revoked.ended_tasks.into();
                document
            })
        });
        return Ok(output::json(&Value::Array(documents.collect()))?);
    }
    for revoked in revoked {
        for invite in revoked.invites {
            let peers = match invite.peers.len() {
                0 => "nobody had accepted it".to_owned(),
                1 => "the peer that had accepted it is let in by it no more".to_owned(),
                peers => format!("the {peers} peers that had accepted it are let in by it no more"),
            };
            output::line(&format!("revoked {}: {peers}", invite.id))?;
        }
        if revoked.ended_tasks > 0 {
            output::line(&ended_tasks(revoked.ended_tasks))?;
        }
    }
    Ok(())
}

/// How many tasks were ended with a right, for people.
pub(super) fn ended_tasks(number: u32) -> String {
    match number {
        1 => "1 task that was not begun is rejected".to_owned(),
        number => format!("{number} tasks that were not begun are rejected"),
    }
}
