//! The table of every setting: its name in TOML, its flag, its variable, and the field it fills.
//!
//! The rule: a setting is one line here, one field in `Config`, and nothing else. Those of the bridge are in its crate.

use agentanycast_program::{key, settings};

use super::Config;

/// A setting of the node.
pub(super) type Key = settings::Key<Config>;

/// The setting of that name.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    settings::find(KEYS, name)
}

#[rustfmt::skip] // A table.
const OWN: &[Key] = &[
    key!(Config, "key_path", key_path).variable("KEY_PATH").flag("key", "FILE", "The node's key; made if it is missing"),
    key!(Config, "listen_addrs", listen_addrs).flag("listen", "ADDRS", "Multiaddrs to listen on, comma list"),
    key!(Config, "grpc_listen", grpc_listen).variable("GRPC_LISTEN").flag("grpc-listen", "URL", "Where agents connect: unix://PATH or tcp://HOST:PORT"),
    key!(Config, "grpc_token_file", grpc.token_file).flag("grpc-token-file", "FILE", "Callers must send this file's content as Bearer token"),
    key!(Config, "grpc_tls_cert", grpc.tls_cert).flag("grpc-tls-cert", "FILE", "Certificate chain (PEM) of a tcp:// gRPC address"),
    key!(Config, "grpc_tls_key", grpc.tls_key).flag("grpc-tls-key", "FILE", "Private key (PEM) of --grpc-tls-cert"),
    key!(Config, "grpc_allow_remote", grpc.allow_remote).flag("grpc-allow-remote", "", "Listen beyond loopback without token and TLS"),
    key!(Config, "bootstrap_peers", bootstrap_peers).variable("BOOTSTRAP_PEERS").flag("bootstrap-peers", "ADDRS", "Multiaddrs of peers to keep connected to, comma list"),
    key!(Config, "wss_ca_file", wss_ca_file).variable("WSS_CA_FILE").flag("wss-ca-file", "FILE", "Certificate authorities (PEM) of wss addresses, besides those of the web"),
    key!(Config, "enable_relay_client", enable_relay_client),
    key!(Config, "enable_hole_punching", enable_hole_punching),
    key!(Config, "enable_upnp", enable_upnp),
    key!(Config, "enable_quic", enable_quic),
    key!(Config, "enable_webtransport", enable_webtransport).flag("enable-webtransport", "", "Not available"),
    key!(Config, "enable_mdns", enable_mdns).variable("ENABLE_MDNS"),
    key!(Config, "store_path", store_path).variable("STORE_PATH").flag("store-path", "DIR", "Directory of tasks, cards and artifacts"),
    key!(Config, "offline_queue_ttl", offline_queue_ttl),
    key!(Config, "log_level", log_level).variable("LOG_LEVEL").flag("log-level", "LEVEL", "error, warn, info, debug or trace"),
    key!(Config, "log_format", log_format),
    key!(Config, "log_file", log_file).variable("LOG_FILE").flag("log-file", "FILE", "Write the log to this file instead of standard error, at most 64 MiB with the files before it"),
    key!(Config, "agent_grace", agent_grace),
    key!(Config, "max_agent_ends", max_agent_ends),
    key!(Config, "max_task_time", max_task_time),
    key!(Config, "task_retention", task_retention),
    key!(Config, "task_retention_count", task_retention_count),
    key!(Config, "store_quota", store_quota),
    key!(Config, "max_artifact_bytes", max_artifact_bytes),
    key!(Config, "max_open_tasks", max_open_tasks),
    key!(Config, "retry_delays", retry_delays),
    key!(Config, "transport", transport).only_flag().flag("transport", "NAME", "auto or libp2p"),
    key!(Config, "namespace", namespace).only_flag().flag("namespace", "NAME", "default"),
    key!(Config, "bridge.enabled", bridge.enabled),
    key!(Config, "bridge.outbound", bridge.outbound),
    key!(Config, "anycast.routing_strategy", anycast.routing_strategy),
    key!(Config, "anycast.cache_ttl", anycast.cache_ttl),
    key!(Config, "anycast.auto_register", anycast.auto_register),
    key!(Config, "anycast.registry_addr", anycast.registry_addr),
    key!(Config, "anycast.registry_addrs", anycast.registry_addrs).variable("REGISTRY_ADDRS"),
    key!(Config, "anycast.enable_dht", anycast.enable_dht),
    key!(Config, "anycast.dht_mode", anycast.dht_mode),
    key!(Config, "metrics.enabled", metrics.enabled),
    key!(Config, "metrics.listen", metrics.listen).variable("METRICS_LISTEN").flag("metrics-listen", "ADDR", "Show metrics, health and readiness over HTTP at HOST:PORT").enabling("metrics.enabled"),
    key!(Config, "mcp.enabled", mcp.enabled),
    key!(Config, "mcp.listen", mcp.listen).variable("MCP_LISTEN").flag("mcp-listen", "ADDR", "Turn on MCP over HTTP at HOST:PORT; who may call is as for the bridge").enabling("mcp.enabled"),
    key!(Config, "mcp.stdio", mcp.stdio).only_flag().flag("mcp", "", "Serve MCP on standard input and output too; the start-up lines go to standard error, and the end of the input ends the daemon"),
    key!(Config, "mcp.proxy", mcp.proxy).only_flag().flag("mcp-proxy", "TARGET", "Turn on the MCP proxy (not available yet)").value_optional(),
    key!(Config, "anp.enabled", anp.enabled).variable("ANP_ENABLED"),
    key!(Config, "anp.listen", anp.listen).variable("ANP_LISTEN").flag("anp-listen", "ADDR", "Turn on the ANP bridge at HOST:PORT (not available yet)").enabling("anp.enabled"),
    key!(Config, "identity.did_web", identity.did_web).variable("DID_WEB").flag("did-web", "DID", "The did:web of this node, whose document its bridge has"),
    key!(Config, "identity.did_dns_domain", identity.did_dns_domain).variable("DID_DNS_DOMAIN").flag("did-dns", "DOMAIN", "The domain whose TXT records name this node's key (did:dns)"),
    key!(Config, "identity.credentials", identity.credentials),
    key!(Config, "identity.cache_ttl", identity.cache_ttl),
    key!(Config, "identity.name_server", identity.name_server),
    key!(Config, "telemetry.enabled", telemetry.enabled).variable("TELEMETRY_ENABLED"),
    key!(Config, "telemetry.otlp_endpoint", telemetry.otlp_endpoint).variable("OTLP_ENDPOINT").flag("otlp-endpoint", "URL", "Send traces to an OpenTelemetry collector, HOST:PORT or http(s)://HOST:PORT").enabling("telemetry.enabled"),
    key!(Config, "telemetry.sample_rate", telemetry.sample_rate).variable("SAMPLE_RATE"),
    key!(Config, "telemetry.insecure", telemetry.insecure),
    key!(Config, "transport.nats.enabled", nats.enabled).variable("NATS_ENABLED"),
    key!(Config, "transport.nats.broker", nats.broker).variable("NATS_BROKER").flag("nats-broker", "URL", "Turn on the NATS transport (not available yet)").enabling("transport.nats.enabled"),
    key!(Config, "transport.nats.subject_prefix", nats.subject_prefix).variable("NATS_SUBJECT_PREFIX"),
    key!(Config, "transport.nats.auth_user", nats.auth_user),
    key!(Config, "transport.nats.auth_pass", nats.auth_pass).secret(),
    key!(Config, "transport.nats.tls_enabled", nats.tls_enabled),
    key!(Config, "transport.nats.tls_cert_file", nats.tls_cert_file),
    key!(Config, "transport.nats.tls_key_file", nats.tls_key_file),
    key!(Config, "policy.audit_log_path", policy.audit_log_path),
    key!(Config, "policy.audit_chain", policy.audit_chain),
    key!(Config, "policy.audit_sync", policy.audit_sync),
    key!(Config, "policy.audit_required", policy.audit_required).only_with("policy.audit_log_path"),
    key!(Config, "policy.acl", policy.acl),
    key!(Config, "policy.groups", policy.groups),
    key!(Config, "policy.trust", policy.trust),
    key!(Config, "policy.trusted_peers", policy.trusted_peers),
    key!(Config, "policy.trusted_issuers", policy.trusted_issuers),
    key!(Config, "policy.rate_limit.default_rps", policy.default_rps),
    key!(Config, "policy.rate_limit.max_in_flight", policy.max_in_flight),
    key!(Config, "policy.rate_limit.max_bytes", policy.max_bytes),
    key!(Config, "policy.rate_limit.overrides", policy.overrides),
];

const BRIDGE: &[Key] = agentanycast_bridge::settings_table!(
    Config,
    bridge.front,
    "bridge.",
    "bridge-",
    "BRIDGE_",
    "bridge.enabled"
);

static JOINED: [Key; OWN.len() + BRIDGE.len()] = settings::join(&[OWN, BRIDGE]);

/// All of them.
pub(super) static KEYS: &[Key] = &JOINED;
