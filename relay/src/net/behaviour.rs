//! The protocols of a relay, composed for one swarm. Connection limits come first, so that a refused connection costs
//! nothing.

use std::{
    num::NonZeroU32,
    sync::Arc,
    time::{Duration, Instant},
};

use agentanycast_limits::{self as swarm_limits, SwarmLimits};
use libp2p::{
    Multiaddr, PeerId, Swarm, autonat, connection_limits, identify, noise, ping, relay,
    swarm::{self, NetworkBehaviour},
};

use super::{
    NetConfig, byte_meter::CircuitMeter, circuit_quota::CircuitQuota, dial_filter, relay_info,
    reservations::ReservationSlots, transport,
};
use crate::metrics::Metrics;

/// A connection without a reservation or a circuit is closed after this time.
const IDLE_TIMEOUT: Duration = Duration::from_mins(2);

/// What identify calls our protocol family.
const PROTOCOL_VERSION: &str = "agentanycast/1.0.0";

/// Connections of one peer: TCP and QUIC, the old and the new one while it moves, a few dials at once.
const MAX_PER_PEER: u32 = 8;

/// Reservations of one peer: one for each of its connections, with room for those that have just gone.
const RESERVATIONS_PER_PEER: usize = 8;

/// How long a reservation lasts; clients renew it before.
const RESERVATION: Duration = Duration::from_hours(1);

/// Reservations and circuits that one peer may ask for in an hour: one a minute, in bursts of an hour's worth, which is
/// more than a peer with a bad line needs.
const PER_PEER: NonZeroU32 = NonZeroU32::new(60).expect("not zero");

const HOUR: Duration = Duration::from_hours(1);

/// Inbound streams per connection that may be agreeing on a protocol.
const MAX_NEGOTIATING_INBOUND: usize = 256;

/// All protocols of a relay.
#[derive(NetworkBehaviour)]
#[behaviour(prelude = "libp2p::swarm::derive_prelude")]
pub(super) struct Behaviour {
    source_limits: swarm_limits::Behaviour,
    dial_filter: dial_filter::Behaviour,
    limits: connection_limits::Behaviour,
    identify: identify::Behaviour,
    ping: ping::Behaviour,
    autonat: autonat::v2::server::Behaviour,
    relay: relay::Behaviour,
    pub(super) info: relay_info::Behaviour,
}

/// The swarm of a relay that listens nowhere yet.
pub(super) fn swarm(
    config: &NetConfig,
    places: &ReservationSlots,
    circuits: &CircuitQuota,
    metrics: &Arc<Metrics>,
) -> Result<Swarm<Behaviour>, noise::Error> {
    let local = config.keypair.public().to_peer_id();
    let transport = transport::build(
        &config.keypair,
        CircuitMeter {
            bytes: metrics.bytes.clone(),
            circuit_quota: circuits.clone(),
        },
    )?;
    let limits = connection_limits::ConnectionLimits::default()
        .with_max_established(Some(config.max_connections))
        .with_max_established_per_peer(Some(MAX_PER_PEER))
        .with_max_pending_incoming(Some(config.max_pending))
        .with_max_pending_outgoing(Some(config.max_pending));
    let identify = identify::Config::new(PROTOCOL_VERSION.to_owned(), config.keypair.public())
        .with_agent_version(format!("agentanycast-relay/{}", env!("CARGO_PKG_VERSION")))
        .with_push_listen_addr_updates(true)
        // Only what is announced: `tell` has it among the external addresses.
        .with_hide_listen_addrs(true)
        .with_cache_size(0);
    let per_source = SwarmLimits {
        pending: config.pending_per_ip,
        established: config.connections_per_ip,
    };
    let behaviour = Behaviour {
        source_limits: swarm_limits::Behaviour::new(per_source),
        dial_filter: dial_filter::Behaviour,
        limits: connection_limits::Behaviour::new(limits),
        identify: identify::Behaviour::new(identify),
        ping: ping::Behaviour::default(),
        autonat: autonat::v2::server::Behaviour::default(),
        relay: relay::Behaviour::new(local, relay_config(config, places.clone(), circuits.clone())),
        info: relay_info::behaviour(&config.info),
    };
    let swarm_config = swarm::Config::with_tokio_executor()
        .with_idle_connection_timeout(IDLE_TIMEOUT)
        .with_substream_upgrade_protocol_override(libp2p::core::upgrade::Version::V1Lazy)
        .with_max_negotiating_inbound_streams(MAX_NEGOTIATING_INBOUND);
    Ok(Swarm::new(transport, behaviour, local, swarm_config))
}

fn relay_config(config: &NetConfig, places: ReservationSlots, circuits: CircuitQuota) -> relay::Config {
    let relay = relay::Config {
        // Counted by `places`: this one would refuse to renew what is held.
        max_reservations: usize::MAX,
        max_reservations_per_peer: RESERVATIONS_PER_PEER,
        reservation_duration: RESERVATION,
        reservation_rate_limiters: Vec::new(),
        max_circuits: config.max_circuits,
        // It takes one more than it says.
        max_circuits_per_peer: config.max_circuits_per_peer.saturating_sub(1),
        max_circuit_duration: config.circuit_duration,
        max_circuit_bytes: config.circuit_bytes,
        circuit_src_rate_limiters: Vec::new(),
    };
    let (reservations, reservation_gap) = rate(config.reservations_per_ip);
    let (per_hour, circuit_gap) = rate(config.circuits_per_ip);
    let (per_peer, peer_gap) = rate(PER_PEER.get());
    let mut relay = relay
        .reservation_rate_per_peer(per_peer, peer_gap)
        .reservation_rate_per_ip(reservations, reservation_gap)
        .circuit_src_per_ip(per_hour, circuit_gap);
    for limiters in [
        &mut relay.reservation_rate_limiters,
        &mut relay.circuit_src_rate_limiters,
    ] {
        for mut limiter in std::mem::take(limiters) {
            limiters.push(Box::new(move |peer: PeerId, remote: &Multiaddr, now: Instant| {
                limiter.try_next(peer, &network(remote), now)
            }));
        }
    }
    // Last: what it gives is held.
    let place = move |peer: PeerId, remote: &Multiaddr, _: Instant| places.admit(peer, remote);
    relay.reservation_rate_limiters.push(Box::new(place));
    let circuit = move |peer: PeerId, remote: &Multiaddr, _: Instant| circuits.admit(peer, remote);
    relay.circuit_src_rate_limiters.push(Box::new(circuit));
    relay
}

/// Whom the rates count: the relay protocol takes each address of IPv6 for somebody else.
fn network(remote: &Multiaddr) -> Multiaddr {
    swarm_limits::address(remote).map_or_else(|| remote.clone(), Multiaddr::from)
}

/// So many at once, and one more whenever its share of an hour has passed.
fn rate(per_hour: u32) -> (NonZeroU32, Duration) {
    let limit = NonZeroU32::new(per_hour).unwrap_or(NonZeroU32::MIN);
    (limit, HOUR / limit.get())
}
