//! PURE answer to "where am I reached?": what others are told of us, composed from what we listen on, what was
//! confirmed from outside, and our places at relays. The one rule: what nobody else can dial is told only when
//! there is nothing better.

use libp2p::{Multiaddr, PeerId, multiaddr::Protocol};

use super::{
    address_book::{Scope, is_relayed, scope, split_peer, worth_keeping},
    nat::Nat,
};

/// Addresses of one kind that are told: those of a machine with many interfaces, and no more than a peer keeps.
const MAX_ADVERTISED: usize = 16;

/// Where others reach this node, without `/p2p/<our id>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReachableAddrs {
    /// Confirmed from outside first, then where we listen; loopback only if there is nothing else. Behind a NAT
    /// these lead to us from the local network only.
    pub direct: Vec<String>,
    /// Through relays, `…/p2p/<relay>/p2p-circuit`.
    pub relayed: Vec<String>,
    /// What is between us and the Internet.
    pub nat: Nat,
}

impl ReachableAddrs {
    /// All of them, direct ones first.
    pub fn all(&self) -> impl Iterator<Item = &String> {
        self.direct.iter().chain(&self.relayed)
    }
}

/// What others are told.
pub(super) fn compose<'a>(
    listening: impl IntoIterator<Item = &'a Multiaddr>,
    confirmed: impl IntoIterator<Item = &'a Multiaddr>,
    circuits: impl IntoIterator<Item = &'a Multiaddr>,
    nat: Nat,
) -> ReachableAddrs {
    let confirmed: Vec<_> = confirmed
        .into_iter()
        .filter(|address| !is_relayed(address))
        .collect();
    let listening: Vec<_> = listening.into_iter().collect();
    let beyond = |address: &&&Multiaddr| scope(address).is_some_and(|scope| scope > Scope::Loopback);
    let only_loopback = confirmed.is_empty() && !listening.iter().any(|address| beyond(&address));
    let listening = listening
        .iter()
        .filter(|address| only_loopback || beyond(address))
        .copied();
    ReachableAddrs {
        direct: texts(confirmed.iter().copied().chain(listening)),
        relayed: texts(circuits),
        nat,
    }
}

fn texts<'a>(addresses: impl IntoIterator<Item = &'a Multiaddr>) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for address in addresses {
        let (address, _) = split_peer(address.clone());
        let text = address.to_string();
        if told.len() < MAX_ADVERTISED && !told.contains(&text) {
            told.push(text);
        }
    }
    told
}

/// The circuit through a relay that is dialled at `via`.
pub(super) fn circuit(via: &Multiaddr, relay: PeerId) -> Multiaddr {
    let (via, _) = split_peer(via.clone());
    via.with(Protocol::P2p(relay)).with(Protocol::P2pCircuit)
}

/// The circuit that a relay named, `…/p2p-circuit[/p2p/<us>]`, as we tell it; `None` when nobody who is where we
/// are, seeing the relay at `seen_at`, could dial it.
pub(super) fn named_circuit(named: &Multiaddr, relay: PeerId, seen_at: &Multiaddr) -> Option<Multiaddr> {
    let parts = named.iter();
    let via: Multiaddr = parts
        .take_while(|part| !matches!(part, Protocol::P2pCircuit))
        .collect();
    let (via, at) = split_peer(via);
    (at.is_none_or(|at| at == relay) && worth_keeping(&via, seen_at)).then(|| circuit(&via, relay))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(text: &str) -> Multiaddr {
        text.parse().unwrap()
    }

    #[test]
    fn loopback_is_told_only_alone() {
        let (here, lan) = (addr("/ip4/127.0.0.1/tcp/1"), addr("/ip4/192.168.1.2/tcp/1"));
        let public = addr("/ip4/203.0.113.7/tcp/1");
        assert_eq!(compose([&here], [], [], Nat::Unknown).direct, [here.to_string()]);
        assert_eq!(
            compose([&here, &lan], [], [], Nat::Unknown).direct,
            [lan.to_string()]
        );
        let told = compose([&here, &lan, &public], [&public], [], Nat::Unknown);
        assert_eq!(told.direct, [public.to_string(), lan.to_string()]);
        assert!(compose([&here], [&public], [], Nat::Unknown).direct == [public.to_string()]);
    }

    #[test]
    fn circuits_are_told_with_the_relay_and_without_us() {
        let [relay, me, other] = [0; 3].map(|_| PeerId::random());
        let seen_at = addr("/ip4/203.0.113.9/udp/4001/quic-v1");
        let told = format!("/ip4/203.0.113.9/tcp/4001/p2p/{relay}/p2p-circuit");
        for via in [
            "/ip4/203.0.113.9/tcp/4001".to_owned(),
            format!("/ip4/203.0.113.9/tcp/4001/p2p/{relay}"),
        ] {
            assert_eq!(circuit(&addr(&via), relay), addr(&told));
            for end in ["/p2p-circuit".to_owned(), format!("/p2p-circuit/p2p/{me}")] {
                let named = named_circuit(&addr(&format!("{via}{end}")), relay, &seen_at);
                assert_eq!(named, Some(addr(&told)));
            }
        }
        // Its own network's address is of no use to us, and somebody else's is not its to name.
        for bad in [
            "/ip4/10.0.0.9/tcp/4001".to_owned(),
            format!("/ip4/203.0.113.9/tcp/4001/p2p/{other}"),
        ] {
            assert_eq!(
                named_circuit(&addr(&format!("{bad}/p2p-circuit")), relay, &seen_at),
                None
            );
        }
        let all = compose(
            [],
            [&addr(&format!("{told}/p2p/{me}"))],
            [&addr(&told)],
            Nat::Unknown,
        );
        assert!(all.direct.is_empty(), "a circuit is no direct address");
        assert_eq!(all.relayed, [told]);
    }
}
