//! A stranger pushes what is not true, or too much of it. Each attempt comes to nothing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agentanycast_proto::v1::{
    FederatedRegistration, PushRegistrationsRequest, PushRegistrationsResponse, RegistryProof, SkillInfo,
    SyncRegistrationsRequest, federation_service_client::FederationServiceClient,
};
use agentanycast_tests::{TestRelay, eventually};
use tonic::{
    Code,
    transport::{Channel, Endpoint},
};

use crate::registry_requests::{RegistrationSigner, finds, found, now_ms, registration};

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

fn timestamp(time: Duration) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: time.as_secs() as i64,
        nanos: time.subsec_nanos() as i32,
    }
}

/// A record as a deployed relay makes it.
pub(crate) fn federated_record(peer: &str, origin: &str) -> FederatedRegistration {
    FederatedRegistration {
        peer_id: peer.into(),
        origin_relay_id: origin.into(),
        skills: vec![SkillInfo {
            skill_id: "s".into(),
            ..SkillInfo::default()
        }],
        registered_at: Some(timestamp(now())),
        expires_at: Some(timestamp(now() + Duration::from_secs(20))),
        version: now().as_nanos() as u64,
        ..FederatedRegistration::default()
    }
}

pub(crate) async fn push(
    relay: &TestRelay,
    records: Vec<FederatedRegistration>,
) -> PushRegistrationsResponse {
    pushed(relay.federation().await, records).await
}

/// As [`push`], from this address of the loopback.
pub(crate) async fn push_from(
    relay: &TestRelay,
    ip: &str,
    records: Vec<FederatedRegistration>,
) -> PushRegistrationsResponse {
    let endpoint = Endpoint::from_shared(format!("http://{}", relay.registry)).unwrap();
    let channel = endpoint
        .local_address(Some(ip.parse().unwrap()))
        .connect()
        .await
        .unwrap();
    pushed(FederationServiceClient::new(channel), records).await
}

async fn pushed(
    mut client: FederationServiceClient<Channel>,
    records: Vec<FederatedRegistration>,
) -> PushRegistrationsResponse {
    let request = PushRegistrationsRequest {
        relay_id: "stranger".into(),
        registrations: records,
    };
    client.push_registrations(request).await.unwrap().into_inner()
}

async fn known(relay: &TestRelay) -> Vec<FederatedRegistration> {
    let request = SyncRegistrationsRequest {
        relay_id: "reader".into(),
        limit: 1000,
        ..SyncRegistrationsRequest::default()
    };
    relay
        .federation()
        .await
        .sync_registrations(request)
        .await
        .unwrap()
        .into_inner()
        .registrations
}

