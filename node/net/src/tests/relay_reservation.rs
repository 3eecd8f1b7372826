//! A node gets a place at its bootstrap relay, is reached through it, says so, and gets it again.

use futures::StreamExt;
use libp2p::{
    Multiaddr, Swarm, identify, relay,
    swarm::{self, NetworkBehaviour, SwarmEvent},
    websocket::tls,
};

use super::*;

#[derive(NetworkBehaviour)]
#[behaviour(prelude = "libp2p::swarm::derive_prelude")]
struct Behaviour {
    relay: relay::Behaviour,
    identify: identify::Behaviour,
}

/// A relay with so many places, and its task.
async fn relay(keypair: &Keypair, at: &str, places: usize) -> (Multiaddr, JoinHandle<()>) {
    let config = relay::Config {
        max_reservations: places,
        ..relay::Config::default()
    };
    relay_with(keypair, at, config).await
}

async fn relay_with(keypair: &Keypair, at: &str, config: relay::Config) -> (Multiaddr, JoinHandle<()>) {
    let peer = keypair.public().to_peer_id();
    let (transport, _) = transport::build(keypair, false, false, &tls::Config::client()).unwrap();
    let behaviour = Behaviour {
        relay: relay::Behaviour::new(peer, config),
        identify: identify::Behaviour::new(identify::Config::new("test/1".to_owned(), keypair.public())),
    };
    let mut swarm = Swarm::new(transport, behaviour, peer, swarm::Config::with_tokio_executor());
    swarm.listen_on(at.parse().unwrap()).unwrap();
    let address = loop {
        if let SwarmEvent::NewListenAddr { address, .. } = swarm.select_next_some().await {
            break address;
        }
    };
    swarm.add_external_address(address.clone());
    let running = tokio::spawn(async move { while swarm.next().await.is_some() {} });
    (address.with_p2p(peer).unwrap(), running)
}

async fn behind(relays: &[&Multiaddr]) -> NetNode {
    let mut config = config(&[TCP]);
    config.bootstrap_peers = relays.iter().map(ToString::to_string).collect();
    NetNode::start(config).await
}

async fn circuits(node: &NetNode, count: usize) -> Vec<String> {
    let mut reachable = node.handle.reachable();
    let met = reachable.wait_for(|now| now.relayed.len() == count);
    timeout(DEADLINE, met).await.unwrap().unwrap().relayed.clone()
}

fn state(node: &NetNode, at: usize) -> Option<ReservationState> {
    node.handle.relays().get(at).map(|relay| relay.state)
}

#[tokio::test]
async fn a_node_is_reached_through_its_relay_also_after_a_restart() {
    let key = Keypair::generate_ed25519();
    let (at, running) = relay(&key, TCP, 8).await;
    let mut a = behind(&[&at]).await;
    let told = circuits(&a, 1).await;
    assert_eq!(told, [format!("{at}/p2p-circuit")]);
    let b = NetNode::start(config(&[TCP])).await;
    b.handle.set_card(Some(named("b"))).await;
    let road = format!("{}/p2p/{}", told[0], a.peer());
    let snapshot = b.handle.dial(a.peer(), vec![road.clone()]).await.unwrap();
    assert!(!snapshot.direct);
    assert_eq!(a.card().await.name, "b");
    a.handle.set_card(Some(named("a"))).await;
    let shown = b.handle.fetch_card(a.peer()).await.unwrap().unwrap();
    assert_eq!(
        shown.p2p_extension.unwrap().relay_addresses,
        std::slice::from_ref(&road)
    );

    running.abort();
    circuits(&a, 0).await;
    let lost = a.handle.relays().remove(0);
    assert!(
        lost.state == ReservationState::Away && lost.last_error.is_some(),
        "{lost:?}"
    );
    let bare = at.to_string();
    let (_, _running) = relay(&key, bare.split("/p2p/").next().unwrap(), 8).await;
    assert_eq!(circuits(&a, 1).await, told);
    let c = NetNode::start(config(&[TCP])).await;
    assert!(!c.handle.dial(a.peer(), vec![road]).await.unwrap().direct);
}

