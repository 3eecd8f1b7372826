//! Circuit relay between implementations: js-libp2p and go-libp2p reserve on our relay and are dialled through it
//! by our node, and our node reserves on theirs. Without Go its part is skipped, and says so.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use agentanycast::{AgentCard, Node, PathKind, ReservationState, Target};
use agentanycast_tests::{
    Daemon, TestRelay, TransportKind, agent::TestAgent, eventually, task_assertions::completed,
};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    client_env::{ClientEnv, go_program},
    js_peer::{JsPeer, artifact, envelope},
    script::ScriptProcess,
};

/// Our node has a place at that relay, is reached through it, and a task goes the way.
async fn reserves_at(relay: &str) {
    let bob = Daemon::builder().bootstrap(relay).start().await;
    let node = bob.node().await;
    let _agent = TestAgent::echo(&node);
    let circuits = eventually("the node has a place at the relay", || async {
        let network = node.network().await.unwrap();
        let held = network
            .relays
            .iter()
            .any(|relay| relay.state == ReservationState::Held);
        held.then_some(network.relayed_addresses)
    })
    .await;
    let alice = Daemon::builder().start().await;
    let asker = alice.node().await;
    reach(&asker, bob.peer_id(), &circuits).await;
    let handle = asker
        .send_task(Target::Peer(bob.peer_id().clone()), "hello")
        .await
        .unwrap();
    assert_eq!(completed(&handle).await.text_content(), "echo: hello");
}

/// Connects through a relay.
async fn reach(node: &Node, peer: &agentanycast::PeerId, circuits: &[String]) {
    let peer = node.connect_peer(peer, circuits).await.unwrap();
    assert_eq!(peer.via, PathKind::Relay, "{peer:?}");
}

#[tokio::test]
async fn js_reserves_on_our_relay_and_is_dialled_through_it() {
    let relay = TestRelay::builder().start().await;
    let mut peer = JsPeer::behind(&relay.addresses[0]).await;
    let daemon = Daemon::builder().start().await;
    let node = daemon.node().await;
    reach(&node, &peer.id, std::slice::from_ref(&peer.address)).await;
    let handle = node
        .send_task(Target::Peer(peer.id.clone()), "work")
        .await
        .unwrap();
    peer.of_task("send_task", handle.id()).await;
    peer.tell(
        json!({"do": "answer", "peer_id": daemon.peer_id().to_string()}),
        "answers",
    )
    .await;
    let working = json!({"task_id": handle.id(), "status": "TASK_STATUS_WORKING"});
    let complete = json!({"task_id": handle.id(), "artifacts": [artifact("done")]});
    peer.send(&[
        envelope("task_status_update", working),
        envelope("task_complete", complete),
    ])
    .await;
    assert_eq!(completed(&handle).await.text_content(), "done");
}

#[tokio::test]
async fn our_node_reserves_on_a_js_relay() {
    let stage = ClientEnv::new(TransportKind::Tcp);
    let mut relay = ScriptProcess::start(stage.node("relay.mjs"));
    let ready = relay.json().await;
    reserves_at(ready["addresses"][0].as_str().unwrap()).await;
}

#[tokio::test]
pub(crate) async fn go_reserves_on_our_relay_and_is_dialled_through_it() {
    let Some(program) = interop().await else { return };
    let relay = TestRelay::builder().start().await;
    for address in &relay.addresses {
        let (mut peer, ready) = go(&program, &["peer", address]).await;
        let daemon = Daemon::builder().start().await;
        let node = daemon.node().await;
        node.set_card(AgentCard::new("Reacher", "Dials through a relay"))
            .await
            .unwrap();
        let circuits = [ready["addresses"][0].as_str().unwrap().to_owned()];
        reach(
            &node,
            &ready["peer_id"].as_str().unwrap().parse().unwrap(),
            &circuits,
        )
        .await;
        let card = peer.json().await;
        let hex = card["hex"].as_str().unwrap();
        // "Reacher"
        assert!(hex.contains("52656163686572"), "{card}");
    }
}

#[tokio::test]
pub(crate) async fn our_node_reserves_on_a_go_relay() {
    let Some(program) = interop().await else { return };
    let (_relay, ready) = go(&program, &["relay"]).await;
    for address in ready["addresses"].as_array().unwrap() {
        reserves_at(address.as_str().unwrap()).await;
    }
}

/// The Go peer.
async fn interop() -> Option<PathBuf> {
    go_program("interop/interop", "go-libp2p").await
}

/// The Go peer in a role, and what it said when it was ready.
async fn go(program: &Path, arguments: &[&str]) -> (ScriptProcess, Value) {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).kill_on_drop(true);
    let mut script = ScriptProcess::start(command);
    let ready = script.json().await;
    assert_eq!(ready["event"], "ready");
    (script, ready)
}
