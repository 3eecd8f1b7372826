//! The IP addresses of this host while they come and go, and which of them a connection was made from.
//!
//! A TCP connection whose own address is gone is dead, and TCP says so after minutes only. Listeners tell of
//! addresses only where they listen on all of them; this watch tells of each.

use std::{
    future::{pending, poll_fn},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
};

use if_watch::{IfEvent, tokio::IfWatcher};
use libp2p::{Multiaddr, core::ConnectedPoint, multiaddr::Protocol};

/// Stands for the Internet where a remote has only a name; nothing is sent there (RFC 5737).
const SOMEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));

/// What happened to an address of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressChange {
    /// The host has it, now or from the beginning.
    New(IpAddr),
    /// No interface has it any more.
    Gone(IpAddr),
}

/// Watches the addresses of this host.
#[derive(Debug)]
pub struct Interfaces(Option<IfWatcher>);

impl Interfaces {
    /// Begins to watch, inside a tokio runtime. Where the system tells no changes, none ever come.
    pub fn watch() -> Self {
        Self(IfWatcher::new().ok())
    }

    /// The next change. May be dropped and called again: nothing is lost.
    pub async fn changed(&mut self) -> AddressChange {
        loop {
            let Some(watcher) = &mut self.0 else {
                return pending().await;
            };
            match poll_fn(|context| watcher.poll_if_event(context)).await {
                Ok(IfEvent::Up(network)) => return AddressChange::New(network.addr()),
                Ok(IfEvent::Down(network)) => {
                    let ip = network.addr();
                    if !watcher.iter().any(|other| other.addr() == ip) {
                        return AddressChange::Gone(ip);
                    }
                }
                // The system has closed the watch.
                Err(_) => self.0 = None,
            }
        }
    }
}

/// The address of ours that a direct connection was made from. Of one that we dialled it is the one that the
/// system chooses towards the remote.
pub fn local_ip(endpoint: &ConnectedPoint) -> Option<IpAddr> {
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
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((remote, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// The IP address that a multiaddr begins with.
pub fn ip_of(address: &Multiaddr) -> Option<IpAddr> {
    match address.iter().next()? {
        Protocol::Ip4(ip) => Some(ip.into()),
        Protocol::Ip6(ip) => Some(ip.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use libp2p::core::{Endpoint, transport::PortUse};

    use super::*;

    #[test]
    fn the_way_to_this_machine_begins_on_it() {
        let here = IpAddr::from(Ipv4Addr::LOCALHOST);
        assert_eq!(source_towards(here), Some(here));
        let circuit =
            "/ip4/127.0.0.1/tcp/1/p2p/12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK/p2p-circuit";
        let dialled = |address: &str| ConnectedPoint::Dialer {
            address: address.parse().unwrap(),
            role_override: Endpoint::Dialer,
            port_use: PortUse::Reuse,
        };
        assert_eq!(local_ip(&dialled("/ip4/127.0.0.1/tcp/1")), Some(here));
        assert_eq!(local_ip(&dialled(circuit)), None, "the relay's connection was");
    }

    #[tokio::test]
    async fn the_addresses_of_the_beginning_are_told() {
        let mut interfaces = Interfaces::watch();
        if interfaces.0.is_none() {
            println!("NOT CHECKED: the system tells no changes of addresses");
            return;
        }
        let loopback =
            async { while interfaces.changed().await != AddressChange::New(Ipv4Addr::LOCALHOST.into()) {} };
        tokio::time::timeout(Duration::from_secs(10), loopback)
            .await
            .unwrap();
    }
}
