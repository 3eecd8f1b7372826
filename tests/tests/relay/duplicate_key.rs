//! Two daemons run with one key: everybody who meets both says so, and both are told.

use std::time::Duration;

use agentanycast_tests::{
    Daemon, TestRelay,
    agent::TestAgent,
    daemon::{DaemonBuilder, Home},
    eventually, eventually_within,
};

use crate::skill_routing::card;

/// Longer than three pings.
const PINGS: Duration = Duration::from_secs(50);

/// A daemon with the key of this home.
fn with_key_of(home: &Home) -> DaemonBuilder {
    let own = Home::new();
    std::fs::copy(home.path().join("key"), own.path().join("key")).unwrap();
    DaemonBuilder::new(own).metrics()
}

fn new_home() -> Home {
    let home = Home::new();
    agentanycast_identity::load_or_create(&home.path().join("key")).unwrap();
    home
}

/// What `/health` says of another daemon with the key.
async fn told(daemon: &Daemon) -> Option<String> {
    let health = daemon.metrics().get("/health").await.body;
    let problems = health["problems"].as_array().unwrap().iter();
    problems
        .map(|problem| problem.as_str().unwrap().to_owned())
        .find(|problem| problem.starts_with("another daemon runs with this node's key"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_both_register_at_tells_both() {
    let relay = TestRelay::builder().args(["--registry-ttl=6s"]).start().await;
    let home = new_home();
    let start = async || {
        let registry = relay.registry.to_string();
        let daemon = with_key_of(&home).env("AGENTANYCAST_REGISTRY_ADDRS", registry);
        let daemon = daemon.start().await;
        let node = daemon.node().await;
        node.set_card(card("bob", "s")).await.unwrap();
        let agent = TestAgent::echo(&node);
        (daemon, node, agent)
    };
    let (mut first, _node, _agent) = start().await;
    // The same daemon once more, killed and started again, is one.
    first.kill().await;
    first.restart().await;
    let node = first.node().await;
    node.set_card(card("bob", "s")).await.unwrap();
    let _agent = TestAgent::echo(&node);
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(told(&first).await, None);
    }

    let (mut second, _node, _second_agent) = start().await;
    for daemon in [&first, &second] {
        let told = eventually("both are told", || told(daemon)).await;
        let registry = relay.registry.to_string();
        assert!(
            told.contains(&registry) && told.contains("stop one of the two"),
            "{told}"
        );
        let activity = daemon.node().await.activity(0).await.unwrap();
        assert_eq!(activity.problems, [told], "status says it too");
    }
    let log = relay.log();
    let says = log.matches("several daemons run with the key").count();
    assert_eq!(says, 1, "{log}");

    second.stop().await;
    eventually("the one that is left is told", || async {
        told(&first).await.is_none().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: waits until both have answered pings, which are 15 s apart"]
async fn a_peer_that_both_are_connected_to_tells_both() {
    let witness = Daemon::builder().start().await;
    let home = new_home();
    let builder = || with_key_of(&home).bootstrap(witness.tcp());
    // The second has no agent, and so no card.
    let node = witness.node().await;
    node.set_card(card("witness", "s")).await.unwrap();
    let mut first = builder().start().await;
    first.node().await.set_card(card("bob", "s")).await.unwrap();
    let mut second = builder().start().await;
    for daemon in [&first, &second] {
        let told = eventually_within(PINGS, "both are told", || told(daemon)).await;
        assert!(told.contains(witness.peer_id().as_str()), "{told}");
    }
    assert!(
        witness
            .log_tail()
            .contains("several daemons run with the key of this peer"),
        "{}",
        witness.log_tail()
    );
    let known = node.known_card_of(first.peer_id()).await.unwrap();
    assert_eq!(known.warnings.len(), 1, "{known:?}");
    second.kill().await;
    eventually("the one that is left is told", || async {
        told(&first).await.is_none().then_some(())
    })
    .await;

    // A daemon that is killed and comes back is one, also where its old connection stands for a while.
    first.kill().await;
    first.restart().await;
    let until = tokio::time::Instant::now() + PINGS;
    while tokio::time::Instant::now() < until {
        assert_eq!(told(&first).await, None);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
