//! Where the registry of a bootstrap relay is: beside the relay, until the relay says where. PURE.
//!
//! Deployed relays say nothing, and their clients name the relay only, so the guess is the port that relays use
//! by default. Relays of ours say it on a stream of their own (`agentanycast_net::RelayAnswer`).

use agentanycast_identity::PeerId;
use agentanycast_net::{RelayAnswer, RelayAnswers};
use libp2p::{Multiaddr, multiaddr::Protocol};

use super::registry_client::endpoint;

/// Where relays have their registry by default (docs/operating.md, "Relays").
const REGISTRY_PORT: u16 = 50_052;

/// A bootstrap peer that may be a relay with a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootstrapRegistry {
    /// Its peer id, where the address has one.
    pub relay: Option<PeerId>,
    host: String,
}

/// What a relay says of its registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RegistryLocation {
    /// `HOST:PORT`, or a URL.
    At(String),
    /// Nodes on other hosts cannot reach it, for this reason.
    Unreachable(String),
}

impl BootstrapRegistry {
    /// `None`: the address has no host (a circuit, a memory address).
    pub fn beside(bootstrap: &Multiaddr) -> Option<Self> {
        let relay = bootstrap.iter().find_map(|part| match part {
            Protocol::P2p(peer) => Some(PeerId::from(peer)),
            _ => None,
        });
        host(bootstrap).map(|host| Self { relay, host })
    }

    /// The address to ask at before the relay has said anything.
    pub fn guess(&self) -> String {
        format!("{}:{REGISTRY_PORT}", self.host)
    }

    /// What the relay at this address says; `None`: nothing.
    pub(super) fn told(&self, answers: &RelayAnswers) -> Option<RegistryLocation> {
        let answer = match self.relay {
            Some(relay) => answers.get(&relay)?,
            None => answers
                .values()
                .find(|answer| dialled_host(answer).as_ref() == Some(&self.host))?,
        };
        let registry = answer.info.registry.as_ref()?;
        if !registry.address.is_empty() {
            return Some(match endpoint(&registry.address) {
                Ok(_) => RegistryLocation::At(registry.address.clone()),
                Err(error) => {
                    RegistryLocation::Unreachable(format!("the relay announces it wrongly: {error}"))
                }
            });
        }
        let host = dialled_host(answer).unwrap_or_else(|| self.host.clone());
        let is_loopback = host
            .trim_matches(['[', ']'])
            .parse()
            .is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
        Some(match u16::try_from(registry.port) {
            Err(_) | Ok(0) => RegistryLocation::Unreachable("the relay says no port of it".to_owned()),
            Ok(_) if registry.loopback_only && !is_loopback => RegistryLocation::Unreachable(
                "the relay serves it on a loopback address only; have its operator set --registry-listen or \
                 --announce-registry"
                    .to_owned(),
            ),
            Ok(port) => RegistryLocation::At(format!("{host}:{port}")),
        })
    }
}

fn dialled_host(answer: &RelayAnswer) -> Option<String> {
    host(&answer.dialled.parse().ok()?)
}

/// The host of an address, with brackets around IPv6.
fn host(address: &Multiaddr) -> Option<String> {
    Some(match address.iter().next()? {
        Protocol::Ip4(ip) => ip.to_string(),
        Protocol::Ip6(ip) => format!("[{ip}]"),
        Protocol::Dns(name) | Protocol::Dns4(name) | Protocol::Dns6(name) => name.into_owned(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use agentanycast_proto::v1::{RelayEndpoint, RelayInfo};

    use super::*;

    const RELAY: &str = "12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN";

    fn answers(dialled: &str, registry: RelayEndpoint) -> RelayAnswers {
        let info = RelayInfo {
            registry: Some(registry),
            ..RelayInfo::default()
        };
        let answer = RelayAnswer::new(dialled.to_owned(), info);
        [(RELAY.parse().unwrap(), answer)].into()
    }

    fn told(bootstrap: &str, answers: &RelayAnswers) -> Option<RegistryLocation> {
        BootstrapRegistry::beside(&bootstrap.parse().unwrap())?.told(answers)
    }

    fn port(port: u32, loopback_only: bool) -> RelayEndpoint {
        RelayEndpoint {
            port,
            loopback_only,
            ..RelayEndpoint::default()
        }
    }

    #[test]
    fn the_guess_is_the_default_port_beside_the_relay() {
        for (bootstrap, guess) in [
            ("/ip4/192.0.2.1/tcp/4001", Some("192.0.2.1:50052")),
            ("/ip6/2001:db8::1/udp/4001/quic-v1", Some("[2001:db8::1]:50052")),
            ("/dns/relay.example/tcp/443/wss", Some("relay.example:50052")),
            ("/memory/1", None),
        ] {
            let registry = BootstrapRegistry::beside(&bootstrap.parse().unwrap());
            assert_eq!(registry.map(|registry| registry.guess()).as_deref(), guess);
        }
    }

    #[test]
    fn a_port_counts_at_the_host_that_was_dialled() {
        let by_id = format!("/dns4/relay.example/tcp/4001/p2p/{RELAY}");
        let said = answers("/ip4/192.0.2.7/tcp/4001", port(7000, false));
        let at = |address: &str| Some(RegistryLocation::At(address.to_owned()));
        assert_eq!(told(&by_id, &said), at("192.0.2.7:7000"));
        // Without an id in the bootstrap address, the host tells which relay it is.
        assert_eq!(told("/ip4/192.0.2.7/udp/1/quic-v1", &said), at("192.0.2.7:7000"));
        assert_eq!(told("/ip4/192.0.2.8/tcp/4001", &said), None);
        let other = "12D3KooWGRUfQLpHSoTtQGTmmmVNwE2LbgbR2iGXyfHqyzGvFHtB";
        assert_eq!(told(&format!("/ip4/192.0.2.7/tcp/4001/p2p/{other}"), &said), None);
    }

    #[test]
    fn an_announced_address_counts_if_it_is_one() {
        let announced = |address: &str| RelayEndpoint {
            address: address.to_owned(),
            port: 7000,
            loopback_only: true,
        };
        let bootstrap = format!("/ip4/192.0.2.7/tcp/4001/p2p/{RELAY}");
        let said = answers(
            "/ip4/192.0.2.7/tcp/4001",
            announced("https://registry.example:443"),
        );
        let at = RegistryLocation::At("https://registry.example:443".to_owned());
        assert_eq!(told(&bootstrap, &said), Some(at));
        for wrong in ["registry.example", "ftp://x:1", "http://user:pw@x:1", "\u{1b}[2J"] {
            let said = answers("/ip4/192.0.2.7/tcp/4001", announced(wrong));
            assert!(
                matches!(told(&bootstrap, &said), Some(RegistryLocation::Unreachable(_))),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_registry_on_loopback_is_asked_on_its_own_host_only() {
        let bootstrap = format!("/ip4/127.0.0.1/tcp/4001/p2p/{RELAY}");
        let here = answers("/ip4/127.0.0.1/tcp/4001", port(7000, true));
        let at = RegistryLocation::At("127.0.0.1:7000".to_owned());
        assert_eq!(told(&bootstrap, &here), Some(at));
        for (dialled, said) in [
            ("/ip4/192.0.2.7/tcp/4001", port(7000, true)),
            ("/ip4/127.0.0.1/tcp/4001", port(0, false)),
            ("/ip4/127.0.0.1/tcp/4001", port(70_000, false)),
        ] {
            let said = answers(dialled, said);
            assert!(matches!(
                told(&bootstrap, &said),
                Some(RegistryLocation::Unreachable(_))
            ));
        }
    }
}
