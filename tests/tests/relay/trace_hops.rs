//! `anycast trace` names the relay that a task went through, and says when an agent took it: at both nodes, while they are
//! connected and after a restart.

use agentanycast::{PathKind, ReservationState, Target};
use agentanycast_tests::{
    Daemon, TestRelay,
    agent::TestAgent,
    cli::{anycast_at, anycast_json},
    daemon::DaemonBuilder,
    eventually,
    task_assertions::completed,
};
use serde_json::Value;

/// Alone, neither finds a direct way to the other: one has no QUIC, the other listens for nothing else, and no holes are
/// punched.
fn daemons_behind(relay: &TestRelay) -> [DaemonBuilder; 2] {
    let daemon = |listen: &str, settings: &str| {
        Daemon::builder()
            .bootstrap(&relay.addresses[0])
            .listen([listen])
            .args(["--log-level=debug"])
            .config(&format!("enable_hole_punching = false\n{settings}"))
    };
    [
        daemon("/ip4/127.0.0.1/tcp/0", "enable_quic = false\n"),
        daemon("/ip4/127.0.0.1/udp/0/quic-v1", ""),
    ]
}

/// Where a daemon is reached, once it has a place at its relay.
async fn wait_reserved(daemon: &Daemon) -> Vec<String> {
    let node = daemon.node().await;
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

fn step<'a>(trace: &'a Value, kind: &str) -> &'a str {
    let steps = trace["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["kind"] == kind);
    step.unwrap_or_else(|| panic!("no {kind} in {trace}"))["what"]
        .as_str()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_relay_of_a_task_is_named_on_both_sides() {
    let relay = TestRelay::builder().start().await;
    let [alice, bob] = daemons_behind(&relay);
    let (alice, mut bob) = (alice.start().await, bob.start().await);
    wait_reserved(&alice).await;
    let circuits = wait_reserved(&bob).await;
    let (asker, serving) = (alice.node().await, bob.node().await);
    let agent = TestAgent::echo(&serving);
    let peer = asker.connect_peer(bob.peer_id(), &circuits).await.unwrap();
    assert_eq!(peer.via, PathKind::Relay);
    let target = Target::Peer(bob.peer_id().clone());
    let handle = asker.send_task(target, "hello").await.unwrap();
    completed(&handle).await;

    let through = format!("through the relay {}", relay.id());
    let sent = anycast_json(&alice, &["trace", handle.id()]).await;
    assert_eq!(sent["sent"]["over"]["relay"], relay.id(), "{sent}");
    assert_eq!(sent["sent"]["over"]["via"], "relay", "{sent}");
    assert_eq!(
        step(&sent, "went"),
        format!("sent to {}, {through}", bob.peer_id())
    );
    // And as they are connected now.
    let reach = &sent["peer"];
    assert_eq!(reach["via"], "relay", "{sent}");
    assert_eq!(reach["relay"]["peer_id"], relay.id(), "{sent}");
    let at = relay.addresses[0].split("/p2p/").next().unwrap();
    assert_eq!(reach["relay"]["addresses"][0], at, "{sent}");
    let said = anycast_at(&alice, &["trace", handle.id()]).await.all_output;
    let road = format!("{} is connected {through}, at {at}", bob.peer_id());
    assert!(said.contains(&road), "{said}");
    // The log says of each envelope what it goes over.
    let log = alice.log_tail();
    let mut lines = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let over = format!("relay {}", relay.id());
    assert!(
        lines.any(|line| {
            line["message"] == "an envelope is sent" && line["task"] == handle.id() && line["over"] == over
        }),
        "{log}"
    );

    let came = anycast_json(&bob, &["trace", handle.id()]).await;
    assert_eq!(
        step(&came, "came"),
        format!("came from {}, {through}", alice.peer_id())
    );
    assert!(
        came["given_at"].is_string() && came["claimed_at"].is_string(),
        "{came}"
    );
    assert!(step(&came, "claimed").contains("took it"), "{came}");
    // It is written down with the task.
    drop((agent, serving));
    bob.stop().await;
    let bob = bob.stopped().start().await;
    let kept = anycast_json(&bob, &["trace", handle.id()]).await;
    for mark in ["came_over", "given_at", "claimed_at"] {
        assert_eq!(kept[mark], came[mark], "{kept}");
    }
}
