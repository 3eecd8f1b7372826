//! This host gets and loses addresses, as when it moves to another network. Connections that were made from
//! an address that is gone are dead, and no other part notices for up to a minute: they are closed at once.
//! No other connection is.

use std::{net::IpAddr, time::Instant};

use agentanycast_limits::{AddressChange, ip_of};
use libp2p::Multiaddr;

use super::SwarmTask;
use crate::address_book;

impl SwarmTask {
    /// The host has an address, or has it no more.
    pub(super) fn on_address_change(&mut self, change: AddressChange) {
        match change {
            AddressChange::Gone(ip) => self.on_address_gone(ip),
            AddressChange::New(ip) if !ip.is_loopback() => self.hurry(),
            AddressChange::New(_) => {}
        }
    }

    fn on_address_gone(&mut self, gone: IpAddr) {
        let dead = self.shared.connections().made_from(gone);
        tracing::info!(address = %gone, connections = dead.len(), "this address is gone");
        for connection in dead {
            self.swarm.close_connection(connection);
        }
    }

    /// We listen on a new address.
    pub(super) fn on_address_new(&mut self, address: &Multiaddr) {
        let ours = !address_book::is_relayed(address);
        if ours && ip_of(address).is_some_and(|ip| !ip.is_loopback()) {
            self.hurry();
        }
    }

    /// Peers that could not be reached may be reachable now.
    fn hurry(&mut self) {
        let now = Instant::now();
        self.dialer.retry_now(now);
        self.direct_upgrades.retry_now(now);
    }
}
