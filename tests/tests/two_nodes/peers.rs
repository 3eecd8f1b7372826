//! What a daemon says about itself and its peers, and how it gets to know them.

use agentanycast::{AgentCard, ErrorKind, PathKind, Skill, Target};
use agentanycast_proto::v1;
use agentanycast_tests::{
    Daemon, DaemonPair, TransportKind, agent::TestAgent, daemon_pair::wait_connected, eventually,
    report_skip, rpc, task_assertions::completed,
};

#[tokio::test]
async fn health_and_reflection_answer() {
    let daemon = Daemon::builder().start().await;
    let channel = rpc::channel(daemon.grpc()).await.unwrap();
    let mut health = tonic_health::pb::health_client::HealthClient::new(channel.clone());
    for service in ["", "agentanycast.v1.NodeService"] {
        let request = tonic_health::pb::HealthCheckRequest {
            service: service.to_owned(),
        };
        let answer = health.check(request).await.unwrap().into_inner();
        assert_eq!(
            answer.status(),
            tonic_health::pb::health_check_response::ServingStatus::Serving
        );
    }
    let served = [
        "agentanycast.v1.AccessService",
        "agentanycast.v1.AgentService",
        "agentanycast.v1.DiagnosticsService",
        "agentanycast.v1.DirectoryService",
        "agentanycast.v1.InviteService",
        "agentanycast.v1.NetworkService",
        "agentanycast.v1.NodeService",
        "agentanycast.v1.SessionService",
        "agentanycast.v1.TaskListService",
        "agentanycast.v1.TaskNoteService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    ];
    assert_eq!(rpc::reflected(channel).await, served);
}

#[tokio::test]
async fn a_node_says_who_it_is() {
    let daemon = Daemon::builder()
        .listen(["/ip4/0.0.0.0/tcp/0", "/ip4/0.0.0.0/udp/0/quic-v1"])
        .start()
        .await;
    let node = daemon.node().await;
    let info = node.info().await.unwrap();
    assert_eq!(info.peer_id.as_ref(), Some(daemon.peer_id()));
    assert_eq!(info.connected_peers, 0);
    assert!(info.started_at.is_some());
    assert!(!info.version.is_empty());
    let bare = |address: &String| !address.contains("/p2p/") && !address.contains("/0.0.0.0/");
    assert!(
        info.listen_addresses.iter().all(bare),
        "{:?}",
        info.listen_addresses
    );
}

#[tokio::test]
async fn peers_are_listed_once_each() {
    let pair = DaemonPair::start(TransportKind::Quic).await;
    let (alice, bob) = pair.nodes().await;
    // A second dial of a peer that is there changes nothing.
    let again = bob
        .connect_peer(pair.alice.peer_id(), [pair.alice.quic()])
        .await
        .unwrap();
    assert_eq!(again.id.as_ref(), Some(pair.alice.peer_id()));
    for (node, other) in [(&alice, &pair.bob), (&bob, &pair.alice)] {
        let peers = node.peers().await.unwrap();
        assert_eq!(peers.len(), 1, "{peers:?}");
        assert_eq!(peers[0].id.as_ref(), Some(other.peer_id()));
        assert_eq!(peers[0].via, PathKind::Direct);
        assert!(peers[0].connected_at.is_some());
        assert!(
            peers[0].addresses[0].contains("/quic-v1"),
            "{:?}",
            peers[0].addresses
        );
        assert_eq!(node.info().await.unwrap().connected_peers, 1);
    }
}

#[tokio::test]
async fn connect_peer_brings_the_card() {
    let alice = Daemon::builder().start().await;
    let bob = Daemon::builder().start().await;
    let one = alice.node().await;
    one.set_card(AgentCard::new("Alice", "Translates").with_skill(Skill::new("translate", "To French")))
        .await
        .unwrap();
    let other = bob.node_named("Bob").await;
    let peer = other.connect_peer(alice.peer_id(), [alice.tcp()]).await.unwrap();
    assert_eq!(peer.id.as_ref(), Some(alice.peer_id()));
    let card = other.card_of(alice.peer_id()).await.unwrap();
    assert_eq!(
        (card.name.as_str(), card.skills[0].id.as_str()),
        ("Alice", "translate")
    );
    let mut raw = bob.rpc().await;
    let request = v1::GetPeerCardRequest {
        peer_id: alice.peer_id().to_string(),
        ..Default::default()
    };
    let reach = raw
        .get_peer_card(request)
        .await
        .unwrap()
        .into_inner()
        .card
        .unwrap()
        .p2p_extension
        .unwrap();
    assert_eq!(reach.peer_id, alice.peer_id().to_string());
    assert!(reach.did_key.starts_with("did:key:z6Mk"), "{}", reach.did_key);
    eventually("the card went the other way too", || async {
        let card = one.card_of(bob.peer_id()).await.ok()?;
        (card.name == "Bob").then_some(())
    })
    .await;
}

/// A card that changes is pushed to whoever is connected, and survives that its peer goes.
#[tokio::test]
async fn a_new_card_is_pushed() {
    let mut pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let unknown = alice.card_of(pair.bob.peer_id()).await;
    assert!(unknown.is_err_and(|error| error.kind() == ErrorKind::CardNotFound));
    for name in ["first", "second"] {
        bob.set_card(AgentCard::new(name, "")).await.unwrap();
        eventually("the new card arrives", || async {
            let card = alice.card_of(pair.bob.peer_id()).await.ok()?;
            (card.name == name).then_some(())
        })
        .await;
    }
    pair.bob.kill().await;
    assert_eq!(alice.card_of(pair.bob.peer_id()).await.unwrap().name, "second");
    // Its own card is kept too.
    pair.bob.restart().await;
    let bob = pair.bob.node().await;
    wait_connected(&bob, &pair.alice).await;
    assert_eq!(bob.card_of(pair.bob.peer_id()).await.unwrap().name, "second");
}

/// mDNS finds a neighbour where the network lets it; where it does not, the test says so and ends.
#[tokio::test]
async fn neighbours_find_each_other() {
    let any = ["/ip4/0.0.0.0/tcp/0"];
    let alice = Daemon::builder().listen(any).mdns().start().await;
    let bob = Daemon::builder().listen(any).mdns().start().await;
    let node = alice.node().await;
    let found = tokio::time::timeout(std::time::Duration::from_secs(10), wait_connected(&node, &bob)).await;
    if found.is_err() {
        report_skip("multicast does not work on this network");
    }
}

/// Both dial each other at the same time; there is one peer on each side, and the road works.
#[tokio::test]
async fn both_dial_each_other() {
    let mut alice = Daemon::builder().start().await;
    let mut bob = Daemon::builder().start().await;
    alice.stop().await;
    bob.stop().await;
    let (to_alice, to_bob) = (alice.tcp().to_owned(), bob.quic().to_owned());
    let (one, other) = (
        alice.stopped().bootstrap(to_bob),
        bob.stopped().bootstrap(to_alice),
    );
    let (alice, bob) = tokio::join!(one.start(), other.start());
    let (here, there) = (alice.node().await, bob.node().await);
    wait_connected(&here, &bob).await;
    wait_connected(&there, &alice).await;
    let _agent = TestAgent::echo(&there);
    let handle = here
        .send_task(Target::Peer(bob.peer_id().clone()), "hello")
        .await
        .unwrap();
    assert_eq!(completed(&handle).await.text_content(), "echo: hello");
    assert_eq!(
        (
            here.peers().await.unwrap().len(),
            there.peers().await.unwrap().len()
        ),
        (1, 1)
    );
}
