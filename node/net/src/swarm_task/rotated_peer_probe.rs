//! Meeting whoever is where a wanted peer was: the same node under a new key, which its card shows, or a stranger, who is
//! let go. The one rule: nothing is begun that [`PeerProbes`](crate::rotated_peer_probe::PeerProbes) has no room for.

use std::time::{Instant, SystemTime};

use agentanycast_identity::{
    MAX_ROTATIONS, PeerId,
    rotation::{Rotation, former},
};
use agentanycast_proto::v1::AgentCard;
use bytes::Bytes;
use libp2p::swarm;
use prost::Message as _;

use super::SwarmTask;
use crate::{
    address_book::{is_relayed, split_peer},
    dialer::DialTarget,
    rotated_peer_probe::PeerProbe,
};

impl SwarmTask {
    /// A redial of `wanted` has led to somebody else, whom another dial tells of. A relay leads to the key that it is asked
    /// for, or lies: nobody is met through one.
    pub(super) fn probe_other_key(&mut self, wanted: PeerId, error: &swarm::DialError) {
        let swarm::DialError::WrongPeerId { obtained, address } = error else {
            return;
        };
        let (place, _) = split_peer(address.clone());
        if is_relayed(&place) {
            return;
        }
        let peer = PeerId::from(*obtained);
        if !self.peer_probes.has_room_at(&place) {
            tracing::debug!(%peer, %wanted, %place, "another peer is there, and is not met: too many such are");
            return;
        }
        if let Some(connection) = self.dial_once(peer, vec![place.clone()]) {
            let meeting = PeerProbe {
                peer,
                wanted,
                address: place,
            };
            self.peer_probes.started(connection, meeting);
        }
    }

    /// A peer has shown its card, which says who it was before.
    pub(super) fn on_card(&mut self, peer: PeerId, card: &Bytes) {
        let wanted = self.peer_probes.wanted_peer(peer);
        if wanted.is_none() && !self.dialer.has_unconnected_pin() {
            return;
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let former = former_keys(peer, card, now.unwrap_or_default().as_millis() as u64);
        for old in &former {
            if self.dialer.is_pinned(&DialTarget::Peer(*old)) && self.rotated_peers.insert(*old) {
                tracing::warn!(
                    peer = %old, new = %peer,
                    "a bootstrap peer has another key now, as both keys say; put its new id into the settings"
                );
            }
        }
        if let Some(wanted) = wanted.filter(|wanted| former.contains(wanted)) {
            tracing::debug!(%peer, %wanted, "whoever is there is the wanted peer under a new key");
            self.peer_probes.confirm(peer);
        }
    }

    /// Lets go of strangers that had their time, unless somebody here wants them by now.
    pub(super) fn close_strangers(&mut self, now: Instant) {
        for (connection, peer) in self.peer_probes.due(now) {
            if self.dialer.is_kept(peer) {
                self.peer_probes.ended(connection);
            } else {
                tracing::debug!(%peer, "closing the connection to a stranger where somebody else was looked for");
                self.swarm.close_connection(connection);
            }
        }
    }
}

/// The keys that a peer had before, as its card proves.
fn former_keys(peer: PeerId, card: &Bytes, now_ms: u64) -> Vec<PeerId> {
    let card = AgentCard::decode(card.clone()).ok();
    let extension = card.and_then(|card| card.p2p_extension).unwrap_or_default();
    let said = extension.key_rotations.iter().take(MAX_ROTATIONS);
    let rotations: Vec<_> = said.filter_map(|bytes| Rotation::read(bytes).ok()).collect();
    former(peer, &rotations, now_ms)
}
