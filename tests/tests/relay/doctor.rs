//! What `anycast doctor` says of a node that is registered nowhere, of one whose clock is wrong, and of one that is there
//! twice.

use std::time::Duration;

use agentanycast_tests::{
    Daemon, TestRelay, agent::TestAgent, cli::anycast_at, daemon::Home, eventually, fake_clock::FakeClock,
};
use serde_json::Value;

use crate::skill_routing::{card, daemon, echo_agent};

/// The problem of this kind that is found, once it is.
async fn problem(daemon: &Daemon, check: &str) -> Value {
    eventually("doctor finds it", || async {
        let said = anycast_at(daemon, &["--json", "doctor"]).await;
        let document: Value = serde_json::from_str(&said.stdout).unwrap();
        let checks = document["checks"].as_array().unwrap();
        let found = checks
            .iter()
            .find(|found| found["check"] == check && found["state"] == "problem")?;
        assert_eq!(
            (said.status.code(), &document["is_well"]),
            (Some(1), &false.into())
        );
        Some(found.clone())
    })
    .await
}

fn says(found: &Value, parts: &[&str]) {
    let text = format!("{} {}", found["says"], found["advice"]);
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in {found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registered_node_is_well() {
    let relay = TestRelay::builder().start().await;
    let (bob, ..) = &echo_agent(&[&relay], "bob", "s").await;
    eventually("all is well", || async {
        let said = anycast_at(bob, &["doctor"]).await;
        let registered = said.stdout.contains(&format!("registered at {}", relay.registry));
        (said.status.success() && registered && said.stdout.ends_with("all is well\n")).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_off_is_named_twice_over() {
    let Some(clock) = FakeClock::new() else { return };
    clock.set(600);
    let relay = TestRelay::builder().start().await;
    let builder = daemon(&[&relay]);
    let environment = clock.environment().into_iter();
    let bob = environment
        .fold(builder, |builder, (name, value)| builder.env(name, value))
        .start()
        .await;
    let node = bob.node().await;
    node.set_card(card("bob", "s")).await.unwrap();
    let _agent = TestAgent::echo(&node);
    let found = problem(&bob, "clock").await;
    says(&found, &["this clock and ", "differ by 6", "timedatectl"]);
    let found = problem(&bob, "registry").await;
    says(&found, &["not registered at", "set the clock"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_a_registry_is_named() {
    let relay = TestRelay::builder().args(["--entries-per-ip=1"]).start().await;
    let (_alice, ..) = &echo_agent(&[&relay], "alice", "s").await;
    let (bob, ..) = &echo_agent(&[&relay], "bob", "s").await;
    let found = problem(bob, "registry").await;
    says(
        &found,
        &["not registered at", "at most", "a limit of the registry"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_daemon_with_the_key_is_named() {
    let relay = TestRelay::builder().args(["--registry-ttl=6s"]).start().await;
    let home = Home::new();
    agentanycast_identity::load_or_create(&home.path().join("key")).unwrap();
    let start = async || {
        let own = Home::new();
        std::fs::copy(home.path().join("key"), own.path().join("key")).unwrap();
        let registry = relay.registry.to_string();
        let builder = agentanycast_tests::daemon::DaemonBuilder::new(own);
        let daemon = builder.env("AGENTANYCAST_REGISTRY_ADDRS", registry).start().await;
        let node = daemon.node().await;
        node.set_card(card("bob", "s")).await.unwrap();
        let agent = TestAgent::echo(&node);
        (daemon, node, agent)
    };
    let (first, ..) = &start().await;
    let (_second, ..) = &start().await;
    let found = problem(first, "key").await;
    says(
        &found,
        &["another daemon runs with this node's key", "stop one of the two"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_is_away_is_named() {
    let mut relay = TestRelay::builder().start().await;
    let bob = daemon(&[&relay]).bootstrap(&relay.addresses[0]).start().await;
    eventually("bob has a slot there", || async {
        let said = anycast_at(&bob, &["doctor"]).await;
        said.stdout.contains("1 of 1 hold a slot").then_some(())
    })
    .await;
    let said = anycast_at(
        &bob,
        &["ping", &relay.addresses[0], "--count", "2", "--interval", "100ms"],
    )
    .await;
    assert!(
        said.status.success() && said.stdout.contains("2 sent, 2 answered"),
        "{}",
        said.all_output
    );
    relay.kill().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let found = problem(&bob, "relays").await;
    says(&found, &["is away", "bootstrap_peers"]);
}
