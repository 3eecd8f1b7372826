//! PURE address book: where peers can be reached, best first.
//!
//! Addresses are *proven* (we reached the peer there), *given* (by a user or the configuration) or
//! *claimed* (by the peer itself or by mDNS); claims never push out better ones. The one rule: an
//! address enters only if a dial of it could make sense from here ([`worth_keeping`]).

use std::{collections::HashMap, net::IpAddr, num::NonZeroUsize};

use agentanycast_daemon_kit::address::behind_transport;
use libp2p::{Multiaddr, PeerId, multiaddr::Protocol};
use lru::LruCache;

/// Peers in the book besides the kept ones; the least recently used goes first.
const MAX_PEERS: NonZeroUsize = NonZeroUsize::new(10_000).expect("not zero");
/// Addresses of one peer: a machine has a few interfaces times two transports, and every one of them
/// may be dialled at once.
pub(super) const MAX_ADDRESSES: usize = 16;
/// Longest address in bytes; a relayed one with two peer ids and a DNS name is under 200.
const MAX_ADDRESS_BYTES: usize = 512;

/// How an address came to us, best last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// Said by the peer itself or by mDNS.
    Claimed,
    /// Said by our user.
    Given,
    /// We reached the peer there.
    Proven,
}

/// How far an address can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    /// This machine.
    Loopback,
    /// This local network.
    Private,
    /// Everywhere; names count as such.
    Public,
}

/// Where peers can be reached.
pub(super) struct AddressBook {
    /// Peers that are redialled: never pushed out by the others.
    kept: HashMap<PeerId, Vec<KnownAddress>>,
    others: LruCache<PeerId, Vec<KnownAddress>>,
}

struct KnownAddress {
    address: Multiaddr,
    origin: Origin,
}

impl AddressBook {
    pub(super) fn new() -> Self {
        Self {
            kept: HashMap::new(),
            others: LruCache::new(MAX_PEERS),
        }
    }

    /// Protects the addresses of `peer` from other peers' (`keep`), or no longer.
    pub(super) fn keep(&mut self, peer: PeerId, keep: bool) {
        if keep {
            if !self.kept.contains_key(&peer) {
                let entries = self.others.pop(&peer).unwrap_or_default();
                self.kept.insert(peer, entries);
            }
        } else if let Some(entries) = self.kept.remove(&peer).filter(|entries| !entries.is_empty()) {
            self.others.put(peer, entries);
        }
    }

    /// Notes an address of `peer`, without its `/p2p`. True when it was not known, or not proven before.
    pub(super) fn add(&mut self, peer: PeerId, address: &Multiaddr, origin: Origin) -> bool {
        if address.is_empty() || address.len() > MAX_ADDRESS_BYTES {
            return false;
        }
        let entries = match self.kept.get_mut(&peer) {
            Some(entries) => entries,
            None => self.others.get_or_insert_mut(peer, Vec::new),
        };
        let known = entries.iter().position(|entry| entry.address == *address);
        let before = known.map(|at| entries.remove(at).origin);
        let origin = before.map_or(origin, |before| before.max(origin));
        // Best first; among equals the proven one that worked last, and the claim that came first.
        let at = entries.iter().position(|entry| match origin {
            Origin::Proven => true,
            _ => entry.origin < origin,
        });
        entries.insert(
            at.unwrap_or(entries.len()),
            KnownAddress {
                address: address.clone(),
                origin,
            },
        );
        entries.truncate(MAX_ADDRESSES);
        let proven = origin == Origin::Proven && before != Some(Origin::Proven);
        proven || before.is_none() && entries.iter().any(|entry| entry.address == *address)
    }

    /// Addresses of `peer`, best first.
    pub(super) fn addresses_of(&mut self, peer: PeerId) -> Vec<Multiaddr> {
        let entries = self.kept.get(&peer).or_else(|| self.others.get(&peer));
        entries.map_or_else(Vec::new, |entries| {
            entries.iter().map(|entry| entry.address.clone()).collect()
        })
    }
}

