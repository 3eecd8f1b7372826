//! What the node is told: flags over environment over file over defaults, checked before anything is bound.
//!
//! PURE: the arguments, the environment and the file come in as arguments of [`load`]. `keys` is the table
//! of all settings, `setting` reads and shows one value, `flags` and `file` are the layers, `check` knows
//! what goes together and what is not built yet.

mod check;
mod error;
mod file;
mod flags;
mod grpc;
mod keys;
mod rules;
mod setting;
mod show;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    time::Duration,
};

use libp2p::{Multiaddr, multiaddr::Protocol};

pub use error::{ConfigError, Source};
pub use file::read_file;
pub use grpc::{GrpcAccess, GrpcListen};
pub use rules::{AclRule, RateOverride};
pub use setting::{ByteSize, DhtMode, ListenOn, LogFormat, LogLevel};

use keys::KEYS;
use setting::{Raw, expand};

/// The process's exit code for a [`ConfigError`].
pub const EXIT_CODE: u8 = 2;

/// What all environment variables begin with.
pub const ENVIRONMENT_PREFIX: &str = "AGENTANYCAST_";

/// Every setting. The names are those of the TOML file; a nested struct is a TOML table of its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The node's key file. Default: `~/.agentanycast/key`.
    pub key_path: PathBuf,
    /// Where the node listens for peers. Default: TCP and QUIC on a free port of all IPv4 addresses.
    pub listen_addrs: Vec<Multiaddr>,
    /// Where agents connect. Default: `unix://~/.agentanycast/daemon.sock`.
    pub grpc_listen: GrpcListen,
    /// `grpc_token_file`, `grpc_tls_cert`, `grpc_tls_key`, `grpc_allow_remote`: who may call from elsewhere.
    pub grpc: GrpcAccess,
    /// Peers to stay connected to, redialled for ever. Default: none.
    pub bootstrap_peers: Vec<Multiaddr>,
    /// Reserve a place on relays among the bootstrap peers. Default: true.
    pub enable_relay_client: bool,
    /// Turn relayed connections into direct ones where possible. Default: true.
    pub enable_hole_punching: bool,
    /// Dial and listen with QUIC. Default: true.
    pub enable_quic: bool,
    /// Not available. Default: false.
    pub enable_webtransport: bool,
    /// Find peers on the local network. Default: true.
    pub enable_mdns: bool,
    /// Directory of tasks, cards and artifacts. Default: `~/.agentanycast/data`.
    pub store_path: PathBuf,
    /// How long a message waits for its peer; `None` (written "0") for ever. Default: 24 h.
    pub offline_queue_ttl: Option<Duration>,
    /// How much is logged. Default: info.
    pub log_level: LogLevel,
    /// How log lines look. Default: json.
    pub log_format: LogFormat,
    /// How long a claimed task outlives its last agent's connection. Default: 5 min.
    pub agent_grace: Duration,
    /// How long a finished task is kept. Default: 7 days.
    pub task_retention: Duration,
    /// How many finished tasks are kept, the newest. Default: 100 000.
    pub task_retention_count: u64,
    /// Bytes that messages and artifacts may take in the store. Default: 10 GiB.
    pub store_quota: ByteSize,
    /// Largest artifact that becomes part of a task; larger ones are streamed only. Default: 64 MiB.
    pub max_artifact_bytes: ByteSize,
    /// How many tasks may be unfinished at once. Default: 100 000.
    pub max_open_tasks: u64,
    /// Waits for an ACK before a message is sent again; after the last it is parked. Default: 2 s, 4 s, 8 s.
    pub retry_delays: Vec<Duration>,
    /// Flag only: `auto` or `libp2p`. Default: auto.
    pub transport: String,
    /// Flag only: `default`. Default: default.
    pub namespace: String,
    /// The A2A bridge. Not built yet.
    pub bridge: Bridge,
    /// Finding agents by skill. Registries and the DHT are not built yet.
    pub anycast: Anycast,
    /// The metrics listener. Not built yet.
    pub metrics: Listener,
    /// MCP. Not built yet.
    pub mcp: Mcp,
    /// The ANP bridge. Not built yet.
    pub anp: Listener,
    /// Identifiers besides did:key. Not built yet.
    pub identity: Identity,
    /// Tracing to a collector. Not built yet.
    pub telemetry: Telemetry,
    /// `[transport.nats]`. Not built yet.
    pub nats: Nats,
    /// `[policy]`. Not built yet.
    pub policy: Policy,
}