/// Another way to a place, which takes its time.
async fn slow_way(to: &Multiaddr) -> Multiaddr {
    let text = to.to_string();
    let mut parts = text.split('/').skip(4);
    let (port, relay) = (
        parts.next().unwrap().parse::<u16>().unwrap(),
        parts.nth(1).unwrap(),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = format!(
        "/ip4/127.0.0.1/tcp/{}/p2p/{relay}",
        listener.local_addr().unwrap().port()
    );
    tokio::spawn(async move {
        while let Ok((mut outside, _)) = listener.accept().await {
            tokio::spawn(async move {
                sleep(Duration::from_millis(300)).await;
                let mut inside = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
            });
        }
    });
    at.parse().unwrap()
}

#[tokio::test]
async fn a_circuit_waits_for_the_way_to_its_relay() {
    let (at, _running) = relay(&Keypair::generate_ed25519(), TCP, 8).await;
    let a = behind(&[&at]).await;
    circuits(&a, 1).await;
    let slow = slow_way(&at).await;
    let b = behind(&[&slow]).await;
    // Its relay is being dialled now.
    let road = format!("{slow}/p2p-circuit/p2p/{}", a.peer());
    let snapshot = b.handle.dial(a.peer(), vec![road]).await.unwrap();
    assert_eq!(snapshot.peer, a.peer());
}

#[tokio::test]
async fn a_bootstrap_address_with_another_peers_id_is_told() {
    let (at, _running) = relay(&Keypair::generate_ed25519(), TCP, 8).await;
    let text = at.to_string();
    let (place, there) = text.split_once("/p2p/").unwrap();
    let meant = Keypair::generate_ed25519().public().to_peer_id();
    let node = behind(&[&format!("{place}/p2p/{meant}").parse().unwrap()]).await;
    let told = async {
        loop {
            if let Some(away) = node.handle.relays().pop() {
                return away;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    let away = timeout(DEADLINE, told).await.unwrap();
    assert_eq!(
        (away.relay, away.state),
        (Some(meant.into()), ReservationState::Away)
    );
    let why = away.last_error.unwrap();
    assert!(
        why.contains("another peer is there") && why.contains(there),
        "{why}"
    );
}

#[tokio::test]
async fn a_bootstrap_address_without_an_id_is_shown_by_itself_until_somebody_answers() {
    // Nobody is there, and nobody else comes.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let place: Multiaddr = format!("/ip4/127.0.0.1/tcp/{port}").parse().unwrap();
    let node = behind(&[&place]).await;
    let shown = async |is: &dyn Fn(&RelaySnapshot) -> bool| {
        let shown = async {
            loop {
                let relays = node.handle.relays();
                if let [only] = &*relays
                    && is(only)
                {
                    return only.clone();
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(DEADLINE, shown).await.unwrap()
    };
    let away = shown(&|relay| relay.state == ReservationState::Away).await;
    assert_eq!((away.relay, away.address), (None, Some(place.to_string())));
    let why = away.last_error.unwrap();
    assert!(why.contains("refused") && !why.contains("127.0.0.1"), "{why}");
    let key = Keypair::generate_ed25519();
    let (_, running) = relay(&key, &place.to_string(), 8).await;
    let held = shown(&|relay| relay.state == ReservationState::Held).await;
    let there = Some(key.public().to_peer_id().into());
    assert_eq!((held.relay, held.address), (there, None));
    // From now on it is known who is away.
    running.abort();
    let refused = |relay: &RelaySnapshot| {
        let error = relay.last_error.as_ref();
        error.is_some_and(|error| error.starts_with(&why))
    };
    let gone = shown(&refused).await;
    assert_eq!(gone.state, ReservationState::Away);
    assert_eq!((gone.relay, gone.address), (there, None));
}

#[tokio::test]
async fn whoever_has_the_same_relay_needs_no_address() {
    let (at, _running) = relay(&Keypair::generate_ed25519(), TCP, 8).await;
    let [a, b, c] = [behind(&[&at]).await, behind(&[&at]).await, behind(&[&at]).await];
    for node in [&a, &b, &c] {
        circuits(node, 1).await;
    }
    assert!(!b.handle.dial(a.peer(), Vec::new()).await.unwrap().direct);
    c.handle.set_wanted(b.peer(), true);
    until("the redialler finds the peer at the relay", || {
        c.handle.is_connected(b.peer())
    })
    .await;
}

#[tokio::test]
async fn two_places_are_kept_and_others_are_spare() {
    let mut relays = Vec::new();
    for _ in 0..3 {
        relays.push(relay(&Keypair::generate_ed25519(), TCP, 8).await);
    }
    let a = behind(&relays.iter().map(|(at, _)| at).collect::<Vec<_>>()).await;
    circuits(&a, 2).await;
    until("the third is spare", || {
        state(&a, 2) == Some(ReservationState::Spare)
    })
    .await;
    let held = a.handle.relays()[0].relay.unwrap();
    let gone = relays
        .iter()
        .find(|(at, _)| at.to_string().contains(&held.to_string()))
        .unwrap();
    gone.1.abort();
    until("the spare one took over", || {
        let relays = a.handle.relays();
        let held_by =
            |relay: &&RelaySnapshot| relay.state == ReservationState::Held && relay.relay != Some(held);
        relays.iter().filter(held_by).count() == 2
    })
    .await;
}

#[tokio::test]
async fn a_full_relay_is_left_alone_for_a_while() {
    let (at, _running) = relay(&Keypair::generate_ed25519(), TCP, 0).await;
    let a = behind(&[&at]).await;
    until("the relay has refused", || {
        state(&a, 0) == Some(ReservationState::Waiting)
    })
    .await;
    let refused = a.handle.relays().remove(0);
    assert!(refused.last_error.unwrap().contains("resource limit"));
    let wait = refused
        .next_try
        .unwrap()
        .duration_since(std::time::SystemTime::now())
        .unwrap();
    assert!(wait > Duration::from_secs(20), "{wait:?}");
    assert!(a.handle.reachable().borrow().relayed.is_empty());
}

#[tokio::test]
async fn a_place_is_renewed_before_it_ends() {
    let config = relay::Config {
        reservation_duration: Duration::from_secs(4),
        ..relay::Config::default()
    };
    let (at, _running) = relay_with(&Keypair::generate_ed25519(), TCP, config).await;
    let a = behind(&[&at]).await;
    let told = circuits(&a, 1).await;
    let since = a.handle.relays()[0].since;
    until("the place has been renewed twice", || {
        let place = a.handle.relays().remove(0);
        let stood = place
            .renewed
            .unwrap()
            .duration_since(place.since.unwrap())
            .unwrap();
        place.state == ReservationState::Held && place.since == since && stood > Duration::from_secs(5)
    })
    .await;
    assert_eq!(a.handle.reachable().borrow().relayed, told);
}
