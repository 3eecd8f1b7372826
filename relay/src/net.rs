//! The libp2p side: peers behind NAT reserve a place here and are reached through circuits.
//!
//! One task owns the swarm; `behaviour` composes its protocols, `dial_filter` says where it connects to, `transport` its roads, `byte_meter` counts what circuits
//! carry. The one rule: a ceiling refuses what is new and never cuts what is served.

mod addresses;
mod behaviour;
mod byte_meter;
mod circuit_quota;
mod dial_filter;
mod open_circuits;
mod relay_info;
mod reservations;
mod transport;

use std::{collections::HashMap, io, net::IpAddr, sync::Arc, time::Duration};

pub use addresses::with_peer;
use agentanycast_limits::{AddressChange, Interfaces, LogThrottle};
use agentanycast_proto::v1::RelayInfo;
use libp2p::{
    Multiaddr, Swarm, TransportError,
    core::transport::ListenerId,
    futures::StreamExt as _,
    identity::Keypair,
    noise, relay,
    swarm::{ConnectionId, ListenError, SwarmEvent},
};
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use addresses::{announced_addresses, is_wildcard, quic_beside, with_remedy};
use agentanycast_daemon_kit::{
    address::{port, with_port},
    listening,
};
use behaviour::{Behaviour, BehaviourEvent};
use circuit_quota::CircuitQuota;
use open_circuits::OpenCircuits;
use reservations::ReservationSlots;

/// How long a listener may take to say where it is bound.
const BIND: Duration = Duration::from_secs(5);

/// How long a listener on all interfaces may take to say the next one: they come at once or not at all.
const QUIET: Duration = Duration::from_millis(50);

/// What the swarm needs to know.
#[derive(Clone, Debug)]
pub struct NetConfig {
    /// Who we are.
    pub keypair: Keypair,
    /// Where to listen: TCP and WebSocket addresses; QUIC is added to those of TCP, on the same port number.
    pub listen: Vec<Multiaddr>,
    /// What others are told instead of where we listen. Empty: every address that we listen on.
    pub announce: Vec<Multiaddr>,
    /// What nodes are told of this relay.
    pub info: RelayInfo,
    /// Most reservations.
    pub max_reservations: usize,
    /// Most reservations of one address.
    pub max_reservations_per_ip: usize,
    /// Most circuits.
    pub max_circuits: usize,
    /// Most circuits of one peer.
    pub max_circuits_per_peer: usize,
    /// Most circuits that one address has asked for.
    pub max_circuits_per_ip: usize,
    /// Longest life of a circuit; more than 0 and less than `u32::MAX` seconds.
    pub circuit_duration: Duration,
    /// Most bytes that a circuit carries, both ways together.
    pub circuit_bytes: u64,
    /// Reservations that one address may make in an hour.
    pub reservations_per_ip: u32,
    /// Circuits that one address may open in an hour.
    pub circuits_per_ip: u32,
    /// Most connections.
    pub max_connections: u32,
    /// Most connections of one address.
    pub connections_per_ip: usize,
    /// Most connections, each way, that may be agreeing on who they are.
    pub max_pending: u32,
    /// Most of the inbound ones of one address.
    pub pending_per_ip: usize,
}

/// Why the swarm cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Noise cannot be set up with this key.
    #[error("the transports cannot be set up: {0}")]
    Transport(String),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// As asked for.
        address: Multiaddr,
        /// The system's reason, and what to do about it.
        cause: String,
    },
}

/// The swarm, in a task of its own.
#[derive(Debug)]
pub struct Net {
    /// Where it listens, interfaces spelled out, TCP first and QUIC last.
    pub addresses: Vec<Multiaddr>,
    /// Ends when it is stopped.
    pub task: JoinHandle<()>,
}

