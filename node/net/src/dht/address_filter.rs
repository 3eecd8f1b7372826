//! PURE judgement of addresses in the DHT: which of our own are told, and which of others are believed.
//!
//! The one rule: nobody across the Internet makes us dial our own machine or network ([`AddressFilter`]).

use std::collections::HashMap;

use libp2p::{Multiaddr, PeerId, core::ConnectedPoint, swarm::ConnectionId};

use super::super::address_book::{self, MAX_ADDRESSES, Scope};

/// Longest address in bytes; a relayed one with two peer ids and a DNS name is under 200.
const MAX_ADDRESS_BYTES: usize = 512;
/// Addresses of one peer in the routing table or beside a provider record: everybody who asks is sent them.
pub(super) const MAX_ADVERTISED: usize = 4;

/// How far those are away that we are connected to. Whoever answers a question in the DHT is one of them, so an
/// address is worth a dial only if one of them could know it.
#[derive(Debug, Default)]
pub(super) struct AddressFilter {
    connections: HashMap<ConnectionId, Scope>,
    /// What connected peers have said of where they listen.
    claims: HashMap<PeerId, Vec<Multiaddr>>,
}

impl AddressFilter {
    /// A connection stands. Relayed ones say nothing of where the peer is.
    pub(super) fn opened(&mut self, id: ConnectionId, endpoint: &ConnectedPoint) {
        let remote = endpoint.get_remote_address();
        if !address_book::is_relayed(remote)
            && let Some(scope) = address_book::scope(remote)
        {
            self.connections.insert(id, scope);
        }
    }

    /// A connection is gone, and the peer with its `last`.
    pub(super) fn closed(&mut self, id: ConnectionId, peer: PeerId, last: bool) {
        self.connections.remove(&id);
        if last {
            self.claims.remove(&peer);
        }
    }

    /// A connected peer, seen at `seen_at`, says that it listens at `claims`. Returns those worth telling others.
    pub(super) fn introduced(
        &mut self,
        peer: PeerId,
        seen_at: &Multiaddr,
        claims: &[Multiaddr],
    ) -> Vec<Multiaddr> {
        let plausible = claims
            .iter()
            .filter(|claim| address_book::worth_keeping(claim, seen_at));
        let mut kept: Vec<_> = plausible
            .filter_map(|claim| without_peer_id(claim, peer))
            .collect();
        kept.sort_by_key(|address| std::cmp::Reverse(address_book::scope(address)));
        kept.truncate(MAX_ADVERTISED);
        self.claims.insert(peer, kept.clone());
        kept
    }

    /// What a connected peer has said of where it listens.
    pub(super) fn claims(&self, peer: PeerId) -> &[Multiaddr] {
        self.claims.get(&peer).map_or(&[], Vec::as_slice)
    }

    /// Whether `address`, learned from somebody in the DHT, is worth a dial.
    pub(super) fn accepts(&self, address: &Multiaddr) -> bool {
        // At most a few hundred connections, and this is asked for some addresses of a dial.
        let nearest = self.connections.values().min().copied().unwrap_or(Scope::Public);
        address.len() <= MAX_ADDRESS_BYTES
            && address_book::scope(address).is_some_and(|scope| scope >= nearest)
    }
}

/// `address` of `peer` without its `/p2p`; `None` when it names another peer or is too long.
pub(super) fn without_peer_id(address: &Multiaddr, peer: PeerId) -> Option<Multiaddr> {
    let (address, named) = address_book::split_peer(address.clone());
    let fits = address.len() <= MAX_ADDRESS_BYTES && named.is_none_or(|named| named == peer);
    fits.then_some(address)
}

/// Which of the addresses of `local` it tells the world: those that were confirmed from outside, then those it
/// listens at. Those of this machine only when there are no others, and in the public DHT only public ones.
pub(super) fn advertised<'a>(
    local: PeerId,
    external: impl Iterator<Item = &'a Multiaddr>,
    listening: impl Iterator<Item = &'a Multiaddr>,
    only_public: bool,
) -> Vec<Multiaddr> {
    let mut all: Vec<(Scope, Multiaddr)> = Vec::new();
    for address in external
        .chain(listening)
        .filter_map(|address| without_peer_id(address, local))
    {
        if let Some(scope) = address_book::scope(&address)
            && all.iter().all(|(_, known)| *known != address)
        {
            all.push((scope, address));
        }
    }
    let widest = all.iter().map(|(scope, _)| *scope).max();
    let nearest = match widest {
        _ if only_public => Scope::Public,
        Some(Scope::Loopback) | None => Scope::Loopback,
        Some(_) => Scope::Private,
    };
    all.retain(|(scope, _)| *scope >= nearest);
    all.sort_by_key(|(scope, _)| std::cmp::Reverse(*scope));
    all.into_iter()
        .map(|(_, address)| address)
        .take(MAX_ADDRESSES)
        .collect()
}

