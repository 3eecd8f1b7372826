//! `anycast alias`: the user's own names for peers.

use agentanycast::PeerId;
use clap::Subcommand;
use serde_json::{Value, json};

use crate::{
    aliases::{self, alias_table::Alias},
    context::Context,
    failure::{CommandFailure, FailureCode},
    hints, output,
    peer_target::PeerTarget,
    short_id, table,
};

#[derive(Debug, Subcommand)]
pub(crate) enum AliasCommand {
    /// Give a peer a name
    Add {
        /// The name: letters, digits, and - _ . @ behind the first
        name: String,
        /// The peer: its id, did:key, did:web, multiaddr, another alias, its card's name, or a unique piece
        /// of its id; PEER/AGENT is one of several agents there, self/AGENT or its name alone one of this
        /// node
        peer: String,
        /// Take the name from the peer that has it
        #[arg(long)]
        force: bool,
    },
    /// List the names that were given
    Ls {
        /// Show ids whole
        #[arg(long)]
        full: bool,
    },
    /// Forget names
    Rm {
        /// The names
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

pub(crate) async fn run(context: &Context, command: AliasCommand) -> Result<(), CommandFailure> {
    match command {
        AliasCommand::Add { name, peer, force } => add(context, &name, &peer, force).await,
        AliasCommand::Ls { full } => list(context, full),
        AliasCommand::Rm { names } => remove(context, &names),
    }
}

async fn add(context: &Context, name: &str, peer: &str, force: bool) -> Result<(), CommandFailure> {
    aliases::alias_table::check_name(name).map_err(CommandFailure::usage)?;
    let target = PeerTarget::find_offline_first(context, peer).await?;
    let alias = Alias {
        peer: target.peer,
        addresses: target.addresses,
        agent: target.agent,
    };
    let home = context.home.directory()?;
    let before = aliases::change(&home, |book| {
        let before = book.get(name).cloned();
        if let Some(before) = before
            .as_ref()
            .filter(|before| !is_same(before, &alias) && !force)
        {
            let message = format!(
                "{name} is {} already; --force gives the name to another one",
                meant(before)
            );
            return Err(CommandFailure::new(FailureCode::General, "AliasTaken", message));
        }
        book.set(name, alias.clone()).map_err(CommandFailure::usage)?;
        Ok(before)
    })?;
    if context.json {
        return Ok(output::json(&document(name, &alias))?);
    }
    let was = before.filter(|before| !is_same(before, &alias));
    let was = was.map(|before| format!(" (it was {})", meant(&before)));
    Ok(output::line(&format!(
        "{name} is {}{}",
        meant(&alias),
        was.unwrap_or_default()
    ))?)
}

fn is_same(one: &Alias, other: &Alias) -> bool {
    (&one.peer, &one.agent) == (&other.peer, &other.agent)
}

/// Whom a name means, whole.
fn meant(alias: &Alias) -> String {
    with_agent(alias.peer.as_str(), alias)
}

fn with_agent(peer: &str, alias: &Alias) -> String {
    match alias.agent.as_str() {
        "" => peer.to_owned(),
        agent => format!("{peer}/{agent}"),
    }
}

fn list(context: &Context, full: bool) -> Result<(), CommandFailure> {
    let book = context.aliases()?;
    if context.json {
        let documents = book.iter().map(|(name, alias)| document(name, alias));
        return Ok(output::json(&Value::Array(documents.collect()))?);
    }
    let rows: Vec<_> = book.iter().map(|(name, alias)| row(name, alias, full)).collect();
    if rows.is_empty() {
        output::warn(&format!(
            "no alias; `{}` makes one",
            hints::command("alias add NAME PEER")
        ));
        return Ok(());
    }
    Ok(table::print(["ALIAS", "PEER", "ADDRESSES"], &rows, full)?)
}

fn row(name: &str, alias: &Alias, full: bool) -> [String; 3] {
    let id = |peer: &PeerId| {
        let id = peer.as_str();
        if full { id } else { short_id::peer(id) }.to_owned()
    };
    [
        name.to_owned(),
        with_agent(&id(&alias.peer), alias),
        alias.addresses.join(" "),
    ]
}

fn remove(context: &Context, names: &[String]) -> Result<(), CommandFailure> {
    let removed = aliases::change(&context.home.directory()?, |book| {
        let removed = names.iter().map(|name| {
            let alias = book.remove(name);
            let missing = || {
                CommandFailure::new(
                    FailureCode::NotFound,
                    "AliasNotFound",
                    format!("there is no alias {name:?}"),
                )
            };
            Ok((name.clone(), alias.ok_or_else(missing)?))
        });
        removed.collect::<Result<Vec<_>, CommandFailure>>()
    })?;
    if context.json {
        let documents = removed.iter().map(|(name, alias)| document(name, alias));
        return Ok(output::json(&Value::Array(documents.collect()))?);
    }
    for (name, alias) in removed {
        output::line(&format!("removed {name}, which was {}", meant(&alias)))?;
    }
    Ok(())
}

fn document(name: &str, alias: &Alias) -> Value {
    json!({
        "alias": name, "peer_id": alias.peer.as_str(), "agent": alias.agent, "addresses": alias.addresses,
    })
}
