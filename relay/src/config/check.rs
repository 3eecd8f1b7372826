//! What goes together, and what this version has: checked after all layers, before anything is bound.

use std::path::Path;

use agentanycast_daemon_kit::{
    address::behind_transport,
    settings::{ConfigError, ValueSources, find, host_port, quoted},
    traces::{self, COLLECTOR, is_collector},
};
use libp2p::{Multiaddr, multiaddr::Protocol};

use super::{Config, setting_table::KEYS};

/// Checks every rule; the first that is broken is the error.
pub(super) fn check(config: &Config, sources: &ValueSources) -> Result<(), ConfigError> {
    let check = ConfigCheck { config, sources };
    check.built()?;
    check.addresses()?;
    check.paths()?;
    check.collector()?;
    check.federation()
}

struct ConfigCheck<'a> {
    config: &'a Config,
    sources: &'a ValueSources,
}

impl ConfigCheck<'_> {
    fn built(&self) -> Result<(), ConfigError> {
        if let Some(part) = traces::MISSING.filter(|_| !self.config.otlp_endpoint.is_empty()) {
            let key = "otlp_endpoint";
            return Err(ConfigError::LeftOut {
                key: key.to_owned(),
                value: quoted(&self.value(key)),
                origin: self.sources.of(key),
                part,
            });
        }
        if !self.config.enable_webtransport {
            return Ok(());
        }
        let key = "enable_webtransport";
        Err(ConfigError::NotBuilt {
            key: key.to_owned(),
            value: quoted(&self.value(key)),
            origin: self.sources.of(key),
            feature: "a WebTransport listener",
            advice: "listen with QUIC, TCP or WebSocket",
        })
    }

    fn addresses(&self) -> Result<(), ConfigError> {
        if self.config.listen.is_empty() {
            return Err(self.bad_setting("listen", "at least one address"));
        }
        for address in &self.config.listen {
            if !can_listen(address) {
                return Err(self.bad(
                    "listen",
                    &address.to_string(),
                    "addresses of this host as /ip4|ip6/ADDR/tcp/PORT or …/tcp/PORT/ws",
                ));
            }
        }
        for address in &self.config.announce {
            if !can_announce(address) {
                let allowed = "addresses that others can dial, such as /ip4/192.0.2.1/tcp/4001, without /p2p";
                return Err(self.bad("announce", &address.to_string(), allowed));
            }
        }
        if self.config.registry_listen.0.is_empty() {
            return Err(self.bad_setting("registry_listen", "HOST:PORT or :PORT"));
        }
        let announced = &self.config.announce_registry;
        if !announced.is_empty() && !is_registry_address(announced) {
            return Err(self.bad_setting(
                "announce_registry",
                "HOST:PORT, http://HOST:PORT or https://HOST:PORT that nodes can reach",
            ));
        }
        Ok(())
    }

    fn paths(&self) -> Result<(), ConfigError> {
        let paths = [("key", &self.config.key), ("store", &self.config.store)];
        let left = paths
            .into_iter()
            .find(|(_, path)| path.as_deref().is_some_and(|path| path.starts_with("~")));
        match left {
            Some((key, path)) => {
                let allowed = "given without ~, since no home directory is known (HOME is not set)";
                let shown = path.as_deref().unwrap_or(Path::new("")).display().to_string();
                Err(self.bad(key, &shown, allowed))
            }
            None => Ok(()),
        }
    }

    fn collector(&self) -> Result<(), ConfigError> {
        if is_collector(&self.config.otlp_endpoint) {
            return Ok(());
        }
        Err(self.bad("otlp_endpoint", &self.config.otlp_endpoint, COLLECTOR))
    }

    fn federation(&self) -> Result<(), ConfigError> {
        for peer in &self.config.federation_peers {
            if host_port(peer).is_none_or(|(_, port)| port == 0) {
                return Err(self.bad(
                    "federation_peers",
                    peer,
                    "HOST:PORT of the registry of another relay",
                ));
            }
        }
        for origin in &self.config.api_cors_origins {
            let is_url = origin.starts_with("http://") || origin.starts_with("https://");
            let legal = origin == "*"
                || (is_url && origin.bytes().all(|b| b.is_ascii_graphic()) && !origin.ends_with('/'));
            if !legal {
                return Err(self.bad(
                    "api_cors_origins",
                    origin,
                    "* or origins such as https://example.org",
                ));
            }
        }
        Ok(())
    }

    fn value(&self, key: &str) -> String {
        find(KEYS, key)
            .map(|key| key.plain(self.config))
            .unwrap_or_default()
    }

    fn bad_setting(&self, key: &str, allowed: &str) -> ConfigError {
        self.bad(key, &self.value(key), allowed)
    }

    fn bad(&self, key: &str, value: &str, allowed: &str) -> ConfigError {
        ConfigError::BadValue {
            key: key.to_owned(),
            value: quoted(value),
            origin: self.sources.of(key),
            allowed: allowed.to_owned(),
        }
    }
}

fn can_listen(address: &Multiaddr) -> bool {
    let parts: Vec<_> = address.iter().collect();
    matches!(
        parts.as_slice(),
        [Protocol::Ip4(_) | Protocol::Ip6(_), Protocol::Tcp(_)]
            | [
                Protocol::Ip4(_) | Protocol::Ip6(_),
                Protocol::Tcp(_),
                Protocol::Ws(_)
            ]
    )
}

/// Whether nodes can ask a registry at this address: `HOST:PORT`, or a URL of that without a path.
fn is_registry_address(text: &str) -> bool {
    let host = match text.split_once("://") {
        Some(("http" | "https", host)) => host,
        Some(_) => return false,
        None => text,
    };
    host_port(host).is_some_and(|(_, port)| port != 0)
}

fn can_announce(address: &Multiaddr) -> bool {
    let parts: Vec<_> = address.iter().collect();
    let host = match parts.first() {
        Some(Protocol::Ip4(ip)) => !ip.is_unspecified(),
        Some(Protocol::Ip6(ip)) => !ip.is_unspecified(),
        Some(Protocol::Dns(_) | Protocol::Dns4(_) | Protocol::Dns6(_) | Protocol::Dnsaddr(_)) => true,
        _ => false,
    };
    let known = match parts.get(1..) {
        Some([]) => matches!(parts.first(), Some(Protocol::Dnsaddr(_))),
        behind => behind.and_then(behind_transport).is_some_and(<[_]>::is_empty),
    };
    host && known
}
