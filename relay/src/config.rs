//! What the relay is told: flags over environment over file over defaults, checked before anything is bound.
//!
//! The layers are those of all our daemons (`agentanycast_daemon_kit::settings`, pure); here are what the relay adds:
//! `setting_table`, the table of all settings, and `check`, which knows what goes together.

mod check;
mod setting_table;

use std::{
    ffi::OsString,
    net::{Ipv4Addr, Ipv6Addr},
    path::{Path, PathBuf},
    time::Duration,
};

use agentanycast_daemon_kit::{
    settings::{self, ByteSize, ConfigError, ListenOn, LogFormat, LogLevel, Program, Share, ValueSource},
    words,
};
use libp2p::{Multiaddr, multiaddr::Protocol};

/// What all environment variables begin with.
pub const ENVIRONMENT_PREFIX: &str = "AGENTANYCAST_RELAY_";

words! {
    /// Who may register.
    RegistryAuth {
        /// Everybody; what is signed comes first and is protected.
        Open = "open",
        /// Only peers that sign.
        Signed = "signed",
    }
}

/// Every setting. The names are those of the TOML file.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where to listen for peers, TCP or WebSocket; QUIC is added on the port number of each TCP address. Default:
    /// `/ip4/0.0.0.0/tcp/4001` and `/ip6/::/tcp/4001`. A family that the host lacks is left out.
    pub listen: Vec<Multiaddr>,
    /// What peers are told instead, such as the address of the firewall in front. Default: what is listened on.
    pub announce: Vec<Multiaddr>,
    /// The key file; none: a new identity at each start. Default: none.
    pub key: Option<PathBuf>,
    /// Most reservations at once. Default: 128.
    pub max_reservations: u64,
    /// Most reservations of one address at once. Default: half of `max_reservations`.
    pub max_reservations_per_ip: u64,
    /// Most circuits at once. Default: 1024.
    pub max_circuits: u64,
    /// Most circuits of one peer at once. Default: 16.
    pub max_circuits_per_peer: u64,
    /// Most circuits that one address has asked for at once. Default: a quarter of `max_circuits`.
    pub max_circuits_per_ip: u64,
    /// Longest life of a circuit. Default: 1 h.
    pub circuit_duration: Duration,
    /// Most bytes of a circuit, both ways together. Default: 1 GiB.
    pub circuit_bytes: ByteSize,
    /// Reservations that one address may make in an hour. Default: 256.
    pub reservations_per_ip: u64,
    /// Circuits that one address may open in an hour. Default: 1024.
    pub circuits_per_ip: u64,
    /// Most connections of peers at once. Default: 16 384.
    pub max_connections: u64,
    /// Most connections of one address at once, which may stand for a site of many nodes. Default: 1024.
    pub connections_per_ip: u64,
    /// Where the registry is, for agents and relays. Default: `:50052`.
    pub registry_listen: ListenOn,
    /// Where nodes are told that the registry is, `HOST:PORT` or `http(s)://HOST:PORT`. Default: its port, at the host
    /// where they dial the relay.
    pub announce_registry: String,
    /// How long a registration lives without a heartbeat. Default: 30 s.
    pub registry_ttl: Duration,
    /// Who may register. Default: open.
    pub registry_auth: RegistryAuth,
    /// Most entries that are registered here. Default: 65 536.
    pub registry_entries: u64,
    /// Most entries of other relays. Default: 65 536.
    pub federated_entries: u64,
    /// Most entries of one address without signature, and as many with. Default: 1024.
    pub entries_per_ip: u64,
    /// Most bytes of those. Default: 8 MiB.
    pub entry_bytes_per_ip: ByteSize,
    /// Requests a second that one address may make, in bursts of ten seconds' worth; 0 for any. Default: 1000.
    pub requests_per_ip: u64,
    /// Directory that keeps the registry over a restart. Default: none.
    pub store: Option<PathBuf>,
    /// Other relays, `HOST:PORT` of their registry. Default: none.
    pub federation_peers: Vec<String>,
    /// How often they are asked what is new. Default: 10 s.
    pub federation_sync_interval: Duration,
    /// Where health and metrics are; empty for nowhere. Default: `:9090`.
    pub metrics_listen: ListenOn,
    /// Where the REST directory and the dashboard are; empty for nowhere. Default: `:8081`.
    pub api_listen: ListenOn,
    /// Origins that browsers may call the directory from. Default: none.
    pub api_cors_origins: Vec<String>,
    /// Where the directory is served as tools of MCP, at `/mcp`; empty for nowhere. Default: nowhere.
    pub mcp_listen: ListenOn,
    /// The collector that is told of calls to the registry, `HOST:PORT` or `http(s)://HOST:PORT`. Default: none.
    pub otlp_endpoint: String,
    /// Share of the traces that begin here that is sent, 0 to 1; others are sent as who began them says. Default: 1.
    pub otlp_sample_rate: Share,
    /// Not available. Default: false.
    pub enable_webtransport: bool,
    /// How much is logged. Default: info.
    pub log_level: LogLevel,
    /// How log lines look. Default: json.
    pub log_format: LogFormat,
}

