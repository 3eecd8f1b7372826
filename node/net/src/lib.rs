//! The network floor: connections, streams, frames and cards. It carries bytes between peers and knows
//! nothing of tasks.
//!
//! [`start`] binds the listen addresses and puts the swarm into one task of its own. Everyone else holds
//! a cheap [`Handle`] and reads [`LinkEvent`]s. The one rule: whatever a peer does, memory stays within
//! [`NetLimits`], and the swarm never waits for the consumer of its events.

mod address_book;
mod autonat;
mod behaviour;
mod budget;
mod card_exchange;
mod connections;
mod counters;
mod dht;
mod dialer;
mod direct_upgrade;
mod dns_transport;
mod duplicate_instances;
pub mod duplicate_key;
mod event_queue;
mod external_addrs;
mod frame;
mod frame_reader;
mod frame_writer;
mod handle;
mod listeners;
mod nat;
mod relay_info;
mod request;
mod reservation;
mod rotated_peer_probe;
mod round_trip;
mod streams;
mod swarm_task;
#[cfg(test)]
mod tests;
mod transport;

use std::{collections::HashMap, time::Duration};

use agentanycast_core::{link::LinkEvent, policy::invites::SECRET};
use agentanycast_identity::PeerId;
use tokio::{sync::mpsc, task::JoinHandle};

use crate::duplicate_key::DuplicateKeyReports;

pub use self::{
    card_exchange::{AgentPages, CardsForPeers, InviteJudge, MAX_CARD_BYTES, OwnIdentity},
    connections::PeerSnapshot,
    counters::{Counter, Counters},
    dht::{DescribeError, DhtConfig, DhtMode, DhtNetwork, DhtTimes, FindError, FoundAgent, ProvideError},
    external_addrs::ReachableAddrs,
    frame_writer::FrameWriter,
    handle::{DialAttempt, DialError, DialStatus, Handle},
    nat::Nat,
    relay_info::{RelayAnswer, RelayAnswers},
    reservation::{CircuitLimit, RelaySnapshot, ReservationState},
    round_trip::{NoAnswer, RoundTrip},
    streams::OpenError,
};

#[cfg(any(test, feature = "fuzz"))]
pub use self::{card_exchange::fuzz as fuzz_card, frame::fuzz as fuzz_frame};

/// What a node's network needs to know at its start.
#[derive(Clone, Debug)]
pub struct NetConfig {
    /// Who we are.
    pub keypair: libp2p::identity::Keypair,
    /// Multiaddresses to listen on; those of QUIC are left out when `quic` is off.
    pub listen_addrs: Vec<String>,
    /// [`Handle::bound_addrs`] of the last run: a listen address with port 0 tries the same port first.
    pub preferred_listen: Vec<String>,
    /// Multiaddresses that are redialled for ever, with or without `/p2p/<id>`.
    pub bootstrap_peers: Vec<String>,
    /// What [`LinkEvent::Addresses`] said in the last run.
    pub known_addrs: Vec<(PeerId, Vec<String>)>,
    /// Look for peers on the local network.
    pub mdns: bool,
    /// Listen and dial with QUIC besides TCP.
    pub quic: bool,
    /// Reach peers through relays.
    pub relay_client: bool,
    /// Turn relayed connections into direct ones where the NATs allow it.
    pub hole_punching: bool,
    /// Ask the router for a port that leads here (UPnP).
    pub upnp: bool,
    /// Certificate authorities (DER) that relays at `wss` addresses may be certified by, besides those of the web.
    pub authorities: Vec<Vec<u8>>,
    /// How the node takes part in the DHT, if it does.
    pub dht: Option<DhtConfig>,
    /// Name and version of this program, shown to peers.
    pub agent_version: String,
    /// What the node says of itself besides its key.
    pub names: OwnIdentity,
    /// Which run of the node this is, and where is told who sees another one.
    pub other_daemons: DuplicateKeyReports,
    /// Secrets of invites, each shown to the node that gave it and to no other.
    pub invites: HashMap<PeerId, [u8; SECRET]>,
    /// How much peers may use.
    pub limits: NetLimits,
}

