//! The registry over gRPC: what deployed clients do, what is refused and how, signatures, quotas, restarts.

use std::time::Duration;

use agentanycast_identity::rotation::Rotation;
use agentanycast_proto::v1::{
    DiscoverBySkillRequest, RegisterSkillsRequest, registry_service_client::RegistryServiceClient,
};
use agentanycast_tests::{TestRelay, eventually, rpc};
use tonic::{Code, transport::Endpoint};

use crate::registry_requests::{
    RegistrationSigner, discover_request, finds, found, heartbeat, now_ms, registration, unregistration,
};

/// Who registers with a new key takes the place of the old one; by a statement that the old key has signed, in a request
/// that the new one has.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_takes_the_place_of_the_old_one() {
    let relay = TestRelay::builder().start().await;
    let mut client = relay.client().await;
    let [old, new, thief] = [(); 3].map(|()| RegistrationSigner::new());
    let moved = Rotation::sign(&old.key, &new.key, now_ms()).unwrap().to_bytes();
    let register = |signer: &RegistrationSigner, statement: Option<&Vec<u8>>| RegisterSkillsRequest {
        key_rotations: statement.into_iter().cloned().collect(),
        ..registration(&signer.id, "translate")
    };
    let send =
        |signer: &RegistrationSigner, request| signer.sign("RegisterSkills", request, relay.id(), now_ms());
    client
        .register_skills(send(&old, register(&old, None)))
        .await
        .unwrap();
    let names = || async {
        let found = found(&relay, "translate").await;
        let mut names: Vec<String> = found.into_iter().map(|agent| agent.peer_id).collect();
        names.sort();
        names
    };
    // Another one's statement, and one in a request that nobody has signed, change nothing.
    client
        .register_skills(send(&thief, register(&thief, Some(&moved))))
        .await
        .unwrap();
    client
        .register_skills(register(&new, Some(&moved)))
        .await
        .unwrap();
    assert_eq!(names().await.len(), 3);
    client
        .register_skills(send(&new, register(&new, Some(&moved))))
        .await
        .unwrap();
    let mut expected = vec![new.id.clone(), thief.id.clone()];
    expected.sort();
    assert_eq!(names().await, expected);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: waits 20 s of renewals"]
