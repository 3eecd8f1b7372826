//! What was signed earlier is refused: over a restart, and by agents whose clock was set back, which sign anew.

use agentanycast::{AgentCard, Skill};
use agentanycast_identity::{self as identity, proof::AFTER_KEY};
use agentanycast_tests::{TestRelay, eventually, relay::RelayBuilder};
use tonic::{Code, Status};

use crate::{
    registry_requests::{RegistrationSigner, finds, found, heartbeat, now_ms, registration, unregistration},
    skill_routing::daemon,
};

fn after(refused: &Status) -> u64 {
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    let after = refused.metadata().get(AFTER_KEY).unwrap();
    after.to_str().unwrap().parse().unwrap()
}

async fn a_registration_ends_for_good(builder: RelayBuilder) {
    let mut relay = builder.start().await;
    let signer = RegistrationSigner::new();
    // Its clock is ahead.
    let signed_ms = now_ms() + 50_000;
    let register = |time_ms| {
        let request = registration(&signer.id, "s");
        signer.sign("RegisterSkills", request, relay.id(), time_ms)
    };
    let (captured, anew) = (register(now_ms()), register(signed_ms + 2));
    let mut client = relay.client().await;
    client.register_skills(register(signed_ms)).await.unwrap();
    let end = signer.sign(
        "UnregisterSkills",
        unregistration(&signer.id),
        relay.id(),
        signed_ms + 1,
    );
    client.unregister_skills(end).await.unwrap();
    relay.kill().await;
    relay.restart().await;
    let mut client = relay.client().await;
    let refused = client.register_skills(captured).await.unwrap_err();
    assert!(after(&refused) >= now_ms() - 60_000, "{refused}");
    assert!(found(&relay, "s").await.is_empty());
    client.register_skills(anew).await.unwrap();
    assert!(finds(&relay, "s", &signer.id).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registration_from_before_a_restart_is_not_taken_again() {
    a_registration_ends_for_good(TestRelay::builder()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_remembers_when_the_last_request_was_signed() {
    a_registration_ends_for_good(TestRelay::builder().with_store()).await;
    // Later than the start, and earlier than the end.
    let mut relay = TestRelay::builder().with_store().start().await;
    let signer = RegistrationSigner::new();
    let mut client = relay.client().await;
    let ahead = now_ms() + 50_000;
    let register = |relay: &TestRelay, time_ms| {
        let request = registration(&signer.id, "s");
        signer.sign("RegisterSkills", request, relay.id(), time_ms)
    };
    client.register_skills(register(&relay, ahead)).await.unwrap();
    let request = unregistration(&signer.id);
    let end = signer.sign("UnregisterSkills", request, relay.id(), ahead + 1);
    client.unregister_skills(end).await.unwrap();
    relay.kill().await;
    relay.restart().await;
    let mut client = relay.client().await;
    let again = register(&relay, ahead);
    let refused = client.register_skills(again).await.unwrap_err();
    assert_eq!(after(&refused), ahead + 1);
    assert!(found(&relay, "s").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: waits 20 s of renewals at three relays"]
async fn all_relays_have_what_was_signed_last() {
    let one = TestRelay::builder().start().await;
    let other = TestRelay::builder().federated_with([&one]).start().await;
    let signer = RegistrationSigner::new();
    let mut client = one.client().await;
    let ahead = now_ms() + 50_000;
    let register = |skill: &str, time_ms| {
        let request = registration(&signer.id, skill);
        signer.sign("RegisterSkills", request, one.id(), time_ms)
    };
    client.register_skills(register("new", ahead)).await.unwrap();
    let refused = client.register_skills(register("old", now_ms())).await;
    assert_eq!(after(&refused.unwrap_err()), ahead);
    let request = unregistration(&signer.id);
    let end = signer.sign("UnregisterSkills", request, one.id(), now_ms());
    assert_eq!(after(&client.unregister_skills(end).await.unwrap_err()), ahead);
    let beat = signer.sign("Heartbeat", heartbeat(&signer.id), one.id(), now_ms());
    assert_eq!(after(&client.heartbeat(beat).await.unwrap_err()), ahead);
    eventually("both have the new one", || async {
        (finds(&one, "new", &signer.id).await && finds(&other, "new", &signer.id).await).then_some(())
    })
    .await;
    client
        .register_skills(register("newer", ahead + 1))
        .await
        .unwrap();
    eventually("both have the newer one", || async {
        (finds(&one, "newer", &signer.id).await && finds(&other, "newer", &signer.id).await).then_some(())
    })
    .await;
}

/// As if the daemon's clock had been set back: what it signed last is later than its time.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_clock_was_set_back_signs_anew_at_once() {
    let relay = TestRelay::builder().args(["--registry-ttl=6s"]).start().await;
    let daemon = daemon(&[&relay]).start().await;
    let node = daemon.node().await;
    let card = AgentCard::new("agent", "an agent of a test").with_skill(Skill::new("s", "what it does"));
    node.set_card(card).await.unwrap();
    let _agent = agentanycast_tests::agent::TestAgent::echo(&node);
    eventually("it is registered", || async {
        (!found(&relay, "s").await.is_empty()).then_some(())
    })
    .await;
    let key = identity::load_or_create(&daemon.home().path().join("key")).unwrap();
    let id = identity::peer_id(&key).to_string();
    let signer = RegistrationSigner { key, id };
    assert!(finds(&relay, "s", &signer.id).await);
    let mut client = relay.client().await;
    let beat = signer.sign("Heartbeat", heartbeat(&signer.id), relay.id(), now_ms() + 50_000);
    let until = client.heartbeat(beat).await.unwrap().into_inner().expires_at;
    // It is renewed, and by nobody but the daemon.
    eventually("the daemon renews", || async {
        let found = found(&relay, "s").await;
        let expires = found.first().and_then(|agent| agent.expires_at);
        let at = |time: Option<prost_types::Timestamp>| time.map(|time| (time.seconds, time.nanos));
        (at(expires) > at(until)).then_some(())
    })
    .await;
}
