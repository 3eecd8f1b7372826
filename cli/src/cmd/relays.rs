//! `anycast relays`: how the daemon is reached through relays, and how it reaches each peer.

use agentanycast::{PeerId, Relay};

use super::peers::PeersArgs;
use crate::{context::Context, failure::CommandFailure, json, output, peer_lookup, peer_target, table};

pub(crate) async fn run(context: &Context, args: PeersArgs) -> Result<(), CommandFailure> {
    let node = context.connect_or_start().await?;
    let network = node.network().await?;
    if context.json {
        return Ok(output::json(&json::network(&network))?);
    }
    let names = peer_target::names(context, &node).await?;
    let shown = |peer: &PeerId| peer_lookup::display_name(&names, peer, args.full);
    output::fields(&[("nat", network.nat.to_string())])?;
    if network.relays.is_empty() {
        output::warn("no relay: none of the bootstrap peers is one, or there are none");
    } else {
        let name = |relay: &Relay| {
            let id = relay.id.as_ref();
            id.map_or_else(|| output::flat(&relay.address), &shown)
        };
        let rows = network.relays.iter().map(|relay| {
            [
                name(relay),
                relay.state.to_string(),
                output::ago(relay.since),
                output::ahead(relay.next_try),
                limit(relay),
            ]
        });
        table::print(
            ["RELAY", "SLOT", "SINCE", "NEXT TRY", "A CIRCUIT"],
            &rows.collect::<Vec<_>>(),
            args.full,
        )?;
        // The whole of each is needed.
        for relay in network.relays.iter().filter(|relay| !relay.last_error.is_empty()) {
            let error = format!("{}: {}", name(relay), output::flat(&relay.last_error));
            output::fields(&[("last error", error)])?;
        }
    }
    for registry in &network.registries {
        output::fields(&[output::registration(registry)])?;
    }
    if network.peers.is_empty() {
        output::warn("no peer is connected");
        return Ok(());
    }
    let rows = network.peers.into_iter().map(|peer| {
        let rtt = peer
            .round_trip
            .map(|rtt| format!("{:.1} ms", rtt.as_secs_f64() * 1000.0));
        [
            peer.id.as_ref().map(&shown).unwrap_or_default(),
            peer.via.to_string(),
            rtt.unwrap_or_default(),
            peer.addresses.join(" "),
        ]
    });
    Ok(table::print(
        ["PEER", "VIA", "ROUND TRIP", "ADDRESSES"],
        &rows.collect::<Vec<_>>(),
        args.full,
    )?)
}

/// What the relay lets one circuit carry.
fn limit(relay: &Relay) -> String {
    let bytes = relay.circuit_bytes.map(|bytes| match bytes {
        0..0x40_0000 => format!("{} KiB", bytes >> 10),
        0x40_0000..0x1_0000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    });
    let duration = relay.circuit_duration.map(output::span);
    let both: Vec<String> = bytes.into_iter().chain(duration).collect();
    both.join(", ")
}
