//! Who has a place here, counted by address: the relay protocol's own limits know no addresses, and refuse to renew a
//! place while all are taken.
//!
//! PURE but for a lock. The one rule: a place that is held is renewed, whatever the limits.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agentanycast_limits::{ConnSlots, NoSlot, Slot, address};
use libp2p::{Multiaddr, PeerId};

/// All places; clones share them.
#[derive(Clone, Debug)]
pub(super) struct ReservationSlots(Arc<Mutex<ReservationTable>>);

#[derive(Debug)]
struct ReservationTable {
    slots: ConnSlots,
    peers: HashMap<PeerId, ReservingPeer>,
}

/// A connected peer.
#[derive(Debug, Default)]
struct ReservingPeer {
    addresses: Vec<AddressConnections>,
    /// Why it was refused last, until that was told.
    refused: Option<NoSlot>,
}

/// Its connections from one address and port, mostly one.
#[derive(Debug)]
struct AddressConnections {
    remote: Multiaddr,
    connections: usize,
    slot: Option<Slot>,
}

impl ReservationSlots {
    /// So many, and so many of one address.
    pub(super) fn new(all: usize, per_address: usize) -> Self {
        Self(Arc::new(Mutex::new(ReservationTable {
            slots: ConnSlots::new(all, per_address),
            peers: HashMap::new(),
        })))
    }

    /// A connection stands.
    pub(super) fn opened(&self, peer: PeerId, remote: &Multiaddr) {
        let mut inner = self.lock();
        let lines = &mut inner.peers.entry(peer).or_default().addresses;
        match lines.iter_mut().find(|line| line.remote == *remote) {
            Some(line) => line.connections += 1,
            None => lines.push(AddressConnections {
                remote: remote.clone(),
                connections: 1,
                slot: None,
            }),
        }
    }

    /// A connection has ended, and with the last one of its line the place.
    pub(super) fn closed(&self, peer: PeerId, remote: &Multiaddr) {
        let mut inner = self.lock();
        let Some(known) = inner.peers.get_mut(&peer) else {
            return;
        };
        if let Some(line) = known.addresses.iter_mut().find(|line| line.remote == *remote) {
            line.connections -= 1;
        }
        known.addresses.retain(|line| line.connections > 0);
        if known.addresses.is_empty() {
            inner.peers.remove(&peer);
        }
    }

    /// A place was not renewed in time. Of a peer that has several it is not told which, and they are free with their
    /// connections.
    pub(super) fn expired(&self, peer: PeerId) {
        let mut inner = self.lock();
        let lines = inner
            .peers
            .get_mut(&peer)
            .into_iter()
            .flat_map(|peer| &mut peer.addresses);
        let mut held = lines.filter(|line| line.slot.is_some());
        if let (Some(line), None) = (held.next(), held.next()) {
            line.slot = None;
        }
    }

    /// Whether the peer gets a place for this connection, or keeps the one that it has.
    pub(super) fn admit(&self, peer: PeerId, remote: &Multiaddr) -> bool {
        let mut inner = self.lock();
        let ReservationTable { slots: seats, peers } = &mut *inner;
        let Some(known) = peers.get_mut(&peer) else {
            return false; // Its connection has just ended.
        };
        let Some(line) = known.addresses.iter_mut().find(|line| line.remote == *remote) else {
            return false;
        };
        if line.slot.is_some() {
            return true;
        }
        // Every road here has an address; whatever had none would share one place.
        let source = address(remote).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        match seats.take(source.into()) {
            Ok(seat) => {
                line.slot = Some(seat);
                true
            }
            Err(full) => {
                known.refused = Some(full);
                false
            }
        }
    }

    /// How many are held.
    pub(super) fn held(&self) -> usize {
        self.lock().slots.taken()
    }