/// What the command line asks for.
pub type RelayLoadOutcome = settings::LoadOutcome<Config>;

/// The relay to its settings.
pub(crate) static PROGRAM: Program<Config> = Program {
    name: "agentanycast-relay",
    version: env!("CARGO_PKG_VERSION"),
    about: "The AgentAnycast relay: makes agents behind NAT reachable, and finds them by skill",
    prefix: ENVIRONMENT_PREFIX,
    foreign: &[],
    file: None,
    keys: setting_table::KEYS,
    defaults: Config::defaults,
    settle: |config, sources| {
        if sources.of("max_reservations_per_ip") == ValueSource::Default {
            config.max_reservations_per_ip = config.max_reservations.div_ceil(2);
        }
        if sources.of("max_circuits_per_ip") == ValueSource::Default {
            config.max_circuits_per_ip = config.max_circuits.div_ceil(4);
        }
    },
    check: check::check,
};

/// The configuration from the arguments, environment, files and home directory of this process.
pub fn load_from_process(args: impl Iterator<Item = OsString>) -> Result<RelayLoadOutcome, ConfigError> {
    settings::load_from_process(&PROGRAM, args)
}

impl Config {
    /// The defaults.
    pub fn defaults(_: Option<&Path>) -> Self {
        let on = |text: &str| ListenOn(text.to_owned());
        Self {
            listen: [
                Protocol::Ip4(Ipv4Addr::UNSPECIFIED),
                Protocol::Ip6(Ipv6Addr::UNSPECIFIED),
            ]
            .map(|any| Multiaddr::from(any).with(Protocol::Tcp(4001)))
            .to_vec(),
            announce: Vec::new(),
            key: None,
            max_reservations: 128,
            max_reservations_per_ip: 64,
            max_circuits: 1024,
            max_circuits_per_peer: 16,
            max_circuits_per_ip: 256,
            circuit_duration: Duration::from_hours(1),
            circuit_bytes: ByteSize(1 << 30),
            reservations_per_ip: 256,
            circuits_per_ip: 1024,
            max_connections: 16_384,
            connections_per_ip: 1024,
            registry_listen: on(":50052"),
            announce_registry: String::new(),
            registry_ttl: Duration::from_secs(30),
            registry_auth: RegistryAuth::Open,
            registry_entries: 65_536,
            federated_entries: 65_536,
            entries_per_ip: 1024,
            entry_bytes_per_ip: ByteSize(8 << 20),
            requests_per_ip: 1000,
            store: None,
            federation_peers: Vec::new(),
            federation_sync_interval: Duration::from_secs(10),
            metrics_listen: on(":9090"),
            api_listen: on(":8081"),
            api_cors_origins: Vec::new(),
            mcp_listen: on(""),
            otlp_endpoint: String::new(),
            otlp_sample_rate: Share::default(),
            enable_webtransport: false,
            log_level: LogLevel::Info,
            log_format: LogFormat::Json,
        }
    }
}

#[cfg(test)]
mod tests;
