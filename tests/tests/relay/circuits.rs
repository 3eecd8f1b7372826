//! Two plain libp2p peers: one reserves a place on the relay, the other dials it through the relay and pings it.

use std::time::Duration;

use agentanycast_tests::{TestRelay, eventually, within};
use libp2p::{
    Multiaddr, PeerId, Swarm, SwarmBuilder,
    futures::StreamExt as _,
    identify,
    multiaddr::Protocol,
    noise, ping, relay,
    swarm::{
        NetworkBehaviour, SwarmEvent,
        dial_opts::{DialOpts, PeerCondition},
    },
    tcp, yamux,
};

#[derive(NetworkBehaviour)]
pub(crate) struct CircuitPeerBehaviour {
    relay: relay::client::Behaviour,
    identify: identify::Behaviour,
    ping: ping::Behaviour,
}

pub(crate) fn peer() -> Swarm<CircuitPeerBehaviour> {
    SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_tcp(
            tcp::Config::new().nodelay(true),
            noise::Config::new,
            yamux::Config::default,
        )
        .unwrap()
        .with_quic()
        .with_relay_client(noise::Config::new, yamux::Config::default)
        .unwrap()
        .with_behaviour(|key, relay| CircuitPeerBehaviour {
            relay,
            identify: identify::Behaviour::new(identify::Config::new("/test/1".into(), key.public())),
            ping: ping::Behaviour::new(ping::Config::new().with_interval(Duration::from_millis(50))),
        })
        .unwrap()
        .with_swarm_config(|config| config.with_idle_connection_timeout(Duration::from_mins(1)))
        .build()
}

/// Reserves a place; whether the relay gave one.
pub(crate) async fn reserves(swarm: &mut Swarm<CircuitPeerBehaviour>, at: &Multiaddr) -> bool {
    let listener = swarm.listen_on(at.clone().with(Protocol::P2pCircuit)).unwrap();
    let outcome = async {
        loop {
            match swarm.select_next_some().await {
                SwarmEvent::Behaviour(CircuitPeerBehaviourEvent::Relay(
                    relay::client::Event::ReservationReqAccepted { .. },
                )) => return true,
                SwarmEvent::ListenerClosed { listener_id, .. } if listener_id == listener => return false,
                _ => {}
            }
        }
    };
    within("the relay answers a reservation", outcome).await
}

/// Dials through the relay and waits for a ping over the circuit.
pub(crate) async fn pings(dialer: &mut Swarm<CircuitPeerBehaviour>, at: &Multiaddr, target: PeerId) -> bool {
    let circuit = at.clone().with(Protocol::P2pCircuit).with(Protocol::P2p(target));
    dialer.dial(circuit).unwrap();
    let outcome = async {
        loop {
            match dialer.select_next_some().await {
                SwarmEvent::Behaviour(CircuitPeerBehaviourEvent::Ping(ping::Event {
                    peer,
                    result: Ok(_),
                    ..
                })) if peer == target => return true,
                SwarmEvent::OutgoingConnectionError { peer_id, .. } if peer_id == Some(target) => {
                    return false;
                }
                _ => {}
            }
        }
    };
    within("the circuit works or fails", outcome).await
}

/// Waits until a figure is as it should be: a peer may have its answer before the relay has counted it.
async fn until(relay: &TestRelay, name: &str, is_right: impl Fn(f64) -> bool) {
    eventually(name, || async {
        let (_, text) = relay.get(relay.metrics, "/metrics").await;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|number| number.parse::<f64>().ok())
            .filter(|figure| is_right(*figure))
    })
    .await;
}

/// Waits until the log says that at the limit of this name.
pub(crate) async fn warns(relay: &TestRelay, what: &str, limit: &str) {
    eventually("the log names the limit", || async {
        let log = relay.log();
        let mut lines = log
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        lines
            .any(|line| line["level"] == "WARN" && line["message"] == what && line["limit"] == limit)
            .then_some(())
    })
    .await;
}

/// Waits until a figure has come up to `least`.
pub(crate) async fn at_least(relay: &TestRelay, name: &str, least: f64) {
    until(relay, name, |figure| figure >= least).await;
}