    /// The setting that the peer was refused by, once; none when it was another limit.
    pub(super) fn limit(&self, peer: PeerId) -> Option<&'static str> {
        let refused = self.lock().peers.get_mut(&peer)?.refused.take()?;
        Some(match refused {
            NoSlot::All => "max_reservations",
            NoSlot::Source => "max_reservations_per_ip",
        })
    }

    /// Where a peer has connections from.
    #[cfg(test)]
    pub(super) fn addresses_of(&self, peer: PeerId) -> Vec<Multiaddr> {
        let inner = self.lock();
        let lines = inner
            .peers
            .get(&peer)
            .into_iter()
            .flat_map(|peer| &peer.addresses);
        lines.map(|line| line.remote.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, ReservationTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Multiaddr {
        text.parse().unwrap()
    }

    fn comes(places: &ReservationSlots, remote: &Multiaddr) -> PeerId {
        let peer = PeerId::random();
        places.opened(peer, remote);
        peer
    }

    #[test]
    fn an_address_has_its_share_and_others_theirs() {
        let places = ReservationSlots::new(3, 2);
        let one = at("/ip4/192.0.2.1/tcp/1");
        let [first, second, third] = [(); 3].map(|()| comes(&places, &one));
        assert!(places.admit(first, &one) && places.admit(second, &one));
        assert!(!places.admit(third, &one));
        assert_eq!(places.limit(third), Some("max_reservations_per_ip"));
        assert_eq!(places.limit(third), None, "told once");
        let network = [at("/ip6/2001:db8::1/tcp/1"), at("/ip6/2001:db8::2/udp/9/quic-v1")];
        let [fourth, fifth] = network.each_ref().map(|remote| comes(&places, remote));
        assert!(places.admit(fourth, &network[0]));
        assert!(!places.admit(fifth, &network[1]));
        assert_eq!(places.limit(fifth), Some("max_reservations"));
        places.closed(first, &one);
        assert!(places.admit(fifth, &network[1]));
        assert_eq!(places.limit(PeerId::random()), None);
    }

    #[test]
    fn what_is_held_is_renewed_when_all_are_taken() {
        let places = ReservationSlots::new(1, 1);
        let remote = at("/ip4/192.0.2.1/tcp/1");
        let peer = comes(&places, &remote);
        for _ in 0..3 {
            assert!(places.admit(peer, &remote));
        }
        let other = at("/ip4/192.0.2.2/tcp/1");
        let waiting = comes(&places, &other);
        assert!(!places.admit(waiting, &other));
        places.expired(peer);
        assert!(places.admit(waiting, &other));
        assert!(!places.admit(peer, &remote));
    }

    #[test]
    fn a_place_goes_with_the_last_connection_of_its_line() {
        let places = ReservationSlots::new(1, 1);
        let remote = at("/ip4/192.0.2.1/tcp/1");
        let peer = comes(&places, &remote);
        places.opened(peer, &remote);
        assert!(places.admit(peer, &remote));
        places.closed(peer, &remote);
        let other = at("/ip4/192.0.2.2/tcp/1");
        let waiting = comes(&places, &other);
        assert!(!places.admit(waiting, &other));
        places.closed(peer, &remote);
        assert!(places.admit(waiting, &other));
        assert!(!places.admit(peer, &remote), "it has gone");
        places.closed(waiting, &other);
        assert!(places.lock().peers.is_empty());
    }

    #[test]
    fn a_connection_without_a_place_takes_none_with_it() {
        let places = ReservationSlots::new(2, 2);
        let lines = [at("/ip4/192.0.2.1/tcp/1"), at("/ip4/192.0.2.1/udp/2/quic-v1")];
        let peer = comes(&places, &lines[0]);
        assert_eq!(places.held(), 0);
        assert!(places.admit(peer, &lines[0]));
        places.opened(peer, &lines[1]);
        places.closed(peer, &lines[1]);
        assert_eq!(places.held(), 1);
        places.closed(peer, &lines[0]);
        assert_eq!(places.held(), 0);
    }

    #[test]
    fn of_several_places_none_is_taken_for_the_expired_one() {
        let places = ReservationSlots::new(2, 2);
        let lines = [at("/ip4/192.0.2.1/tcp/1"), at("/ip4/192.0.2.1/tcp/2")];
        let peer = comes(&places, &lines[0]);
        places.opened(peer, &lines[1]);
        assert!(places.admit(peer, &lines[0]) && places.admit(peer, &lines[1]));
        places.expired(peer);
        let other = at("/ip4/192.0.2.2/tcp/1");
        let waiting = comes(&places, &other);
        assert!(!places.admit(waiting, &other));
        places.closed(peer, &lines[0]);
        assert!(places.admit(waiting, &other));
    }
}
