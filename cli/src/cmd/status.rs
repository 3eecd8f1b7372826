//! `anycast status`: who the daemon is and how it is connected.

use serde_json::json;

use crate::{context::Context, did, failure::Failure, json, output};

pub(crate) async fn run(context: &Context) -> Result<(), Failure> {
    let node = context.connect().await?;
    let info = node.info().await?;
    let did = info.peer_id.as_ref().and_then(did::from_peer).unwrap_or_default();
    let peer = info.peer_id.map(|peer| peer.to_string()).unwrap_or_default();
    let reachable = match info.publicly_reachable {
        Some(true) => "yes",
        Some(false) => "no, behind a NAT",
        None => "not known yet",
    };
    // Of a daemon that is too old to say it is not known, and nothing is said.
    let activity = node.activity(0).await;
    let (failure, problems) = activity
        .map(|activity| (activity.store_failure, activity.problems))
        .unwrap_or_default();
    // Of a daemon that is too old to say it is not known.
    let registries = node.network().await.map(|network| network.registries);
    let registries = registries.unwrap_or_default();
    if context.json {
        let document = json!({
            "peer_id": peer,
            "did_key": did,
            "version": info.version,
            "daemon": node.address(),
            "listen_addresses": info.listen_addresses,
            "publicly_reachable": info.publicly_reachable,
            "connected_peers": info.connected_peers,
            "started_at": json::time(info.started_at),
            "store_failure": (!failure.is_empty()).then_some(&failure),
            "problems": problems,
            "registries": registries.iter().map(json::registry).collect::<Vec<_>>(),
        });
        return Ok(output::json(&document)?);
    }
    output::fields(&[
        ("peer id", peer),
        ("did", did),
        ("version", info.version),
        ("daemon", node.address()),
        ("failed", output::flat(&failure)),
        ("up for", output::ago(info.started_at)),
        ("peers", info.connected_peers.to_string()),
        ("reachable", reachable.to_owned()),
    ])?;
    for problem in problems {
        output::fields(&[("degraded ", output::flat(&problem))])?;
    }
    for registry in &registries {
        output::fields(&[output::registration(registry)])?;
    }
    for address in info.listen_addresses {
        output::fields(&[("listens  ", address)])?;
    }
    Ok(())
}
