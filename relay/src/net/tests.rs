//! What is listened on, and what others are told.

use libp2p::{SwarmBuilder, identify, swarm::dummy, tcp, yamux};

use super::*;

fn addr(text: &str) -> Multiaddr {
    text.parse().unwrap()
}

#[test]
fn quic_takes_the_port_that_tcp_was_given() {
    let bound = [addr("/ip4/127.0.0.1/tcp/4001")];
    assert_eq!(
        quic_beside(&addr("/ip4/0.0.0.0/tcp/0"), &bound),
        Some(addr("/ip4/0.0.0.0/udp/4001/quic-v1"))
    );
    assert_eq!(quic_beside(&addr("/ip4/0.0.0.0/tcp/0/ws"), &bound), None);
}

#[test]
fn a_refusal_says_what_to_do_about_it() {
    use rustix::io::Errno;
    let said = |errno: Errno| with_remedy(&format!("wrapped: {}", io::Error::from(errno)));
    assert!(said(Errno::ADDRINUSE).ends_with("choose another port for --listen"));
    assert!(said(Errno::ADDRNOTAVAIL).ends_with("addresses of this host"));
    assert!(said(Errno::ACCESS).contains("1024"));
    assert_eq!(with_remedy("it did not come up"), "it did not come up");
}

#[test]
fn others_are_told_what_they_can_dial() {
    let (loopback, lan) = (addr("/ip4/127.0.0.1/tcp/1"), addr("/ip4/192.0.2.1/tcp/1"));
    let public = addr("/ip4/198.51.100.1/tcp/1");
    assert_eq!(
        announced_addresses(&[], std::slice::from_ref(&loopback)),
        std::slice::from_ref(&loopback)
    );
    assert_eq!(
        announced_addresses(&[], &[loopback.clone(), lan.clone()]),
        std::slice::from_ref(&lan)
    );
    assert_eq!(
        announced_addresses(std::slice::from_ref(&public), &[loopback, lan]),
        [public]
    );
}

#[test]
fn an_address_that_needs_a_zone_is_told_to_nobody() {
    let [link, loopback, lan] = ["/ip6/fe80::1/tcp/1", "/ip6/::1/tcp/1", "/ip6/2001:db8::1/tcp/1"].map(addr);
    let all = [link.clone(), loopback.clone(), lan.clone()];
    assert_eq!(announced_addresses(&[], &all), std::slice::from_ref(&lan));
    assert_eq!(
        announced_addresses(&[], &all[..2]),
        std::slice::from_ref(&loopback)
    );
    // Whoever listens nowhere else offers its circuits there all the same.
    assert_eq!(announced_addresses(&[], &all[..1]), std::slice::from_ref(&link));
    assert_eq!(announced_addresses(std::slice::from_ref(&link), &all), [link]);
}

#[test]
fn a_ceiling_is_said_and_a_mistake_is_not() {
    use relay::StatusCode::{NoReservation, ResourceLimitExceeded};
    assert!(is_at_a_ceiling(Some("max_circuits"), &ResourceLimitExceeded));
    assert!(is_at_a_ceiling(None, &ResourceLimitExceeded), "a rate");
    assert!(!is_at_a_ceiling(None, &NoReservation));
}

fn config(listen: &[&str]) -> NetConfig {
    NetConfig {
        info: RelayInfo::default(),
        keypair: Keypair::generate_ed25519(),
        listen: listen.iter().copied().map(addr).collect(),
        announce: Vec::new(),
        max_reservations: 1,
        max_reservations_per_ip: 1,
        max_circuits: 1,
        max_circuits_per_peer: 1,
        max_circuits_per_ip: 1,
        circuit_duration: Duration::from_secs(1),
        circuit_bytes: 1,
        reservations_per_ip: 1,
        circuits_per_ip: 1,
        max_connections: 1,
        connections_per_ip: 1024,
        max_pending: 1024,
        pending_per_ip: 128,
    }
}

async fn started(listen: &str) -> (Result<Net, StartError>, CancellationToken) {
    let stop = CancellationToken::new();
    (start(config(&[listen]), Arc::default(), stop.clone()).await, stop)
}

#[tokio::test]
async fn tcp_comes_first_and_quic_has_its_port() {
    let (net, stop) = started("/ip4/127.0.0.1/tcp/0").await;
    let net = net.unwrap();
    assert_eq!(net.addresses.len(), 2);
    assert_eq!(port(&net.addresses[0]), port(&net.addresses[1]));
    assert!(net.addresses[1].to_string().ends_with("/quic-v1"));
    // A port that is taken is an error, also for another relay of the same user.
    let taken = started(&net.addresses[0].to_string()).await.0;
    let said = taken.unwrap_err().to_string();
    assert!(
        said.contains("in use") && said.contains("another port for --listen"),
        "{said}"
    );
    // So is one of QUIC.
    let taken = started(&format!(
        "/ip4/127.0.0.1/udp/{}/quic-v1",
        port(&net.addresses[1]).unwrap()
    ))
    .await
    .0;
    let said = taken.unwrap_err().to_string();
    assert!(said.contains("another port for --listen"), "{said}");
    stop.cancel();
    net.task.await.unwrap();
}

