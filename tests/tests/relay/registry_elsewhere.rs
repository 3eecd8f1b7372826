//! A relay whose registry is not at the port that deployed clients expect: nodes that only name the relay register there.

use agentanycast_tests::{Daemon, TestRelay, agent::TestAgent, cli::anycast_at, eventually};

use crate::skill_routing::card;

/// The asker finds the worker by its skill.
async fn is_found(asker: &Daemon) {
    let node = asker.node().await;
    eventually("the worker is found", || async {
        let found = node.discover("dig", &[].into(), 0).await.ok()?;
        (!found.agents.is_empty()).then_some(())
    })
    .await;
}

/// The registry's address, as the worker's status has it once it is registered.
async fn is_registered_at(worker: &Daemon, registry: &str) {
    eventually("the worker is registered there", || async {
        let said = anycast_at(worker, &["status", "--json"]).await;
        let status: serde_json::Value = serde_json::from_str(&said.stdout).ok()?;
        let registries = status["registries"].as_array()?;
        let is_there =
            |known: &serde_json::Value| known["address"] == registry && known["registered"] == true;
        (registries.len() == 1 && is_there(&registries[0])).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_register_where_their_relay_says_also_after_it_has_moved() {
    let mut relay = TestRelay::builder().start().await;
    let beside = || Daemon::builder().bootstrap(&relay.addresses[0]);
    let (worker, asker) = (beside().start().await, beside().start().await);
    let serving = worker.node().await;
    serving.set_card(card("worker", "dig")).await.unwrap();
    let _agent = TestAgent::echo(&serving);
    is_registered_at(&worker, &relay.registry.to_string()).await;
    is_found(&asker).await;

    let before = relay.registry;
    relay.kill().await;
    let listen = relay.addresses[0].split("/p2p/").next().unwrap().to_owned();
    let moved = relay
        .stopped()
        .listen(listen)
        .registry("127.0.0.1:0".parse().unwrap());
    relay = moved.start().await;
    assert_ne!(relay.registry, before);
    is_registered_at(&worker, &relay.registry.to_string()).await;
    is_found(&asker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_announced_registry_is_used_instead_of_the_port() {
    let other = TestRelay::builder().start().await;
    let announced = format!("http://{}", other.registry);
    let relay = TestRelay::builder()
        .args([format!("--announce-registry={announced}")])
        .start()
        .await;
    let worker = Daemon::builder().bootstrap(&relay.addresses[0]).start().await;
    let serving = worker.node().await;
    serving.set_card(card("worker", "dig")).await.unwrap();
    let _agent = TestAgent::echo(&serving);
    is_registered_at(&worker, &announced).await;
    assert_eq!(other.api("/api/v1/agents").await["total"], 1);
    assert_eq!(relay.api("/api/v1/agents").await["total"], 0);

    for wrong in ["relay.example", "ftp://relay.example:1", "relay.example:0"] {
        let refused = TestRelay::builder()
            .args([format!("--announce-registry={wrong}")])
            .run_to_end()
            .await;
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(
            said.contains("announce_registry") && said.contains(wrong),
            "{said}"
        );
    }
}

/// What the settings name is asked, whatever the relay says.
#[tokio::test(flavor = "multi_thread")]
async fn a_named_registry_stays_the_one_that_is_asked() {
    let (relay, named) = (
        TestRelay::builder().start().await,
        TestRelay::builder().start().await,
    );
    let worker = Daemon::builder()
        .bootstrap(&relay.addresses[0])
        .env("AGENTANYCAST_REGISTRY_ADDRS", named.registry.to_string())
        .start()
        .await;
    let serving = worker.node().await;
    serving.set_card(card("worker", "dig")).await.unwrap();
    let _agent = TestAgent::echo(&serving);
    is_registered_at(&worker, &named.registry.to_string()).await;
    assert_eq!(relay.api("/api/v1/agents").await["total"], 0);
}
