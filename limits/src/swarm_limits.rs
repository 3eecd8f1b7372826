//! A behaviour: who may come in to a swarm. As many connections from one address as a site behind it may need, and few that do not
//! say who they are. The one rule: whoever holds up the door does so for its own address only.
//!
//! Connections through a relay have the relay's address and are the relay's to limit.

use std::{
    collections::HashMap,
    convert::Infallible,
    fmt,
    net::IpAddr,
    task::{Context, Poll},
};

use libp2p::{
    Multiaddr, PeerId,
    core::{Endpoint, transport::PortUse},
    multiaddr::Protocol,
    swarm::{
        ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent,
        THandlerOutEvent, ToSwarm, dummy,
    },
};

use crate::{Concurrency, Network};

/// What one address may have; of IPv6 a network of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwarmLimits {
    /// Inbound connections that are not authenticated yet.
    pub pending: usize,
    /// Inbound connections.
    pub established: usize,
}

/// The behaviour; compose it early, so that what it refuses costs nothing.
#[derive(Debug)]
pub struct Behaviour {
    limits: SwarmLimits,
    pending: Connections,
    established: Connections,
}

/// The connections of each address.
#[derive(Debug, Default)]
struct Connections {
    addresses: HashMap<ConnectionId, Network>,
    counts: Concurrency<Network>,
}

/// Too many connections from one address.
#[derive(Debug)]
struct TooManyConnections {
    address: Network,
    most: usize,
}

impl fmt::Display for TooManyConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} has {} connections, the limit of one address",
            self.address, self.most
        )
    }
}

impl std::error::Error for TooManyConnections {}

impl Behaviour {
    /// With these limits, the same for every address.
    pub fn new(limits: SwarmLimits) -> Self {
        Self {
            limits,
            pending: Connections::default(),
            established: Connections::default(),
        }
    }
}

impl Connections {
    /// Enters a connection, unless its address has `most` already.
    fn enter(&mut self, id: ConnectionId, remote: &Multiaddr, most: usize) -> Result<(), ConnectionDenied> {
        let Some(address) = address(remote).filter(|_| !is_relayed(remote)).map(Network::from) else {
            return Ok(());
        };
        if !self.counts.enter(address, most) {
            return Err(ConnectionDenied::new(TooManyConnections { address, most }));
        }
        self.addresses.insert(id, address);
        Ok(())
    }

    fn leave(&mut self, id: ConnectionId) {
        if let Some(address) = self.addresses.remove(&id) {
            self.counts.leave(&address);
        }
    }
}

/// Whether an address leads through a relay.
fn is_relayed(address: &Multiaddr) -> bool {
    address.iter().any(|part| matches!(part, Protocol::P2pCircuit))
}

/// The IP address of a remote; of IPv6 the network of 64 bits, since whoever has one address has all of it.
pub fn address(remote: &Multiaddr) -> Option<IpAddr> {
    let ip = match remote.iter().next()? {
        Protocol::Ip4(ip) => IpAddr::from(ip),
        Protocol::Ip6(ip) => IpAddr::from(ip),
        _ => return None,
    };
    Some(Network::from(ip).into())
}

impl NetworkBehaviour for Behaviour {
    type ConnectionHandler = dummy::ConnectionHandler;
    type ToSwarm = Infallible;

    fn handle_pending_inbound_connection(
        &mut self,
        id: ConnectionId,
        _: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<(), ConnectionDenied> {
        self.pending.enter(id, remote, self.limits.pending)
    }

    fn handle_established_inbound_connection(
        &mut self,
        id: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.pending.leave(id);
        self.established.enter(id, remote, self.limits.established)?;
        Ok(dummy::ConnectionHandler)
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(dummy::ConnectionHandler)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::ConnectionClosed(closed) => self.established.leave(closed.connection_id),
            // Also of one that another behaviour refused after this one had let it in.
            FromSwarm::ListenFailure(failure) => {
                self.pending.leave(failure.connection_id);
                self.established.leave(failure.connection_id);
            }
            _ => {}
        }
    }

    fn on_connection_handler_event(&mut self, _: PeerId, _: ConnectionId, event: THandlerOutEvent<Self>) {
        match event {}
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> ConnectionId {
        ConnectionId::new_unchecked(number)
    }

    #[test]
    fn an_address_fills_its_own_share_only() {
        let mut connections = Connections::default();
        let remote = |text: &str| text.parse::<Multiaddr>().unwrap();
        let one = remote("/ip4/192.0.2.1/tcp/1");
        assert!(connections.enter(id(1), &one, 2).is_ok());
        assert!(
            connections
                .enter(id(2), &remote("/ip4/192.0.2.1/udp/9/quic-v1"), 2)
                .is_ok()
        );
        assert!(connections.enter(id(3), &one, 2).is_err());
        assert!(
            connections
                .enter(id(4), &remote("/ip4/192.0.2.2/tcp/1"), 2)
                .is_ok()
        );
        connections.leave(id(3));
        assert!(
            connections.enter(id(5), &one, 2).is_err(),
            "what was refused frees nothing"
        );
        connections.leave(id(2));
        assert!(connections.enter(id(6), &one, 2).is_ok());
        for number in [1, 4, 6] {
            connections.leave(id(number));
        }
        assert!(connections.counts.is_empty() && connections.addresses.is_empty());
    }

    #[test]
    fn a_network_of_ipv6_is_one_address_and_a_relay_is_none() {
        let mut connections = Connections::default();
        let mut enter = |number, text: &str| connections.enter(id(number), &text.parse().unwrap(), 1).is_ok();
        assert!(enter(1, "/ip6/2001:db8:1:2::1/tcp/1"));
        assert!(!enter(2, "/ip6/2001:db8:1:2:ffff::9/tcp/1"));
        assert!(enter(3, "/ip6/2001:db8:1:3::1/tcp/1"));
        assert!(enter(4, "/ip6/::ffff:192.0.2.1/tcp/1"));
        assert!(!enter(5, "/ip4/192.0.2.1/tcp/1"));
        let circuit =
            "/ip4/192.0.2.1/tcp/1/p2p/12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK/p2p-circuit";
        assert!(enter(6, circuit) && enter(7, circuit));
    }
}
