//! `anycast key`: the key in the home, while no daemon uses it.

use std::{
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use agentanycast_identity::{self as identity, did_key_of};
use clap::Subcommand;
use serde_json::json;

use crate::{
    context::Context,
    failure::{CommandFailure, FailureCode},
    output,
};

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a new key, and a statement by both keys that it follows; the daemon must not run. Peers and registries take the
    /// new one for the old one for 30 days
    Rotate {
        /// The key file [default: the home's]
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
    },
}

pub(crate) async fn run(context: &Context, command: KeyCommand) -> Result<(), CommandFailure> {
    let KeyCommand::Rotate { key } = command;
    let failed = |text: String| CommandFailure::new(FailureCode::General, "Key", text);
    if key.is_none() && context.connect().await.is_ok() {
        let text = "the daemon of this home runs with the key; stop it, change the key, and start it again";
        return Err(failed(text.to_owned()));
    }
    let path = context.key_path(key.as_deref())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let done = identity::rotate(&path, now.as_millis() as u64).map_err(|error| failed(error.to_string()))?;
    let (old, new) = (done.rotation.old(), done.rotation.new_id());
    let did = did_key_of(new).unwrap_or_default();
    let statement = identity::rotations_path(&path);
    if context.json {
        return Ok(output::json(&json!({
            "peer_id": new.to_string(), "old_peer_id": old.to_string(), "did_key": did,
            // The names from before.
            "old": old.to_string(), "new": new.to_string(),
            "old_key": done.kept, "older_key": done.moved, "rotations": statement,
        }))?);
    }
    let mut fields = vec![
        ("was", old.to_string()),
        ("is", new.to_string()),
        ("did", did),
        ("old key", done.kept.display().to_string()),
    ];
    fields.extend(
        done.moved
            .map(|moved| ("the one before", moved.display().to_string())),
    );
    fields.push(("statement", statement.display().to_string()));
    Ok(output::fields(&fields)?)
}
