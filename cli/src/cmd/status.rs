//! `anycast status`: who the daemon is and how it is connected. It fails when the daemon's store has failed, so that a
//! health check can be made of it.

use agentanycast::{ErrorKind, NodeAgent};
use serde_json::{Map, Value, json};

use crate::{
    agent_access,
    context::Context,
    did,
    failure::{CommandFailure, FailureCode},
    json,
    output::{self, agents_in_words},
};

pub(crate) async fn run(context: &Context) -> Result<(), CommandFailure> {
    let node = context.connect().await?;
    let info = node.info().await?;
    let did = info
        .peer_id
        .as_ref()
        .and_then(did::did_of_peer)
        .unwrap_or_default();
    let peer = info.peer_id.map(|peer| peer.to_string()).unwrap_or_default();
    let reachable = match info.publicly_reachable {
        Some(true) => "yes",
        Some(false) => "no, behind a NAT",
        None => "not known yet",
    };
    let (failure, problems) = match node.activity(0).await {
        Ok(activity) => (activity.store_failure, activity.problems),
        // The daemon is too old to say it.
        Err(error) if error.kind() == ErrorKind::Unsupported => (String::new(), Vec::new()),
        Err(error) => return Err(error.into()),
    };
    // A daemon that is too old does not say it.
    let registries = node.network().await.map(|network| network.registries);
    let registries = registries.unwrap_or_default();
    let agents = match node.node_agents().await {
        Ok(agents) => agents,
        // The daemon is too old to have several.
        Err(error) if error.kind() == ErrorKind::Unsupported => Vec::new(),
        // A store that failed has no agents to tell of, and is told of itself.
        Err(_) if !failure.is_empty() => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
    let access = agents.iter().map(|agent| {
        let mut fields = Map::new();
        fields.insert("agent".to_owned(), agent.name.as_str().into());
        agent_access::put_into(&mut fields, Some(agent));
        Value::Object(fields)
    });
    if context.json {
        let document = json!({
            "peer_id": peer,
            "did_key": did,
            "version": info.version,
            "daemon": node.address(),
            "addresses": info.listen_addresses,
            "publicly_reachable": info.publicly_reachable,
            "connected_peers": info.connected_peers,
            "agents": names,
            "agent_access": access.collect::<Vec<_>>(),
            "started_at": json::time(info.started_at),
            "store_failure": (!failure.is_empty()).then_some(&failure),
            "problems": problems,
            "registries": registries.iter().map(json::registry).collect::<Vec<_>>(),
        });
        output::json(&json::with_old_names(
            document,
            &[("addresses", "listen_addresses")],
        ))?;
        return healthy(failure);
    }
    output::fields(&[
        ("peer id", peer),
        ("did", did),
        ("version", info.version),
        ("daemon", node.address()),
        ("failed", output::flat(&failure)),
        ("up for", output::ago(info.started_at)),
        ("peers", info.connected_peers.to_string()),
        ("agents", with_access(&agents)),
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
    healthy(failure)
}

/// The agents of this node, each with who may use it.
fn with_access(agents: &[NodeAgent]) -> String {
    let named = |agent: &NodeAgent| format!("{} ({})", agent.name, agent_access::word(agent.access));
    let named: Vec<String> = agents.iter().map(named).collect();
    match named.as_slice() {
        [only] => only.clone(),
        several => agents_in_words(&several.iter().map(String::as_str).collect::<Vec<_>>(), 0),
    }
}

/// An error, which standard output has told already, if the store has failed.
pub(crate) fn healthy(store_failure: String) -> Result<(), CommandFailure> {
    if store_failure.is_empty() {
        return Ok(());
    }
    Err(CommandFailure::new(FailureCode::General, "StoreFailed", store_failure).already_reported())
}
