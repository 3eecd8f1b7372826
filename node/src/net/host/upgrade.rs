//! From relayed to direct: the relayed connection is closed once a direct one has shown that it works, and a direct
//! way is looked for again where there is none. The one rule: a peer never loses its last connection here.

use std::time::{Duration, Instant};

use agentanycast_identity::PeerId;
use libp2p::swarm::{
    ConnectionId,
    dial_opts::{DialOpts, PeerCondition},
};

use super::Host;
use crate::net::addresses;

/// A relayed connection is closed this long after a direct one stands, so that what is being sent over
/// it arrives, and the direct one has shown that it works.
const UPGRADE_GRACE: Duration = Duration::from_secs(2);

/// A circuit that was made only to try again is closed after this time: DCUtR's three attempts with the time-outs of
/// their dials.
const SECOND_CIRCUIT: Duration = Duration::from_secs(30);

impl Host {
    /// A connection to `peer` stands.
    pub(super) fn on_road(&mut self, peer: PeerId, connection: ConnectionId, relayed: bool, dialled: bool) {
        let now = Instant::now();
        if !relayed {
            self.upgrades.settled(peer);
        } else if dialled
            && self
                .shared
                .roster()
                .snapshot(peer)
                .is_some_and(|peer| !peer.direct)
        {
            self.upgrades.relayed(peer, now, rand::random());
        }
        if !self.shared.roster().needless(peer).is_empty() {
            self.upgraded.push_back((now + UPGRADE_GRACE, peer));
        }
        if self.retries.remove(&connection) {
            self.second_circuits
                .push_back((now + SECOND_CIRCUIT, peer, connection));
        }
    }

    /// When [`Self::upgrade`] has something to do.
    pub(super) fn next_upgrade(&self) -> Option<Instant> {
        let upgraded = self.upgraded.front().map(|(at, _)| *at);
        let circuit = self.second_circuits.front().map(|(at, ..)| *at);
        let retry = self.upgrades.next_at();
        [upgraded, circuit, retry].into_iter().flatten().min()
    }

    /// Closes what is needless, and looks for a direct way where it is time.
    pub(super) fn upgrade(&mut self, now: Instant) {
        while let Some((_, peer)) = self.upgraded.pop_front_if(|(at, _)| *at <= now) {
            let needless = self.shared.roster().needless(peer);
            for connection in needless {
                tracing::debug!(%peer, "closing a relayed connection: there is a direct one");
                self.swarm.close_connection(connection);
            }
        }
        while let Some((_, peer, connection)) = self.second_circuits.pop_front_if(|(at, ..)| *at <= now) {
            if self.shared.roster().has_other(peer, connection) {
                self.swarm.close_connection(connection);
            }
        }
        for peer in self.upgrades.due(now, rand::random()) {
            self.try_directly(peer);
        }
    }

    /// Dials the direct addresses that are known, and makes one more circuit, on which DCUtR begins anew.
    fn try_directly(&mut self, peer: PeerId) {
        let addresses = self.book.of(peer.into());
        let (circuits, direct): (Vec<_>, Vec<_>) = addresses.into_iter().partition(addresses::is_relayed);
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
                Ok(()) if circuit => drop(self.retries.insert(id)),
                Ok(()) => {}
                Err(error) => tracing::debug!(%peer, %error, "no direct way looked for"),
            }
        }
    }
}
