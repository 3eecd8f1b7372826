//! The circuits that stand: of all, and of each peer, whichever end it is. PURE.
//!
//! The relay protocol refuses what is too much without a word about why; what stands says which ceiling that was.

use agentanycast_limits::Concurrency;
use libp2p::PeerId;

/// What stands, and how much of it there may be.
#[derive(Debug)]
pub(super) struct OpenCircuits {
    all: usize,
    peers: Concurrency<PeerId>,
    most: usize,
    most_of_peer: usize,
}

impl OpenCircuits {
    /// None, of so many at most.
    pub(super) fn new(most: usize, most_of_peer: usize) -> Self {
        Self {
            all: 0,
            peers: Concurrency::default(),
            most,
            most_of_peer,
        }
    }

    /// A circuit between these was opened.
    pub(super) fn opened(&mut self, from: PeerId, to: PeerId) {
        self.all += 1;
        for peer in [from, to] {
            self.peers.enter(peer, usize::MAX);
        }
    }

    /// It has ended.
    pub(super) fn closed(&mut self, from: PeerId, to: PeerId) {
        self.all = self.all.saturating_sub(1);
        for peer in [from, to] {
            self.peers.leave(&peer);
        }
    }

    /// The setting whose ceiling is reached for one more of this peer.
    pub(super) fn limit(&self, peer: PeerId) -> Option<&'static str> {
        if self.peers.of(&peer) >= self.most_of_peer {
            Some("max_circuits_per_peer")
        } else if self.all >= self.most {
            Some("max_circuits")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a list of the circuits.
        #[test]
        fn the_ceiling_that_is_reached_is_named(
            steps in prop::collection::vec((0..4_usize, 0..4_usize, any::<bool>()), 0..60),
        ) {
            let peers: Vec<PeerId> = (0..4).map(|_| PeerId::random()).collect();
            let mut standing = OpenCircuits::new(5, 3);
            let mut model: Vec<(usize, usize)> = Vec::new();
            for (from, to, opens) in steps {
                if opens && from != to {
                    standing.opened(peers[from], peers[to]);
                    model.push((from, to));
                } else if let Some(at) = model.iter().position(|circuit| *circuit == (from, to)) {
                    model.remove(at);
                    standing.closed(peers[from], peers[to]);
                }
                let of_peer = model.iter().filter(|(a, b)| *a == from || *b == from).count();
                let expected = match (of_peer >= 3, model.len() >= 5) {
                    (true, _) => Some("max_circuits_per_peer"),
                    (false, true) => Some("max_circuits"),
                    (false, false) => None,
                };
                prop_assert_eq!(standing.limit(peers[from]), expected);
            }
        }
    }
}
