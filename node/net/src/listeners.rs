//! Where we listen: which port to take, and what was bound in the end. PURE.

use agentanycast_daemon_kit::address::{port, with_port};
use libp2p::{Multiaddr, core::transport::ListenerId, multiaddr::Protocol};

use super::StartError;

/// The addresses that listeners are bound to.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    all: Vec<BoundListener>,
}

#[derive(Debug)]
struct BoundListener {
    id: ListenerId,
    /// As asked for, maybe with port 0.
    asked: Multiaddr,
    /// As reported by the transport, one for each interface.
    addresses: Vec<Multiaddr>,
}

impl Listeners {
    pub(super) fn add(&mut self, id: ListenerId, asked: Multiaddr) {
        self.all.push(BoundListener {
            id,
            asked,
            addresses: Vec::new(),
        });
    }

    pub(super) fn appeared(&mut self, id: ListenerId, address: Multiaddr) {
        if let Some(listener) = self.all.iter_mut().find(|listener| listener.id == id)
            && !listener.addresses.contains(&address)
        {
            listener.addresses.push(address);
        }
    }

    pub(super) fn disappeared(&mut self, id: ListenerId, address: &Multiaddr) {
        for listener in self.all.iter_mut().filter(|listener| listener.id == id) {
            listener.addresses.retain(|known| known != address);
        }
    }

    /// Forgets a listener; returns what it was asked for.
    pub(super) fn closed(&mut self, id: ListenerId) -> Option<Multiaddr> {
        let at = self.all.iter().position(|listener| listener.id == id)?;
        Some(self.all.remove(at).asked)
    }

    /// A listener that has no address yet.
    pub(super) fn unbound(&self) -> Option<&Multiaddr> {
        self.all
            .iter()
            .find(|listener| listener.addresses.is_empty())
            .map(|listener| &listener.asked)
    }

    /// All addresses, interfaces spelled out.
    pub(super) fn addresses(&self) -> impl Iterator<Item = &Multiaddr> {
        self.all.iter().flat_map(|listener| &listener.addresses)
    }

    /// All addresses that can be dialled, as texts: a link-local one of IPv6 needs a zone, which a multiaddr does not name.
    pub(super) fn reachable(&self) -> Vec<String> {
        let needs_zone = |address: &&Multiaddr| matches!(address.iter().next(), Some(Protocol::Ip6(ip)) if ip.is_unicast_link_local());
        let reachable = self.addresses().filter(|address| !needs_zone(address));
        reachable.map(ToString::to_string).collect()
    }

    /// All addresses as they were asked for, with the port that was bound.
    pub(super) fn bound(&self) -> Vec<String> {
        let bound =
            |listener: &BoundListener| Some(with_port(&listener.asked, port(listener.addresses.first()?)?));
        self.all
            .iter()
            .filter_map(bound)
            .map(|address| address.to_string())
            .collect()
    }
}

/// The listen addresses of a configuration, in order; those of QUIC only if it is on.
pub(super) fn parse(addresses: &[String], quic: bool) -> Result<Vec<Multiaddr>, StartError> {
    let invalid = |address: &String, cause: String| StartError::InvalidAddress {
        address: address.clone(),
        cause,
    };
    let mut parsed = Vec::new();
    for text in addresses {
        let address: Multiaddr = text.parse().map_err(|error| invalid(text, format!("{error}")))?;
        let parts: Vec<_> = address.iter().collect();
        match parts.as_slice() {
            [Protocol::Ip4(_) | Protocol::Ip6(_), Protocol::Tcp(_)]
            | [
                Protocol::Ip4(_) | Protocol::Ip6(_),
                Protocol::Tcp(_),
                Protocol::Ws(_),
            ] => parsed.push(address),
            [
                Protocol::Ip4(_) | Protocol::Ip6(_),
                Protocol::Udp(_),
                Protocol::QuicV1,
            ] => {
                if quic {
                    parsed.push(address);
                }
            }
            _ => {
                return Err(invalid(
                    text,
                    "only TCP, WebSocket (/ws) and QUIC v1 on an IP address are known".to_owned(),
                ));
            }
        }
    }
    Ok(parsed)
}

/// What to try for `asked`, in order: with port 0 the port of the last run, then any.
pub(super) fn candidates(asked: &Multiaddr, preferred: &[String]) -> Vec<Multiaddr> {
    let mut candidates = Vec::new();
    if port(asked) == Some(0) {
        let parsed = preferred.iter().filter_map(|text| text.parse::<Multiaddr>().ok());
        candidates.extend(parsed.filter(|last| with_port(last, 0) == *asked && last != asked));
    }
    candidates.push(asked.clone());
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_port_is_tried_first() {
        let last = [
            "/ip4/0.0.0.0/udp/700/quic-v1",
            "/ip4/0.0.0.0/tcp/701",
            "/ip6/::/tcp/702",
            "nonsense",
        ];
        let last = last.map(str::to_owned);
        let tried = |asked: &str| {
            let candidates = candidates(&asked.parse().unwrap(), &last);
            candidates.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            tried("/ip4/0.0.0.0/tcp/0"),
            ["/ip4/0.0.0.0/tcp/701", "/ip4/0.0.0.0/tcp/0"]
        );
        let quic = ["/ip4/0.0.0.0/udp/700/quic-v1", "/ip4/0.0.0.0/udp/0/quic-v1"];
        assert_eq!(tried("/ip4/0.0.0.0/udp/0/quic-v1"), quic);
        assert_eq!(tried("/ip4/127.0.0.1/tcp/0"), ["/ip4/127.0.0.1/tcp/0"]);
        assert_eq!(tried("/ip4/0.0.0.0/tcp/9"), ["/ip4/0.0.0.0/tcp/9"]);
    }

    #[test]
    fn only_known_roads_can_be_listened_on() {
        let texts = [
            "/ip4/0.0.0.0/tcp/0",
            "/ip4/0.0.0.0/tcp/0/ws",
            "/ip6/::/udp/0/quic-v1",
        ]
        .map(str::to_owned);
        assert_eq!(parse(&texts, true).unwrap().len(), 3);
        assert_eq!(parse(&texts, false).unwrap().len(), 2);
        for text in [
            "",
            "tcp",
            "/ip4/0.0.0.0/udp/0",
            "/dns/example.org/tcp/1",
            "/ip4/0.0.0.0/tcp/0/wss",
        ] {
            let error = parse(&[text.to_owned()], true).unwrap_err();
            assert!(matches!(error, StartError::InvalidAddress { address, .. } if address == text));
        }
    }

    #[test]
    fn bound_ports_are_remembered_and_what_needs_a_zone_is_not_told() {
        let mut listeners = Listeners::default();
        let id = ListenerId::next();
        listeners.add(id, "/ip4/0.0.0.0/tcp/0".parse().unwrap());
        assert!(listeners.unbound().is_some());
        listeners.appeared(id, "/ip4/127.0.0.1/tcp/4001".parse().unwrap());
        listeners.appeared(id, "/ip4/10.0.0.1/tcp/4001".parse().unwrap());
        assert_eq!(listeners.bound(), ["/ip4/0.0.0.0/tcp/4001"]);
        assert_eq!(
            listeners.reachable(),
            ["/ip4/127.0.0.1/tcp/4001", "/ip4/10.0.0.1/tcp/4001"]
        );
        listeners.appeared(id, "/ip6/fe80::1/tcp/4001".parse().unwrap());
        assert_eq!(listeners.reachable().len(), 2);
    }
}
