//! Large agents and large lies: the first are known everywhere, the second are refused by their size, and neither takes
//! the room of others.

use agentanycast_proto::v1::{FederatedRegistration, RegisterSkillsRequest, SkillInfo};
use agentanycast_tests::{Relay, eventually};
use prost::Message as _;
use tonic::Code;

use crate::{
    agents::{Signer, finds, found, now_ms, registration, unregistration},
    federation::linked_by,
    poison::{push, told},
};

/// An agent of some 900 KB.
fn large(peer: &str) -> RegisterSkillsRequest {
    let skill = |n: usize| SkillInfo {
        skill_id: if n == 0 { "large".to_owned() } else { n.to_string() },
        description: "x".repeat(4000),
        ..SkillInfo::default()
    };
    RegisterSkillsRequest {
        peer_id: peer.into(),
        skills: (0..225).map(skill).collect(),
        ..RegisterSkillsRequest::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_has_a_share_of_the_bytes() {
    let relay = Relay::builder().args(["--entry-bytes-per-ip=2MiB"]).start().await;
    let mut client = relay.client().await;
    for peer in ["a", "b", "a"] {
        client.register_skills(large(peer)).await.unwrap();
    }
    let refused = client.register_skills(large("c")).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(
        refused
            .message()
            .contains("bytes of all entries from one address without signature: 2097152 at most"),
        "{refused}"
    );
    // Who signs has another share, and small ones still fit.
    let signer = Signer::new();
    let signed = signer.sign("RegisterSkills", large(&signer.id), relay.id(), now_ms());
    client.register_skills(signed).await.unwrap();
    client.register_skills(registration("d", "small")).await.unwrap();
    client.unregister_skills(unregistration("a")).await.unwrap();
    client.register_skills(large("c")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn large_agents_are_known_everywhere_and_large_lies_nowhere() {
    let builder = || {
        Relay::builder().args([
            "--federation-sync-interval=5s",
            "--registry-ttl=1m",
            "--entry-bytes-per-ip=64MiB",
        ])
    };
    let relays = linked_by(builder, &[&[], &[0], &[1]]).await;
    let signers: Vec<Signer> = (0..6).map(|_| Signer::new()).collect();
    let mut client = relays[0].client().await;
    for signer in &signers {
        let signed = signer.sign("RegisterSkills", large(&signer.id), relays[0].id(), now_ms());
        client.register_skills(signed).await.unwrap();
    }
    // A stranger pushes an agent that is too large, and ends that its peer has signed with a lot beside them.
    let liar = Signer::new();
    let padded = [
        unregistration(&liar.id).encode_to_vec(),
        vec![0x7a, 0xd0, 0x0f],
        vec![0; 2000],
    ]
    .concat();
    let huge = FederatedRegistration {
        skills: (0..300)
            .map(|n| SkillInfo {
                skill_id: format!("lie-{n}"),
                description: "x".repeat(4000),
                ..SkillInfo::default()
            })
            .collect(),
        ..told("huge", "elsewhere")
    };
    let end = |request: Vec<u8>| FederatedRegistration {
        tombstone: true,
        remaining_ms: 60_000,
        proofs: vec![liar.proof("UnregisterSkills", request, "elsewhere", now_ms())],
        ..told(&liar.id, "elsewhere")
    };
    let brief = unregistration(&liar.id).encode_to_vec();
    let records = vec![huge, end(padded), end(brief), told("honest", "elsewhere")];
    let outcome = push(&relays[0], records).await;
    assert_eq!((outcome.accepted, outcome.rejected), (2, 2));
    for relay in &relays {
        eventually("the large agents and the honest one are known", || async {
            let known = found(relay, "s").await.len() == 1;
            let large: usize = futures::future::join_all(signers.iter().map(async |signer| {
                // An answer has room for three of them at a time; each is listed by itself.
                let path = format!("/api/v1/agents/{}", signer.id);
                let (status, _) = relay.get(relay.api, &path).await;
                usize::from(status == 200)
            }))
            .await
            .iter()
            .sum();
            (known && large == signers.len()).then_some(())
        })
        .await;
        assert!(!finds(relay, "lie-0", "huge").await);
        assert_eq!(relay.health().await["status"], "healthy");
    }
    // They can all leave.
    for signer in &signers {
        let signed = signer.sign(
            "UnregisterSkills",
            unregistration(&signer.id),
            relays[0].id(),
            now_ms(),
        );
        client.unregister_skills(signed).await.unwrap();
    }
    for relay in &relays {
        eventually("they are gone everywhere", || async {
            found(relay, "large").await.is_empty().then_some(())
        })
        .await;
    }
}
