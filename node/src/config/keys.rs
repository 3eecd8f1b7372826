//! The table of every setting: its name in TOML, its flag, its variable, and the field it fills.
//!
//! The rule: a setting is one line here, one field in `Config`, and nothing else.

use std::path::Path;

use super::{
    Config,
    setting::{Raw, Refusal, Setting as _},
};

/// One setting.
pub(super) struct Key {
    /// Its name in TOML, with the tables it stands in: `mcp.listen`.
    pub(super) name: &'static str,
    /// False if there is only a flag.
    pub(super) in_file: bool,
    /// Its value is shown as stars.
    pub(super) secret: bool,
    pub(super) flag: Option<Flag>,
    /// Its variable, without the prefix.
    pub(super) variable: Option<&'static str>,
    pub(super) set: fn(&mut Config, &Raw, Option<&Path>) -> Result<(), Refusal>,
    /// Its value as a TOML literal.
    pub(super) show: fn(&Config) -> String,
}

/// A flag that sets a setting.
pub(super) struct Flag {
    /// Without dashes.
    pub(super) name: &'static str,
    /// What its value is; empty for a switch.
    pub(super) value: &'static str,
    pub(super) help: &'static str,
    /// The switch that it turns on besides.
    pub(super) enables: Option<&'static str>,
}

impl Key {
    const fn variable(mut self, name: &'static str) -> Self {
        self.variable = Some(name);
        self
    }

    const fn flag(mut self, name: &'static str, value: &'static str, help: &'static str) -> Self {
        self.flag = Some(Flag {
            name,
            value,
            help,
            enables: None,
        });
        self
    }

    const fn enabling(mut self, switch: &'static str) -> Self {
        if let Some(flag) = &mut self.flag {
            flag.enables = Some(switch);
        }
        self
    }

    const fn only_flag(mut self) -> Self {
        self.in_file = false;
        self
    }

    const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }
}

/// A key and the field it fills.
macro_rules! key {
    ($name:literal, $($field:ident).+) => {
        Key {
            name: $name,
            in_file: true,
            secret: false,
            flag: None,
            variable: None,
            set: |config, raw, home| {
                config.$($field).+ = super::setting::Setting::read(raw, home)?;
                Ok(())
            },
            show: |config| config.$($field).+.show(),
        }
    };
}

/// The setting of that name.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

