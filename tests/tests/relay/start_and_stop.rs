//! How a relay starts and ends: the lines that scripts read, ports that are taken, what it is told.

use std::time::Duration;

use agentanycast_tests::{Daemon, TestRelay, eventually, proc_stats};
use rustix::process::{Signal, kill_process};
use tokio::net::TcpListener;

#[tokio::test(flavor = "multi_thread")]
async fn it_says_where_it_is_in_the_contracts_order() {
    let mut relay = TestRelay::builder().start().await;
    let names: Vec<&str> = relay
        .said
        .iter()
        .filter_map(|line| line.split('=').next())
        .collect();
    assert_eq!(
        names,
        [
            "RELAY_ADDR",
            "RELAY_ADDR",
            "REGISTRY_ADDR",
            "METRICS_ADDR",
            "API_ADDR"
        ]
    );
    assert!(relay.addresses[0].contains("/tcp/") && relay.addresses[1].contains("/quic-v1/"));
    let (id, threads) = (relay.id().to_owned(), proc_stats::threads(relay.pid()));
    assert!(threads < 64);
    relay.stop().await;
    relay.restart().await;
    assert_eq!(relay.id(), id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_of_a_face_is_said_and_not_the_end() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let relay = TestRelay::builder().args([format!("--metrics-listen={address}")]);
    // It would print no line for it, so the fixture cannot wait for that; the registry's comes first.
    let output = tokio::time::timeout(Duration::from_secs(3), relay.run_to_end()).await;
    assert!(output.is_err(), "it ended: {output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_of_the_registry_is_the_end() {
    let first = TestRelay::builder().start().await;
    let output = TestRelay::builder().registry(first.registry).run_to_end().await;
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap();
    assert!(
        last.contains(&first.registry.to_string()) && last.contains("--registry-listen"),
        "{last}"
    );
    let bare = first.addresses[0].split("/p2p/").next().unwrap().to_owned();
    let output = TestRelay::builder()
        .args([format!("--listen={bare}")])
        .run_to_end()
        .await;
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains(&bare) && said.contains("another port for --listen"),
        "{said}"
    );
}

/// Where nobody may make a file, whoever asks.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_may_not_be_written_says_what_to_set() {
    let output = TestRelay::builder().args(["--store=/sys"]).run_to_end().await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("the registry's store /sys") && said.contains("set --store to a directory"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_is_said_and_not_the_end() {
    let mut relay = TestRelay::builder().start().await;
    let said = |relay: &TestRelay| relay.log().matches("SIGHUP: ").count();
    for times in 1..=2 {
        kill_process(relay.pid(), Signal::HUP).unwrap();
        eventually("it is said", || async { (said(&relay) == times).then_some(()) }).await;
    }
    assert_eq!(relay.health().await["status"], "healthy");
    relay.stop().await;
}

/// It listens on QUIC too, and says so to nobody: behind a port mapping such addresses lead nowhere.
#[tokio::test(flavor = "multi_thread")]
async fn peers_are_told_nothing_but_what_is_announced() {
    let announced = "/ip4/127.0.83.2/tcp/4001";
    let mut relay = TestRelay::builder()
        .listen(announced)
        .args([format!("--announce={announced}")])
        .start()
        .await;
    assert!(relay.addresses.iter().any(|address| address.contains("/quic-v1")));
    let daemon = Daemon::builder()
        .bootstrap(format!("{announced}/p2p/{}", relay.id()))
        .start()
        .await;
    let node = daemon.node().await;
    let connected = || async {
        let peers = node.peers().await.ok()?;
        peers.into_iter().next().map(|peer| peer.addresses)
    };
    // A node that knew of others would come back by one of those.
    for _ in 0..3 {
        let at = eventually("the daemon is at the relay", connected).await;
        assert_eq!(at, [announced]);
        relay.kill().await;
        eventually("the daemon has noticed", || async {
            connected().await.is_none().then_some(())
        })
        .await;
        relay.restart().await;
    }
}