/// How much peers may use. At a limit the newcomer is refused or has to wait; nothing is dropped that was
/// accepted.
#[derive(Clone, Debug)]
pub struct NetLimits {
    /// Connections in total; three quarters of them may be inbound.
    pub connections: u32,
    /// Connections of one peer: both sides dialling over two transports and a relay leaves some room.
    pub connections_per_peer: u32,
    /// Inbound connections that are not authenticated yet.
    pub pending_incoming: u32,
    /// Outbound connections that are not authenticated yet.
    pub pending_outgoing: u32,
    /// Inbound connections from one address that are not authenticated yet: whoever connects and says nothing
    /// has a place for the 10 s that authentication may take.
    pub pending_per_address: usize,
    /// Inbound connections from one address; a site behind one has many nodes.
    pub connections_per_address: usize,
    /// Inbound streams of one peer that are open at once; deployed peers open one per envelope.
    pub inbound_streams_per_peer: usize,
    /// Inbound streams of all peers together, besides a few that each has for itself. Each may hold 256 KiB that
    /// are not read yet.
    pub inbound_streams_shared: usize,
    /// Frames of one peer whose [`FramePermit`](agentanycast_core::link::FramePermit) is held; as many short ones, under 32 KiB, as longer ones.
    pub frames_per_peer: usize,
    /// Payload bytes of one peer's longer frames whose [`FramePermit`](agentanycast_core::link::FramePermit) is held; at least one longest frame.
    pub bytes_per_peer: usize,
    /// Payload bytes in total whose [`FramePermit`](agentanycast_core::link::FramePermit) is held; at least one longest frame.
    pub bytes_total: usize,
    /// Share of the machine's memory beyond which this process takes no new connection.
    pub memory_fraction: f64,
    /// Peers that are redialled at once.
    pub wanted_peers: usize,
    /// How long whoever is where a wanted peer was has to show that it is that one under a new key.
    pub stranger_patience: Duration,
}

impl Default for NetLimits {
    fn default() -> Self {
        Self {
            connections: 1024,
            connections_per_peer: 8,
            pending_incoming: 512,
            pending_outgoing: 64,
            pending_per_address: 64,
            connections_per_address: 256,
            inbound_streams_per_peer: 1024,
            inbound_streams_shared: 3072,
            frames_per_peer: 64,
            bytes_per_peer: 32 << 20,
            bytes_total: 512 << 20,
            memory_fraction: 0.9,
            wanted_peers: 4096,
            stranger_patience: Duration::from_secs(30),
        }
    }
}

/// Why the network did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A listen address is no multiaddress, or none that a node can listen on.
    #[error("cannot listen on {address}: {cause}; use e.g. /ip4/0.0.0.0/tcp/0")]
    InvalidAddress {
        /// As configured.
        address: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The system refused a listen address.
    #[error("cannot listen on {address}: {cause}; choose another port or stop what uses it")]
    Bind {
        /// As configured.
        address: String,
        /// What the system said.
        cause: String,
    },
    /// A bootstrap address is no multiaddress.
    #[error("{address} is no bootstrap address: {cause}; use e.g. /ip4/192.0.2.1/tcp/4001/p2p/<peer id>")]
    InvalidBootstrap {
        /// As configured.
        address: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The node's key cannot be used on the network.
    #[error("the node's key cannot be used for Noise: {0}")]
    Key(#[from] libp2p::noise::Error),
    /// A certificate authority cannot be used.
    #[error("wss_ca_file holds a certificate that no authority can have: {0}")]
    Authority(String),
}

/// Starts the network. When it returns, every listen address is bound; bootstrap peers are being dialled.
/// The task ends after [`Handle::shutdown`], or when every handle or the receiver of `events` is dropped.
///
/// # Errors
/// See [`StartError`]; nothing is left running then.
pub async fn start(
    config: NetConfig,
    events: mpsc::Sender<LinkEvent>,
) -> Result<(Handle, JoinHandle<()>), StartError> {
    let (host, handle) = swarm_task::SwarmTask::bind(config, events).await?;
    Ok((handle, tokio::spawn(host.run())))
}
