//! PURE judgement of what is between us and the Internet, from where others see us: the remotes that we reached
//! from our listen ports, and the tests of AutoNAT. The one rule: without evidence it is unknown.

use std::{
    collections::{BTreeMap, VecDeque},
    net::IpAddr,
};

use libp2p::{Multiaddr, multiaddr::Protocol};

use super::address_book::{Scope, scope};

/// Remotes whose view of us is kept: the bootstrap peers, and the ones before them.
const MAX_VIEWS: usize = 32;

/// What is between this node and the Internet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nat {
    /// Nobody outside has said.
    #[default]
    Unknown,
    /// Nothing: others reach us. A test from outside has shown it.
    Public,
    /// A NAT or a firewall: who has not heard from us does not reach us.
    Private,
    /// A NAT that shows every remote another port, so that holes are seldom punched.
    Symmetric,
}

/// The transport whose port is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PortTransport {
    Tcp,
    Quic,
}

/// A socket as it is seen from outside.
type LocalSocket = (PortTransport, IpAddr, u16);

/// Where others see us.
#[derive(Debug, Default)]
pub(super) struct ObservedAddrs {
    /// Our place, by the remote that sees it there, from a listen port of ours.
    seen: BTreeMap<LocalSocket, (IpAddr, u16)>,
    order: VecDeque<LocalSocket>,
    /// A test of a public address failed.
    failed: bool,
    /// Public addresses whose test succeeded.
    proven: Vec<Multiaddr>,
}

impl ObservedAddrs {
    /// `remote`, dialled from a listen port, sees us at `observed`. True when we are at another address than
    /// before: what was found out there no longer holds.
    pub(super) fn seen(&mut self, remote: &Multiaddr, observed: &Multiaddr) -> bool {
        let (Some(remote), Some((transport, ip, port))) = (place(remote), place(observed)) else {
            return false;
        };
        if remote.0 != transport || scope(observed) != Some(Scope::Public) {
            return false;
        }
        let others = self.seen.values().map(|(ip, _)| *ip);
        let proven = self.proven.iter().filter_map(|address| Some(place(address)?.1));
        let moved = others
            .chain(proven)
            .any(|known| known.is_ipv4() == ip.is_ipv4() && known != ip);
        if moved {
            *self = Self::default();
        }
        if self.seen.insert(remote, (ip, port)).is_none() {
            self.order.push_back(remote);
            if self.order.len() > MAX_VIEWS
                && let Some(oldest) = self.order.pop_front()
            {
                self.seen.remove(&oldest);
            }
        }
        moved
    }

    /// AutoNAT has tested an address.
    pub(super) fn tested(&mut self, address: &Multiaddr, reachable: bool) {
        if scope(address) != Some(Scope::Public) {
            return;
        }
        if !reachable {
            self.failed = true;
        } else if self.proven.len() < MAX_VIEWS && !self.proven.contains(address) {
            self.proven.push(address.clone());
        }
    }

    /// What led to us from this address does no more.
    pub(super) fn closed(&mut self, address: &Multiaddr) {
        self.proven.retain(|proven| proven != address);
    }

    /// Whether others reach us directly, as a test has shown.
    pub(super) fn is_public(&self) -> bool {
        !self.proven.is_empty()
    }

    /// The judgement; `own` are the addresses that we listen on.
    pub(super) fn judge<'a>(&self, own: impl IntoIterator<Item = &'a Multiaddr>) -> Nat {
        if self.is_public() {
            return Nat::Public;
        }
        let differ = |transport| {
            let mut ports = self
                .seen
                .iter()
                .filter(|(remote, _)| remote.0 == transport)
                .map(|(_, at)| *at);
            let first = ports.next();
            ports.any(|other| first.is_some_and(|first| first.0 == other.0 && first.1 != other.1))
        };
        // A TCP dial takes another port of its own where the system wants one: QUIC is the better witness.
        let by_quic = self.seen.keys().any(|remote| remote.0 == PortTransport::Quic);
        let witness = if by_quic {
            PortTransport::Quic
        } else {
            PortTransport::Tcp
        };
        if differ(witness) {
            return Nat::Symmetric;
        }
        let own: Vec<_> = own
            .into_iter()
            .filter_map(|address| Some(place(address)?.1))
            .collect();
        let translated = self.seen.values().any(|(ip, _)| !own.contains(ip));
        if translated || self.failed {
            Nat::Private
        } else {
            Nat::Unknown
        }
    }
}

