//! `anycast invite`: a string for another node, the invites that were given out, and taking them back.

use std::{
    io::{self, IsTerminal as _},
    time::{Duration, Instant},
};

use agentanycast::{Invite, Network, NewInvite, Node, ReservationState};
use qrcode::{QrCode, render::unicode::Dense1x2};
use serde_json::{Value, json};

use crate::{
    args::{InviteArgs, InviteCommand, NewInviteArgs},
    context::Context,
    failure::{CommandFailure, FailureCode},
    invite_code::{self, Invitation},
    json, output, peer_lookup, peer_target,
    progress_line::ProgressLine,
};

/// How long a relay may take to give this node a slot: without one, hosts outside cannot reach it.
const SLOT_WITHIN: Duration = Duration::from_secs(10);

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
    let network = reachable(context, node).await?;
    let (relays, addresses) = invite_code::reachable(&network.direct_addresses, &network.relayed_addresses);
    if relays.is_empty() && addresses.is_empty() {
        let message =
            "this node has no address that others can use; check `anycast status` and `anycast relays`";
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
        agent: args.agent.clone().unwrap_or_default(),
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
        Some(invite) => format!("{}; the other node runs: anycast join STRING", allowance(invite)),
        None => {
            "it lets nobody in, and says how this node is reached; the other node runs: anycast join STRING"
                .to_owned()
        }
    });
    Ok(())
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
            output::warn(
                "anycast: no relay has a slot for this node; who is not on its network may not reach it (`anycast relays` says why)",
            );
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
        // Dark dots on a light ground, whatever colours the terminal has.
        let drawn = code
            .render::<Dense1x2>()
            .dark_color(Dense1x2::Light)
            .light_color(Dense1x2::Dark)
            .build();
        for line in drawn.lines() {
            output::line(line)?;
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

async fn list(context: &Context, node: &Node, full: bool) -> Result<(), CommandFailure> {
    let invites = node.invites().await?;
    if context.json {
        let documents = invites.iter().map(json::invite);
        return Ok(output::json(&Value::Array(documents.collect()))?);
    }
    if invites.is_empty() {
        output::warn("no invite; `anycast invite` makes one");
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
            .map(|peer| peer_lookup::display_name(&names, peer, full));
        [
            invite.id.clone(),
            output::brief(&invite.label),
            format!("{} of {}", invite.peers.len(), invite.uses),
            expires,
            output::brief(&invite.skill),
            peers.collect::<Vec<_>>().join(", "),
        ]
    });
    let rows: Vec<_> = rows.collect();
    Ok(output::table(
        ["INVITE", "LABEL", "USED", "EXPIRES", "SKILL", "PEERS"],
        &rows,
    )?)
}

async fn revoke(context: &Context, node: &Node, names: &[String]) -> Result<(), CommandFailure> {
    let mut revoked = Vec::new();
    for name in names {
        revoked.extend(node.revoke_invite(name).await?);
    }
    if context.json {
        let documents = revoked.iter().map(json::invite);
        return Ok(output::json(&Value::Array(documents.collect()))?);
    }
    for invite in revoked {
        let peers = match invite.peers.len() {
            0 => "nobody had accepted it".to_owned(),
            1 => "the peer that had accepted it is let in by it no more".to_owned(),
            peers => format!("the {peers} peers that had accepted it are let in by it no more"),
        };
        output::line(&format!("revoked {}: {peers}", invite.id))?;
    }
    Ok(())
}
