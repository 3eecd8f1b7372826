//! `anycast peers`: who the daemon is connected to, and how.

use clap::Args;
use serde_json::Value;

use crate::{context::Context, failure::CommandFailure, json, output, peer_lookup, peer_target, table};

#[derive(Debug, Args)]
pub(crate) struct PeersArgs {
    /// Show ids whole
    #[arg(long)]
    pub(crate) full: bool,
}

pub(crate) async fn run(context: &Context, args: PeersArgs) -> Result<(), CommandFailure> {
    let node = context.connect_or_start().await?;
    let peers = node.peers().await?;
    if context.json {
        return Ok(output::json(&Value::Array(
            peers.iter().map(json::peer).collect(),
        ))?);
    }
    if peers.is_empty() {
        output::warn("no peer is connected");
        return Ok(());
    }
    let names = peer_target::names(context, &node).await?;
    let rows = peers.into_iter().map(|peer| {
        let id = peer
            .id
            .map(|id| peer_lookup::display_name(&names, &id, args.full))
            .unwrap_or_default();
        [
            id,
            peer.via.to_string(),
            output::ago(peer.connected_at),
            peer.addresses.join(" "),
        ]
    });
    Ok(table::print(
        ["PEER", "VIA", "SINCE", "ADDRESSES"],
        &rows.collect::<Vec<_>>(),
        args.full,
    )?)
}