/// Starts to listen, and to serve until `stop`.
///
/// # Errors
/// See [`StartError`].
pub async fn start(
    config: NetConfig,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) -> Result<Net, StartError> {
    let mut running =
        RelaySwarm::new(&config, metrics).map_err(|error| StartError::Transport(error.to_string()))?;
    let mut addresses = Vec::new();
    let mut quic = Vec::new();
    let (missing, listen): (Vec<_>, Vec<_>) = config
        .listen
        .iter()
        .partition(|asked| listening::lacks_family(asked));
    for address in &missing {
        tracing::info!(%address, "not listened on: this host has no address of this family");
    }
    if let (Some(address), []) = (missing.first(), listen.as_slice()) {
        return Err(StartError::Listen {
            address: (*address).clone(),
            cause: "this host has no address of this family; set --listen to an address that it has"
                .to_owned(),
        });
    }
    for asked in listen {
        let bound = running.listen(asked).await?;
        if let Some(beside) = quic_beside(asked, &bound) {
            quic.push((asked, beside));
        }
        addresses.extend(bound);
    }
    for (asked, beside) in quic {
        match running.listen(&beside).await {
            Ok(bound) => addresses.extend(bound),
            // The system chose the port for TCP only.
            Err(_) if port(asked) == Some(0) => {
                addresses.extend(running.listen(&with_port(&beside, 0)).await?);
            }
            Err(error) => return Err(error),
        }
    }
    running.publish_addresses();
    let task = tokio::spawn(async move {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = running.run() => {}
        }
    });
    Ok(Net { addresses, task })
}

fn closed_because(_: ListenerId, reason: io::Result<()>) -> String {
    reason
        .err()
        .map_or_else(|| "it was closed".to_owned(), |error| error.to_string())
}

/// The swarm while it serves.
struct RelaySwarm {
    swarm: Swarm<Behaviour>,
    announce: Vec<Multiaddr>,
    /// What others are told, as the log has it.
    announced: Vec<Multiaddr>,
    metrics: Arc<Metrics>,
    reservations: ReservationSlots,
    circuit_quota: CircuitQuota,
    open_circuits: OpenCircuits,
    refused: LogThrottle,
    reservations_refused: LogThrottle,
    circuits_refused: LogThrottle,
    cut: LogThrottle,
    failed: LogThrottle,
    interfaces: Interfaces,
    /// The address of this host that each connection was made from.
    local_ips: HashMap<ConnectionId, IpAddr>,
}

impl RelaySwarm {
    fn new(config: &NetConfig, metrics: Arc<Metrics>) -> Result<Self, noise::Error> {
        let places = ReservationSlots::new(config.max_reservations, config.max_reservations_per_ip);
        let circuits = CircuitQuota::new(config.max_circuits_per_ip);
        Ok(Self {
            swarm: behaviour::swarm(config, &places, &circuits, &metrics)?,
            announce: config.announce.clone(),
            announced: Vec::new(),
            metrics,
            reservations: places,
            circuit_quota: circuits,
            open_circuits: OpenCircuits::new(config.max_circuits, config.max_circuits_per_peer),
            refused: LogThrottle::default(),
            reservations_refused: LogThrottle::default(),
            circuits_refused: LogThrottle::default(),
            cut: LogThrottle::default(),
            failed: LogThrottle::default(),
            interfaces: Interfaces::watch(),
            local_ips: HashMap::new(),
        })
    }

    /// Listens on an address and waits for where that is. Peers may come meanwhile, and are served.
    async fn listen(&mut self, asked: &Multiaddr) -> Result<Vec<Multiaddr>, StartError> {
        let failed = |cause: String| StartError::Listen {
            address: asked.clone(),
            cause: with_remedy(&cause),
        };
        listening::check_free(asked).map_err(|error| failed(error.to_string()))?;
        let id = self.swarm.listen_on(asked.clone()).map_err(|error| {
            failed(match error {
                TransportError::MultiaddrNotSupported(_) => {
                    "no transport of ours listens on such an address".into()
                }
                TransportError::Other(error) => error.to_string(),
            })
        })?;
        let mut bound = Vec::new();
        let mut until = Instant::now() + BIND;
        // Asked of the clock: whoever has always an event ready may not delay the start.
        while Instant::now() < until {
            let Ok(event) = timeout_at(until, self.swarm.select_next_some()).await else {
                break;
            };
            match event {
                SwarmEvent::NewListenAddr { listener_id, address } if listener_id == id => {
                    // Nobody is let in before: places are offered only where others are told of an address, and who came
                    // before might never learn that they are offered since.
                    self.update();
                    bound.push(address);
                    if !is_wildcard(asked) {
                        return Ok(bound);
                    }
                    until = Instant::now() + QUIET;
                }
                SwarmEvent::ListenerError { listener_id, error } if listener_id == id => {
                    return Err(failed(error.to_string()));
                }
                SwarmEvent::ListenerClosed {
                    listener_id, reason, ..
                } if listener_id == id => {
                    return Err(failed(closed_because(listener_id, reason)));
                }
                SwarmEvent::NewListenAddr { .. } | SwarmEvent::ExpiredListenAddr { .. } => {}
                event => self.on_event(event),
            }
        }
        if bound.is_empty() {
            return Err(failed("it did not come up within 5 s".into()));
        }
        Ok(bound)
    }