/// How far `address` can be seen, `None` when nobody can dial it: no transport of ours, port 0, an
/// unspecified, multicast or link-local address.
pub(super) fn scope(address: &Multiaddr) -> Option<Scope> {
    let mut parts = address.iter();
    let scope = match parts.next()? {
        Protocol::Ip4(ip) => ip_scope(ip.into())?,
        Protocol::Ip6(ip) => ip_scope(ip.to_canonical())?,
        Protocol::Dns(_) | Protocol::Dns4(_) | Protocol::Dns6(_) => Scope::Public,
        Protocol::Dnsaddr(_) => return Some(Scope::Public),
        _ => return None,
    };
    let behind = parts.collect::<Vec<_>>();
    behind_transport(&behind)
        .is_some_and(|behind| matches!(behind, [] | [Protocol::P2p(_), ..]))
        .then_some(scope)
}

fn ip_scope(ip: IpAddr) -> Option<Scope> {
    if ip.is_unspecified() || ip.is_multicast() {
        return None;
    }
    if ip.is_loopback() {
        return Some(Scope::Loopback);
    }
    match ip {
        IpAddr::V4(v4) if v4.is_broadcast() || v4.octets()[0] == 0 => None,
        IpAddr::V4(v4) => {
            // RFC 1918, link-local, and the shared space of carrier-grade NAT (RFC 6598).
            let shared = v4.octets()[0] == 100 && v4.octets()[1] & 0xC0 == 64;
            let private = v4.is_private() || v4.is_link_local() || shared;
            Some(if private { Scope::Private } else { Scope::Public })
        }
        // Link-local IPv6 needs a zone, which another machine cannot know.
        IpAddr::V6(v6) if v6.is_unicast_link_local() => None,
        IpAddr::V6(v6) => Some(if v6.is_unique_local() {
            Scope::Private
        } else {
            Scope::Public
        }),
    }
}

/// Whether `address`, claimed by a peer that we see at `seen_at`, could be dialled from here: a peer
/// across the Internet has no business naming addresses of our machine or our network.
pub(super) fn worth_keeping(address: &Multiaddr, seen_at: &Multiaddr) -> bool {
    let horizon = scope(seen_at).unwrap_or(Scope::Public);
    scope(address).is_some_and(|scope| scope >= horizon)
}

/// `address` without a trailing `/p2p/…`, and the peer that it named.
pub(super) fn split_peer(mut address: Multiaddr) -> (Multiaddr, Option<PeerId>) {
    match address.pop() {
        Some(Protocol::P2p(peer)) => (address, Some(peer)),
        Some(other) => (address.with(other), None),
        None => (address, None),
    }
}

/// Whether `address` is that of a WebSocket.
pub(super) fn is_websocket(address: &Multiaddr) -> bool {
    address
        .iter()
        .any(|part| matches!(part, Protocol::Ws(_) | Protocol::Wss(_)))
}

/// Whether `address` leads through a relay.
pub(super) fn is_relayed(address: &Multiaddr) -> bool {
    address.iter().any(|part| matches!(part, Protocol::P2pCircuit))
}

