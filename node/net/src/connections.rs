//! PURE list of the connections that stand, by peer: who is connected, over which addresses, how fast.
//! The one rule: a peer is connected as long as one connection to it is; which ones come and go below
//! is nobody's business above.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    time::{Duration, SystemTime},
};

use agentanycast_identity::PeerId;
use libp2p::{Multiaddr, multiaddr::Protocol, swarm::ConnectionId};

use super::address_book;

/// A connected peer, as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerSnapshot {
    /// Who.
    pub peer: PeerId,
    /// The peer's side of every connection, direct ones first, without `/p2p`.
    pub addresses: Vec<String>,
    /// Whether a connection leads to it without a relay.
    pub direct: bool,
    /// The relay that the best connection leads through; `None`: it is direct.
    pub relay: Option<PeerId>,
    /// Since when the peer is connected without interruption.
    pub connected_at: SystemTime,
    /// Round trip of the last ping on the connection that streams use; `None` before the first.
    pub rtt: Option<Duration>,
}

/// One connection.
#[derive(Clone, Debug)]
pub(super) struct PeerConnection {
    pub(super) id: ConnectionId,
    /// The remote address, without `/p2p`.
    pub(super) remote: Multiaddr,
    pub(super) relayed: bool,
    /// We dialled it from a port that we listen on.
    pub(super) from_listen_port: bool,
    /// The address of ours that it was made from, if it is direct.
    pub(super) local: Option<IpAddr>,
    pub(super) rtt: Option<Duration>,
}

impl PeerConnection {
    /// How it is carried, by its name in figures.
    fn transport(&self) -> &'static str {
        if self.relayed {
            return "relay";
        }
        let carries = |found: fn(&Protocol<'_>) -> bool| self.remote.iter().any(|part| found(&part));
        if carries(|part| matches!(part, Protocol::QuicV1)) {
            "quic"
        } else if carries(|part| matches!(part, Protocol::Ws(_) | Protocol::Wss(_))) {
            "websocket"
        } else {
            "tcp"
        }
    }
}

/// All connections.
#[derive(Debug, Default)]
pub(super) struct ConnectionTable {
    peers: HashMap<PeerId, ConnectedPeer>,
}

#[derive(Debug)]
struct ConnectedPeer {
    since: SystemTime,
    connections: Vec<PeerConnection>,
}

impl ConnectionTable {
    /// A connection stands. True when it is the peer's first.
    pub(super) fn opened(&mut self, peer: PeerId, connection: PeerConnection, now: SystemTime) -> bool {
        let entry = self.peers.entry(peer).or_insert_with(|| ConnectedPeer {
            since: now,
            connections: Vec::new(),
        });
        entry.connections.push(connection);
        entry.connections.len() == 1
    }

    /// A connection is gone. True when it was the peer's last.
    pub(super) fn closed(&mut self, peer: PeerId, id: ConnectionId) -> bool {
        let Some(entry) = self.peers.get_mut(&peer) else {
            return false;
        };
        entry.connections.retain(|connection| connection.id != id);
        let last = entry.connections.is_empty();
        if last {
            self.peers.remove(&peer);
        }
        last
    }

    /// A ping came back.
    pub(super) fn pinged(&mut self, peer: PeerId, id: ConnectionId, rtt: Duration) {
        let connections = self
            .peers
            .get_mut(&peer)
            .into_iter()
            .flat_map(|entry| &mut entry.connections);
        for connection in connections.filter(|connection| connection.id == id) {
            connection.rtt = Some(rtt);
        }
    }

    /// Whether `peer` is connected.
    pub(super) fn is_connected(&self, peer: PeerId) -> bool {
        self.peers.contains_key(&peer)
    }

    /// Everyone who is connected.
    pub(super) fn peers(&self) -> impl Iterator<Item = PeerId> {
        self.peers.keys().copied()
    }

    /// Number of connections by transport.
    pub(super) fn transports(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for connection in self.peers.values().flat_map(|entry| &entry.connections) {
            *counts.entry(connection.transport()).or_default() += 1;
        }
        counts
    }