    async fn run(mut self) {
        loop {
            tokio::select! {
                event = self.swarm.select_next_some() => self.on_event(event),
                change = self.interfaces.changed() => if let AddressChange::Gone(ip) = change {
                    self.on_address_gone(ip);
                },
            }
        }
    }

    /// Closes the connections that were made to an address that this host has no more: they are dead, and TCP
    /// says so much later.
    fn on_address_gone(&mut self, gone: IpAddr) {
        let dead: Vec<ConnectionId> = self
            .local_ips
            .iter()
            .filter(|(_, ip)| **ip == gone)
            .map(|(id, _)| *id)
            .collect();
        tracing::info!(address = %gone, connections = dead.len(), "this address is gone");
        for id in dead {
            self.swarm.close_connection(id);
        }
    }

    /// Others are told where this relay is by now: interfaces come and go.
    fn publish_addresses(&mut self) {
        self.update();
        let now: Vec<Multiaddr> = self.swarm.external_addresses().cloned().collect();
        for address in self.announced.iter().filter(|address| !now.contains(address)) {
            tracing::info!(%address, "peers are not told this address any more");
        }
        for address in now.iter().filter(|address| !self.announced.contains(address)) {
            tracing::info!(%address, "peers are told this address");
        }
        self.announced = now;
    }

    /// The same without a word, while there may be more of them in a moment.
    fn update(&mut self) {
        let bound: Vec<Multiaddr> = self.swarm.listeners().cloned().collect();
        let now = announced_addresses(&self.announce, &bound);
        let before: Vec<Multiaddr> = self.swarm.external_addresses().cloned().collect();
        for address in before.iter().filter(|address| !now.contains(address)) {
            self.swarm.remove_external_address(address);
        }
        for address in now.into_iter().filter(|address| !before.contains(address)) {
            self.swarm.add_external_address(address);
        }
    }

    fn on_event(&mut self, event: SwarmEvent<BehaviourEvent>) {
        let metrics = &self.metrics;
        match event {
            SwarmEvent::ConnectionEstablished {
                peer_id,
                connection_id,
                num_established,
                endpoint,
                ..
            } => {
                if let Some(ip) = agentanycast_limits::local_ip(&endpoint) {
                    self.local_ips.insert(connection_id, ip);
                }
                self.reservations.opened(peer_id, endpoint.get_remote_address());
                metrics.connections.inc();
                if num_established.get() == 1 {
                    metrics.peers.inc();
                    tracing::debug!(peer = %peer_id, "a peer has come");
                }
            }
            SwarmEvent::ConnectionClosed {
                peer_id,
                connection_id,
                num_established,
                endpoint,
                ..
            } => {
                self.local_ips.remove(&connection_id);
                self.reservations.closed(peer_id, endpoint.get_remote_address());
                metrics.connections.dec();
                self.show_reservations();
                if num_established == 0 {
                    metrics.peers.dec();
                    // A refusal that could not be said is not told.
                    self.circuit_quota.limit(peer_id);
                    tracing::debug!(peer = %peer_id, "a peer has gone");
                }
            }
            SwarmEvent::IncomingConnectionError {
                error,
                send_back_addr,
                ..
            } => {
                metrics.connections_refused.inc();
                if let ListenError::Denied { cause } = &error {
                    let now = Instant::now();
                    if let Some(unsaid) = self.refused.allow(now) {
                        tracing::warn!(listener = "peers", address = %send_back_addr, %cause, unsaid, "a connection was refused");
                    }
                }
            }
            SwarmEvent::ListenerError { error, .. } => {
                if let Some(unsaid) = self.failed.allow(Instant::now()) {
                    tracing::warn!(%error, unsaid, "a listener failed");
                }
            }
            SwarmEvent::ListenerClosed {
                addresses, reason, ..
            } => {
                tracing::error!(
                    ?addresses,
                    ?reason,
                    "nobody is listening there any more; restart the relay"
                );
                self.publish_addresses();
            }
            SwarmEvent::NewListenAddr { .. } | SwarmEvent::ExpiredListenAddr { .. } => {
                self.publish_addresses();
            }
            SwarmEvent::Behaviour(BehaviourEvent::Relay(event)) => self.on_relay(event),
            SwarmEvent::Behaviour(BehaviourEvent::Info(event)) => {
                relay_info::answer(&mut self.swarm.behaviour_mut().info, event);
            }
            _ => {}
        }
    }