async fn through(relay: &TestRelay, listener_at: &str, dialer_at: &str) {
    let (listener_at, dialer_at): (Multiaddr, Multiaddr) =
        (listener_at.parse().unwrap(), dialer_at.parse().unwrap());
    let mut listener = peer();
    let target = *listener.local_peer_id();
    assert!(reserves(&mut listener, &listener_at).await);
    let serving = tokio::spawn(async move {
        loop {
            listener.select_next_some().await;
        }
    });
    assert!(pings(&mut peer(), &dialer_at, target).await);
    at_least(relay, "relay_reservations", 1.0).await;
    at_least(relay, "relay_circuits_accepted_total", 1.0).await;
    at_least(relay, "relay_bytes_total", 100.0).await;
    serving.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_is_reached_over_tcp_and_quic() {
    let relay = TestRelay::builder().start().await;
    let (tcp, quic) = (relay.addresses[0].clone(), relay.addresses[1].clone());
    through(&relay, &tcp, &tcp).await;
    through(&relay, &quic, &quic).await;
    through(&relay, &tcp, &quic).await;
    let stats = relay.api("/api/v1/stats").await;
    assert!(stats["relay"]["bytes"].as_u64().unwrap() > 100, "{stats}");
}

/// Goes on with the swarm while something else is waited for.
async fn meanwhile(swarm: &mut Swarm<CircuitPeerBehaviour>, wait: impl Future<Output = ()>) {
    tokio::select! {
        () = async { loop { swarm.select_next_some().await; } } => {}
        () = wait => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_outlives_another_connection_of_its_peer() {
    let relay = TestRelay::builder().start().await;
    let [tcp, quic] = [0, 1].map(|at| relay.addresses[at].parse::<Multiaddr>().unwrap());
    let mut swarm = peer();
    assert!(reserves(&mut swarm, &tcp).await);
    // With the third one the end of the second was dealt with.
    for _ in 0..2 {
        meanwhile(
            &mut swarm,
            until(&relay, "libp2p_connections", |count| (0.5..1.5).contains(&count)),
        )
        .await;
        let dial = DialOpts::peer_id(relay.id().parse().unwrap())
            .addresses(vec![quic.clone()])
            .condition(PeerCondition::Always)
            .build();
        let another = dial.connection_id();
        swarm.dial(dial).unwrap();
        meanwhile(&mut swarm, at_least(&relay, "libp2p_connections", 2.0)).await;
        let stats = relay.api("/api/v1/stats").await;
        assert_eq!(stats["relay"]["reservations"], 1, "{stats}");
        swarm.close_connection(another);
    }
    drop(swarm);
    until(&relay, "relay_reservations", |count| count < 0.5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_relay_refuses_new_places_and_keeps_the_old() {
    let relay = TestRelay::builder().args(["--max-reservations=1"]).start().await;
    let at: Multiaddr = relay.addresses[0].parse().unwrap();
    let mut first = peer();
    let target = *first.local_peer_id();
    assert!(reserves(&mut first, &at).await);
    let serving = tokio::spawn(async move {
        loop {
            first.select_next_some().await;
        }
    });
    assert!(!reserves(&mut peer(), &at).await);
    at_least(
        &relay,
        "relay_reservations_refused_total{reason=\"max_reservations\"}",
        1.0,
    )
    .await;
    assert!(pings(&mut peer(), &at, target).await);
    serving.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_is_renewed_at_a_full_relay() {
    let relay = TestRelay::builder().args(["--max-reservations=1"]).start().await;
    let at: Multiaddr = relay.addresses[0].parse().unwrap();
    let mut first = peer();
    // A second request over the same connection is a renewal.
    assert!(reserves(&mut first, &at).await);
    assert!(reserves(&mut first, &at).await);
    assert!(!reserves(&mut peer(), &at).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_has_its_places_gets_no_more() {
    let relay = TestRelay::builder()
        .args(["--max-reservations=100", "--max-reservations-per-ip=2"])
        .start()
        .await;
    let at: Multiaddr = relay.addresses[0].parse().unwrap();
    let mut held = [peer(), peer()];
    for swarm in &mut held {
        assert!(reserves(swarm, &at).await);
    }
    assert!(!reserves(&mut peer(), &at).await);
    at_least(
        &relay,
        "relay_reservations_refused_total{reason=\"max_reservations_per_ip\"}",
        1.0,
    )
    .await;
    warns(&relay, "a reservation was refused", "max_reservations_per_ip").await;
    // With its connection a place is free again.
    drop(held);
    eventually("there is a place again", || async {
        reserves(&mut peer(), &at).await.then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_without_a_place_is_not_reached() {
    let relay = TestRelay::builder().start().await;
    let at: Multiaddr = relay.addresses[0].parse().unwrap();
    assert!(!pings(&mut peer(), &at, PeerId::random()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_has_its_share_gets_no_more_and_loses_nothing() {
    let relay = TestRelay::builder()
        .args(["--connections-per-ip=2"])
        .start()
        .await;
    let at: Multiaddr = relay.addresses[0].parse().unwrap();
    let mut first = peer();
    let target = *first.local_peer_id();
    assert!(reserves(&mut first, &at).await);
    let serving = tokio::spawn(async move {
        loop {
            first.select_next_some().await;
        }
    });
    let mut second = peer();
    assert!(pings(&mut second, &at, target).await);
    assert!(!reserves(&mut peer(), &at).await);
    at_least(&relay, "libp2p_connections_refused_total", 1.0).await;
    drop(second);
    // Its place is free once the relay has noticed.
    eventually("there is room again", || async {
        pings(&mut peer(), &at, target).await.then_some(())
    })
    .await;
    serving.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_has_its_circuits_gets_no_more_and_loses_nothing() {
    let relay = TestRelay::builder()
        .args(["--max-circuits-per-ip=2"])
        .start()
        .await;
    let at: Multiaddr = relay.addresses[0].parse().unwrap();
    let mut reached = peer();
    let target = *reached.local_peer_id();
    assert!(reserves(&mut reached, &at).await);
    let serving = tokio::spawn(async move {
        loop {
            reached.select_next_some().await;
        }
    });
    let mut held = [peer(), peer()];
    for swarm in &mut held {
        assert!(pings(swarm, &at, target).await);
    }
    // Over another transport it is the same address.
    let quic: Multiaddr = relay.addresses[1].parse().unwrap();
    assert!(!pings(&mut peer(), &quic, target).await);
    at_least(
        &relay,
        "relay_circuits_refused_total{reason=\"max_circuits_per_ip\"}",
        1.0,
    )
    .await;
    // A place is no circuit.
    assert!(reserves(&mut peer(), &at).await);
    for swarm in &mut held {
        let alive = async {
            loop {
                if let SwarmEvent::Behaviour(CircuitPeerBehaviourEvent::Ping(ping)) =
                    swarm.select_next_some().await
                    && ping.peer == target
                {
                    return ping.result.is_ok();
                }
            }
        };
        assert!(within("the circuit still works", alive).await);
    }
    drop(held);
    eventually("there is room again", || async {
        pings(&mut peer(), &at, target).await.then_some(())
    })
    .await;
    serving.abort();
}
