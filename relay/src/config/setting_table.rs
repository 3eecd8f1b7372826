//! The table of every setting: its name in TOML, its flag, its variable, and the field it fills.
//!
//! The rule: a setting is one line here, one field in `Config`, and nothing else.

use std::time::Duration;

use agentanycast_daemon_kit::{
    key,
    settings::{self, Bounds},
};

use super::Config;

const COUNT: Bounds = Bounds::Numbers(1, u32::MAX as u64);

/// Entries in a table.
const ENTRIES: Bounds = Bounds::Numbers(1, 1 << 24);

/// Life of an entry: heartbeats come three times in it, and tombstones live ten times as long.
const TTL: Bounds = Bounds::Times(Duration::from_secs(1), Duration::from_hours(24));

/// Life of a circuit: one of 0 would end at once.
const CIRCUIT: Bounds = Bounds::Times(Duration::from_secs(1), Duration::MAX);

/// What an entry takes at least.
const ENTRY_BYTES: Bounds = Bounds::Sizes(4096, u64::MAX);

/// Each other relay has a task and a connection.
const RELAYS: Bounds = Bounds::Items(0, 64);

/// A setting of the relay.
pub(super) type RelaySettingKey = settings::SettingKey<Config>;

#[rustfmt::skip] // A table.
pub(super) static KEYS: &[RelaySettingKey] = &[
    key!(Config, "listen", listen).variable("LISTEN").flag("listen", "ADDRS", "Multiaddrs to listen on, comma list; QUIC is added on the same port number"),
    key!(Config, "announce", announce).variable("ANNOUNCE").flag("announce", "ADDRS", "Multiaddrs that peers are told instead, comma list"),
    key!(Config, "key", key).variable("KEY").flag("key", "FILE", "The relay's key, made if it is missing; without it a new identity at each start"),
    key!(Config, "max_reservations", max_reservations).variable("MAX_RESERVATIONS").flag("max-reservations", "N", "Most reservations at once").bounds(COUNT),
    key!(Config, "max_reservations_per_ip", max_reservations_per_ip).variable("MAX_RESERVATIONS_PER_IP").flag("max-reservations-per-ip", "N", "Most reservations of one address at once; half of all unless set").bounds(COUNT),
    key!(Config, "max_circuits", max_circuits).variable("MAX_CIRCUITS").flag("max-circuits", "N", "Most circuits at once").bounds(COUNT),
    key!(Config, "max_circuits_per_peer", max_circuits_per_peer).variable("MAX_CIRCUITS_PER_PEER").flag("max-circuits-per-peer", "N", "Most circuits of one peer at once").bounds(COUNT),
    key!(Config, "max_circuits_per_ip", max_circuits_per_ip).variable("MAX_CIRCUITS_PER_IP").flag("max-circuits-per-ip", "N", "Most circuits that one address has asked for at once; a quarter of all unless set").bounds(COUNT),
    key!(Config, "circuit_duration", circuit_duration).variable("CIRCUIT_DURATION").flag("circuit-duration", "TIME", "Longest life of a circuit").bounds(CIRCUIT),
    key!(Config, "circuit_bytes", circuit_bytes).variable("CIRCUIT_BYTES").flag("circuit-bytes", "SIZE", "Most bytes that a circuit carries, both ways together").bounds(Bounds::Sizes(1, u64::MAX)),
    key!(Config, "reservations_per_ip", reservations_per_ip).variable("RESERVATIONS_PER_IP").flag("reservations-per-ip", "N", "Reservations of one address in an hour").bounds(COUNT),
    key!(Config, "circuits_per_ip", circuits_per_ip).variable("CIRCUITS_PER_IP").flag("circuits-per-ip", "N", "Circuits of one address in an hour").bounds(COUNT),
    key!(Config, "max_connections", max_connections).variable("MAX_CONNECTIONS").flag("max-connections", "N", "Most connections of peers at once").bounds(COUNT),
    key!(Config, "connections_per_ip", connections_per_ip).variable("CONNECTIONS_PER_IP").flag("connections-per-ip", "N", "Most connections of one address at once").bounds(COUNT),
    key!(Config, "registry_listen", registry_listen).variable("REGISTRY_LISTEN").flag("registry-listen", "ADDR", "Where the registry is, HOST:PORT or :PORT"),
    key!(Config, "announce_registry", announce_registry).variable("ANNOUNCE_REGISTRY").flag("announce-registry", "ADDR", "Registry that nodes are told, HOST:PORT or https://HOST:PORT; its port unless set"),
    key!(Config, "registry_ttl", registry_ttl).variable("REGISTRY_TTL").flag("registry-ttl", "TIME", "How long a registration lives without a heartbeat").bounds(TTL),
    key!(Config, "registry_auth", registry_auth).variable("REGISTRY_AUTH").flag("registry-auth", "MODE", "open, or signed to take only what the peer has signed"),
    key!(Config, "registry_entries", registry_entries).variable("REGISTRY_ENTRIES").flag("registry-entries", "N", "Most entries that are registered here").bounds(ENTRIES),
    key!(Config, "federated_entries", federated_entries).variable("FEDERATED_ENTRIES").flag("federated-entries", "N", "Most entries of other relays").bounds(ENTRIES),
    key!(Config, "entries_per_ip", entries_per_ip).variable("ENTRIES_PER_IP").flag("entries-per-ip", "N", "Most entries of one address without signature, and as many with").bounds(ENTRIES),
    key!(Config, "entry_bytes_per_ip", entry_bytes_per_ip).variable("ENTRY_BYTES_PER_IP").flag("entry-bytes-per-ip", "SIZE", "Most bytes of those").bounds(ENTRY_BYTES),
    key!(Config, "requests_per_ip", requests_per_ip).variable("REQUESTS_PER_IP").flag("requests-per-ip", "N", "Requests a second of one address, 0 for any").bounds(Bounds::Numbers(0, 1_000_000)),
    key!(Config, "store", store).variable("STORE").flag("store", "DIR", "Directory that keeps the registry over a restart"),
    key!(Config, "federation_peers", federation_peers).variable("FEDERATION_PEERS").flag("federation-peers", "ADDRS", "Registries of other relays, HOST:PORT, comma list").bounds(RELAYS),
    key!(Config, "federation_sync_interval", federation_sync_interval).variable("FEDERATION_SYNC_INTERVAL").flag("federation-sync-interval", "TIME", "How often they are asked what is new").bounds(Bounds::Times(Duration::from_millis(100), Duration::MAX)),
    key!(Config, "metrics_listen", metrics_listen).variable("METRICS_LISTEN").flag("metrics-listen", "ADDR", "Where health and metrics are; empty for nowhere"),
    key!(Config, "api_listen", api_listen).variable("API_LISTEN").flag("api-listen", "ADDR", "Where the directory and the dashboard are; empty for nowhere"),
    key!(Config, "api_cors_origins", api_cors_origins).variable("API_CORS_ORIGINS").flag("api-cors-origins", "ORIGINS", "Origins that browsers may call the directory from, comma list"),
    key!(Config, "mcp_listen", mcp_listen).variable("MCP_LISTEN").flag("mcp-listen", "ADDR", "Where the directory is served as tools of MCP, at /mcp; empty for nowhere"),
    key!(Config, "otlp_endpoint", otlp_endpoint).variable("OTLP_ENDPOINT").flag("otlp-endpoint", "URL", "Send traces of calls to an OpenTelemetry collector, HOST:PORT or http(s)://HOST:PORT"),
    key!(Config, "otlp_sample_rate", otlp_sample_rate).variable("OTLP_SAMPLE_RATE").flag("otlp-sample-rate", "SHARE", "Of the traces that begin here, the share that is sent, 0 to 1"),
    key!(Config, "enable_webtransport", enable_webtransport).variable("ENABLE_WEBTRANSPORT").flag("enable-webtransport", "", "Not available"),
    key!(Config, "log_level", log_level).variable("LOG_LEVEL").flag("log-level", "LEVEL", "error, warn, info, debug or trace"),
    key!(Config, "log_format", log_format).variable("LOG_FORMAT").flag("log-format", "FORMAT", "json or text"),
];