#[tokio::test(flavor = "multi_thread")]
async fn lives_and_versions_are_clamped() {
    let relay = TestRelay::builder().start().await;
    let endless = FederatedRegistration {
        expires_at: Some(timestamp(now() + Duration::from_hours(24 * 365))),
        version: u64::MAX,
        ..federated_record("p", "elsewhere")
    };
    let outcome = push(&relay, vec![endless]).await;
    assert_eq!((outcome.accepted, outcome.rejected), (1, 0));
    let record = known(&relay).await.remove(0);
    let life = Duration::from_secs(record.expires_at.unwrap().seconds as u64).saturating_sub(now());
    assert!(life <= Duration::from_mins(1), "{life:?}");
    assert!(record.version <= (now() + Duration::from_mins(1)).as_nanos() as u64);

    // What is within bounds is kept as it was told.
    let modest = federated_record("q", "elsewhere");
    let outcome = push(&relay, vec![modest.clone()]).await;
    assert_eq!((outcome.accepted, outcome.rejected), (1, 0));
    let kept = known(&relay)
        .await
        .into_iter()
        .find(|record| record.peer_id == "q");
    let kept = kept.unwrap();
    assert_eq!(kept.version, modest.version);
    let lives = kept.expires_at.unwrap().seconds - modest.expires_at.unwrap().seconds;
    assert!(lives.abs() <= 1, "{lives} s more than was told");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_sense_is_rejected() {
    let relay = TestRelay::builder().start().await;
    let long = "x".repeat(300);
    let wrong = vec![
        federated_record("", "elsewhere"),
        federated_record("p", ""),
        federated_record(&long, "elsewhere"),
        federated_record("p", &long),
        FederatedRegistration {
            skills: Vec::new(),
            ..federated_record("p", "elsewhere")
        },
        FederatedRegistration {
            expires_at: Some(timestamp(now().saturating_sub(Duration::from_secs(1)))),
            ..federated_record("p", "elsewhere")
        },
        FederatedRegistration {
            expires_at: None,
            ..federated_record("p", "elsewhere")
        },
        FederatedRegistration {
            agent_description: "x".repeat(5000),
            ..federated_record("p", "elsewhere")
        },
    ];
    let count = wrong.len() as i32;
    let outcome = push(&relay, wrong).await;
    assert_eq!((outcome.accepted, outcome.rejected), (0, count));
    assert!(known(&relay).await.is_empty());
    let mut federation = relay.federation().await;
    let nobody = PushRegistrationsRequest::default();
    assert_eq!(
        federation.push_registrations(nobody).await.unwrap_err().code(),
        Code::InvalidArgument
    );
    // Two bytes each on the wire, hundreds in memory.
    let empty = vec![FederatedRegistration::default(); 1_000_000];
    let flood = PushRegistrationsRequest {
        relay_id: "stranger".into(),
        registrations: empty,
    };
    assert_eq!(
        federation.push_registrations(flood).await.unwrap_err().code(),
        Code::InvalidArgument
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_speaks_for_this_relay_or_for_a_proven_peer() {
    let relay = TestRelay::builder().start().await;
    let mut client = relay.client().await;
    client.register_skills(registration("p", "true")).await.unwrap();
    let later = now().as_nanos() as u64 + 50_000_000_000;
    let forged = FederatedRegistration {
        version: later,
        ..federated_record("p", relay.id())
    };
    let over = FederatedRegistration {
        version: later,
        tombstone: true,
        remaining_ms: 60_000,
        ..federated_record("p", relay.id())
    };
    push(&relay, vec![forged, over]).await;
    assert!(finds(&relay, "true", "p").await && !finds(&relay, "s", "p").await);
    let invented = push(&relay, vec![federated_record("nobody", relay.id())]).await;
    assert_eq!((invented.accepted, invented.rejected), (0, 1));

    let signer = RegistrationSigner::new();
    client
        .register_skills(signer.sign(
            "RegisterSkills",
            registration(&signer.id, "mine"),
            relay.id(),
            now_ms(),
        ))
        .await
        .unwrap();
    // A claim to its id by another relay is listed behind its own, at most, and never as proven.
    let proof = RegistryProof {
        method: "/agentanycast.v1.RegistryService/RegisterSkills".into(),
        signature: vec![7; 64],
        time_ms: now_ms(),
        ..RegistryProof::default()
    };
    let claim = FederatedRegistration {
        proofs: vec![proof],
        ..federated_record(&signer.id, "elsewhere")
    };
    push(&relay, vec![claim]).await;
    assert!(found(&relay, "s").await.iter().all(|agent| !agent.verified));
    let mine = found(&relay, "mine").await;
    assert!(mine.len() == 1 && mine[0].verified && mine[0].origin_relay_id.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_has_a_quota_however_many_origins_it_invents() {
    let relay = TestRelay::builder()
        .args(["--federated-entries=400"])
        .start()
        .await;
    let records = (0..300)
        .map(|n| federated_record(&format!("p{n}"), &format!("origin-{n}")))
        .collect();
    let outcome = push(&relay, records).await;
    assert_eq!((outcome.accepted, outcome.rejected), (100, 200));
    // There is still room for a relay that we were told of, and for agents of our own.
    let mut client = relay.client().await;
    client.register_skills(registration("p", "own")).await.unwrap();
    assert!(finds(&relay, "own", "p").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_does_not_lock_out_the_relay_that_it_names() {
    let other = TestRelay::builder().start().await;
    let relay = TestRelay::builder()
        .args(["--federated-entries=400", "--federation-sync-interval=1s"])
        .args([format!("--federation-peers={}", other.registry)])
        .start()
        .await;
    // The records of somebody who is not where the other relay is.
    let records = (0..100)
        .map(|n| federated_record(&format!("fake{n}"), other.id()))
        .collect();
    let outcome = push_from(&relay, "127.0.0.9", records).await;
    assert_eq!((outcome.accepted, outcome.rejected), (100, 0));
    let mut client = other.client().await;
    client.register_skills(registration("honest", "h")).await.unwrap();
    eventually("the other relay's agent is known", || async {
        finds(&relay, "h", "honest").await.then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_through_a_relay_that_passes_its_word_on() {
    let few = "--federated-entries=400";
    let (other, passes_on) = (
        TestRelay::builder().start().await,
        TestRelay::builder().args([few]).start().await,
    );
    let relay = TestRelay::builder()
        .args([few, "--federation-sync-interval=1s"])
        .federated_with([&other, &passes_on])
        .start()
        .await;
    let records = (0..100)
        .map(|n| federated_record(&format!("fake{n}"), other.id()))
        .collect();
    push_from(&passes_on, "127.0.0.9", records).await;
    eventually("the stranger's word has come", || async {
        let told = known(&relay).await;
        (told.len() == 100 && told.iter().all(|told| told.hearsay)).then_some(())
    })
    .await;
    let mut client = other.client().await;
    client.register_skills(registration("honest", "h")).await.unwrap();
    eventually("the other relay's agent is known", || async {
        finds(&relay, "h", "honest").await.then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_gets_every_record_once() {
    let relay = TestRelay::builder().start().await;
    let records = (0..250)
        .map(|n| federated_record(&format!("p{n}"), "elsewhere"))
        .collect();
    push(&relay, records).await;
    let mut federation = relay.federation().await;
    let (mut since, mut peers) = (None, Vec::new());
    loop {
        let request = SyncRegistrationsRequest {
            relay_id: "reader".into(),
            since,
            limit: 40,
            ..SyncRegistrationsRequest::default()
        };
        let page = federation.sync_registrations(request).await.unwrap().into_inner();
        assert!(page.registrations.len() <= 40);
        if page.registrations.is_empty() {
            break;
        }
        peers.extend(page.registrations.into_iter().map(|record| record.peer_id));
        since = page.sync_timestamp;
    }
    assert_eq!(peers.len(), 250);
    peers.sort();
    peers.dedup();
    assert_eq!(peers.len(), 250);
}
