//! `anycast peers`: who the daemon is connected to, and how.

use serde_json::Value;

use crate::{context::Context, failure::Failure, json, output};

pub(crate) async fn run(context: &Context) -> Result<(), Failure> {
    let peers = context.connect_or_start().await?.peers().await?;
    if context.json {
        return Ok(output::json(&Value::Array(
            peers.iter().map(json::peer).collect(),
        ))?);
    }
    if peers.is_empty() {
        output::complain("no peer is connected");
        return Ok(());
    }
    let rows = peers.into_iter().map(|peer| {
        let id = peer.id.map(|id| id.to_string()).unwrap_or_default();
        [
            id,
            peer.road.to_string(),
            output::ago(peer.connected_at),
            peer.addresses.join(" "),
        ]
    });
    Ok(output::table(
        ["PEER", "VIA", "SINCE", "ADDRESSES"],
        &rows.collect::<Vec<_>>(),
    )?)
}
