//! The protocols of a node, composed for one swarm. Connection and memory limits come first, so that a
//! refused connection costs nothing; our streams come last. The one rule: limits refuse what is new and
//! never cut what is served.

use std::{io, sync::Arc, time::Duration};

use agentanycast_limits::{self as limits, SwarmLimits};
use libp2p::{
    Swarm, connection_limits, dcutr, identify,
    identity::Keypair,
    mdns, memory_connection_limits, ping, relay,
    swarm::{self, NetworkBehaviour, behaviour::toggle::Toggle},
    upnp,
};
use tokio::sync::mpsc;

use super::{
    NetConfig, StartError, autonat,
    counters::Counters,
    dht,
    streams::{self, INBOUND_QUEUE, InboundStream},
    transport,
};

/// A connection without a stream of ours is closed after this time; finding a peer again costs more than
/// an idle connection, and the pings notice a dead one.
const IDLE_TIMEOUT: Duration = Duration::from_mins(10);
/// Longest wait for a ping's answer. The second in a row that fails ends the connection: 35 s after a TCP peer has
/// vanished (QUIC notices by itself within 5 s).
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// What identify calls our protocol family.
const PROTOCOL_VERSION: &str = "agentanycast/1.0.0";
/// Inbound streams per connection that may be agreeing on a protocol; more are reset.
const MAX_NEGOTIATING_INBOUND: usize = 256;

/// All protocols of a node.
#[derive(NetworkBehaviour)]
#[behaviour(prelude = "libp2p::swarm::derive_prelude")]
pub(super) struct Behaviour {
    connection_limits: limits::Behaviour,
    limits: connection_limits::Behaviour,
    memory: memory_connection_limits::Behaviour,
    identify: identify::Behaviour,
    ping: ping::Behaviour,
    mdns: Toggle<mdns::tokio::Behaviour>,
    mdns_v6: Toggle<mdns::tokio::Behaviour>,
    relay: Toggle<relay::client::Behaviour>,
    dcutr: Toggle<dcutr::Behaviour>,
    pub(super) probe: autonat::Behaviour,
    upnp: Toggle<upnp::tokio::Behaviour>,
    pub(super) dht: Toggle<dht::Behaviour>,
    pub(super) streams: streams::Behaviour,
}

/// The swarm of a node that listens nowhere yet, and the streams that peers open to it.
pub(super) fn swarm(
    config: &NetConfig,
    counters: Arc<Counters>,
) -> Result<(Swarm<Behaviour>, mpsc::Receiver<InboundStream>), StartError> {
    let local = config.keypair.public().to_peer_id();
    let tls =
        transport::trust(&config.authorities).map_err(|error| StartError::Authority(error.to_string()))?;
    let (transport, relay) = transport::build(&config.keypair, config.quic, config.relay_client, &tls)?;
    let dht = config.dht.clone();
    let dht = dht.map(|dht| dht::Behaviour::new(&config.keypair, dht, Arc::clone(&counters)));
    let (streams, inbound) = streams::Behaviour::new(counters, INBOUND_QUEUE);
    // One asks over IPv4 or over IPv6.
    let mdns = |enable_ipv6| {
        let settings = mdns::Config {
            enable_ipv6,
            ..mdns::Config::default()
        };
        let mdns = config.mdns.then(|| mdns::tokio::Behaviour::new(settings, local));
        mdns.and_then(usable_mdns).into()
    };
    let behaviour = Behaviour {
        connection_limits: limits::Behaviour::new(swarm_limits(&config.limits)),
        limits: connection_limits::Behaviour::new(connection_limits(config)),
        memory: memory_connection_limits::Behaviour::with_max_percentage(config.limits.memory_fraction),
        identify: identify::Behaviour::new(identify_config(&config.keypair, &config.agent_version)),
        ping: ping::Behaviour::new(ping::Config::new().with_timeout(PING_TIMEOUT)),
        mdns: mdns(false),
        mdns_v6: mdns(true),
        relay: relay.into(),
        dcutr: config.hole_punching.then(|| dcutr::Behaviour::new(local)).into(),
        probe: autonat::Behaviour::default(),
        upnp: config.upnp.then(upnp::tokio::Behaviour::default).into(),
        dht: dht.into(),
        streams,
    };
    let swarm_config = swarm::Config::with_tokio_executor()
        .with_idle_connection_timeout(IDLE_TIMEOUT)
        .with_substream_upgrade_protocol_override(libp2p::core::upgrade::Version::V1Lazy)
        .with_max_negotiating_inbound_streams(MAX_NEGOTIATING_INBOUND)
        .with_smart_dial();
    Ok((Swarm::new(transport, behaviour, local, swarm_config), inbound))
}

fn swarm_limits(limits: &super::NetLimits) -> SwarmLimits {
    SwarmLimits {
        pending: limits.pending_per_address,
        established: limits.connections_per_address,
    }
}

fn connection_limits(config: &NetConfig) -> connection_limits::ConnectionLimits {
    let limits = &config.limits;
    connection_limits::ConnectionLimits::default()
        .with_max_established(Some(limits.connections))
        // A quarter stays for peers that we dial, so that strangers cannot cut us off.
        .with_max_established_incoming(Some(limits.connections - limits.connections / 4))
        .with_max_established_per_peer(Some(limits.connections_per_peer))
        .with_max_pending_incoming(Some(limits.pending_incoming))
        .with_max_pending_outgoing(Some(limits.pending_outgoing))
}

fn identify_config(keypair: &Keypair, agent_version: &str) -> identify::Config {
    identify::Config::new(PROTOCOL_VERSION.to_owned(), keypair.public())
        .with_agent_version(agent_version.to_owned())
        .with_push_listen_addr_updates(true)
        // The address book keeps what is worth keeping; identify must not dial by itself.
        .with_cache_size(0)
}

fn usable_mdns(mdns: io::Result<mdns::tokio::Behaviour>) -> Option<mdns::tokio::Behaviour> {
    mdns.inspect_err(|error| tracing::warn!(%error, "mDNS is off: the network interfaces cannot be watched"))
        .ok()
}
