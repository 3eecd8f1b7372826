//! Several relays as one directory: in line, in a ring, in a star; and what they say of one that is gone.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::{Duration, Instant},
};

use agentanycast_identity::rotation::Rotation;
use agentanycast_proto::v1::RegisterSkillsRequest;
use agentanycast_tests::{TestRelay, eventually, eventually_within, relay::RelayBuilder};

use crate::registry_requests::{
    RegistrationSigner, finds, found, heartbeat, now_ms, registration, unregistration,
};

/// The contract's figure.
const SOON: Duration = Duration::from_secs(3);

/// Where a relay listens that is started again at its address: below the ports that the system gives to connections, one of which
/// might take it meanwhile.
fn kept_address() -> SocketAddr {
    const FIRST: u16 = 20_000;
    const COUNT: u32 = 12_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let place = std::process::id().wrapping_mul(97) + NEXT.fetch_add(1, Relaxed);
        let port = FIRST + u16::try_from(place % COUNT).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if std::net::TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

fn builder() -> RelayBuilder {
    // Pulls are rare, so that what is seen soon was pushed.
    let kept = TestRelay::builder().registry(kept_address());
    kept.args(["--federation-sync-interval=5s", "--registry-ttl=6s"])
}

/// Four relays, each told of those before it by `links`; the last of them also tell the first.
async fn linked(links: &[&[usize]]) -> Vec<TestRelay> {
    linked_by(builder, links).await
}

pub(crate) async fn linked_by(builder: impl Fn() -> RelayBuilder, links: &[&[usize]]) -> Vec<TestRelay> {
    let mut relays: Vec<TestRelay> = Vec::new();
    for to in links {
        let peers: Vec<&TestRelay> = to.iter().map(|place| &relays[*place]).collect();
        let spec = builder().registry(kept_address());
        let spec = if peers.is_empty() {
            spec
        } else {
            spec.federated_with(peers)
        };
        relays.push(spec.start().await);
    }
    // A link that only one side knows of carries both ways: what is pulled is passed on, but the other side does
    // not push. So each is started anew with both sides.
    for place in 0..relays.len() {
        let mut both: Vec<usize> = links[place].to_vec();
        both.extend((0..links.len()).filter(|other| links[*other].contains(&place)));
        let addresses: Vec<String> = both
            .iter()
            .map(|other| relays[*other].registry.to_string())
            .collect();
        let address = relays[place].registry;
        relays[place].stop().await;
        let spec = builder()
            .registry(address)
            .args([format!("--federation-peers={}", addresses.join(","))]);
        relays[place] = spec.start().await;
    }
    for relay in &relays {
        eventually("every relay has answered", || async {
            let health = relay.health().await;
            let federation = &health["federation"];
            (federation["peers"] == federation["healthy_peers"] && health["status"] == "healthy")
                .then_some(())
        })
        .await;
    }
    relays
}

async fn converges(links: &[&[usize]]) {
    let relays = linked(links).await;
    for (home, relay) in relays.iter().enumerate() {
        let peer = format!("agent-of-{home}");
        let mut client = relay.client().await;
        let begun = Instant::now();
        client.register_skills(registration(&peer, "s")).await.unwrap();
        for other in &relays {
            eventually_within(
                SOON.saturating_sub(begun.elapsed()),
                "the agent is known everywhere",
                || async { finds(other, "s", &peer).await.then_some(()) },
            )
            .await;
        }
    }
    for relay in &relays {
        assert_eq!(found(relay, "s").await.len(), relays.len());
    }
    let mut client = relays[0].client().await;
    let begun = Instant::now();
    client
        .unregister_skills(unregistration("agent-of-0"))
        .await
        .unwrap();
    for other in &relays {
        eventually_within(
            SOON.saturating_sub(begun.elapsed()),
            "everybody knows that it has gone",
            || async { (!finds(other, "s", "agent-of-0").await).then_some(()) },
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_converges() {
    converges(&[&[], &[0], &[1], &[2]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ring_converges() {
    converges(&[&[], &[0], &[1], &[0, 2]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_star_converges() {
    converges(&[&[], &[0], &[0], &[0]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_renews_stays_visible_everywhere() {
    let first = TestRelay::builder()
        .registry(kept_address())
        .args(["--registry-ttl=1s"])
        .start()
        .await;
    let second = TestRelay::builder()
        .args(["--registry-ttl=1s"])
        .federated_with([&first])
        .start()
        .await;
    let address = first.registry;
    let mut first = first;
    first.stop().await;
    let first = TestRelay::builder()
        .args(["--registry-ttl=1s"])
        .registry(address)
        .federated_with([&second])
        .start()
        .await;
    let mut client = first.client().await;
    client.register_skills(registration("p", "s")).await.unwrap();
    eventually("it is known there", || async {
        finds(&second, "s", "p").await.then_some(())
    })
    .await;
    // Ten lives.
    for _ in 0..40 {
        tokio::time::sleep(Duration::from_millis(250)).await;
        client.heartbeat(heartbeat("p")).await.unwrap();
        assert!(finds(&second, "s", "p").await);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: waits 30 s of renewals"]
async fn an_agent_that_renews_stays_visible_on_all_of_three_relays() {
    const TTL: Duration = Duration::from_secs(3);
    let relays = linked_by(
        || TestRelay::builder().args(["--registry-ttl=3s", "--federation-sync-interval=1h"]),
        &[&[], &[0], &[1]],
    )
    .await;
    let mut client = relays[0].client().await;
    client.register_skills(registration("p", "s")).await.unwrap();
    for relay in &relays {
        eventually("it is known everywhere", || async {
            finds(relay, "s", "p").await.then_some(())
        })
        .await;
    }
    let begun = Instant::now();
    while begun.elapsed() < TTL * 10 {
        tokio::time::sleep(TTL / 6).await;
        client.heartbeat(heartbeat("p")).await.unwrap();
        for (place, relay) in relays.iter().enumerate() {
            let elapsed = begun.elapsed();
            assert!(finds(relay, "s", "p").await, "gone at {place} after {elapsed:?}");
        }
    }
    // And not for ever: without another word it is gone everywhere.
    for relay in &relays {
        eventually("it has expired", || async {
            (!finds(relay, "s", "p").await).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_is_told_of_itself_counts_nobody() {
    let mut relay = builder().start().await;
    let address = relay.registry;
    relay.stop().await;
    let peers = format!("--federation-peers={address}");
    let relay = builder().registry(address).args([peers]).start().await;
    let health = eventually("it has met itself", || async {
        let health = relay.health().await;
        (health["federation"]["peers"] == 0).then_some(health)
    })
    .await;
    assert_eq!(health["status"], "healthy");
    assert_eq!(
        (
            &health["federation"]["healthy_peers"],
            &health["federation"]["peer_details"]
        ),
        (&0.into(), &serde_json::json!([]))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_is_gone_is_said_to_be_and_found_again() {
    let mut first = builder().start().await;
    let second = builder().federated_with([&first]).start().await;
    eventually("it answers", || async {
        (second.health().await["federation"]["healthy_peers"] == 1).then_some(())
    })
    .await;
    first.kill().await;
    let health = eventually("it is missed", || async {
        let health = second.health().await;
        (health["status"] == "degraded").then_some(health)
    })
    .await;
    let detail = &health["federation"]["peer_details"][0];
    assert!(
        detail["healthy"] == false && detail["backoff_until"].is_string(),
        "{detail}"
    );
    let failing = second.metric("federation_peers{state=\"failing\"}").await;
    assert!((0.5..1.5).contains(&failing), "{failing}");
    first.restart().await;
    eventually("it answers again", || async {
        (second.health().await["status"] == "healthy").then_some(())
    })
    .await;
    let mut client = first.client().await;
    client.register_skills(registration("p", "s")).await.unwrap();
    eventually("what it knows is pulled", || async {
        finds(&second, "s", "p").await.then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_proven_at_one_relay_is_at_the_others() {
    let first = builder().start().await;
    let second = builder()
        .federated_with([&first])
        .args(["--registry-auth=signed"])
        .start()
        .await;
    let mut client = first.client().await;
    let signer = RegistrationSigner::new();
    client
        .register_skills(signer.sign(
            "RegisterSkills",
            registration(&signer.id, "s"),
            first.id(),
            now_ms(),
        ))
        .await
        .unwrap();
    client
        .register_skills(registration("unsigned", "s"))
        .await
        .unwrap();
    eventually("the proven one is taken", || async {
        finds(&second, "s", &signer.id).await.then_some(())
    })
    .await;
    let agents = found(&second, "s").await;
    assert!(
        agents.len() == 1 && agents[0].verified && agents[0].origin_relay_id == first.id(),
        "{agents:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_takes_the_place_of_the_old_one_on_every_relay() {
    // Nothing expires meanwhile, and what is seen soon was pushed.
    let builder = || TestRelay::builder().args(["--federation-sync-interval=1h", "--registry-ttl=1h"]);
    let relays = linked_by(builder, &[&[], &[0], &[1]]).await;
    let home = relays[0].id();
    let mut client = relays[0].client().await;
    let [old, new] = [(); 2].map(|()| RegistrationSigner::new());
    let request = registration(&old.id, "s");
    client
        .register_skills(old.sign("RegisterSkills", request, home, now_ms()))
        .await
        .unwrap();
    for relay in &relays {
        eventually("the old one is known everywhere", || async {
            finds(relay, "s", &old.id).await.then_some(())
        })
        .await;
    }
    let moved = Rotation::sign(&old.key, &new.key, now_ms()).unwrap();
    let request = RegisterSkillsRequest {
        key_rotations: vec![moved.to_bytes()],
        ..registration(&new.id, "s")
    };
    client
        .register_skills(new.sign("RegisterSkills", request, home, now_ms()))
        .await
        .unwrap();
    for relay in &relays {
        eventually("the new one is known instead", || async {
            let found = found(relay, "s").await;
            (found.len() == 1 && found[0].peer_id == new.id && found[0].verified).then_some(())
        })
        .await;
    }
}
