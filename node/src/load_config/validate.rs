//! What goes together, and what this version has: checked after all layers, before anything is bound.

use std::{collections::BTreeSet, net::IpAddr, path::Path};

use agentanycast_daemon_kit::{
    address::behind_transport,
    missing_feature::MissingFeature,
    settings::quoted,
    traces::{self, COLLECTOR, is_collector},
};
use agentanycast_identity::{DidDns, DidWeb};
use libp2p::{Multiaddr, multiaddr::Protocol};

use super::policy_rules;
use crate::{
    anycast::endpoint,
    config::{
        Config, ConfigError, GrpcListen, MIN_HAND_OVER, ValueSource, ValueSources, settings_table, uses_quic,
    },
    identity_resolver::DnsResolver,
};

/// Longest name of the node, in bytes: what registries take of a name.
const MAX_NODE_NAME: usize = 256;

/// Checks every rule; the first that is broken is the error.
pub(super) fn validate(config: &Config, sources: &ValueSources) -> Result<(), ConfigError> {
    let check = ConfigCheck { config, sources };
    check.check_not_built()?;
    check.check_exporter(traces::MISSING)?;
    check.addresses()?;
    check.registries()?;
    check.paths()?;
    check.access()?;
    check.telemetry()?;
    check.limits()?;
    check.check_texts()?;
    check.identity()?;
    check.policy()
}

struct ConfigCheck<'a> {
    config: &'a Config,
    sources: &'a ValueSources,
}