    /// A connected peer.
    pub(super) fn snapshot(&self, peer: PeerId) -> Option<PeerSnapshot> {
        let entry = self.peers.get(&peer)?;
        let mut ranked: Vec<_> = entry.connections.iter().rev().collect();
        ranked.sort_by_key(|connection| connection.relayed);
        let best = ranked.first()?;
        let mut addresses = Vec::new();
        for address in ranked.iter().map(|connection| connection.remote.to_string()) {
            if !address.is_empty() && !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        Some(PeerSnapshot {
            peer,
            addresses,
            direct: !best.relayed,
            relay: address_book::relay_of(&best.remote).map(PeerId::from),
            connected_at: entry.since,
            rtt: best.rtt,
        })
    }

    /// The remote address of one connection.
    pub(super) fn remote(&self, peer: PeerId, id: ConnectionId) -> Option<&Multiaddr> {
        self.connection(peer, id).map(|connection| &connection.remote)
    }

    /// One connection.
    pub(super) fn connection(&self, peer: PeerId, id: ConnectionId) -> Option<&PeerConnection> {
        let connections = &self.peers.get(&peer)?.connections;
        connections.iter().find(|connection| connection.id == id)
    }

    /// The connections that were made from this address of ours.
    pub(super) fn made_from(&self, local: IpAddr) -> Vec<ConnectionId> {
        let all = self.peers.values().flat_map(|entry| &entry.connections);
        all.filter(|connection| connection.local == Some(local))
            .map(|connection| connection.id)
            .collect()
    }

    /// Whether `peer` has another connection than this one.
    pub(super) fn has_other(&self, peer: PeerId, id: ConnectionId) -> bool {
        let entry = self.peers.get(&peer);
        entry.is_some_and(|entry| entry.connections.iter().any(|connection| connection.id != id))
    }

    /// The relayed connections of a peer that has a direct one too: they are no longer needed.
    pub(super) fn redundant(&self, peer: PeerId) -> Vec<ConnectionId> {
        let Some(entry) = self.peers.get(&peer) else {
            return Vec::new();
        };
        if entry.connections.iter().all(|connection| connection.relayed) {
            return Vec::new();
        }
        entry
            .connections
            .iter()
            .filter(|connection| connection.relayed)
            .map(|connection| connection.id)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(id: usize, remote: &str, relayed: bool) -> PeerConnection {
        PeerConnection {
            id: ConnectionId::new_unchecked(id),
            remote: remote.parse().unwrap(),
            relayed,
            from_listen_port: false,
            local: None,
            rtt: None,
        }
    }

    #[test]
    fn first_last_and_the_best_in_between() {
        let peer = PeerId::from(libp2p::PeerId::random());
        let relay = libp2p::PeerId::random();
        let circuit = format!("/ip4/192.0.2.1/tcp/1/p2p/{relay}/p2p-circuit");
        let mut roster = ConnectionTable::default();
        let now = SystemTime::UNIX_EPOCH;
        assert!(roster.opened(peer, connection(1, &circuit, true), now));
        let relayed = roster.snapshot(peer).unwrap();
        assert_eq!((relayed.direct, relayed.relay), (false, Some(relay.into())));
        assert!(roster.redundant(peer).is_empty());
        assert!(!roster.opened(
            peer,
            connection(2, "/ip4/10.0.0.1/tcp/1", false),
            SystemTime::now()
        ));
        roster.pinged(peer, ConnectionId::new_unchecked(2), Duration::from_millis(3));
        let snapshot = roster.snapshot(peer).unwrap();
        assert_eq!(snapshot.addresses, ["/ip4/10.0.0.1/tcp/1", &circuit]);
        assert!(snapshot.direct && snapshot.relay.is_none() && snapshot.connected_at == now);
        assert_eq!(snapshot.rtt, Some(Duration::from_millis(3)));
        assert_eq!(roster.redundant(peer), [ConnectionId::new_unchecked(1)]);
        assert!(!roster.closed(peer, ConnectionId::new_unchecked(1)));
        assert!(
            !roster.closed(peer, ConnectionId::new_unchecked(1)),
            "closed twice"
        );
        assert!(roster.closed(peer, ConnectionId::new_unchecked(2)));
        assert!(roster.snapshot(peer).is_none());
    }
}