async fn an_agent_comes_stays_and_goes() {
    let relay = TestRelay::builder().args(["--registry-ttl=2s"]).start().await;
    let mut client = relay.client().await;
    // Deployed clients register with ids that are no peer ids.
    client
        .register_skills(registration("agent-1", "translate"))
        .await
        .unwrap();
    let with_tag = |value: &str| DiscoverBySkillRequest {
        tags: [("lang".to_owned(), value.to_owned())].into(),
        ..discover_request("translate")
    };
    let agents = client
        .discover_by_skill(with_tag("de"))
        .await
        .unwrap()
        .into_inner()
        .agents;
    assert_eq!(
        (agents.len(), agents[0].agent_name.as_str()),
        (1, "Agent agent-1")
    );
    assert!(!agents[0].verified && agents[0].registered_at.is_some() && agents[0].expires_at.is_some());
    let none = client
        .discover_by_skill(with_tag("fr"))
        .await
        .unwrap()
        .into_inner()
        .agents;
    assert!(none.is_empty());
    // Ten times as long as it lives without a heartbeat.
    for _ in 0..40 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        client.heartbeat(heartbeat("agent-1")).await.unwrap();
        assert_eq!(found(&relay, "translate").await.len(), 1);
    }
    client.unregister_skills(unregistration("agent-1")).await.unwrap();
    assert!(found(&relay, "translate").await.is_empty());
    client.unregister_skills(unregistration("agent-1")).await.unwrap();
    let gone = client.heartbeat(heartbeat("agent-1")).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
    client
        .register_skills(registration("agent-2", "translate"))
        .await
        .unwrap();
    eventually("an agent that says nothing expires", || async {
        found(&relay, "translate").await.is_empty().then_some(())
    })
    .await;
    assert_eq!(
        client.heartbeat(heartbeat("agent-2")).await.unwrap_err().code(),
        Code::NotFound
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_right_is_refused() {
    let relay = TestRelay::builder().start().await;
    let mut client = relay.client().await;
    let bare = RegisterSkillsRequest {
        skills: Vec::new(),
        ..registration("p", "s")
    };
    for request in [registration("", "s"), registration("p", ""), bare] {
        let error = client.register_skills(request).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    }
    assert_eq!(
        client
            .discover_by_skill(discover_request(""))
            .await
            .unwrap_err()
            .code(),
        Code::InvalidArgument
    );
    assert_eq!(
        client.heartbeat(heartbeat("")).await.unwrap_err().code(),
        Code::InvalidArgument
    );
    assert_eq!(
        client
            .unregister_skills(unregistration(""))
            .await
            .unwrap_err()
            .code(),
        Code::InvalidArgument
    );
    let long = client
        .register_skills(registration("p", &"x".repeat(257)))
        .await
        .unwrap_err();
    assert_eq!(long.code(), Code::ResourceExhausted);
    assert!(long.message().contains("256"), "{long}");
    // Small on the wire, large in memory.
    let mut many = registration("p", "s");
    many.skills = vec![agentanycast_proto::v1::SkillInfo::default(); 500_000];
    assert_eq!(
        client.register_skills(many).await.unwrap_err().code(),
        Code::InvalidArgument
    );
    client.register_skills(registration("p", "s")).await.unwrap();
    assert!(finds(&relay, "s", "p").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_does_not_lock_honest_agents_out() {
    let relay = TestRelay::builder().start().await;
    let mut client = relay.client().await;
    let mut refused = 0;
    for n in 0..4096 {
        match client
            .register_skills(registration(&format!("fake-{n}"), "s"))
            .await
        {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 4096 - 1024);
    let signer = RegistrationSigner::new();
    let honest = signer.sign(
        "RegisterSkills",
        registration(&signer.id, "s"),
        relay.id(),
        now_ms(),
    );
    client.register_skills(honest).await.unwrap();
    let mut first = client
        .discover_by_skill(DiscoverBySkillRequest {
            limit: 1,
            ..discover_request("s")
        })
        .await
        .unwrap()
        .into_inner()
        .agents;
    assert_eq!(first.pop().unwrap().peer_id, signer.id);

    // Nor whoever comes from another address, and has no signature either.
    let registry = Endpoint::from_shared(format!("http://{}", relay.registry)).unwrap();
    let elsewhere = registry
        .local_address(Some([127, 0, 0, 2].into()))
        .connect()
        .await;
    let mut client = RegistryServiceClient::new(elsewhere.unwrap());
    client.register_skills(registration("honest", "s")).await.unwrap();
    let all = found(&relay, "s").await;
    assert!(
        all.iter().any(|agent| agent.peer_id == "honest"),
        "{} others",
        all.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signature_counts_once_and_for_its_own_request_only() {
    let relay = TestRelay::builder().start().await;
    let mut client = relay.client().await;
    let signer = RegistrationSigner::new();
    let now = now_ms();
    let register = || registration(&signer.id, "s");
    client
        .register_skills(signer.sign("RegisterSkills", register(), relay.id(), now))
        .await
        .unwrap();
    assert!(found(&relay, "s").await[0].verified);
    let other = RegistrationSigner::new();
    let bad = [
        (
            "again",
            signer.sign("RegisterSkills", register(), relay.id(), now),
        ),
        (
            "another relay",
            signer.sign("RegisterSkills", register(), &other.id, now + 1),
        ),
        (
            "another call",
            signer.sign("Heartbeat", register(), relay.id(), now + 2),
        ),
        (
            "another peer",
            other.sign("RegisterSkills", register(), relay.id(), now + 3),
        ),
        (
            "long ago",
            signer.sign("RegisterSkills", register(), relay.id(), now - 301_000),
        ),
        (
            "in the future",
            signer.sign("RegisterSkills", register(), relay.id(), now + 310_000),
        ),
    ];
    for (what, request) in bad {
        let error = client.register_skills(request).await.unwrap_err();
        assert_eq!(error.code(), Code::Unauthenticated, "{what}: {error}");
    }
    // And nobody else touches the entry.
    assert_eq!(
        client.register_skills(register()).await.unwrap_err().code(),
        Code::PermissionDenied
    );
    assert_eq!(
        client.heartbeat(heartbeat(&signer.id)).await.unwrap_err().code(),
        Code::PermissionDenied
    );
    assert_eq!(
        client
            .unregister_skills(unregistration(&signer.id))
            .await
            .unwrap_err()
            .code(),
        Code::PermissionDenied
    );
    let beat = signer.sign("Heartbeat", heartbeat(&signer.id), relay.id(), now + 4);
    let answer = client.heartbeat(beat).await.unwrap();
    // Every answer says whom to sign for.
    assert_eq!(
        answer
            .metadata()
            .get(agentanycast_identity::proof::RELAY_KEY)
            .unwrap(),
        relay.id()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_for_signers_refuses_others() {
    let relay = TestRelay::builder()
        .args(["--registry-auth=signed"])
        .start()
        .await;
    let mut client = relay.client().await;
    assert_eq!(
        client
            .register_skills(registration("p", "s"))
            .await
            .unwrap_err()
            .code(),
        Code::Unauthenticated
    );
    let signer = RegistrationSigner::new();
    let signed = signer.sign(
        "RegisterSkills",
        registration(&signer.id, "s"),
        relay.id(),
        now_ms(),
    );
    client.register_skills(signed).await.unwrap();
    assert_eq!(found(&relay, "s").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_relay_comes_back_with_its_table() {
    let mut relay = TestRelay::builder()
        .with_store()
        .args(["--registry-ttl=20s"])
        .start()
        .await;
    let mut client = relay.client().await;
    let signer = RegistrationSigner::new();
    for n in 0..50 {
        client
            .register_skills(registration(&format!("p{n}"), "s"))
            .await
            .unwrap();
    }
    client
        .register_skills(signer.sign(
            "RegisterSkills",
            registration(&signer.id, "s"),
            relay.id(),
            now_ms(),
        ))
        .await
        .unwrap();
    client.unregister_skills(unregistration("p7")).await.unwrap();
    relay.kill().await;
    relay.restart().await;
    let agents = found(&relay, "s").await;
    assert_eq!(agents.len(), 50);
    assert!(agents.iter().all(|agent| agent.peer_id != "p7"));
    // What was proven still is.
    assert!(agents[0].verified && agents[0].peer_id == signer.id);
    let mut client = relay.client().await;
    assert_eq!(
        client.heartbeat(heartbeat(&signer.id)).await.unwrap_err().code(),
        Code::PermissionDenied
    );
    client.heartbeat(heartbeat("p1")).await.unwrap();
    relay.stop().await;
    relay.restart().await;
    assert_eq!(found(&relay, "s").await.len(), 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_address_has_counts_after_a_restart() {
    let mut relay = TestRelay::builder()
        .with_store()
        .args(["--entries-per-ip=3", "--registry-ttl=1h"])
        .start()
        .await;
    let mut client = relay.client().await;
    for n in 0..3 {
        client
            .register_skills(registration(&format!("p{n}"), "s"))
            .await
            .unwrap();
    }
    relay.kill().await;
    relay.restart().await;
    let mut client = relay.client().await;
    let refused = client.register_skills(registration("p3", "s")).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    client.register_skills(registration("p0", "s")).await.unwrap();
    assert_eq!(found(&relay, "s").await.len(), 3);
}

/// Whoever is refused, and whoever runs the relay, is told which setting it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_is_told_by_its_setting() {
    let relay = TestRelay::builder()
        .args(["--entries-per-ip=1", "--requests-per-ip=2"])
        .start()
        .await;
    let mut client = relay.client().await;
    let signed = |number: u64| {
        let signer = RegistrationSigner::new();
        let request = registration(&signer.id, "s");
        signer.sign("RegisterSkills", request, relay.id(), now_ms() + number)
    };
    client.register_skills(signed(0)).await.unwrap();
    let refused = client.register_skills(signed(1)).await.unwrap_err();
    let said = "signed entries from one address: 1 at most (entries_per_ip of the relay); unregister some, or let them expire";
    assert_eq!(refused.message(), said);
    let refused = loop {
        if let Err(refused) = client.discover_by_skill(discover_request("s")).await {
            break refused;
        }
    };
    let said = "requests from one address: 2 a second at most (requests_per_ip of the relay); send fewer";
    assert_eq!(refused.message(), said);
    for limit in ["entries_per_ip", "requests_per_ip"] {
        let count = relay
            .metric(&format!("registry_limited_total{{reason=\"{limit}\"}}"))
            .await;
        assert!(count >= 1.0, "{limit}: {count}");
    }
    let log = relay.log();
    assert!(
        log.contains("refused a request at a limit") && log.contains("entries_per_ip"),
        "{log}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_another_identity_is_said() {
    let mut relay = TestRelay::builder()
        .with_store()
        .args(["--registry-ttl=1h"])
        .start()
        .await;
    let signer = RegistrationSigner::new();
    let mut client = relay.client().await;
    let request = registration(&signer.id, "s");
    let signed = signer.sign("RegisterSkills", request, relay.id(), now_ms());
    client.register_skills(signed).await.unwrap();
    client
        .register_skills(registration("unsigned", "s"))
        .await
        .unwrap();
    let was = relay.id().to_owned();
    relay.kill().await;
    std::fs::remove_file(relay.home().join("key")).unwrap();
    relay.restart().await;
    assert_eq!(found(&relay, "s").await.len(), 1);
    let log = relay.log();
    let said = log.lines().find(|line| line.contains("had another identity"));
    let said = said.unwrap_or_else(|| panic!("{log}"));
    assert!(said.contains(&was) && said.contains("--key"), "{said}");
    assert!(log.contains("\"signed_for_another\":1"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reflection_lists_what_is_served() {
    let relay = TestRelay::builder().start().await;
    let channel = rpc::channel(&format!("tcp://{}", relay.registry)).await.unwrap();
    let served = [
        "agentanycast.v1.FederationService",
        "agentanycast.v1.RegistryService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    ];
    assert_eq!(rpc::reflected(channel).await, served);
}