impl ConfigCheck<'_> {
    /// Refuses what is switched on and not built.
    fn check_not_built(&self) -> Result<(), ConfigError> {
        const HTTP: &str = "leave it out; agents connect over grpc_listen";
        let c = self.config;
        let foreign = !matches!(c.transport.as_str(), "" | "auto" | "libp2p");
        let nats = foreign && c.transport.starts_with("nats");
        let wanted = [
            (c.anp.enabled, "anp.enabled", "the ANP bridge", HTTP),
            (
                c.nats.enabled,
                "transport.nats.enabled",
                "the NATS transport",
                "use --transport libp2p",
            ),
            (nats, "transport", "the NATS transport", "use auto or libp2p"),
            (
                c.enable_webtransport,
                "enable_webtransport",
                "a WebTransport listener",
                "listen with QUIC or TCP",
            ),
        ];
        match wanted.into_iter().find(|(on, ..)| *on) {
            Some((_, key, feature, advice)) => Err(self.not_built(key, feature, advice)),
            None => Ok(()),
        }
    }

    /// Refuses traces where the exporter is left out of this program.
    fn check_exporter(&self, missing: Option<MissingFeature>) -> Result<(), ConfigError> {
        const KEY: &str = "telemetry.enabled";
        match missing {
            Some(part) if self.config.telemetry.enabled => Err(ConfigError::LeftOut {
                key: KEY.to_owned(),
                value: quoted(&self.value(KEY)),
                origin: self.sources.of(KEY),
                part,
            }),
            _ => Ok(()),
        }
    }

    fn addresses(&self) -> Result<(), ConfigError> {
        for address in &self.config.listen_addrs {
            if !can_listen(address) {
                let allowed =
                    "addresses of this host as /ip4|ip6/ADDR/tcp/PORT, …/tcp/PORT/ws or …/udp/PORT/quic-v1";
                return Err(self.bad_item("listen_addrs", address, allowed));
            }
            if !self.config.enable_quic && uses_quic(address) {
                return Err(self.bad_item(
                    "listen_addrs",
                    address,
                    "without quic-v1 while enable_quic is false",
                ));
            }
        }
        for address in &self.config.bootstrap_peers {
            if !can_dial(address) {
                let allowed = "addresses that can be dialled, such as /ip4/192.0.2.1/tcp/4001/p2p/PEER_ID";
                return Err(self.bad_item("bootstrap_peers", address, allowed));
            }
        }
        Ok(())
    }

    fn registries(&self) -> Result<(), ConfigError> {
        let anycast = &self.config.anycast;
        let allowed = "HOST:PORT, or http(s)://HOST:PORT";
        if !anycast.registry_addr.is_empty() && endpoint(&anycast.registry_addr).is_err() {
            return Err(self.bad("anycast.registry_addr", &anycast.registry_addr, allowed));
        }
        match anycast
            .registry_addrs
            .iter()
            .find(|address| endpoint(address).is_err())
        {
            Some(address) => Err(self.bad("anycast.registry_addrs", address, allowed)),
            None => Ok(()),
        }
    }

    /// A `~` that is left means that there is no home directory.
    fn paths(&self) -> Result<(), ConfigError> {
        let c = self.config;
        let socket = match &c.grpc_listen {
            GrpcListen::Unix(path) => path.as_path(),
            GrpcListen::Tcp { .. } => Path::new(""),
        };
        let paths = [
            ("key_path", c.key_path.as_path()),
            ("store_path", &c.store_path),
            ("grpc_listen", socket),
        ];
        let access = [
            ("grpc_token_file", &c.grpc.token_file),
            ("grpc_tls_cert", &c.grpc.tls_cert),
            ("grpc_tls_key", &c.grpc.tls_key),
            ("wss_ca_file", &c.wss_ca_file),
            ("log_file", &c.log_file),
            ("policy.audit_log_path", &c.policy.audit_log_path),
        ];
        let access = access
            .into_iter()
            .filter_map(|(key, path)| Some((key, path.as_deref()?)));
        match paths
            .into_iter()
            .chain(access)
            .find(|(_, path)| path.starts_with("~"))
        {
            Some((key, path)) => {
                let allowed = "given without ~, since no home directory is known (HOME is not set)";
                Err(self.bad(key, &path.display().to_string(), allowed))
            }
            None => Ok(()),
        }
    }

    fn telemetry(&self) -> Result<(), ConfigError> {
        let endpoint = &self.config.telemetry.otlp_endpoint;
        if is_collector(endpoint) {
            return Ok(());
        }
        Err(self.bad("telemetry.otlp_endpoint", endpoint, COLLECTOR))
    }

    /// Who can reach the gRPC face, and what is needed then.
    fn access(&self) -> Result<(), ConfigError> {
        let (listen, access) = (&self.config.grpc_listen, &self.config.grpc);
        match (&access.tls_cert, &access.tls_key) {
            (Some(cert), None) => {
                return Err(self.bad(
                    "grpc_tls_cert",
                    &cert.display().to_string(),
                    "given together with grpc_tls_key",
                ));
            }
            (None, Some(key)) => {
                return Err(self.bad(
                    "grpc_tls_key",
                    &key.display().to_string(),
                    "given together with grpc_tls_cert",
                ));
            }
            _ => {}
        }
        if let (GrpcListen::Unix(_), Some(cert)) = (listen, &access.tls_cert) {
            let allowed = "left out for a Unix socket, or grpc_listen a tcp:// address";
            return Err(self.bad("grpc_tls_cert", &cert.display().to_string(), allowed));
        }
        let protected = access.token_file.is_some() && access.tls_cert.is_some();
        if listen.is_local() || protected || access.allow_remote {
            return Ok(());
        }
        let origin = self.sources.of("grpc_listen");
        Err(ConfigError::OpenToOthers {
            key: "grpc_listen",
            advice: "give --grpc-token-file, --grpc-tls-cert and --grpc-tls-key, or --grpc-allow-remote to leave \
                     it open",
            value: quoted(&listen.to_string()),
            origin,
        })
    }

    fn limits(&self) -> Result<(), ConfigError> {
        let c = self.config;
        let sockets = c.agents.socket.iter();
        let places: BTreeSet<String> = sockets.map(|socket| socket.listen.to_string()).collect();
        let rules = [
            (
                places.len() == c.agents.socket.len() && !places.contains(&c.grpc_listen.to_string()),
                "agents.socket",
                "one place for each agent, other than grpc_listen",
            ),
            (
                c.agents.claim_within.is_none_or(|within| within >= MIN_HAND_OVER),
                "agents.claim_within",
                "0, or at least 2s",
            ),
            (
                c.max_artifact_bytes <= c.store_quota,
                "max_artifact_bytes",
                "at most store_quota",
            ),
            (
                c.retry_delays.iter().all(|delay| !delay.is_zero()),
                "retry_delays",
                "times longer than 0",
            ),
        ];
        match rules.into_iter().find(|(kept, ..)| !kept) {
            Some((_, key, allowed)) => Err(self.bad_setting(key, allowed)),
            None => Ok(()),
        }
    }

    fn identity(&self) -> Result<(), ConfigError> {
        let identity = &self.config.identity;
        let web = &identity.did_web;
        if !web.is_empty() && !web.parse::<DidWeb>().is_ok_and(|did| did.to_string() == *web) {
            let allowed = "did:web:HOST, HOST%3APORT with a port, in small letters and :PATH behind it";
            return Err(self.bad("identity.did_web", web, allowed));
        }
        let domain = &identity.did_dns_domain;
        if !domain.is_empty() && !domain.parse::<DidDns>().is_ok_and(|did| did.domain() == domain) {
            let allowed = "a domain in small letters, such as example.org";
            return Err(self.bad("identity.did_dns_domain", domain, allowed));
        }
        if let Err(bad) = DnsResolver::check(&identity.name_server) {
            return Err(self.bad("identity.name_server", &identity.name_server, &bad.to_string()));
        }
        Ok(())
    }

    fn policy(&self) -> Result<(), ConfigError> {
        let policy = &self.config.policy;
        let of_the_log = [
            ("policy.audit_chain", policy.audit_chain, "chained"),
            ("policy.audit_sync", policy.audit_sync, "synced"),
            // By default it says what is done where there is a log, and not that there is to be one.
            (
                "policy.audit_required",
                policy.audit_required && self.sources.of("policy.audit_required") != ValueSource::Default,
                "required",
            ),
        ];
        let without_log = of_the_log
            .into_iter()
            .find(|(_, wanted, _)| *wanted && policy.audit_log_path.is_none());
        if let Some((key, _, what)) = without_log {
            let allowed = format!("given together with policy.audit_log_path, the log that is {what}");
            return Err(self.bad_setting(key, &allowed));
        }
        let Err(bad) = policy_rules(&self.config.policy) else {
            return Ok(());
        };
        let origin = bad.entry.map_or_else(
            || self.sources.of(bad.key),
            |entry| self.sources.of_entry(bad.key, entry),
        );
        Err(ConfigError::BadValue {
            key: bad.key.to_owned(),
            value: quoted(&bad.value),
            origin,
            allowed: bad.allowed,
        })
    }

    fn check_texts(&self) -> Result<(), ConfigError> {
        let c = self.config;
        if !matches!(c.transport.as_str(), "" | "auto" | "libp2p") {
            return Err(self.bad("transport", &c.transport, "auto or libp2p"));
        }
        if c.node_name.len() > MAX_NODE_NAME {
            return Err(self.bad("node_name", &c.node_name, "at most 256 bytes"));
        }
        let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if c.namespace.is_empty() || c.namespace.len() > 63 || !c.namespace.bytes().all(letter) {
            return Err(self.bad(
                "namespace",
                &c.namespace,
                "1 to 63 of the characters a-z, 0-9 and -",
            ));
        }
        if c.namespace != "default" {
            // It separates nothing yet, and one who asks for it relies on that it does.
            return Err(self.not_built("namespace", "namespaces", "use default, or other bootstrap peers"));
        }
        Ok(())
    }

    /// The value of a setting as the user knows it, without quotes around texts.
    fn value(&self, key: &str) -> String {
        settings_table::find(key)
            .map(|key| key.plain(self.config))
            .unwrap_or_default()
    }

    fn not_built(&self, key: &str, feature: &'static str, advice: &'static str) -> ConfigError {
        let (key, value, origin) = (key.to_owned(), quoted(&self.value(key)), self.sources.of(key));
        ConfigError::NotBuilt {
            key,
            value,
            origin,
            feature,
            advice,
        }
    }

    fn bad_setting(&self, key: &str, allowed: &str) -> ConfigError {
        self.bad(key, &self.value(key), allowed)
    }

    fn bad_item(&self, key: &str, item: &Multiaddr, allowed: &str) -> ConfigError {
        self.bad(key, &item.to_string(), allowed)
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

/// An address of this host with a transport that can listen: TCP, WebSocket over TCP, QUIC.
fn can_listen(address: &Multiaddr) -> bool {
    let parts: Vec<Protocol<'_>> = address.iter().collect();
    matches!(
        parts.as_slice(),
        [Protocol::Ip4(_) | Protocol::Ip6(_), Protocol::Tcp(_)]
            | [
                Protocol::Ip4(_) | Protocol::Ip6(_),
                Protocol::Tcp(_),
                Protocol::Ws(_)
            ]
            | [
                Protocol::Ip4(_) | Protocol::Ip6(_),
                Protocol::Udp(_),
                Protocol::QuicV1
            ]
    )
}

/// A host, a port that is not 0, and a transport we have; or a name that DNS resolves to such addresses.
fn can_dial(address: &Multiaddr) -> bool {
    let parts: Vec<Protocol<'_>> = address.iter().collect();
    let host = match parts.first() {
        Some(Protocol::Ip4(ip)) => !IpAddr::V4(*ip).is_unspecified(),
        Some(Protocol::Ip6(ip)) => !IpAddr::V6(*ip).is_unspecified(),
        Some(Protocol::Dns(_) | Protocol::Dns4(_) | Protocol::Dns6(_)) => true,
        Some(Protocol::Dnsaddr(_)) => return true,
        _ => false,
    };
    let behind = parts.get(1..).and_then(behind_transport);
    host && behind.is_some_and(|behind| matches!(behind, [] | [Protocol::P2p(_), ..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_refused_where_the_exporter_is_left_out() {
        let sources = ValueSources::default();
        let refusal = |enabled, missing| {
            let mut config = Config::defaults(None);
            config.telemetry.enabled = enabled;
            let check = ConfigCheck {
                config: &config,
                sources: &sources,
            };
            check.check_exporter(missing).map_err(|error| error.to_string())
        };
        assert_eq!(refusal(false, Some(traces::LEFT_OUT)), Ok(()));
        assert_eq!(refusal(true, None), Ok(()));
        let error = refusal(true, Some(traces::LEFT_OUT)).unwrap_err();
        assert!(
            error.starts_with(&format!("{}; telemetry.enabled: ", traces::LEFT_OUT)),
            "{error}"
        );
    }
}
