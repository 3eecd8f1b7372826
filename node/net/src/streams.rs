//! Our own stream behaviour: opens and accepts streams of the two protocols of the network,
//! and opens those of libp2p's ping and of relays' answers about themselves.
//!
//! [`StreamControl::open`] picks the best connection to a peer (direct before relayed, then the newest) and
//! hands the request straight to that connection's handler, so it does not wait for the swarm. Inbound
//! streams go into one bounded queue. The one rule: a stream that finds the queue full is reset and
//! counted, never lost in silence.

mod handler;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use libp2p::{
    Multiaddr, PeerId, Stream, StreamProtocol,
    core::{ConnectedPoint, Endpoint, transport::PortUse},
    swarm::{
        ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent,
        THandlerOutEvent, ToSwarm,
    },
};
use tokio::{sync::mpsc, time::timeout};

use self::handler::{Handler, OpenRequest};
use super::{address_book::relay_of, counters::Counters, request::ask};

/// Longest wait for an outbound stream, from the request to the agreed protocol.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Requests that may wait in front of one connection; more callers wait for room.
const OPEN_QUEUE: usize = 64;
/// Accepted streams that wait to be served, over all peers: a few bursts of a node that opens a stream
/// per envelope.
pub(super) const INBOUND_QUEUE: usize = 1024;

/// The protocols of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Protocol {
    /// Envelopes, one way per stream.
    Envelopes,
    /// Agent cards, one exchange per stream.
    Card,
    /// libp2p's ping, several per stream. It is only opened: what peers open is libp2p's own behaviour's.
    Ping,
    /// What a relay tells of itself, one answer per stream. It is only opened.
    RelayInfo,
}

impl Protocol {
    /// All that are opened.
    const OPENED: [Self; 4] = [Self::Envelopes, Self::Card, Self::Ping, Self::RelayInfo];
    /// Those that peers may open, in the order in which they are offered.
    pub(super) const ACCEPTED: [Self; 2] = [Self::Envelopes, Self::Card];
}

impl AsRef<str> for Protocol {
    fn as_ref(&self) -> &str {
        match self {
            Self::Envelopes => "/agentanycast/a2a/1.0",
            Self::Card => "/agentanycast/card/1.0",
            Self::Ping => "/ipfs/ping/1.0.0",
            Self::RelayInfo => "/agentanycast/relay-info/1.0",
        }
    }
}

/// A stream that a peer opened.
#[derive(Debug)]
pub(super) struct InboundStream {
    pub(super) peer: PeerId,
    pub(super) protocol: Protocol,
    pub(super) stream: Stream,
    /// The connection that it came on.
    pub(super) connection: ConnectionId,
    /// The relay that it came through; `None`: directly.
    pub(super) relay: Option<PeerId>,
}

/// A stream that we opened.
#[derive(Debug)]
pub(super) struct OutboundStream {
    pub(super) stream: Stream,
    /// The connection that it goes on.
    pub(super) connection: ConnectionId,
    /// The relay that it goes through; `None`: directly.
    pub(super) relay: Option<PeerId>,
}

/// Why no stream was opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no connection to the peer; dial it first.
    #[error("not connected to the peer; dial it first")]
    NotConnected,
    /// The peer is connected and does not speak the protocol.
    #[error("the peer does not speak {0}")]
    Unsupported(String),
    /// The peer did not answer in time; it may be tried again.
    #[error("the peer did not accept the stream within {} s", OPEN_TIMEOUT.as_secs())]
    Timeout,
    /// The connection failed, or what came over it was no answer; it may be tried again.
    #[error("the stream failed: {0}")]
    Io(#[from] io::Error),
}

/// The behaviour; compose it last, so that a connection denied by another never gets here.
pub(super) struct Behaviour {
    links: Arc<StreamLinks>,
    /// Handlers' senders of connections that are not established yet.
    pending: HashMap<ConnectionId, mpsc::Sender<OpenRequest>>,
    inbound: mpsc::Sender<InboundStream>,
    counters: Arc<Counters>,
}

/// Opens streams; cheap to clone.
#[derive(Clone)]
pub(super) struct StreamControl {
    links: Arc<StreamLinks>,
}

/// The connections that streams can be opened on.
#[derive(Default)]
struct StreamLinks {
    peers: Mutex<HashMap<PeerId, PeerLinks>>,
}

#[derive(Default)]
struct PeerLinks {
    links: Vec<ConnectionLink>,
    /// What the peer said that it speaks, once identify has told.
    speaks: Option<Vec<Protocol>>,
}

#[derive(Clone)]
struct ConnectionLink {
    connection: ConnectionId,
    /// The relay that it leads through; `None`: it is direct.
    relay: Option<PeerId>,
    requests: mpsc::Sender<OpenRequest>,
}

impl Behaviour {
    /// A behaviour, and where its inbound streams come out; at most `queue` of them wait there.
    pub(super) fn new(counters: Arc<Counters>, queue: usize) -> (Self, mpsc::Receiver<InboundStream>) {
        let (inbound, streams) = mpsc::channel(queue);
        (
            Self {
                links: Arc::default(),
                pending: HashMap::new(),
                inbound,
                counters,
            },
            streams,
        )
    }

    /// A control for this behaviour's connections.
    pub(super) fn control(&self) -> StreamControl {
        StreamControl {
            links: Arc::clone(&self.links),
        }
    }

    /// Notes what a connected peer says that it speaks, so that a stream which it would refuse is not
    /// even opened.
    pub(super) fn set_protocols(&self, peer: PeerId, protocols: &[StreamProtocol]) {
        if let Some(links) = self.links.lock().get_mut(&peer) {
            let speaks = |ours: &Protocol| protocols.iter().any(|theirs| theirs.as_ref() == ours.as_ref());
            links.speaks = Some(Protocol::OPENED.into_iter().filter(speaks).collect());
        }
    }

