//! `anycast join`: accepts an invite. What it says is kept, so that the other node is reached by its name from then on.

use std::time::{Duration, Instant};

use agentanycast::{ErrorKind, Node};
use agentanycast_proto::agent_name::is_agent_name;
use clap::Args;
use serde_json::json;

use crate::{
    aliases::{
        self,
        alias_table::{Alias, check_name},
    },
    context::Context,
    failure::{CommandFailure, FailureCode},
    hints,
    invite_code::Invitation,
    output,
    peer_target::PeerTarget,
    progress_line::ProgressLine,
    settings_file::SettingsFile,
    short_id,
};

/// How long the card of a node that this one has joined may take to come, and how often it is looked for.
const CARD_WITHIN: Duration = Duration::from_secs(2);
const CARD_POLL: Duration = Duration::from_millis(50);

#[derive(Debug, Args)]
pub(crate) struct JoinArgs {
    /// What `anycast invite` printed at the other node
    #[arg(value_name = "STRING")]
    pub(crate) invite: String,
    /// The alias for that node [default: the name of its agent, if that is free]
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) alias: Option<String>,
}

pub(crate) async fn run(context: &Context, args: JoinArgs) -> Result<(), CommandFailure> {
    let invitation = Invitation::decode(&args.invite)?;
    if let Some(alias) = &args.alias {
        check_name(alias).map_err(CommandFailure::usage)?;
        refuse_taken(context, alias, &invitation)?;
    }
    let is_changed = keep_in_settings(context, &invitation)?;
    let is_running = context.connect().await.is_ok();
    let node = context.connect_or_start().await?;
    let target = PeerTarget::from_invitation(&invitation)?;
    accept(&node, &target, &invitation).await?;
    let progress = ProgressLine::new(context.json);
    let reached = node.connect_peer(&target.peer, target.addresses.iter()).await;
    progress.clear();
    if reached.is_ok()
        && let Some(reason) = accept(&node, &target, &invitation).await?
    {
        // What lets nobody in is not shown again.
        node.accept_invite(&target.peer, Vec::new()).await?;
        let who = short_id::peer(target.peer.as_str());
        let message = format!(
            "{who} does not take the invite: {}; ask there for a new one (its relay is kept, no name and no right)",
            output::flat(&reason)
        );
        return Err(CommandFailure::new(
            FailureCode::General,
            "InviteRefused",
            message,
        ));
    }
    let alias = keep_alias(context, &node, &args, &invitation, &target).await?;
    if is_changed && is_running {
        context.say_restart_is_needed()?;
    }
    let connected = reached.map_err(|error| {
        let kept = "its right, relay and name are kept, and tasks for it are sent when it is there";
        let who = alias.as_deref().unwrap_or(target.peer.as_str());
        CommandFailure::new(
            FailureCode::NotFound,
            "PeerNotFound",
            format!("{who} does not answer now: {error}; {kept}"),
        )
    })?;
    if context.json {
        return Ok(output::json(&json!({
            "peer_id": target.peer.as_str(),
            "alias": alias,
            "agent": invitation.agent,
            "skill": invitation.skill,
            "via": connected.via.to_string(),
            "has_right": invitation.secret.is_some(),
        }))?);
    }
    let name = alias
        .as_deref()
        .unwrap_or_else(|| short_id::peer(target.peer.as_str()));
    output::fields(&[
        ("joined", target.peer.to_string()),
        ("as", alias.clone().unwrap_or_default()),
        ("reached", connected.via.to_string()),
        ("agent", output::brief(&invitation.agent)),
        ("skill", output::brief(&invitation.skill)),
    ])?;
    let sending = sending(name, &invitation);
    output::warn(&if shows_an_agent(&node, &target).await {
        format!("try: {sending}")
    } else {
        format!("it shows this node no agent yet; once it does: {sending}")
    });
    Ok(())
}