#[rustfmt::skip] // A table.
pub(super) static KEYS: &[Key] = &[
    key!("key_path", key_path).variable("KEY_PATH").flag("key", "FILE", "The node's key; made if it is missing"),
    key!("listen_addrs", listen_addrs).flag("listen", "ADDRS", "Multiaddrs to listen on, comma list"),
    key!("grpc_listen", grpc_listen).variable("GRPC_LISTEN").flag("grpc-listen", "URL", "Where agents connect: unix://PATH or tcp://HOST:PORT"),
    key!("grpc_token_file", grpc.token_file).flag("grpc-token-file", "FILE", "Callers must send this file's content as Bearer token"),
    key!("grpc_tls_cert", grpc.tls_cert).flag("grpc-tls-cert", "FILE", "Certificate chain (PEM) of a tcp:// gRPC address"),
    key!("grpc_tls_key", grpc.tls_key).flag("grpc-tls-key", "FILE", "Private key (PEM) of --grpc-tls-cert"),
    key!("grpc_allow_remote", grpc.allow_remote).flag("grpc-allow-remote", "", "Listen beyond loopback without token and TLS"),
    key!("bootstrap_peers", bootstrap_peers).variable("BOOTSTRAP_PEERS").flag("bootstrap-peers", "ADDRS", "Multiaddrs of peers to keep connected to, comma list"),
    key!("enable_relay_client", enable_relay_client),
    key!("enable_hole_punching", enable_hole_punching),
    key!("enable_quic", enable_quic),
    key!("enable_webtransport", enable_webtransport).flag("enable-webtransport", "", "Not available"),
    key!("enable_mdns", enable_mdns).variable("ENABLE_MDNS"),
    key!("store_path", store_path).variable("STORE_PATH").flag("store-path", "DIR", "Directory of tasks, cards and artifacts"),
    key!("offline_queue_ttl", offline_queue_ttl),
    key!("log_level", log_level).variable("LOG_LEVEL").flag("log-level", "LEVEL", "error, warn, info, debug or trace"),
    key!("log_format", log_format),
    key!("agent_grace", agent_grace),
    key!("task_retention", task_retention),
    key!("task_retention_count", task_retention_count),
    key!("store_quota", store_quota),
    key!("max_artifact_bytes", max_artifact_bytes),
    key!("max_open_tasks", max_open_tasks),
    key!("retry_delays", retry_delays),
    key!("transport", transport).only_flag().flag("transport", "NAME", "auto or libp2p"),
    key!("namespace", namespace).only_flag().flag("namespace", "NAME", "default"),
    key!("bridge.enabled", bridge.enabled),
    key!("bridge.listen", bridge.listen).variable("BRIDGE_LISTEN").flag("bridge-listen", "ADDR", "Turn on the A2A bridge at HOST:PORT (not available yet)").enabling("bridge.enabled"),
    key!("bridge.tls_cert", bridge.tls_cert),
    key!("bridge.tls_key", bridge.tls_key),
    key!("bridge.cors_origins", bridge.cors_origins),
    key!("anycast.routing_strategy", anycast.routing_strategy),
    key!("anycast.cache_ttl", anycast.cache_ttl),
    key!("anycast.auto_register", anycast.auto_register),
    key!("anycast.registry_addr", anycast.registry_addr),
    key!("anycast.registry_addrs", anycast.registry_addrs).variable("REGISTRY_ADDRS"),
    key!("anycast.enable_dht", anycast.enable_dht),
    key!("anycast.dht_mode", anycast.dht_mode),
    key!("metrics.enabled", metrics.enabled),
    key!("metrics.listen", metrics.listen).variable("METRICS_LISTEN"),
    key!("mcp.enabled", mcp.enabled),
    key!("mcp.listen", mcp.listen).variable("MCP_LISTEN").flag("mcp-listen", "ADDR", "Turn on MCP over HTTP at HOST:PORT (not available yet)").enabling("mcp.enabled"),
    key!("mcp.stdio", mcp.stdio).only_flag().flag("mcp", "", "Turn on MCP on standard input and output (not available yet)"),
    key!("mcp.proxy", mcp.proxy).only_flag().flag("mcp-proxy", "TARGET", "Turn on the MCP proxy (not available yet)"),
    key!("anp.enabled", anp.enabled).variable("ANP_ENABLED"),
    key!("anp.listen", anp.listen).variable("ANP_LISTEN").flag("anp-listen", "ADDR", "Turn on the ANP bridge at HOST:PORT (not available yet)").enabling("anp.enabled"),
    key!("identity.did_web", identity.did_web).variable("DID_WEB"),
    key!("identity.did_dns_domain", identity.did_dns_domain).variable("DID_DNS_DOMAIN"),
    key!("telemetry.enabled", telemetry.enabled).variable("TELEMETRY_ENABLED"),
    key!("telemetry.otlp_endpoint", telemetry.otlp_endpoint).variable("OTLP_ENDPOINT").flag("otlp-endpoint", "URL", "Turn on tracing to an OTLP collector (not available yet)").enabling("telemetry.enabled"),
    key!("telemetry.sample_rate", telemetry.sample_rate).variable("SAMPLE_RATE"),
    key!("telemetry.insecure", telemetry.insecure),
    key!("transport.nats.enabled", nats.enabled).variable("NATS_ENABLED"),
    key!("transport.nats.broker", nats.broker).variable("NATS_BROKER").flag("nats-broker", "URL", "Turn on the NATS transport (not available yet)").enabling("transport.nats.enabled"),
    key!("transport.nats.subject_prefix", nats.subject_prefix).variable("NATS_SUBJECT_PREFIX"),
    key!("transport.nats.auth_user", nats.auth_user),
    key!("transport.nats.auth_pass", nats.auth_pass).secret(),
    key!("transport.nats.tls_enabled", nats.tls_enabled),
    key!("transport.nats.tls_cert_file", nats.tls_cert_file),
    key!("transport.nats.tls_key_file", nats.tls_key_file),
    key!("policy.audit_log_path", policy.audit_log_path),
    key!("policy.acl", policy.acl),
    key!("policy.rate_limit.default_rps", policy.default_rps),
    key!("policy.rate_limit.overrides", policy.overrides),
];
