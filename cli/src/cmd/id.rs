//! `anycast id`: who this node is, by the running daemon or else by the key in the home.

use agentanycast::PeerId;
use agentanycast_identity as identity;
use serde_json::json;

use crate::{
    context::Context,
    did,
    failure::{CommandFailure, FailureCode},
    output,
};

pub(crate) async fn run(context: &Context) -> Result<(), CommandFailure> {
    let (peer, web, dns) = match context.connect().await {
        Ok(node) => {
            let info = node.info().await?;
            (info.peer_id, info.did_web, info.did_dns)
        }
        Err(failure) if failure.is_daemon_away() && !context.daemon_given() => {
            (Some(from_key(context, failure)?), String::new(), String::new())
        }
        Err(failure) => return Err(failure),
    };
    let peer = peer.ok_or_else(CommandFailure::unnamed_daemon)?;
    let did = did::did_of_peer(&peer).unwrap_or_default();
    if context.json {
        return Ok(output::json(&json!({
            "peer_id": peer.as_str(), "did_key": did, "did_web": web, "did_dns": dns,
        }))?);
    }
    let mut fields = vec![("peer id", peer.to_string()), ("did", did)];
    let named = [("did:web", web), ("did:dns", dns)];
    fields.extend(named.into_iter().filter(|(_, name)| !name.is_empty()));
    Ok(output::fields(&fields)?)
}

/// The peer id of the key in the home; `away` if there is none yet.
fn from_key(context: &Context, away: CommandFailure) -> Result<PeerId, CommandFailure> {
    let wrong =
        |error: &dyn std::fmt::Display| CommandFailure::new(FailureCode::General, "Key", error.to_string());
    let path = context.home.directory()?.join("key");
    let Some(key) = identity::load(&path).map_err(|error| wrong(&error))? else {
        return Err(away);
    };
    identity::peer_id(&key)
        .to_string()
        .parse()
        .map_err(|error| wrong(&error))
}
