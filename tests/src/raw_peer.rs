//! A peer that keeps to no rules: it speaks libp2p (TCP with Noise and yamux, or QUIC) and nothing above
//! it by itself, so that a test can write any bytes on a stream, leave streams as they are, or never read.
//!
//! Below a swarm on purpose: a swarm negotiates, pings, identifies and limits itself. The one rule: a
//! stranger does nothing that its test did not ask for, except reading what comes, and that only when it
//! is [`ReadMode::Reads`].

mod connection;
mod envelopes;
mod source_bound_tcp;

use std::{io, net::Ipv4Addr};

use agentanycast::PeerId;
use futures::{AsyncRead, AsyncWrite};
use libp2p::{
    Multiaddr, Transport,
    core::{
        Endpoint,
        muxing::StreamMuxerBox,
        transport::{Boxed, DialOpts, PortUse},
        upgrade::Version,
    },
    identity::Keypair,
    noise, quic, tcp, yamux,
};

use self::source_bound_tcp::SourceBoundTcp;
pub use self::{
    connection::{RawConnection, RawStream},
    envelopes::{
        ack, artifact, card, encoded, envelope, frame, message, numbered, refused_by, send_task, task_of,
        type_of,
    },
};
use crate::within;

/// The protocol of envelopes.
pub const A2A: &str = "/agentanycast/a2a/1.0";

/// The protocol of cards.
pub const CARD: &str = "/agentanycast/card/1.0";

/// Streams that a stranger may have open at once on TCP: the most that fit into the muxer's own bound.
const MAX_STREAMS: usize = 4096;

/// What a stranger does with what the other side sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// Reads envelopes and keeps them; ends card exchanges without a card.
    Reads,
    /// Accepts streams, agrees on their protocol, and never reads on.
    NeverReads,
}

/// A key, and with it a name on the network.
#[derive(Clone, Debug)]
pub struct RawPeer {
    keypair: Keypair,
    id: PeerId,
}

impl RawPeer {
    /// Somebody whom nobody has ever met.
    #[allow(clippy::new_without_default, reason = "each one is another")]
    pub fn new() -> Self {
        let keypair = Keypair::generate_ed25519();
        let id = keypair.public().to_peer_id().to_string();
        Self {
            keypair,
            id: id.parse().expect("a peer id"),
        }
    }

    /// Who it says that it is; its key proves it.
    pub fn id(&self) -> &PeerId {
        &self.id
    }

    /// Connects to a daemon's address (TCP or QUIC), and reads what comes.
    ///
    /// # Panics
    /// When it is not let in.
    pub async fn dial(&self, address: &str) -> RawConnection {
        self.dial_as(address, ReadMode::Reads)
            .await
            .unwrap_or_else(|error| panic!("{address}: {error}"))
    }

    /// Connects with these manners. An error: it was not let in.
    pub async fn dial_as(&self, address: &str, manners: ReadMode) -> io::Result<RawConnection> {
        let address: Multiaddr = address.parse().expect("a multiaddr");
        let muxer = connect(self.transport_for(&address), address).await?;
        Ok(RawConnection::start(muxer, manners))
    }

    /// Connects by TCP from this address of the loopback. An error: it was not let in.
    pub async fn dial_from(&self, source: Ipv4Addr, address: &str) -> io::Result<RawConnection> {
        let address = address.parse().expect("a multiaddr");
        let muxer = connect(self.secured(SourceBoundTcp(source)), address).await?;
        Ok(RawConnection::start(muxer, ReadMode::Reads))
    }

    fn transport_for(&self, address: &Multiaddr) -> Boxed<(libp2p::PeerId, StreamMuxerBox)> {
        if address.to_string().contains("/quic-v1") {
            let quic = quic::tokio::Transport::new(quic::Config::new(&self.keypair));
            return quic
                .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)))
                .boxed();
        }
        self.secured(tcp::tokio::Transport::new(tcp::Config::new().nodelay(true)))
    }

    /// Noise and yamux on top of a road.
    fn secured<T>(&self, road: T) -> Boxed<(libp2p::PeerId, StreamMuxerBox)>
    where
        T: Transport<Error = io::Error> + Send + Unpin + 'static,
        T::Output: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        T::Dial: Send,
        T::ListenerUpgrade: Send,
    {
        let mut muxer = yamux::Config::default();
        muxer.set_max_num_streams(MAX_STREAMS);
        road.upgrade(Version::V1Lazy)
            .authenticate(noise::Config::new(&self.keypair).expect("a key for Noise"))
            .multiplex(muxer)
            .boxed()
    }
}

async fn connect(
    mut road: Boxed<(libp2p::PeerId, StreamMuxerBox)>,
    address: Multiaddr,
) -> io::Result<StreamMuxerBox> {
    let opts = DialOpts {
        role: Endpoint::Dialer,
        port_use: PortUse::New,
    };
    let dialing = road.dial(address, opts).map_err(io::Error::other)?;
    let connected = within("a connection stands or fails", dialing).await;
    connected.map(|(_, muxer)| muxer)
}