#[tokio::test]
async fn websocket_is_listened_on() {
    let (net, stop) = started("/ip4/127.0.0.1/tcp/0/ws").await;
    let net = net.unwrap();
    assert_eq!(net.addresses.len(), 1);
    assert!(net.addresses[0].to_string().ends_with("/ws"));
    stop.cancel();
    net.task.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_while_the_relay_starts_is_served() {
    let metrics = Arc::new(Metrics::default());
    let mut running = RelaySwarm::new(&config(&[]), Arc::clone(&metrics)).unwrap();
    let at = running.listen(&addr("/ip4/127.0.0.1/tcp/0")).await.unwrap();
    let mut early = SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_tcp(tcp::Config::new(), noise::Config::new, yamux::Config::default)
        .unwrap()
        .with_behaviour(|_| dummy::Behaviour)
        .unwrap()
        .with_swarm_config(|config| config.with_idle_connection_timeout(Duration::from_mins(1)))
        .build();
    let peer = *early.local_peer_id();
    early.dial(at[0].clone()).unwrap();
    let early = tokio::spawn(async move {
        loop {
            early.select_next_some().await;
        }
    });
    let deadline = Instant::now() + Duration::from_mins(1);
    while metrics.connections.get() == 0 {
        assert!(Instant::now() < deadline, "the connection was lost");
        running.listen(&addr("/ip4/0.0.0.0/tcp/0")).await.unwrap();
    }
    assert_eq!(metrics.peers.get(), 1);
    let from = running.reservations.addresses_of(peer);
    assert!(
        running.reservations.admit(peer, &from[0]),
        "it has a place when it asks for one"
    );
    early.abort();
    while metrics.connections.get() > 0 {
        assert!(Instant::now() < deadline, "its end was lost");
        running.listen(&addr("/ip4/0.0.0.0/tcp/0")).await.unwrap();
    }
    assert_eq!(metrics.peers.get(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trickle_of_connections_does_not_delay_the_start() {
    let mut running = RelaySwarm::new(&config(&[]), Arc::default()).unwrap();
    let at = running.listen(&addr("/ip4/127.0.0.1/tcp/0")).await.unwrap();
    let there = (std::net::Ipv4Addr::LOCALHOST, port(&at[0]).unwrap());
    let stop = CancellationToken::new();
    let trickle = tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
        loop {
            drop(tokio::net::TcpStream::connect(there).await);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }));
    let bound = running.listen(&addr("/ip4/0.0.0.0/tcp/0")).await;
    stop.cancel();
    trickle.await.unwrap();
    assert!(!bound.unwrap().is_empty());
}

/// All interfaces are waited for, and whoever is there first has to be told of places then: that they are offered later may
/// never get to it.
#[tokio::test(flavor = "multi_thread")]
async fn who_comes_while_the_relay_starts_is_offered_a_place() {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut running = RelaySwarm::new(&config(&[]), Arc::default()).unwrap();
    let serving = tokio::spawn(async move {
        let anywhere = format!("/ip4/0.0.0.0/tcp/{}", free.port());
        running.listen(&addr(&anywhere)).await.unwrap();
        running.run().await;
    });
    let mut early = SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_tcp(tcp::Config::new(), noise::Config::new, yamux::Config::default)
        .unwrap()
        .with_behaviour(|key| identify::Behaviour::new(identify::Config::new("test".into(), key.public())))
        .unwrap()
        .build();
    let at = addr(&format!("/ip4/127.0.0.1/tcp/{}", free.port()));
    let dial = |early: &mut Swarm<identify::Behaviour>| early.dial(at.clone()).unwrap();
    dial(&mut early);
    let offered = tokio::time::timeout(Duration::from_secs(10), async {
        loop {
            match early.select_next_some().await {
                SwarmEvent::OutgoingConnectionError { .. } => dial(&mut early),
                SwarmEvent::Behaviour(identify::Event::Received { info, .. }) => return info.protocols,
                _ => {}
            }
        }
    });
    let offered = offered.await.expect("it is let in");
    assert!(offered.contains(&relay::HOP_PROTOCOL_NAME), "{offered:?}");
    serving.abort();
}