/// Whether a node with these confirmed addresses can be asked by anybody. Through a relay it can, but it would use
/// up what the relay has for its tasks.
pub(super) fn is_publicly_reachable<'a>(mut external: impl Iterator<Item = &'a Multiaddr>) -> bool {
    external.any(|address| {
        !address_book::is_relayed(address) && address_book::scope(address) == Some(Scope::Public)
    })
}

#[cfg(test)]
mod tests {
    use libp2p::core::{Endpoint, transport::PortUse};

    use super::*;

    const HERE: &str = "/ip4/127.0.0.1/tcp/1";
    const LAN: &str = "/ip4/192.168.1.9/tcp/1";
    const WORLD: &str = "/ip4/203.0.113.7/tcp/1";

    fn addr(text: &str) -> Multiaddr {
        text.parse().unwrap()
    }

    fn to(address: Multiaddr) -> ConnectedPoint {
        ConnectedPoint::Dialer {
            address,
            role_override: Endpoint::Dialer,
            port_use: PortUse::New,
        }
    }

    #[test]
    fn an_address_is_believed_if_a_neighbour_could_know_it() {
        let mut horizon = AddressFilter::default();
        let believed = |horizon: &AddressFilter| [HERE, LAN, WORLD].map(|text| horizon.accepts(&addr(text)));
        assert_eq!(believed(&horizon), [false, false, true]);
        let (peer, id) = (PeerId::random(), ConnectionId::new_unchecked);
        horizon.opened(id(1), &to(addr(WORLD)));
        let circuit = format!("{LAN}/p2p/{peer}/p2p-circuit");
        horizon.opened(id(2), &to(addr(&circuit)));
        assert_eq!(believed(&horizon), [false, false, true]);
        horizon.opened(id(3), &to(addr(LAN)));
        assert_eq!(believed(&horizon), [false, true, true]);
        horizon.opened(id(4), &to(addr(HERE)));
        assert_eq!(believed(&horizon), [true, true, true]);
        horizon.closed(id(4), peer, false);
        horizon.closed(id(3), peer, true);
        assert_eq!(believed(&horizon), [false, false, true]);
        assert!(!horizon.accepts(&addr("/memory/1")));
        assert!(!horizon.accepts(&addr(&format!("/dns4/{}/tcp/1", "a".repeat(600)))));
    }

    #[test]
    fn claims_are_kept_while_the_peer_is_connected() {
        let mut horizon = AddressFilter::default();
        let peer = PeerId::random();
        let claims = [HERE, LAN, WORLD].map(addr);
        assert_eq!(horizon.introduced(peer, &addr(WORLD), &claims), [addr(WORLD)]);
        assert_eq!(
            horizon.introduced(peer, &addr(LAN), &claims),
            [addr(WORLD), addr(LAN)]
        );
        let of_another = [addr(WORLD).with_p2p(PeerId::random()).unwrap()];
        assert!(
            horizon
                .introduced(PeerId::random(), &addr(WORLD), &of_another)
                .is_empty()
        );
        let many: Vec<_> = (1..99)
            .map(|n| addr(&format!("/ip4/203.0.113.7/tcp/{n}")))
            .collect();
        assert_eq!(
            horizon.introduced(peer, &addr(WORLD), &many).len(),
            MAX_ADVERTISED
        );
        assert_eq!(horizon.claims(peer).len(), MAX_ADVERTISED);
        horizon.closed(ConnectionId::new_unchecked(1), peer, true);
        assert!(horizon.claims(peer).is_empty());
    }

    #[test]
    fn a_node_tells_where_others_could_reach_it() {
        let local = PeerId::random();
        let circuit = format!("/ip4/203.0.113.9/tcp/1/p2p/{local}/p2p-circuit");
        let told = |external: &[&str], listening: &[&str], only_public| {
            let [external, listening] =
                [external, listening].map(|all| all.iter().map(|text| addr(text)).collect::<Vec<_>>());
            let told = advertised(local, external.iter(), listening.iter(), only_public);
            told.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(told(&[], &[HERE], false), [HERE]);
        assert_eq!(told(&[], &[HERE, LAN], false), [LAN]);
        assert_eq!(told(&[&circuit], &[HERE, LAN], false), [&circuit, LAN]);
        assert_eq!(told(&[WORLD], &[HERE, LAN, WORLD], true), [WORLD]);
        assert!(told(&[], &[HERE, LAN], true).is_empty());
        let full = format!("{WORLD}/p2p/{local}");
        assert_eq!(told(&[&full], &[WORLD], false), [WORLD], "named once");

        let open = |all: &[&str]| {
            is_publicly_reachable(all.iter().map(|text| addr(text)).collect::<Vec<_>>().iter())
        };
        assert!(open(&[LAN, WORLD]) && !open(&[LAN]) && !open(&[&circuit]) && !open(&[]));
    }
}