/// Whether the peer shows an agent; the card with those of the invite comes a moment after that was shown.
async fn shows_an_agent(node: &Node, target: &PeerTarget) -> bool {
    let until = Instant::now() + CARD_WITHIN;
    loop {
        let card = node.card_of(&target.peer).await;
        if card.is_ok_and(|card| !card.name.is_empty() || !card.skills.is_empty()) {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        tokio::time::sleep(CARD_POLL).await;
    }
}

/// A command line that sends a task by the invite: to its agent, for its skill.
fn sending(name: &str, invitation: &Invitation) -> String {
    // Nodes of before have put the name on the agent's card there.
    let agent = Some(invitation.agent.as_str()).filter(|agent| is_agent_name(agent));
    let target = agent.map_or_else(|| name.to_owned(), |agent| format!("{name}/{agent}"));
    match hints::quoted(&invitation.skill) {
        _ if invitation.skill.is_empty() => hints::command(&format!("send {target} \"hello\"")),
        skill if skill.starts_with('-') => {
            hints::command(&format!("send {target} --skill={skill} \"hello\""))
        }
        skill => hints::command(&format!("send {target} --skill {skill} \"hello\"")),
    }
}

/// Gives the daemon the right of an invite, to be shown to the node that gave it; why that does not take it, if it is
/// connected and says so.
pub(super) async fn accept(
    node: &Node,
    target: &PeerTarget,
    invitation: &Invitation,
) -> Result<Option<String>, CommandFailure> {
    let Some(secret) = invitation.secret else {
        return Ok(None);
    };
    match node.accept_invite(&target.peer, secret.to_vec()).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            let message = "the daemon is too old to show an invite; restart it with this version";
            Err(CommandFailure::new(FailureCode::General, "Unsupported", message))
        }
        done => Ok(done?),
    }
}

/// Adds the relays and registries to the settings of the home; whether that changes them.
fn keep_in_settings(context: &Context, invitation: &Invitation) -> Result<bool, CommandFailure> {
    let relays: Vec<String> = invitation.relays.iter().map(ToString::to_string).collect();
    if context.daemon_given() || relays.is_empty() && invitation.registries.is_empty() {
        return Ok(false);
    }
    let file = SettingsFile::from_home(&context.home)?;
    let mut is_changed = false;
    if !relays.is_empty() {
        is_changed |= file.add_to_list("bootstrap_peers", &relays)?;
    }
    if !invitation.registries.is_empty() {
        is_changed |= file.add_to_list("anycast.registry_addrs", &invitation.registries)?;
    }
    Ok(is_changed)
}

fn refuse_taken(context: &Context, alias: &str, invitation: &Invitation) -> Result<(), CommandFailure> {
    let book = context.aliases()?;
    let taken = book
        .get(alias)
        .filter(|known| known.peer.as_str() != invitation.peer.to_string());
    taken.map_or(Ok(()), |known| {
        let message = format!("{alias} is {} already; choose another name with --as", known.peer);
        Err(CommandFailure::new(FailureCode::General, "AliasTaken", message))
    })
}

/// Names the peer as it was asked for, or else as its agent is called if that is no other peer's name.
async fn keep_alias(
    context: &Context,
    node: &Node,
    args: &JoinArgs,
    invitation: &Invitation,
    target: &PeerTarget,
) -> Result<Option<String>, CommandFailure> {
    let on_card = match node.card_of(&target.peer).await {
        Ok(card) => card.name,
        Err(_) => String::new(),
    };
    let wanted = [args.alias.as_deref(), Some(&invitation.agent), Some(&on_card)];
    let Some(name) = wanted.into_iter().flatten().find(|name| check_name(name).is_ok()) else {
        return Ok(None);
    };
    let alias = Alias {
        peer: target.peer.clone(),
        addresses: target.addresses.clone(),
        agent: String::new(),
    };
    let is_asked = args.alias.is_some();
    aliases::change(&context.home.directory()?, |book| {
        let is_other = book.get(name).is_some_and(|known| known.peer != alias.peer);
        if is_other && !is_asked {
            return Ok(None);
        }
        book.set(name, alias).map_err(CommandFailure::usage)?;
        Ok(Some(name.to_owned()))
    })
}