fn place(address: &Multiaddr) -> Option<LocalSocket> {
    let mut parts = address.iter();
    let ip = match parts.next()? {
        Protocol::Ip4(ip) => IpAddr::from(ip),
        Protocol::Ip6(ip) => IpAddr::from(ip),
        _ => return None,
    };
    match (parts.next()?, parts.next()) {
        (Protocol::Tcp(port), _) => Some((PortTransport::Tcp, ip, port)),
        (Protocol::Udp(port), Some(Protocol::QuicV1)) => Some((PortTransport::Quic, ip, port)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn addr(text: &str) -> Multiaddr {
        text.parse().unwrap()
    }

    fn judge(views: &ObservedAddrs) -> Nat {
        views.judge([&addr("/ip4/192.168.1.2/tcp/4001")])
    }

    #[test]
    fn a_port_for_every_remote_is_symmetric() {
        let mut views = ObservedAddrs::default();
        assert_eq!(judge(&views), Nat::Unknown);
        let tcp = |views: &mut ObservedAddrs, host, port| {
            let remote = addr(&format!("/ip4/45.1.0.{host}/tcp/4001"));
            views.seen(&remote, &addr(&format!("/ip4/46.1.0.1/tcp/{port}")));
        };
        let quic = |views: &mut ObservedAddrs, host, port| {
            let remote = addr(&format!("/ip4/45.1.0.{host}/udp/4001/quic-v1"));
            views.seen(&remote, &addr(&format!("/ip4/46.1.0.1/udp/{port}/quic-v1")));
        };
        tcp(&mut views, 1, 7);
        assert_eq!(judge(&views), Nat::Private);
        tcp(&mut views, 2, 8);
        assert_eq!(judge(&views), Nat::Symmetric);
        quic(&mut views, 1, 9);
        assert_eq!(
            judge(&views),
            Nat::Private,
            "another transport has another port anyway"
        );
        quic(&mut views, 2, 10);
        assert_eq!(judge(&views), Nat::Symmetric);
        views.tested(&addr("/ip4/46.1.0.1/tcp/4001"), true);
        assert_eq!(judge(&views), Nat::Public);
    }

    #[test]
    fn only_a_test_makes_public_and_a_move_unmakes_it() {
        let mut views = ObservedAddrs::default();
        let own = addr("/ip4/46.1.0.1/tcp/4001");
        views.seen(&addr("/ip4/45.1.0.1/tcp/4001"), &own);
        assert_eq!(views.judge([&own]), Nat::Unknown);
        views.tested(&own, false);
        assert_eq!(views.judge([&own]), Nat::Private, "a firewall");
        views.tested(&own, true);
        views.tested(&addr("/ip4/10.0.0.1/tcp/4001"), true);
        assert!(views.is_public());
        views.closed(&own);
        assert!(!views.is_public(), "the router has closed the port");
        views.tested(&own, true);
        assert!(views.seen(&addr("/ip4/45.1.0.1/tcp/4001"), &addr("/ip4/47.1.0.1/tcp/4001")));
        assert_eq!(judge(&views), Nat::Private);
    }

    #[test]
    fn our_own_network_says_nothing() {
        let mut views = ObservedAddrs::default();
        views.seen(
            &addr("/ip4/192.168.1.1/tcp/1"),
            &addr("/ip4/192.168.1.2/tcp/4001"),
        );
        views.tested(&addr("/ip4/192.168.1.2/tcp/4001"), true);
        assert_eq!(judge(&views), Nat::Unknown);
    }

    proptest! {
        /// Whoever keeps ports is never taken for symmetric, and memory is bounded.
        #[test]
        fn a_mapping_that_stands_is_not_symmetric(remotes in prop::collection::vec((any::<u8>(), 1..9u16), 1..99)) {
            let mut views = ObservedAddrs::default();
            for (host, port) in remotes {
                let remote = addr(&format!("/ip4/45.1.0.{host}/tcp/{port}"));
                prop_assert!(!views.seen(&remote, &addr("/ip4/46.1.0.1/tcp/7")));
            }
            prop_assert_eq!(judge(&views), Nat::Private);
            prop_assert!(views.seen.len() <= MAX_VIEWS && views.seen.len() == views.order.len());
        }
    }
}