    fn show_reservations(&self) {
        self.metrics.reservations.set(self.reservations.held() as i64);
    }

    fn on_relay(&mut self, event: relay::Event) {
        let metrics = &self.metrics;
        match event {
            relay::Event::ReservationReqAccepted { src_peer_id, renewed } => {
                metrics.reservations_accepted.inc();
                self.show_reservations();
                if !renewed {
                    tracing::info!(peer = %src_peer_id, "a peer has reserved a place");
                }
            }
            relay::Event::ReservationReqDenied { src_peer_id, status } => {
                let limit = self.reservations.limit(src_peer_id);
                let reason = limit.map_or_else(|| format!("{status:?}"), ToOwned::to_owned);
                Metrics::refused(&metrics.reservations_refused, &reason);
                if !is_at_a_ceiling(limit, &status) {
                    tracing::debug!(peer = %src_peer_id, reason, "a reservation was refused");
                } else if let Some(unsaid) = self.reservations_refused.allow(Instant::now()) {
                    tracing::warn!(peer = %src_peer_id, limit = reason, unsaid, "a reservation was refused");
                }
            }
            // That a reservation was closed is said of every connection that ends; the places know which of them had one.
            relay::Event::ReservationTimedOut { src_peer_id } => {
                self.reservations.expired(src_peer_id);
                self.show_reservations();
            }
            relay::Event::CircuitReqAccepted {
                src_peer_id,
                dst_peer_id,
            } => {
                metrics.circuits_accepted.inc();
                metrics.circuits.inc();
                self.open_circuits.opened(src_peer_id, dst_peer_id);
                tracing::debug!(from = %src_peer_id, to = %dst_peer_id, "a circuit was opened");
            }
            relay::Event::CircuitReqDenied {
                src_peer_id,
                dst_peer_id,
                status,
            } => {
                let limit = self.circuit_quota.limit(src_peer_id).or_else(|| {
                    let is_full = matches!(status, relay::StatusCode::ResourceLimitExceeded);
                    is_full.then(|| self.open_circuits.limit(src_peer_id)).flatten()
                });
                let reason = limit.map_or_else(|| format!("{status:?}"), ToOwned::to_owned);
                Metrics::refused(&metrics.circuits_refused, &reason);
                let (from, to) = (src_peer_id, dst_peer_id);
                if !is_at_a_ceiling(limit, &status) {
                    tracing::debug!(%from, %to, reason, "a circuit was refused");
                } else if let Some(unsaid) = self.circuits_refused.allow(Instant::now()) {
                    tracing::warn!(%from, %to, limit = reason, unsaid, "a circuit was refused");
                }
            }
            relay::Event::CircuitClosed {
                src_peer_id,
                dst_peer_id,
                error,
            } => {
                metrics.circuits.dec();
                self.open_circuits.closed(src_peer_id, dst_peer_id);
                if let Some(reason) = error.as_ref().and_then(cut_by) {
                    Metrics::refused(&metrics.circuits_cut, reason);
                    if let Some(unsaid) = self.cut.allow(Instant::now()) {
                        tracing::warn!(from = %src_peer_id, to = %dst_peer_id, limit = reason, unsaid, "a circuit was cut");
                    }
                }
            }
            _ => {}
        }
    }
}

/// Whether a refusal is one for whoever sets the limits. Others are the asker's matter: who asks for a circuit to a peer
/// without a place gets none. One without a name is that of a rate, `reservations_per_ip` or `circuits_per_ip`.
fn is_at_a_ceiling(limit: Option<&str>, status: &relay::StatusCode) -> bool {
    limit.is_some() || matches!(status, relay::StatusCode::ResourceLimitExceeded)
}

/// The setting by which a circuit was cut that ended with this error; none when it ended otherwise. The relay protocol
/// has no other sign of it.
fn cut_by(error: &io::Error) -> Option<&'static str> {
    match error.get_ref() {
        Some(cause) if cause.to_string() == "Max circuit bytes reached." => Some("circuit_bytes"),
        None if error.kind() == io::ErrorKind::TimedOut => Some("circuit_duration"),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
