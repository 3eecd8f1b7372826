//! A node reaches a peer through a relay, and drops that road once there is a direct one.

use std::sync::Arc;

use futures::{AsyncReadExt, AsyncWriteExt, StreamExt};
use libp2p::{
    Multiaddr, Swarm, relay,
    swarm::{self, NetworkBehaviour, SwarmEvent, dial_opts::DialOpts},
    websocket::tls,
};
use tokio_util::compat::FuturesAsyncReadCompatExt as _;

use super::*;

#[derive(NetworkBehaviour)]
#[behaviour(prelude = "libp2p::swarm::derive_prelude")]
struct RelayedOnlyPeer {
    relay: relay::client::Behaviour,
    streams: streams::Behaviour,
}

/// Listens on the loopback and answers with its address, `/p2p` included.
async fn listen<B: NetworkBehaviour>(swarm: &mut Swarm<B>) -> Multiaddr {
    swarm.listen_on(TCP.parse().unwrap()).unwrap();
    loop {
        if let SwarmEvent::NewListenAddr { address, .. } = swarm.select_next_some().await {
            return address.with_p2p(*swarm.local_peer_id()).unwrap();
        }
    }
}

async fn relay() -> Multiaddr {
    let keypair = Keypair::generate_ed25519();
    let peer = keypair.public().to_peer_id();
    let (transport, _) = transport::build(&keypair, false, false, &tls::Config::client()).unwrap();
    let behaviour = relay::Behaviour::new(peer, relay::Config::default());
    let mut swarm = Swarm::new(transport, behaviour, peer, swarm::Config::with_tokio_executor());
    let address = listen(&mut swarm).await;
    swarm.add_external_address(address.clone());
    tokio::spawn(async move { while swarm.next().await.is_some() {} });
    address
}

/// A peer that can be reached only through `relay`, and its inbound streams.
async fn hidden(relay: &Multiaddr) -> (Swarm<RelayedOnlyPeer>, mpsc::Receiver<streams::InboundStream>) {
    let keypair = Keypair::generate_ed25519();
    let peer = keypair.public().to_peer_id();
    let (transport, relay_client) = transport::build(&keypair, false, true, &tls::Config::client()).unwrap();
    let (streams, inbound) = streams::Behaviour::new(Arc::default(), 8);
    let behaviour = RelayedOnlyPeer {
        relay: relay_client.unwrap(),
        streams,
    };
    let mut swarm = Swarm::new(transport, behaviour, peer, swarm::Config::with_tokio_executor());
    swarm
        .listen_on(relay.clone().with(libp2p::multiaddr::Protocol::P2pCircuit))
        .unwrap();
    let reserved = async {
        while !matches!(
            swarm.select_next_some().await,
            SwarmEvent::Behaviour(RelayedOnlyPeerEvent::Relay(
                relay::client::Event::ReservationReqAccepted { .. }
            ))
        ) {}
    };
    timeout(DEADLINE, reserved).await.unwrap();
    (swarm, inbound)
}

/// A relay that hands each circuit, whomever it was asked for, to whoever listens on this port. Yields its address.
async fn lying_relay(port: u16) -> Multiaddr {
    /// A HopMessage of the type STATUS with the status OK, its length before it (circuit v2, "Protobuf").
    const OK: [u8; 5] = [4, 0x08, 2, 0x28, 100];
    let keypair = Keypair::generate_ed25519();
    let peer = keypair.public().to_peer_id();
    let (transport, _) = transport::build(&keypair, false, false, &tls::Config::client()).unwrap();
    let behaviour = libp2p_stream::Behaviour::new();
    let mut control = behaviour.new_control();
    let mut circuits = control
        .accept(libp2p::StreamProtocol::new("/libp2p/circuit/relay/0.2.0/hop"))
        .unwrap();
    let mut swarm = Swarm::new(transport, behaviour, peer, swarm::Config::with_tokio_executor());
    let address = listen(&mut swarm).await;
    tokio::spawn(async move { while swarm.next().await.is_some() {} });
    tokio::spawn(async move {
        while let Some((_, mut circuit)) = circuits.next().await {
            let mut length = [0];
            circuit.read_exact(&mut length).await.unwrap();
            assert!(length[0] < 128, "a request is short");
            let mut request = vec![0; length[0].into()];
            circuit.read_exact(&mut request).await.unwrap();
            circuit.write_all(&OK).await.unwrap();
            let mut other = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            tokio::spawn(
                async move { tokio::io::copy_bidirectional(&mut circuit.compat(), &mut other).await },
            );
        }
    });
    address
}