/// A feature that listens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listener {
    /// Default: false.
    pub enabled: bool,
    /// Default: nowhere.
    pub listen: ListenOn,
}

/// `[bridge]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bridge {
    /// Default: false.
    pub enabled: bool,
    /// Default: nowhere.
    pub listen: ListenOn,
    /// Certificate chain (PEM). Default: none.
    pub tls_cert: Option<PathBuf>,
    /// Private key (PEM). Default: none.
    pub tls_key: Option<PathBuf>,
    /// Origins that browsers may call from. Default: none.
    pub cors_origins: Vec<String>,
}

/// `[anycast]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anycast {
    /// How one of several agents is chosen. Default: random.
    pub routing_strategy: String,
    /// How long an answer is believed. Default: 30 s.
    pub cache_ttl: Duration,
    /// Tell registries about the own card; idle while there is none. Default: true.
    pub auto_register: bool,
    /// A registry, `HOST:PORT`. Default: none.
    pub registry_addr: String,
    /// More registries. Default: none.
    pub registry_addrs: Vec<String>,
    /// Find agents in the DHT. Default: false.
    pub enable_dht: bool,
    /// Default: auto.
    pub dht_mode: DhtMode,
}

/// `[mcp]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mcp {
    /// Over HTTP. Default: false.
    pub enabled: bool,
    /// Default: nowhere.
    pub listen: ListenOn,
    /// Flag `--mcp`: on standard input and output. Default: false.
    pub stdio: bool,
    /// Flag `--mcp-proxy`. Default: none.
    pub proxy: String,
}

/// `[identity]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Default: none.
    pub did_web: String,
    /// Default: none.
    pub did_dns_domain: String,
}

/// `[telemetry]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Telemetry {
    /// Default: false.
    pub enabled: bool,
    /// Default: none.
    pub otlp_endpoint: String,
    /// Share of traces that is sent, 0 to 1. Default: 1.
    pub sample_rate: f64,
    /// Without TLS. Default: false.
    pub insecure: bool,
}

/// `[transport.nats]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nats {
    /// Default: false.
    pub enabled: bool,
    /// Default: none.
    pub broker: String,
    /// Default: agentanycast.
    pub subject_prefix: String,
    /// Default: none.
    pub auth_user: String,
    /// Never shown. Default: none.
    pub auth_pass: String,
    /// Default: false.
    pub tls_enabled: bool,
    /// Default: none.
    pub tls_cert_file: Option<PathBuf>,
    /// Default: none.
    pub tls_key_file: Option<PathBuf>,
}

/// `[policy]` and `[policy.rate_limit]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// Default: none.
    pub audit_log_path: Option<PathBuf>,
    /// `[[policy.acl]]`. Default: none.
    pub acl: Vec<AclRule>,
    /// `rate_limit.default_rps`: requests per second and peer, 0 for no limit. Default: 0.
    pub default_rps: f64,
    /// `[[policy.rate_limit.overrides]]`. Default: none.
    pub overrides: Vec<RateOverride>,
}

/// Where each value came from: the names of settings that are not defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources(BTreeMap<&'static str, Source>);

impl Sources {
    /// Where the setting of this TOML name came from.
    pub fn of(&self, name: &str) -> Source {
        self.0.get(name).cloned().unwrap_or(Source::Default)
    }
}

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Loaded {
    /// To run the node.
    Run {
        /// The settings, checked.
        config: Box<Config>,
        /// Where they came from.
        sources: Sources,
    },
    /// To print this text, every setting with its source, and end.
    PrintConfig(String),
    /// To print this text, the version, and end.
    Version(String),
    /// To print this text, the usage, and end.
    Help(String),
}

/// One value in a layer: the setting, what it is to be, and who says so.
struct Entry {
    key: &'static keys::Key,
    raw: Raw,
    origin: Source,
}

