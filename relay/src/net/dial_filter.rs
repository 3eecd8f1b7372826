//! A behaviour: where this relay connects to. It does so for AutoNAT only, at the word of a stranger who wants to know
//! whether he is reached; so it goes to the Internet and nowhere else. The one rule: nobody reaches by us what is
//! behind us.

use std::{
    convert::Infallible,
    net::IpAddr,
    task::{Context, Poll},
};

use agentanycast_limits::ip_scope::{IpScope, ip_scope};
use libp2p::{
    Multiaddr, PeerId,
    core::{Endpoint, transport::PortUse},
    multiaddr::Protocol,
    swarm::{
        ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent,
        THandlerOutEvent, ToSwarm, dummy,
    },
};

/// The behaviour.
#[derive(Debug)]
pub(super) struct Behaviour;

/// Why an address is not dialled.
#[derive(Debug, thiserror::Error)]
#[error("{0} is not dialled: {1}")]
struct DialRefusal(Multiaddr, &'static str);

/// Why an address is not dialled; `None`: it is.
fn refusal(address: &Multiaddr) -> Option<&'static str> {
    let mut parts = address.iter();
    let ip = match parts.next() {
        Some(Protocol::Ip4(ip)) => IpAddr::from(ip),
        Some(Protocol::Ip6(ip)) => IpAddr::from(ip),
        // A name can lead anywhere.
        _ => return Some("it does not begin with an IP address"),
    };
    if parts.any(|part| matches!(part, Protocol::P2pCircuit)) {
        return Some("it leads through a relay");
    }
    match ip_scope(ip) {
        IpScope::Public => None,
        IpScope::Inside(what) | IpScope::Never(what) => Some(what),
    }
}

impl NetworkBehaviour for Behaviour {
    type ConnectionHandler = dummy::ConnectionHandler;
    type ToSwarm = Infallible;

    fn handle_pending_outbound_connection(
        &mut self,
        _: ConnectionId,
        _: Option<PeerId>,
        addresses: &[Multiaddr],
        _: Endpoint,
    ) -> Result<Vec<Multiaddr>, ConnectionDenied> {
        for address in addresses {
            if let Some(why) = refusal(address) {
                tracing::debug!(%address, why, "an address that a peer named is not dialled");
                return Err(ConnectionDenied::new(DialRefusal(address.clone(), why)));
            }
        }
        Ok(Vec::new())
    }

    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
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

    fn on_swarm_event(&mut self, _: FromSwarm<'_>) {}

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

    fn is_dialled(address: &str) -> bool {
        let addresses = [address.parse().unwrap()];
        let id = ConnectionId::new_unchecked(1);
        let answer = Behaviour.handle_pending_outbound_connection(id, None, &addresses, Endpoint::Dialer);
        answer.is_ok()
    }

    #[test]
    fn only_the_internet_is_dialled() {
        for address in [
            "/ip4/45.10.0.2/tcp/4001",
            "/ip4/8.8.8.8/udp/4001/quic-v1",
            "/ip6/2606:4700::1111/tcp/4001/ws",
        ] {
            assert!(is_dialled(address), "{address}");
        }
        for address in [
            "/ip4/127.0.0.1/tcp/22",
            "/ip4/10.0.0.1/udp/4001/quic-v1",
            "/ip4/169.254.169.254/tcp/80",
            "/ip4/100.64.0.1/tcp/1/ws",
            "/ip6/::1/tcp/22",
            "/ip6/fd00::1/tcp/1",
            "/ip6/::ffff:192.168.0.1/tcp/1",
            "/dns4/example.org/tcp/1",
            "/memory/1",
            "/ip4/8.8.8.8/tcp/1/p2p/12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK/p2p-circuit",
        ] {
            assert!(!is_dialled(address), "{address}");
        }
    }
}
