//! Addresses of a relay: where it may listen, what belongs beside that, what others are told. PURE.

use std::{collections::BTreeSet, io};

use agentanycast_daemon_kit::address::port;
use libp2p::{Multiaddr, PeerId, multiaddr::Protocol};
use rustix::io::Errno;

/// Why an address is not listened on, with what to do about it. The system's refusal is known by its text: transports wrap
/// it in errors of their own.
pub(super) fn with_remedy(cause: &str) -> String {
    let remedies = [
        (
            Errno::ADDRINUSE,
            "end what uses it, or choose another port for --listen",
        ),
        (Errno::ADDRNOTAVAIL, "--listen takes addresses of this host"),
        (
            Errno::ACCESS,
            "this user may not take that port; choose one from 1024 for --listen",
        ),
    ];
    let known = remedies
        .into_iter()
        .find(|(errno, _)| cause.contains(&io::Error::from(*errno).to_string()));
    known.map_or_else(|| cause.to_owned(), |(_, remedy)| format!("{cause}; {remedy}"))
}

/// The QUIC address that belongs to a TCP address, with the port that was bound; none beside WebSocket.
pub(super) fn quic_beside(asked: &Multiaddr, bound: &[Multiaddr]) -> Option<Multiaddr> {
    let parts: Vec<_> = asked.iter().collect();
    let [host @ (Protocol::Ip4(_) | Protocol::Ip6(_)), Protocol::Tcp(_)] = parts.as_slice() else {
        return None;
    };
    let port = port(bound.first()?)?;
    Some(
        Multiaddr::empty()
            .with(host.clone())
            .with(Protocol::Udp(port))
            .with(Protocol::QuicV1),
    )
}

/// Whether it stands for every interface.
pub(super) fn is_wildcard(address: &Multiaddr) -> bool {
    address.iter().any(|part| match part {
        Protocol::Ip4(ip) => ip.is_unspecified(),
        Protocol::Ip6(ip) => ip.is_unspecified(),
        _ => false,
    })
}

fn is_loopback(address: &Multiaddr) -> bool {
    address.iter().any(|part| match part {
        Protocol::Ip4(ip) => ip.is_loopback(),
        Protocol::Ip6(ip) => ip.is_loopback(),
        _ => false,
    })
}

/// Whether it is a link-local one of IPv6: it needs a zone, which another machine cannot know.
fn needs_zone(address: &Multiaddr) -> bool {
    address
        .iter()
        .any(|part| matches!(part, Protocol::Ip6(ip) if ip.is_unicast_link_local()))
}

/// What others are told: without any, the relay protocol would not be offered at all. Loopback, and then what nobody
/// can dial without a zone, only where there is nothing else.
pub(super) fn announced_addresses(announce: &[Multiaddr], bound: &[Multiaddr]) -> Vec<Multiaddr> {
    if !announce.is_empty() {
        return announce.to_vec();
    }
    let those = |are_told: &dyn Fn(&Multiaddr) -> bool| -> Vec<Multiaddr> {
        bound
            .iter()
            .filter(|address| are_told(address))
            .cloned()
            .collect()
    };
    let others = those(&|address| !is_loopback(address) && !needs_zone(address));
    if !others.is_empty() {
        return others;
    }
    let here = those(&|address| !needs_zone(address));
    if here.is_empty() { bound.to_vec() } else { here }
}

/// The addresses, TCP first and QUIC last, each with the peer id; one line of the start-up output each.
pub fn with_peer(addresses: &[Multiaddr], peer: PeerId) -> Vec<Multiaddr> {
    let mut seen = BTreeSet::new();
    let whole = addresses
        .iter()
        .map(|address| address.clone().with(Protocol::P2p(peer)));
    whole.filter(|address| seen.insert(address.clone())).collect()
}