    fn handler(&mut self, connection: ConnectionId, peer: PeerId, relay: Option<PeerId>) -> Handler {
        let (sender, requests) = mpsc::channel(OPEN_QUEUE);
        self.pending.insert(connection, sender);
        Handler::new(
            peer,
            connection,
            relay,
            requests,
            self.inbound.clone(),
            Arc::clone(&self.counters),
        )
    }
}

impl StreamControl {
    /// Opens a stream of `protocol` to `peer`, within [`OPEN_TIMEOUT`]. A connection that ends meanwhile is
    /// replaced by the next best one.
    pub(super) async fn open(&self, peer: PeerId, protocol: Protocol) -> Result<OutboundStream, OpenError> {
        timeout(OPEN_TIMEOUT, self.open_on_best(peer, protocol))
            .await
            .unwrap_or(Err(OpenError::Timeout))
    }

    /// The same on one connection of the peer.
    pub(super) async fn open_on(
        &self,
        peer: PeerId,
        connection: ConnectionId,
        protocol: Protocol,
    ) -> Result<OutboundStream, OpenError> {
        let link = self.links.get(peer, connection).ok_or(OpenError::NotConnected)?;
        let opened = timeout(OPEN_TIMEOUT, link.open(protocol)).await;
        opened
            .unwrap_or(Some(Err(OpenError::Timeout)))
            .unwrap_or(Err(OpenError::NotConnected))
    }

    async fn open_on_best(&self, peer: PeerId, protocol: Protocol) -> Result<OutboundStream, OpenError> {
        let mut tried = Vec::new();
        loop {
            let link = self.links.best(peer, protocol, &tried)?;
            if let Some(opened) = link.open(protocol).await {
                return opened;
            }
            tried.push(link.connection);
        }
    }
}

impl ConnectionLink {
    /// Opens a stream on this connection; `None` when it is gone.
    async fn open(&self, protocol: Protocol) -> Option<Result<OutboundStream, OpenError>> {
        let stream = ask(&self.requests, |reply| OpenRequest { protocol, reply }).await?;
        Some(stream.map(|stream| OutboundStream {
            stream,
            connection: self.connection,
            relay: self.relay,
        }))
    }
}

impl StreamLinks {
    fn lock(&self) -> MutexGuard<'_, HashMap<PeerId, PeerLinks>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn best(
        &self,
        peer: PeerId,
        protocol: Protocol,
        tried: &[ConnectionId],
    ) -> Result<ConnectionLink, OpenError> {
        let peers = self.lock();
        let known = peers.get(&peer).ok_or(OpenError::NotConnected)?;
        if known
            .speaks
            .as_ref()
            .is_some_and(|speaks| !speaks.contains(&protocol))
        {
            return Err(OpenError::Unsupported(protocol.as_ref().to_owned()));
        }
        let untried = || {
            known
                .links
                .iter()
                .filter(|link| !tried.contains(&link.connection))
        };
        let link =
            untried().nth(choose(untried().map(|link| link.relay.is_some())).ok_or(OpenError::NotConnected)?);
        link.cloned().ok_or(OpenError::NotConnected)
    }

    fn get(&self, peer: PeerId, connection: ConnectionId) -> Option<ConnectionLink> {
        let peers = self.lock();
        let mut links = peers.get(&peer)?.links.iter();
        links.find(|link| link.connection == connection).cloned()
    }

    fn remove(&self, peer: PeerId, connection: ConnectionId) {
        let mut peers = self.lock();
        if let Some(known) = peers.get_mut(&peer) {
            known.links.retain(|link| link.connection != connection);
            if known.links.is_empty() {
                peers.remove(&peer);
            }
        }
    }
}

/// Which of a peer's connections, given oldest first by whether they are relayed, streams should use:
/// the newest direct one (an old one may be dead without knowing it), else the newest relayed one.
fn choose(relayed: impl Iterator<Item = bool>) -> Option<usize> {
    relayed
        .enumerate()
        .max_by_key(|&(age, relayed)| (!relayed, age))
        .map(|(index, _)| index)
}

impl NetworkBehaviour for Behaviour {
    type ConnectionHandler = Handler;
    type ToSwarm = std::convert::Infallible;

    fn handle_established_inbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        local: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(self.handler(connection, peer, relay_of(local)))
    }

    fn handle_established_outbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        address: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(self.handler(connection, peer, relay_of(address)))
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::ConnectionEstablished(new) => {
                if let Some(requests) = self.pending.remove(&new.connection_id) {
                    let relay = match new.endpoint {
                        ConnectedPoint::Dialer { address, .. } => relay_of(address),
                        ConnectedPoint::Listener { local_addr, .. } => relay_of(local_addr),
                    };
                    let link = ConnectionLink {
                        connection: new.connection_id,
                        relay,
                        requests,
                    };
                    self.links.lock().entry(new.peer_id).or_default().links.push(link);
                }
            }
            FromSwarm::ConnectionClosed(closed) => self.links.remove(closed.peer_id, closed.connection_id),
            FromSwarm::DialFailure(failure) => {
                self.pending.remove(&failure.connection_id);
            }
            FromSwarm::ListenFailure(failure) => {
                self.pending.remove(&failure.connection_id);
            }
            _ => {}
        }
    }

    fn on_connection_handler_event(&mut self, _: PeerId, _: ConnectionId, event: THandlerOutEvent<Self>) {
        match event {}
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        Poll::Pending
    }
}
