//! From relayed to direct: the relayed connection is closed once a direct one has shown that it works, and a direct
//! way is looked for again where there is none. The one rule: a peer never loses its last connection here.

use std::time::{Duration, Instant};

use agentanycast_identity::PeerId;
use libp2p::swarm::{
    ConnectionId,
    dial_opts::{DialOpts, PeerCondition},
};

use super::SwarmTask;
use crate::address_book;

/// A relayed connection is closed this long after a direct one stands, so that what is being sent over
/// it arrives, and the direct one has shown that it works.
const UPGRADE_GRACE: Duration = Duration::from_secs(2);

/// A circuit that was made only to try again is closed after this time: DCUtR's three attempts with the time-outs of
/// their dials.
const SECOND_CIRCUIT: Duration = Duration::from_secs(30);

impl SwarmTask {
    /// A connection to `peer` stands.
    pub(super) fn on_connection(
        &mut self,
        peer: PeerId,
        connection: ConnectionId,
        relayed: bool,
        dialled: bool,
    ) {
        let now = Instant::now();
        if !relayed {
            self.direct_upgrades.settled(peer);
        } else if dialled
            && self
                .shared
                .connections()
                .snapshot(peer)
                .is_some_and(|peer| !peer.direct)
        {
            self.direct_upgrades.relayed(peer, now, rand::random());
        }
        if !self.shared.connections().redundant(peer).is_empty() {
            self.upgraded.push_back((now + UPGRADE_GRACE, peer));
        }
        if self.upgrade_dials.remove(&connection) {
            self.second_circuits
                .push_back((now + SECOND_CIRCUIT, peer, connection));
        }
    }

    /// When [`Self::upgrade`] has something to do.
    pub(super) fn next_upgrade(&self) -> Option<Instant> {
        let upgraded = self.upgraded.front().map(|(at, _)| *at);
        let circuit = self.second_circuits.front().map(|(at, ..)| *at);
        let retry = self.direct_upgrades.next_at();
        [upgraded, circuit, retry].into_iter().flatten().min()
    }

    /// Closes what is needless, and looks for a direct way where it is time.
    pub(super) fn upgrade(&mut self, now: Instant) {
        while let Some((_, peer)) = self.upgraded.pop_front_if(|(at, _)| *at <= now) {
            let needless = self.shared.connections().redundant(peer);
            for connection in needless {
                tracing::debug!(%peer, "closing a relayed connection: there is a direct one");
                self.swarm.close_connection(connection);
            }
        }
        while let Some((_, peer, connection)) = self.second_circuits.pop_front_if(|(at, ..)| *at <= now) {
            if self.shared.connections().has_other(peer, connection) {
                self.swarm.close_connection(connection);
            }
        }
        for peer in self.direct_upgrades.due(now, rand::random()) {
            self.try_directly(peer);
        }
    }

    /// Dials the direct addresses that are known, and makes one more circuit, on which DCUtR begins anew.
    fn try_directly(&mut self, peer: PeerId) {
        let addresses = self.address_book.addresses_of(peer.into());
        let (circuits, direct): (Vec<_>, Vec<_>) = addresses.into_iter().partition(address_book::is_relayed);
        for (addresses, circuit) in [(direct, false), (circuits, true)] {
            if addresses.is_empty() {
                continue;
            }
            let opts = DialOpts::peer_id(peer.into())
                .condition(PeerCondition::Always)
                .addresses(addresses)
                .allocate_new_port()
                .build();
            let id = opts.connection_id();
            match self.swarm.dial(opts) {
                Ok(()) if circuit => drop(self.upgrade_dials.insert(id)),
                Ok(()) => {}
                Err(error) => tracing::debug!(%peer, %error, "no direct way looked for"),
            }
        }
    }
}