/// The peer at the other end of a circuit has to have the key that was asked for, whatever the relay makes of that; and a
/// relay leads to nobody under a new key, so whoever is there is not met.
#[tokio::test]
async fn a_relay_that_leads_to_somebody_else_gets_nobody_to_talk_to_him() {
    let mut other = NetNode::start(config(&[TCP])).await;
    let at: Multiaddr = other.handle.listen_addrs()[0].parse().unwrap();
    let port = at.iter().find_map(|part| match part {
        libp2p::multiaddr::Protocol::Tcp(port) => Some(port),
        _ => None,
    });
    let circuit = lying_relay(port.unwrap())
        .await
        .with(libp2p::multiaddr::Protocol::P2pCircuit);
    let a = NetNode::start(config(&[TCP])).await;
    let wanted = PeerId::from(Keypair::generate_ed25519().public().to_peer_id());
    let refused = a
        .handle
        .dial(wanted, vec![format!("{circuit}/p2p/{wanted}")])
        .await;
    assert!(refused.is_err(), "{refused:?}");
    assert!(!a.handle.is_connected(wanted) && !a.handle.is_connected(other.peer()));
    // Nor by itself, again and again.
    a.handle
        .add_addresses(vec![(wanted, vec![circuit.to_string()])])
        .await;
    a.handle.set_wanted(wanted, true);
    let looked_for = async {
        loop {
            let way = a.handle.dial_status(wanted).await;
            if way.failures >= 2 {
                break way.last_error;
            }
            assert!(!a.handle.is_connected(other.peer()));
            sleep(Duration::from_millis(5)).await;
        }
    };
    let why = timeout(DEADLINE, looked_for).await.unwrap();
    assert!(why.contains("another peer is there"), "{why}");
    a.handle.set_wanted(wanted, false);
    // Asked for the one that it leads to, it is as good as any.
    let peer = other.peer();
    let reached = a.handle.dial(peer, vec![format!("{circuit}/p2p/{peer}")]).await;
    assert!(!reached.unwrap().direct);
    other.connected(a.peer()).await;
}

#[tokio::test]
async fn a_relayed_road_serves_until_there_is_a_direct_one() {
    let relay = relay().await;
    let (mut swarm, mut inbound) = hidden(&relay).await;
    let peer = PeerId::from(*swarm.local_peer_id());
    let (dial, mut dials) = mpsc::channel::<Multiaddr>(1);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                Some(address) = dials.recv() => {
                    // The condition must not hold: there is the relayed connection already.
                    let opts = DialOpts::unknown_peer_id().address(address).build();
                    swarm.dial(opts).unwrap();
                }
                _ = swarm.select_next_some() => {}
            }
        }
    });
    let a = NetNode::start(config(&[TCP])).await;
    let circuit = relay.with(libp2p::multiaddr::Protocol::P2pCircuit);
    let snapshot = a
        .handle
        .dial(peer, vec![format!("{circuit}/p2p/{peer}")])
        .await
        .unwrap();
    assert_eq!(
        (snapshot.direct, snapshot.addresses),
        (false, vec![circuit.to_string()])
    );
    let through = address_book::relay_of(&circuit);
    assert!(through.is_some());
    let named = through.map(PeerId::from);
    let mut writer = a.handle.open_stream(peer).await.unwrap();
    assert_eq!((snapshot.relay, writer.relay()), (named, named));
    writer
        .write(&[Bytes::from_static(b"through the relay")])
        .await
        .unwrap();
    let mut text = vec![0; 4 + 17];
    let came = timeout(DEADLINE, inbound.recv()).await.unwrap().unwrap();
    assert_eq!(came.relay, through);
    let mut stream = came.stream;
    stream.read_exact(&mut text).await.unwrap();
    assert_eq!(&text[4..], b"through the relay");
    dial.send(a.handle.listen_addrs()[0].parse().unwrap())
        .await
        .unwrap();
    let addresses = || {
        a.handle
            .peers()
            .into_iter()
            .find(|at| at.peer == peer)
            .map(|at| at.addresses)
    };
    until("there is a direct connection", || {
        addresses().is_some_and(|all| all.len() == 2)
    })
    .await;
    until("the relayed one is closed", || {
        addresses().is_some_and(|all| all.len() == 1 && !all[0].contains("p2p-circuit"))
    })
    .await;
    timeout(DEADLINE, writer.closed()).await.unwrap();
    let writer = a.handle.open_stream(peer).await.unwrap();
    assert_eq!((a.handle.peer(peer).unwrap().relay, writer.relay()), (None, None));
}
