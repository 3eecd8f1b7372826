//! Nodes whose network lets nothing through but HTTP: they reach a relay, and each other, over WebSocket, plain and in
//! TLS that ends before the relay.

use std::{net::SocketAddr, path::Path};

use agentanycast::{Node, PathKind, ReservationState, Target};
use agentanycast_tests::{Daemon, TestRelay, agent::TestAgent, eventually, task_assertions::completed};

use crate::tls_proxy::TlsProxy;

/// Everybody stays on the road that the test is about.
const STAY: &str = "enable_hole_punching = false\n";

/// More than one message of a WebSocket carries.
const LONG: usize = 3 << 20;

/// Where a node is reached, once it has a place at its relay.
async fn place(node: &Node) -> Vec<String> {
    eventually("the node has a place at the relay", || async {
        let network = node.network().await.unwrap();
        let held = network
            .relays
            .iter()
            .any(|relay| relay.state == ReservationState::Held);
        held.then_some(network.relayed_addresses)
    })
    .await
}

/// Two nodes know each other through this relay only, and a long task goes the way.
async fn meet(relay: &TestRelay, at: &str, config: &str) {
    let bob = Daemon::builder().bootstrap(at).config(config).start().await;
    let alice = Daemon::builder()
        .metrics()
        .bootstrap(at)
        .config(config)
        .start()
        .await;
    let (node, asker) = (bob.node().await, alice.node().await);
    let _agent = TestAgent::serve(&node, |task| async move {
        let answer = format!("{} bytes", task.message().text_content().len());
        task.complete([agentanycast::Artifact::text(answer)]).await?;
        Ok(())
    });
    let circuits = place(&node).await;
    // A circuit that is asked for while the way to its relay is being dialled fails.
    place(&asker).await;
    let bare = at.split("/p2p/").next().unwrap();
    assert!(
        circuits.iter().all(|circuit| circuit.starts_with(bare)),
        "{circuits:?}"
    );
    let peer = asker.connect_peer(bob.peer_id(), &circuits).await.unwrap();
    assert_eq!(peer.via, PathKind::Relay);
    let relayed = alice.metric(r#"agentanycast_peer_paths{path="relayed"}"#).await;
    assert_eq!(relayed, Some(1.0));
    let handle = asker
        .send_task(Target::Peer(bob.peer_id().clone()), "x".repeat(LONG))
        .await
        .unwrap();
    assert_eq!(completed(&handle).await.text_content(), format!("{LONG} bytes"));
    assert!(relay.metric("relay_circuits_accepted_total").await >= 1.0);
    assert!(relay.metric("relay_bytes_total").await >= LONG as f64);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_goes_through_a_relay_over_websocket() {
    let relay = TestRelay::builder()
        .listen("/ip4/127.0.0.1/tcp/0/ws")
        .start()
        .await;
    assert_eq!(relay.addresses.len(), 1, "no other road");
    let at = relay.addresses[0].clone();
    assert!(at.contains("/ws/p2p/"), "{at}");
    meet(&relay, &at, STAY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_goes_through_a_relay_behind_tls() {
    let front = TlsProxy::new(&[]).await;
    let announced = format!("/dns4/localhost/tcp/{}/wss", front.port);
    let relay = TestRelay::builder()
        .listen("/ip4/127.0.0.1/tcp/0/ws")
        .args([format!("--announce={announced}")])
        .start()
        .await;
    let home = tempfile::tempdir().unwrap();
    let authority = home.path().join("ca.pem");
    std::fs::write(&authority, &front.certificate).unwrap();
    let port = relay.addresses[0].split('/').nth(4).unwrap().parse().unwrap();
    let running = front.before(SocketAddr::from(([127, 0, 0, 1], port)));
    let at = format!("{announced}/p2p/{}", relay.id());
    meet(&relay, &at, &format!("{STAY}wss_ca_file = {authority:?}\n")).await;

    // Who does not know the authority does not believe that this is the relay's host, and says so.
    let stranger = Daemon::builder().bootstrap(&at).start().await;
    let node = stranger.node().await;
    let why = eventually(
        "the stranger says why it has no relay, and when it tries again",
        || async {
            let network = node.network().await.unwrap();
            let missing = network
                .relays
                .into_iter()
                .find(|relay| !relay.last_error.is_empty() && relay.next_try.is_some());
            missing.map(|relay| (relay.state, relay.last_error))
        },
    )
    .await;
    assert!(
        why.0 == ReservationState::Away && why.1.contains("certificate"),
        "{why:?}"
    );
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_without_authorities_is_named() {
    let home = tempfile::tempdir().unwrap();
    let refused = async |path: &Path| {
        let ended = Daemon::builder()
            .args([format!("--wss-ca-file={}", path.display())])
            .run_to_end()
            .await;
        String::from_utf8(ended.stderr).unwrap()
    };
    let empty = home.path().join("empty.pem");
    std::fs::write(&empty, "nothing").unwrap();
    for path in [empty, home.path().join("missing.pem")] {
        let said = refused(&path).await;
        assert!(
            said.contains("wss_ca_file") && said.contains(path.to_str().unwrap()),
            "{said}"
        );
    }
}
