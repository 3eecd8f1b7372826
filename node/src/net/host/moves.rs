//! This machine moves to another network: what was connected from the address that is gone is dead, and nobody
//! else would notice for half a minute. The one rule: a connection is closed for it only if it was made from that
//! address.

use std::{
    net::{IpAddr, Ipv4Addr, UdpSocket},
    time::Instant,
};

use libp2p::{Multiaddr, core::ConnectedPoint, multiaddr::Protocol};

use super::Host;
use crate::net::addresses;

/// Stands for the Internet where a remote has only a name; nothing is sent there (RFC 5737).
const SOMEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));

impl Host {
    /// We no longer have an address that we listened on.
    pub(super) fn on_address_gone(&mut self, address: &Multiaddr) {
        let Some(gone) = ip_of(address).filter(|_| !addresses::is_relayed(address)) else {
            return;
        };
        let still_there = {
            let listeners = self.shared.listeners();
            listeners.addresses().any(|other| ip_of(other) == Some(gone))
        };
        if still_there {
            return;
        }
        let dead = self.shared.roster().made_from(gone);
        tracing::info!(address = %gone, connections = dead.len(), "this address is gone");
        for connection in dead {
            self.swarm.close_connection(connection);
        }
    }

    /// We have a new address: whoever could not be reached may be now.
    pub(super) fn on_address_new(&mut self, address: &Multiaddr) {
        let ours = !addresses::is_relayed(address);
        if ours && ip_of(address).is_some_and(|ip| !ip.is_loopback()) {
            let now = Instant::now();
            self.dialer.hurry(now);
            self.upgrades.hurry(now);
        }
    }
}

/// From which of our addresses a direct connection was made: the system says only which one it would take now.
pub(super) fn made_from(endpoint: &ConnectedPoint) -> Option<IpAddr> {
    match endpoint {
        _ if endpoint.is_relayed() => None,
        ConnectedPoint::Listener { local_addr, .. } => ip_of(local_addr).filter(|ip| !ip.is_unspecified()),
        ConnectedPoint::Dialer { address, .. } => source_towards(ip_of(address).unwrap_or(SOMEWHERE)),
    }
}

/// Nothing is sent: connecting a UDP socket only chooses the route.
fn source_towards(remote: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = match remote {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((remote, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

fn ip_of(address: &Multiaddr) -> Option<IpAddr> {
    match address.iter().next()? {
        Protocol::Ip4(ip) => Some(ip.into()),
        Protocol::Ip6(ip) => Some(ip.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_this_machine_begins_on_it() {
        let here = IpAddr::from(Ipv4Addr::LOCALHOST);
        assert_eq!(source_towards(here), Some(here));
        let circuit =
            "/ip4/127.0.0.1/tcp/1/p2p/12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK/p2p-circuit";
        let dialled = |address: &str| ConnectedPoint::Dialer {
            address: address.parse().unwrap(),
            role_override: libp2p::core::Endpoint::Dialer,
            port_use: libp2p::core::transport::PortUse::Reuse,
        };
        assert_eq!(made_from(&dialled("/ip4/127.0.0.1/tcp/1")), Some(here));
        assert_eq!(made_from(&dialled(circuit)), None, "the relay's connection was");
    }
}
