//! PURE state of what the consumer of events has not been told yet.
//!
//! The owner of the swarm must never wait for its consumer, so it notes here what happened and hands it
//! out when there is room. What is noted is bounded by the peers, not by the events: a connection that
//! came and went untold is forgotten, the newest card wins. The one rule: for each peer the consumer
//! hears Connected and Disconnected in turn, and ends up knowing how things are.

use std::collections::{HashMap, VecDeque};

use agentanycast_identity::PeerId;
use bytes::Bytes;

/// One thing to tell.
#[derive(Debug, PartialEq)]
pub(super) enum PeerNotice {
    Connected(PeerId),
    Renewed(PeerId),
    Disconnected(PeerId),
    Card(PeerId, Bytes),
    Addresses(PeerId, Vec<String>),
}

/// What is to be told, in the order in which peers first had news.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    peers: HashMap<PeerId, PendingPeer>,
    queue: VecDeque<PeerId>,
}

#[derive(Debug, Default)]
struct PendingPeer {
    queued: bool,
    connected: bool,
    /// The consumer believes that the peer is connected.
    delivered: bool,
    /// The peer went and came back since the consumer was told that it is connected.
    reconnected: bool,
    /// A further connection stands since the consumer was told that the peer is connected.
    renewed: bool,
    card: Option<Bytes>,
    addresses: Option<Vec<String>>,
}

impl EventQueue {
    pub(super) fn connected(&mut self, peer: PeerId) {
        self.news(peer, |entry| entry.connected = true);
    }

    pub(super) fn renewed(&mut self, peer: PeerId) {
        self.news(peer, |entry| entry.renewed = entry.delivered && entry.connected);
    }

    pub(super) fn disconnected(&mut self, peer: PeerId) {
        self.news(peer, |entry| {
            entry.connected = false;
            entry.renewed = false;
            entry.reconnected = entry.delivered;
        });
    }

    pub(super) fn card(&mut self, peer: PeerId, card: Bytes) {
        self.news(peer, |entry| entry.card = Some(card));
    }

    pub(super) fn addresses(&mut self, peer: PeerId, addresses: Vec<String>) {
        self.news(peer, |entry| entry.addresses = Some(addresses));
    }

    /// Whether the consumer knows of the connections that `peer` has now.
    pub(super) fn is_delivered(&self, peer: PeerId) -> bool {
        self.peers
            .get(&peer)
            .is_some_and(|entry| entry.delivered && !entry.reconnected)
    }

    /// Whether there is anything to tell.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The next thing to tell; it counts as told.
    pub(super) fn next(&mut self) -> Option<PeerNotice> {
        while let Some(peer) = self.queue.pop_front() {
            let Some(entry) = self.peers.get_mut(&peer) else {
                continue;
            };
            entry.queued = false;
            if let Some(notice) = entry.take(peer) {
                // Other peers first: one with much news does not hold them up.
                self.news(peer, |_| {});
                return Some(notice);
            }
            if !entry.delivered && !entry.connected {
                self.peers.remove(&peer);
            }
        }
        None
    }

    fn news(&mut self, peer: PeerId, change: impl FnOnce(&mut PendingPeer)) {
        let entry = self.peers.entry(peer).or_default();
        change(entry);
        if !entry.queued {
            entry.queued = true;
            self.queue.push_back(peer);
        }
    }
}

impl PendingPeer {
    fn take(&mut self, peer: PeerId) -> Option<PeerNotice> {
        if self.connected && !self.delivered {
            self.delivered = true;
            return Some(PeerNotice::Connected(peer));
        }
        if std::mem::take(&mut self.renewed) && !self.reconnected {
            return Some(PeerNotice::Renewed(peer));
        }
        if let Some(card) = self.card.take() {
            return Some(PeerNotice::Card(peer, card));
        }
        if let Some(addresses) = self.addresses.take() {
            return Some(PeerNotice::Addresses(peer, addresses));
        }
        if self.delivered && (!self.connected || self.reconnected) {
            self.delivered = false;
            self.reconnected = false;
            return Some(PeerNotice::Disconnected(peer));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn peer(n: u8) -> PeerId {
        let mut bytes = vec![0x00, 0x24, 0x08, 0x01, 0x12, 0x20];
        bytes.extend_from_slice(&[n; 32]);
        PeerId::from_bytes(&bytes).unwrap()
    }

    fn drain(feed: &mut EventQueue) -> Vec<PeerNotice> {
        std::iter::from_fn(|| feed.next()).collect()
    }

    #[test]
    fn untold_visits_are_forgotten_and_told_ones_end() {
        let mut feed = EventQueue::default();
        feed.connected(peer(1));
        feed.disconnected(peer(1));
        assert_eq!(drain(&mut feed), []);
        assert!(feed.peers.is_empty());
        feed.connected(peer(1));
        assert_eq!(drain(&mut feed), [PeerNotice::Connected(peer(1))]);
        feed.disconnected(peer(1));
        feed.connected(peer(1));
        assert_eq!(
            drain(&mut feed),
            [PeerNotice::Disconnected(peer(1)), PeerNotice::Connected(peer(1))]
        );
        feed.disconnected(peer(1));
        assert_eq!(drain(&mut feed), [PeerNotice::Disconnected(peer(1))]);
        assert!(feed.peers.is_empty() && feed.is_empty());
    }

    #[test]
    fn cards_come_between_connected_and_disconnected() {
        let mut feed = EventQueue::default();
        feed.card(peer(1), Bytes::from_static(b"old"));
        let card = Bytes::from_static(b"new");
        feed.card(peer(1), card.clone());
        feed.connected(peer(1));
        assert_eq!(
            drain(&mut feed),
            [
                PeerNotice::Connected(peer(1)),
                PeerNotice::Card(peer(1), card.clone())
            ]
        );
        feed.disconnected(peer(1));
        feed.card(peer(1), card.clone());
        assert_eq!(
            drain(&mut feed),
            [PeerNotice::Card(peer(1), card), PeerNotice::Disconnected(peer(1))]
        );
    }

    proptest! {
        #[test]
        fn connected_and_disconnected_alternate_and_end_true(
            steps in prop::collection::vec((0u8..3, any::<bool>(), 0usize..3), 0..60),
        ) {
            let mut feed = EventQueue::default();
            let mut real = HashMap::new();
            let mut heard = HashMap::new();
            for (n, up, tell) in steps {
                if real.insert(n, up).unwrap_or(false) != up {
                    if up { feed.connected(peer(n)) } else { feed.disconnected(peer(n)) }
                }
                for _ in 0..tell {
                    listen(&mut feed, &mut heard)?;
                }
            }
            while !feed.is_empty() {
                listen(&mut feed, &mut heard)?;
            }
            for (n, up) in real {
                prop_assert_eq!(heard.get(&peer(n)).copied().unwrap_or(false), up);
            }
        }
    }

    fn listen(feed: &mut EventQueue, heard: &mut HashMap<PeerId, bool>) -> Result<(), TestCaseError> {
        let (peer, up) = match feed.next() {
            Some(PeerNotice::Connected(peer)) => (peer, true),
            Some(PeerNotice::Disconnected(peer)) => (peer, false),
            _ => return Ok(()),
        };
        prop_assert_eq!(heard.insert(peer, up).unwrap_or(false), !up);
        Ok(())
    }
}
