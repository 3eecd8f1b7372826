//! What the DHT learns from the rest of the network: who is there, as the peers introduce themselves.

use libp2p::{PeerId, identify, swarm::ConnectionId};

use super::SwarmTask;

impl SwarmTask {
    /// A peer has introduced itself on `connection`.
    pub(super) fn introduce_to_dht(&mut self, peer: PeerId, connection: ConnectionId, info: &identify::Info) {
        let seen_at = self.shared.connections().remote(peer.into(), connection).cloned();
        if let (Some(dht), Some(seen_at)) = (self.swarm.behaviour_mut().dht.as_mut(), seen_at) {
            dht.introduced(peer, &seen_at, &info.protocols, &info.listen_addrs);
        }
    }
}
