//! The wall clock of a relay is set back and ahead while it runs. Limits and lives go on in passed time, and
//! what right clocks sign is taken as soon as the relay's clock is right.

use agentanycast_proto::v1::HeartbeatRequest;
use agentanycast_tests::{
    TestRelay, agent::TestAgent, eventually, fake_clock::FakeClock, relay::RelayBuilder,
};

use crate::{
    registry_requests::{RegistrationSigner, finds, now_ms, registration},
    skill_routing::{card, daemon},
};

const HOUR: i64 = 3600;

fn with(clock: &FakeClock) -> RelayBuilder {
    let environment = clock.environment().into_iter();
    environment.fold(TestRelay::builder(), |builder, (name, value)| {
        builder.env(name, value)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_costs_a_registry_nothing() {
    let Some(clock) = FakeClock::new() else { return };
    let mut relay = with(&clock)
        .args(["--registry-ttl=3s", "--requests-per-ip=50"])
        .with_store()
        .start()
        .await;
    let mut client = relay.client().await;
    for set in [0, -120, HOUR, 0, -HOUR, 0] {
        clock.set(set);
        let peer = format!("agent-{set}");
        client.register_skills(registration(&peer, "s")).await.unwrap();
        let renewed = HeartbeatRequest {
            peer_id: peer.clone(),
            ..HeartbeatRequest::default()
        };
        client.heartbeat(renewed).await.unwrap();
        assert!(finds(&relay, "s", &peer).await, "{set} s");
        assert_eq!(relay.health().await["status"], "healthy", "{set} s");
        // Its life ends though the clock was set: in 3 s of passed time.
        eventually("the entry expires", || async {
            (!finds(&relay, "s", &peer).await).then_some(())
        })
        .await;
    }
    // What is signed by a right clock is taken, whatever the relay's clock was at its start.
    clock.set(HOUR);
    relay.stop().await;
    relay.restart().await;
    clock.set(0);
    let signer = RegistrationSigner::new();
    let signed = signer.sign(
        "RegisterSkills",
        registration(&signer.id, "signed"),
        relay.id(),
        now_ms() - 1,
    );
    let mut client = relay.client().await;
    client.register_skills(signed).await.unwrap();
    assert!(finds(&relay, "signed", &signer.id).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_says_why_it_is_not_registered_and_accuses_no_clock() {
    let Some(clock) = FakeClock::new() else { return };
    clock.set(-94);
    let relay = with(&clock).start().await;
    let bob = daemon(&[&relay]).metrics().start().await;
    let node = bob.node().await;
    node.set_card(card("bob", "s")).await.unwrap();
    let _agent = TestAgent::echo(&node);
    let state = async || node.network().await.unwrap().registries.remove(0);
    eventually("a node whose clock is 94 s off is registered", || async {
        state().await.registered.then_some(())
    })
    .await;
    assert!(finds(&relay, "s", bob.peer_id().as_str()).await);

    clock.set(-HOUR);
    let refused = eventually("the node knows that it is not registered", || async {
        let state = state().await;
        (!state.registered && !state.reason.is_empty()).then_some(state)
    })
    .await;
    let expected = format!("this clock and {}'s differ by 3", relay.registry);
    assert!(refused.reason.starts_with(&expected), "{}", refused.reason);
    assert!(
        refused.reason.ends_with("set the clock that is wrong"),
        "{}",
        refused.reason
    );
    let health = bob.metrics().get("/health").await;
    assert!(
        health.body["registries"].to_string().contains(&expected),
        "{}",
        health.body
    );

    // Three sources say whose clock is wrong. On the loopback all are one, so the node is told no more than
    // that.
    clock.set(0);
    eventually("the node is registered again", || async {
        state().await.registered.then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_ahead_for_both_sides_costs_no_registration() {
    let Some(clock) = FakeClock::new() else { return };
    let relay = with(&clock).args(["--registry-ttl=3s"]).start().await;
    let bob = clock
        .environment()
        .into_iter()
        .fold(daemon(&[&relay]), |builder, (name, value)| {
            builder.env(name, value)
        });
    let bob = bob.start().await;
    let node = bob.node().await;
    node.set_card(card("bob", "s")).await.unwrap();
    let _agent = TestAgent::echo(&node);
    let registered = async || {
        let state = node.network().await.unwrap().registries.remove(0);
        let is_found = finds(&relay, "s", bob.peer_id().as_str()).await;
        (state.registered && is_found).then_some(())
    };
    eventually("the node is registered", registered).await;
    clock.set(HOUR);
    // It signs by the wrong clock several times.
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    eventually("the node is registered by both wrong clocks", registered).await;
    clock.set(0);
    // What is signed by the right clock is taken: the entry is renewed beyond its life.
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    eventually("the node is registered by both right clocks", registered).await;
}