/// Reads the configuration from all layers and checks it.
///
/// `args` begins with the program's name, as [`std::env::args_os`] does. `env` looks up a variable by its
/// whole name; an empty one counts as not set. `read_file` is called once at most. `home` stands for `~`.
pub fn load(
    args: impl Iterator<Item = OsString>,
    env: impl Fn(&str) -> Option<String>,
    read_file: impl Fn(&Path) -> io::Result<String>,
    home: Option<&Path>,
) -> Result<Loaded, ConfigError> {
    let flags = match flags::parse(args)? {
        flags::Parsed::Run(flags) => flags,
        flags::Parsed::Version(text) => return Ok(Loaded::Version(text)),
        flags::Parsed::Help(text) => return Ok(Loaded::Help(text)),
    };
    let mut entries = file::layer(flags.config.as_deref(), home, read_file)?;
    entries.extend(environment(env));
    entries.extend(flags.entries);

    let mut config = Config::defaults(home);
    let mut sources = Sources::default();
    for Entry { key, raw, origin } in entries {
        (key.set)(&mut config, &raw, home).map_err(|refusal| ConfigError::BadValue {
            key: key.name.to_owned(),
            value: if key.secret {
                show::STARS.to_owned()
            } else {
                error::quoted(&refusal.value)
            },
            origin: origin.clone(),
            allowed: refusal.allowed,
        })?;
        sources.0.insert(key.name, origin);
    }
    if !config.enable_quic && sources.of("listen_addrs") == Source::Default {
        config.listen_addrs.retain(|address| !uses_quic(address));
    }
    if flags.print_config {
        return Ok(Loaded::PrintConfig(show::text(&config, &sources)));
    }
    check::check(&config, &sources)?;
    Ok(Loaded::Run {
        config: Box::new(config),
        sources,
    })
}

/// [`load`] with the arguments, environment, files and home directory of this process.
pub fn load_from_process(args: impl Iterator<Item = OsString>) -> Result<Loaded, ConfigError> {
    let variable = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    load(args, variable, read_file, std::env::home_dir().as_deref())
}

fn environment(env: impl Fn(&str) -> Option<String>) -> Vec<Entry> {
    let entry = |key: &'static keys::Key| {
        let name = format!("{ENVIRONMENT_PREFIX}{}", key.variable?);
        let value = env(&name).filter(|value| !value.is_empty())?;
        Some(Entry {
            key,
            raw: Raw::Word(value),
            origin: Source::Environment(name),
        })
    };
    KEYS.iter().filter_map(entry).collect()
}

impl Config {
    /// The defaults, with `home` for `~`; without one the paths keep their `~`, which no check lets pass.
    pub fn defaults(home: Option<&Path>) -> Self {
        let at_home = |text: &str| expand(text, home).unwrap_or_default();
        Self {
            key_path: at_home("~/.agentanycast/key"),
            listen_addrs: default_listen_addrs(),
            grpc_listen: GrpcListen::Unix(at_home("~/.agentanycast/daemon.sock")),
            grpc: GrpcAccess::default(),
            bootstrap_peers: Vec::new(),
            enable_relay_client: true,
            enable_hole_punching: true,
            enable_quic: true,
            enable_webtransport: false,
            enable_mdns: true,
            store_path: at_home("~/.agentanycast/data"),
            offline_queue_ttl: Some(Duration::from_hours(24)),
            log_level: LogLevel::Info,
            log_format: LogFormat::Json,
            agent_grace: Duration::from_mins(5),
            task_retention: Duration::from_hours(7 * 24),
            task_retention_count: 100_000,
            store_quota: ByteSize(10 << 30),
            max_artifact_bytes: ByteSize(64 << 20),
            max_open_tasks: 100_000,
            retry_delays: [2, 4, 8].map(Duration::from_secs).to_vec(),
            transport: "auto".into(),
            namespace: "default".into(),
            bridge: Bridge::default(),
            anycast: Anycast::default(),
            metrics: Listener::default(),
            mcp: Mcp::default(),
            anp: Listener::default(),
            identity: Identity::default(),
            telemetry: Telemetry {
                sample_rate: 1.0,
                ..Telemetry::default()
            },
            nats: Nats {
                subject_prefix: "agentanycast".into(),
                ..Nats::default()
            },
            policy: Policy::default(),
        }
    }
}

fn uses_quic(address: &Multiaddr) -> bool {
    address.iter().any(|part| part == Protocol::QuicV1)
}

/// `/ip4/0.0.0.0/tcp/0` and `/ip4/0.0.0.0/udp/0/quic-v1`.
fn default_listen_addrs() -> Vec<Multiaddr> {
    let any = || Multiaddr::empty().with(Protocol::Ip4(Ipv4Addr::UNSPECIFIED));
    vec![
        any().with(Protocol::Tcp(0)),
        any().with(Protocol::Udp(0)).with(Protocol::QuicV1),
    ]
}

impl Default for Anycast {
    fn default() -> Self {
        Self {
            routing_strategy: "random".into(),
            cache_ttl: Duration::from_secs(30),
            auto_register: true,
            registry_addr: String::new(),
            registry_addrs: Vec::new(),
            enable_dht: false,
            dht_mode: DhtMode::Auto,
        }
    }
}

#[cfg(test)]
mod tests;
