//! The peers: plain libp2p, one identity each.

use std::time::Duration;

use agentanycast_tests::within;
use futures::{AsyncReadExt as _, AsyncWriteExt as _, StreamExt as _};
use libp2p::{
    Multiaddr, PeerId, StreamProtocol, Swarm, SwarmBuilder, identify,
    multiaddr::Protocol,
    noise, ping, relay,
    swarm::{NetworkBehaviour, SwarmEvent, behaviour::toggle::Toggle},
    tcp, yamux,
};
use tokio::task::JoinHandle;

const BYTES: StreamProtocol = StreamProtocol::new("/bench/bytes/1");

/// Written and read at once.
const CHUNK: usize = 64 << 10;

#[derive(NetworkBehaviour)]
pub(crate) struct BenchPeerBehaviour {
    identify: identify::Behaviour,
    ping: ping::Behaviour,
    relay: Toggle<relay::client::Behaviour>,
    streams: libp2p_stream::Behaviour,
}

/// A new peer that is connected to nobody. One that only asks needs no relay.
pub(crate) fn new(with_relay: bool) -> Swarm<BenchPeerBehaviour> {
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
        .with_behaviour(|key, relay| BenchPeerBehaviour {
            identify: identify::Behaviour::new(identify::Config::new("/bench/1".into(), key.public())),
            ping: ping::Behaviour::default(),
            relay: with_relay.then_some(relay).into(),
            streams: libp2p_stream::Behaviour::new(),
        })
        .unwrap()
        .with_swarm_config(|config| config.with_idle_connection_timeout(Duration::from_hours(1)))
        .build()
}

/// Dials an address, and waits until both have introduced themselves and answered a ping.
pub(crate) async fn connect(swarm: &mut Swarm<BenchPeerBehaviour>, address: &Multiaddr) {
    swarm.dial(address.clone()).unwrap();
    let (mut known, mut pinged) = (false, false);
    let connected = async {
        while !(known && pinged) {
            match swarm.select_next_some().await {
                SwarmEvent::Behaviour(BenchPeerBehaviourEvent::Identify(identify::Event::Received {
                    ..
                })) => {
                    known = true;
                }
                SwarmEvent::Behaviour(BenchPeerBehaviourEvent::Ping(ping::Event {
                    result: Ok(_), ..
                })) => {
                    pinged = true;
                }
                SwarmEvent::OutgoingConnectionError { error, .. } => panic!("{address}: {error}"),
                _ => {}
            }
        }
    };
    within("two peers connect", connected).await;
}

/// Reserves a place at a relay.
pub(crate) async fn reserve(swarm: &mut Swarm<BenchPeerBehaviour>, relay: &Multiaddr) {
    swarm.listen_on(relay.clone().with(Protocol::P2pCircuit)).unwrap();
    let reserved = async {
        loop {
            match swarm.select_next_some().await {
                SwarmEvent::Behaviour(BenchPeerBehaviourEvent::Relay(
                    relay::client::Event::ReservationReqAccepted { .. },
                )) => return,
                SwarmEvent::ListenerClosed { reason, .. } => panic!("refused: {reason:?}"),
                _ => {}
            }
        }
    };
    within("the relay gives a place", reserved).await;
}

/// Listens and says where.
pub(crate) async fn listen(swarm: &mut Swarm<BenchPeerBehaviour>, address: &str) -> Multiaddr {
    swarm.listen_on(address.parse().unwrap()).unwrap();
    loop {
        if let SwarmEvent::NewListenAddr { address, .. } = swarm.select_next_some().await {
            return address.with(Protocol::P2p(*swarm.local_peer_id()));
        }
    }
}

/// The way to a peer through a relay.
pub(crate) fn circuit_address(relay: &Multiaddr, peer: PeerId) -> Multiaddr {
    relay.clone().with(Protocol::P2pCircuit).with(Protocol::P2p(peer))
}

/// A peer that lives on by itself until it is dropped.
pub(crate) struct RunningPeer {
    pub(crate) id: PeerId,
    streams: libp2p_stream::Control,
    task: JoinHandle<()>,
}

impl RunningPeer {
    pub(crate) fn new(mut swarm: Swarm<BenchPeerBehaviour>) -> Self {
        Self {
            id: *swarm.local_peer_id(),
            streams: swarm.behaviour().streams.new_control(),
            task: tokio::spawn(async move {
                loop {
                    swarm.select_next_some().await;
                }
            }),
        }
    }

    /// Takes bytes of one stream, and acknowledges their end.
    pub(crate) fn take_bytes(&mut self) -> JoinHandle<()> {
        let mut incoming = self.streams.accept(BYTES).unwrap();
        tokio::spawn(async move {
            while let Some((_, mut stream)) = incoming.next().await {
                let mut chunk = vec![0; CHUNK];
                while stream.read(&mut chunk).await.is_ok_and(|count| count > 0) {}
                // Whoever has gone needs no acknowledgement.
                let _ = stream.write_all(b"!").await;
                let _ = stream.close().await;
            }
        })
    }

    /// Sends so many bytes to a connected peer, and waits until they have been read.
    pub(crate) async fn send_bytes(&mut self, to: PeerId, count: usize) {
        let mut stream = self.streams.open_stream(to, BYTES).await.unwrap();
        let chunk = vec![7; CHUNK];
        for _ in 0..count.div_ceil(CHUNK) {
            stream.write_all(&chunk).await.unwrap();
        }
        stream.close().await.unwrap();
        let mut end = [0];
        stream.read_exact(&mut end).await.unwrap();
    }
}

impl Drop for RunningPeer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