/// The relay that `address` leads through, if it leads through one.
pub(super) fn relay_of(address: &Multiaddr) -> Option<PeerId> {
    let mut last = None;
    for part in address {
        match part {
            Protocol::P2p(peer) => last = Some(peer),
            Protocol::P2pCircuit => return last,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(text: &str) -> Multiaddr {
        text.parse().unwrap()
    }

    #[test]
    fn proven_before_given_before_claimed() {
        let mut book = AddressBook::new();
        let peer = PeerId::random();
        for port in 1..=20 {
            book.add(peer, &addr(&format!("/ip4/10.0.0.1/tcp/{port}")), Origin::Claimed);
        }
        assert_eq!(book.addresses_of(peer).len(), MAX_ADDRESSES);
        assert!(book.add(peer, &addr("/ip4/10.0.0.2/tcp/1"), Origin::Given));
        assert!(book.add(peer, &addr("/ip4/10.0.0.3/tcp/1"), Origin::Proven));
        assert!(
            book.add(peer, &addr("/ip4/10.0.0.1/tcp/2"), Origin::Proven),
            "known, and proven now"
        );
        assert!(
            !book.add(peer, &addr("/ip4/10.0.0.9/tcp/1"), Origin::Claimed),
            "no room for claims"
        );
        let first: Vec<_> = book.addresses_of(peer).into_iter().take(3).collect();
        let expected = [
            "/ip4/10.0.0.1/tcp/2",
            "/ip4/10.0.0.3/tcp/1",
            "/ip4/10.0.0.2/tcp/1",
        ]
        .map(addr);
        assert_eq!(first, expected);
    }

    #[test]
    fn a_flood_of_peers_leaves_the_kept_ones() {
        let mut book = AddressBook::new();
        let friend = PeerId::random();
        book.add(friend, &addr("/ip4/10.0.0.1/tcp/1"), Origin::Given);
        book.keep(friend, true);
        for _ in 0..MAX_PEERS.get() + 10 {
            book.add(PeerId::random(), &addr("/ip4/10.0.0.1/tcp/1"), Origin::Claimed);
        }
        assert_eq!(book.others.len(), MAX_PEERS.get());
        assert_eq!(book.addresses_of(friend).len(), 1);
        book.keep(friend, false);
        assert_eq!(
            (book.others.len(), book.addresses_of(friend).len()),
            (MAX_PEERS.get(), 1)
        );
    }

    #[test]
    fn only_what_can_be_dialled_from_here_is_kept() {
        let public = addr("/ip4/203.0.113.7/tcp/4001");
        let lan = addr("/ip4/192.168.1.7/udp/4001/quic-v1");
        let here = addr("/ip4/127.0.0.1/tcp/4001");
        let cases = [
            ("/ip4/203.0.113.7/tcp/4001", [true, true, true]),
            ("/dns/relay.example/udp/4001/quic-v1", [true, true, true]),
            ("/ip4/192.168.1.9/tcp/4001", [false, true, true]),
            ("/ip6/fd00::1/tcp/4001", [false, true, true]),
            ("/ip4/100.64.0.1/tcp/4001", [false, true, true]),
            ("/ip6/::1/tcp/4001", [false, false, true]),
            ("/ip6/::ffff:127.0.0.1/tcp/4001", [false, false, true]),
            ("/dns4/relay.example/tcp/443/wss", [true, true, true]),
            ("/dns4/relay.example/tcp/443/tls/ws", [true, true, true]),
            (
                "/ip4/203.0.113.7/tcp/443/tls/sni/relay.example/ws",
                [true, true, true],
            ),
            ("/ip4/192.168.1.9/tcp/80/ws", [false, true, true]),
            ("/ip4/203.0.113.7/tcp/443/tls", [false; 3]),
            ("/ip4/203.0.113.7/tcp/443/tls/sni/relay.example", [false; 3]),
            ("/ip4/203.0.113.7/tcp/443/ws/ws", [false; 3]),
            ("/ip4/203.0.113.7/tcp/0/wss", [false; 3]),
            ("/ip4/0.0.0.0/tcp/4001", [false; 3]),
            ("/ip4/203.0.113.7/tcp/0", [false; 3]),
            ("/ip4/224.0.0.1/udp/4001/quic-v1", [false; 3]),
            ("/ip6/fe80::1/tcp/4001", [false; 3]),
            ("/ip4/203.0.113.7/udp/4001", [false; 3]),
            ("/ip4/203.0.113.7/udp/4001/quic-v1/webtransport", [false; 3]),
            ("/memory/7", [false; 3]),
        ];
        for (address, expected) in cases {
            let kept = [&public, &lan, &here].map(|seen| worth_keeping(&addr(address), seen));
            assert_eq!(kept, expected, "{address}");
        }
    }

    #[test]
    fn a_peer_is_split_off_only_at_the_end() {
        let peer = PeerId::random();
        let (plain, named) = split_peer(addr(&format!("/ip4/10.0.0.1/tcp/1/p2p/{peer}")));
        assert_eq!((plain, named), (addr("/ip4/10.0.0.1/tcp/1"), Some(peer)));
        let circuit = addr(&format!("/ip4/10.0.0.1/tcp/1/p2p/{peer}/p2p-circuit"));
        assert_eq!(split_peer(circuit.clone()), (circuit.clone(), None));
        assert!(is_relayed(&circuit));
        assert_eq!(relay_of(&circuit), Some(peer));
        let whom = PeerId::random();
        assert_eq!(relay_of(&circuit.with(Protocol::P2p(whom))), Some(peer));
        assert_eq!(relay_of(&addr(&format!("/ip4/10.0.0.1/tcp/1/p2p/{peer}"))), None);
    }
}
