//! Large agents and large lies: the first are known everywhere, the second are refused by their size, and neither takes
//! the room of others.

use std::net::SocketAddr;

use agentanycast_proto::v1::{
    FederatedRegistration, PushRegistrationsRequest, PushRegistrationsResponse, RegisterSkillsRequest,
    SkillInfo, SyncRegistrationsRequest, SyncRegistrationsResponse,
    federation_service_server::{FederationService, FederationServiceServer},
};
use agentanycast_tests::{TestRelay, eventually};
use prost::Message as _;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Code, Request, Response, Status};

use crate::{
    federation::linked_by,
    federation_poisoning::{federated_record, push},
    registry_requests::{RegistrationSigner, finds, found, now_ms, registration, unregistration},
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
    let relay = TestRelay::builder()
        .args(["--entry-bytes-per-ip=2MiB"])
        .start()
        .await;
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
    let signer = RegistrationSigner::new();
    let signed = signer.sign("RegisterSkills", large(&signer.id), relay.id(), now_ms());
    client.register_skills(signed).await.unwrap();
    client.register_skills(registration("d", "small")).await.unwrap();
    client.unregister_skills(unregistration("a")).await.unwrap();
    client.register_skills(large("c")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn large_agents_are_known_everywhere_and_large_lies_nowhere() {
    let builder = || {
        TestRelay::builder().args([
            "--federation-sync-interval=5s",
            "--registry-ttl=1m",
            "--entry-bytes-per-ip=64MiB",
        ])
    };
    let relays = linked_by(builder, &[&[], &[0], &[1]]).await;
    let signers: Vec<RegistrationSigner> = (0..6).map(|_| RegistrationSigner::new()).collect();
    let mut client = relays[0].client().await;
    for signer in &signers {
        let signed = signer.sign("RegisterSkills", large(&signer.id), relays[0].id(), now_ms());
        client.register_skills(signed).await.unwrap();
    }
    // A stranger pushes an agent that is too large, and ends that its peer has signed with a lot beside them.
    let liar = RegistrationSigner::new();
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
        ..federated_record("huge", "elsewhere")
    };
    let end = |request: Vec<u8>| FederatedRegistration {
        tombstone: true,
        remaining_ms: 60_000,
        proofs: vec![liar.proof("UnregisterSkills", request, "elsewhere", now_ms())],
        ..federated_record(&liar.id, "elsewhere")
    };
    let brief = unregistration(&liar.id).encode_to_vec();
    let records = vec![
        huge,
        end(padded),
        end(brief),
        federated_record("honest", "elsewhere"),
    ];
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

/// Another relay, of before pages were bounded by their bytes. It has so many agents of so many bytes, and takes no push
/// if it has none.
struct OlderRelay {
    agents: usize,
    bytes: usize,
}

#[tonic::async_trait]
impl FederationService for OlderRelay {
    async fn sync_registrations(
        &self,
        asked: Request<SyncRegistrationsRequest>,
    ) -> Result<Response<SyncRegistrationsResponse>, Status> {
        let asked = asked.into_inner();
        let first = asked.since.map_or(0, |since| since.nanos as usize);
        let page: Vec<usize> = (first..self.agents).take(asked.limit as usize).collect();
        let next = page.last().map_or(first, |last| last + 1);
        let agent = |n: &usize| {
            let skill = |part: usize| SkillInfo {
                skill_id: format!("agent-{n}-{part}"),
                description: "x".repeat(4000),
                ..SkillInfo::default()
            };
            FederatedRegistration {
                skills: (0..self.bytes.div_ceil(4000)).map(skill).collect(),
                ..federated_record(&format!("p{n}"), "elsewhere")
            }
        };
        Ok(Response::new(SyncRegistrationsResponse {
            registrations: page.iter().map(agent).collect(),
            sync_timestamp: Some(prost_types::Timestamp {
                seconds: 0,
                nanos: next as i32,
            }),
            epoch: 7,
            more: next < self.agents,
        }))
    }

    async fn push_registrations(
        &self,
        pushed: Request<PushRegistrationsRequest>,
    ) -> Result<Response<PushRegistrationsResponse>, Status> {
        if self.agents == 0 {
            return Err(Status::resource_exhausted("64 bytes at most\n, of which none"));
        }
        let accepted = pushed.into_inner().registrations.len() as i32;
        Ok(Response::new(PushRegistrationsResponse {
            accepted,
            rejected: 0,
        }))
    }
}

async fn serve(agents: usize, bytes: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service =
        FederationServiceServer::new(OlderRelay { agents, bytes }).max_encoding_message_size(64 << 20);
    tokio::spawn(
        tonic::transport::Server::builder()
            .add_service(service)
            .serve_with_incoming(TcpListenerStream::new(listener)),
    );
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_or_push_that_is_too_large_is_said_to_be_and_costs_others_nothing() {
    let honest = TestRelay::builder().start().await;
    let addresses = [serve(1, 9 << 20).await, serve(0, 0).await, honest.registry];
    let addresses = addresses.map(|peer| peer.to_string());
    let relay = TestRelay::builder()
        .args([format!("--federation-peers={}", addresses.join(","))])
        .start()
        .await;
    let mut client = relay.client().await;
    client.register_skills(registration("p", "s")).await.unwrap();
    eventually("the honest relay knows the agent", || async {
        finds(&honest, "s", "p").await.then_some(())
    })
    .await;
    let expected = [
        (
            "OutOfRange: its pages are not read, also when one record is asked for: 8388608 bytes",
            "update that relay",
        ),
        (
            "ResourceExhausted: it does not take a push of ",
            "64 bytes at most\\n, of which none",
        ),
    ];
    for (place, (begins, also)) in expected.into_iter().enumerate() {
        let reason = eventually("why it fails is said", || async {
            let health = relay.health().await;
            let reason = health["federation"]["peer_details"][place]["reason"].as_str()?;
            Some(reason.to_owned())
        })
        .await;
        assert!(reason.starts_with(begins) && reason.contains(also), "{reason}");
    }
    let details = &relay.health().await["federation"]["peer_details"];
    assert_eq!(details[2]["healthy"], true, "{details}");
    // The one whose pages are too large is told all the same, and is not called healthy for it.
    client.register_skills(registration("q", "s")).await.unwrap();
    let told = eventually("it is told of both agents", || async {
        let details = &relay.health().await["federation"]["peer_details"];
        let unread = &details[0];
        (unread["pushed"].as_u64()? >= 2).then(|| unread.clone())
    })
    .await;
    let waits = told["healthy"] == false && told["backoff_until"].is_string() && told["pulled"] == 0;
    assert!(waits, "{told}");
}

/// The other relay's agents do not fit into a page as they are asked for; some at a time they do.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_relay_with_large_agents_is_read_a_few_at_a_time() {
    const AGENTS: usize = 20;
    let older = serve(AGENTS, 900_000).await;
    let relay = TestRelay::builder()
        .args([
            format!("--federation-peers={older}"),
            "--registry-ttl=1m".to_owned(),
        ])
        .start()
        .await;
    for n in 0..AGENTS {
        eventually("each of its agents is known", || async {
            finds(&relay, &format!("agent-{n}-0"), &format!("p{n}"))
                .await
                .then_some(())
        })
        .await;
    }
    let health = relay.health().await;
    assert_eq!(health["status"], "healthy", "{health}");
    assert_eq!(
        health["federation"]["peer_details"][0]["pulled"], AGENTS,
        "{health}"
    );
}
