//! A node reaches a peer through a relay, and drops that road once there is a direct one.

use std::sync::Arc;

use futures::{AsyncReadExt, StreamExt};
use libp2p::{
    Multiaddr, Swarm, relay,
    swarm::{self, NetworkBehaviour, SwarmEvent, dial_opts::DialOpts},
    websocket::tls,
};

use super::*;

#[derive(NetworkBehaviour)]
#[behaviour(prelude = "libp2p::swarm::derive_prelude")]
struct Hidden {
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
async fn hidden(relay: &Multiaddr) -> (Swarm<Hidden>, mpsc::Receiver<streams::InboundStream>) {
    let keypair = Keypair::generate_ed25519();
    let peer = keypair.public().to_peer_id();
    let (transport, relay_client) = transport::build(&keypair, false, true, &tls::Config::client()).unwrap();
    let (streams, inbound) = streams::Behaviour::new(Arc::default(), 8);
    let behaviour = Hidden {
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
            SwarmEvent::Behaviour(HiddenEvent::Relay(
                relay::client::Event::ReservationReqAccepted { .. }
            ))
        ) {}
    };
    timeout(DEADLINE, reserved).await.unwrap();
    (swarm, inbound)
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
    let a = Node::start(config(&[TCP])).await;
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
    let mut writer = a.handle.open_stream(peer).await.unwrap();
    writer
        .write(&[Bytes::from_static(b"through the relay")])
        .await
        .unwrap();
    let mut text = vec![0; 4 + 17];
    let mut stream = timeout(DEADLINE, inbound.recv()).await.unwrap().unwrap().stream;
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
    a.handle.open_stream(peer).await.unwrap();
}
