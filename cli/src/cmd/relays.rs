//! `anycast relays`: how the daemon is reached through relays, and how it reaches each peer.

use crate::{context::Context, failure::Failure, json, output};

pub(crate) async fn run(context: &Context) -> Result<(), Failure> {
    let network = context.connect().await?.network().await?;
    if context.json {
        return Ok(output::json(&json::network(&network))?);
    }
    output::fields(&[("nat", network.nat.to_string())])?;
    if network.relays.is_empty() {
        output::line("no relay: none of the bootstrap peers is one, or there are none")?;
    } else {
        let rows = network.relays.into_iter().map(|relay| {
            [
                relay
                    .id
                    .map_or_else(|| output::flat(&relay.address), |id| id.to_string()),
                relay.state.to_string(),
                output::ago(relay.since),
                output::ahead(relay.next_try),
                // The last column, and the whole of it is needed.
                output::flat(&relay.last_error),
            ]
        });
        output::table(
            ["RELAY", "PLACE", "SINCE", "NEXT TRY", "LAST ERROR"],
            &rows.collect::<Vec<_>>(),
        )?;
    }
    if network.peers.is_empty() {
        return Ok(output::line("no peer is connected")?);
    }
    let rows = network.peers.into_iter().map(|peer| {
        let rtt = peer
            .round_trip
            .map(|rtt| format!("{:.1} ms", rtt.as_secs_f64() * 1000.0));
        [
            peer.id.map(|id| id.to_string()).unwrap_or_default(),
            peer.road.to_string(),
            rtt.unwrap_or_default(),
            peer.addresses.join(" "),
        ]
    });
    Ok(output::table(
        ["PEER", "ROAD", "ROUND TRIP", "ADDRESSES"],
        &rows.collect::<Vec<_>>(),
    )?)
}
