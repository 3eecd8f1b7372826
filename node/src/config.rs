//! The daemon's settings as plain types, a struct for each section, and `settings_table`, the table of all settings.
//!
//! Every part of the node may use this module; it uses none of them. `load_config` loads and checks a [`Config`].

mod agent_socket;
mod grpc_access;
pub mod named_settings;
mod policy_entries;
pub(crate) mod settings_table;

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use agentanycast_daemon_kit::{settings::expand, words};
use agentanycast_gateway::settings::{
    outbound::OutboundConfig,
    part::{HasPartValues, PartValues},
};
use libp2p::{Multiaddr, multiaddr::Protocol};

pub use agent_socket::AgentSocket;
pub use agentanycast_daemon_kit::settings::{
    ByteSize, ConfigError, EXIT_CODE, ListenOn, LogFormat, LogLevel, Share, ValueSource, ValueSources,
};
pub use grpc_access::{GrpcAccess, GrpcListen};
pub use policy_entries::{AclRule, RateOverride, SourceGroups};

/// Where metrics are shown when nothing else is said: the port that OpenTelemetry's specification has for exporters.
const METRICS_LISTEN: &str = "127.0.0.1:9464";

/// What all environment variables begin with.
pub const ENVIRONMENT_PREFIX: &str = "AGENTANYCAST_";

/// Most waits between two attempts to send: with waits that grow, the last is longer than any use.
pub(crate) const MAX_RETRIES: usize = 16;

/// Shortest time after which a task is taken away from a listener. Longer than the second within which a task may be begun as
/// one agent's alone (docs/protocol.md, `exclusive_since`).
pub(crate) const MIN_HAND_OVER: Duration = Duration::from_secs(2);

/// How long a verified name may be believed.
pub(crate) const IDENTITY_CACHE_TTL: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_hours(24);

/// Most rules, overrides, groups and members of all groups: each task is checked against all of them.
pub const MAX_POLICY_ENTRIES: usize = 4096;

/// Every setting. The names are those of the TOML file; a nested struct is a TOML table of its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The node's key file. Default: `~/.agentanycast/key`.
    pub key_path: PathBuf,
    /// Where the node listens for peers. Default: TCP and QUIC on free ports of all IPv4 and all
    /// IPv6 addresses. A family that the host lacks is left out.
    pub listen_addrs: Vec<Multiaddr>,
    /// Where agents connect. Default: `unix://~/.agentanycast/daemon.sock`.
    pub grpc_listen: GrpcListen,
    /// `grpc_token_file`, `grpc_tls_cert`, `grpc_tls_key`, `grpc_allow_remote`: who may call from elsewhere.
    pub grpc: GrpcAccess,
    /// Peers to stay connected to, redialled for ever. Default: none.
    pub bootstrap_peers: Vec<Multiaddr>,
    /// PEM file of certificate authorities that relays at `wss` addresses may be certified by, besides those of the web:
    /// a company's own, such as that of a proxy that looks into TLS. Default: none.
    pub wss_ca_file: Option<PathBuf>,
    /// Reserve a place on relays among the bootstrap peers. Default: true.
    pub enable_relay_client: bool,
    /// Turn relayed connections into direct ones where possible. Default: true.
    pub enable_hole_punching: bool,
    /// Ask the router by UPnP for a port that leads here. Opens this node to the Internet. Default: false.
    pub enable_upnp: bool,
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
    /// How log lines look. Default: auto.
    pub log_format: LogFormat,
    /// The file that the log goes to instead of standard error, of 16 MiB at most, with the three before it. Default:
    /// none.
    pub log_file: Option<PathBuf>,
    /// How long a claimed task outlives its last agent's connection. Default: 5 min.
    pub agent_grace: Duration,
    /// A task fails when so many agents have ended while they had it and had not reported on it; 0: never.
    /// Default: 5.
    pub max_agent_ends: u64,
    /// How long agents of this node may have a task, without the time in which it waits for an answer; then it
    /// fails. Default: for ever.
    pub max_task_time: Option<Duration>,
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
    /// The name on the node's card where it has several agents, at most 256 bytes. Default: that of the primary agent.
    pub node_name: String,
    /// Flag only: `auto` or `libp2p`. Default: auto.
    pub transport: String,
    /// Flag only: `default`. Default: default.
    pub namespace: String,
    /// The agents of this node.
    pub agents: AgentsConfig,
    /// `[bridge.outbound]`: hosts outside that are called, for tasks by URL and for documents of identities. Default: any on
    /// the Internet.
    pub outbound: OutboundConfig,
    /// Finding agents by skill.
    pub anycast: AnycastConfig,
    /// Metrics, health and readiness over HTTP.
    pub metrics: ListenerConfig,
    /// The ANP bridge. Not built yet.
    pub anp: ListenerConfig,
    /// Names besides the key.
    pub identity: IdentityConfig,
    /// Tracing to a collector.
    pub telemetry: TelemetryConfig,
    /// `[transport.nats]`. Not built yet.
    pub nats: NatsConfig,
    /// `[policy]`: who may send which task here, and what is written down of it.
    pub policy: PolicyConfig,
    /// Of the parts that the program is made with: its gateways, and what runs agents.
    pub parts: PartValues,
}

impl HasPartValues for Config {
    fn part_values(&self) -> &PartValues {
        &self.parts
    }

    fn part_values_mut(&mut self) -> &mut PartValues {
        &mut self.parts
    }
}

/// A feature that listens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenerConfig {
    /// Default: false.
    pub enabled: bool,
    /// Default: nowhere.
    pub listen: ListenOn,
}

/// `[agents]`: the agents of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentsConfig {
    /// Most agents. Default: 4096.
    pub max_agents: u64,
    /// An agent that came by SetAgentCard is forgotten when nobody has listened for it so long, and no task waits for it.
    /// 0: never. Default: 24 h.
    pub agent_forget: Duration,
    /// A task for a skill goes to an agent of this node that has it, if there is one. Default: true.
    pub prefer_local: bool,
    /// Sockets that are one agent's each: how containers, and programs that connect over TCP, are told apart. Default: none.
    pub socket: Vec<AgentSocket>,
    /// Who may use the agents of `run`, `mcp`, `--mcp-proxy`, `anycast run` and gateways that say nothing of it. Default: private.
    pub default_access: DefaultAccess,
    /// To which of an agent's listeners a task goes. Default: one.
    pub deliver: Deliver,
    /// How long a task stays with a listener that does not take it off its stream, from 2 s. Default: 30 s.
    pub hand_over_timeout: Duration,
    /// How long a task stays with a listener that has read it and not claimed it, and that claims its tasks, from 2 s.
    /// Default: as long as it listens.
    pub claim_within: Option<Duration>,
}

impl Default for AgentsConfig {
    fn default() -> Self {
        Self {
            max_agents: 4096,
            agent_forget: Duration::from_hours(24),
            prefer_local: true,
            socket: Vec::new(),
            default_access: DefaultAccess::Private,
            deliver: Deliver::One,
            hand_over_timeout: Duration::from_secs(30),
            claim_within: None,
        }
    }
}

/// `[anycast]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnycastConfig {
    /// How one of several agents is chosen. Default: least_loaded.
    pub routing_strategy: RoutingStrategy,
    /// How long an answer is believed. Default: 30 s.
    pub cache_ttl: Duration,
    /// Tell registries about the own card; idle while there is none. Default: true.
    pub auto_register: bool,
    /// A registry, `HOST:PORT` or `http(s)://HOST:PORT`. Default: none.
    pub registry_addr: String,
    /// More registries. With none at all, port 50052 of each bootstrap peer is tried. Default: none.
    pub registry_addrs: Vec<String>,
    /// Look for agents in the public DHT (`/ipfs/kad/1.0.0`), as deployed nodes do, and announce the own one there,
    /// instead of the DHT that the nodes of the mesh make among themselves (`/agentanycast/kad/1.0.0`). A node joins
    /// either through its bootstrap peers. Default: false.
    pub enable_dht: bool,
    /// Part that the node takes in the DHT, whichever it is; `off` is none. Default: auto.
    pub dht_mode: DhtMode,
}

/// `[identity]`: what this node is called besides its key, and how the names of others are looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityConfig {
    /// The did:web of this node; its bridge has the document. Default: none.
    pub did_web: String,
    /// The domain whose records name this node's key (did:dns). Default: none.
    pub did_dns_domain: String,
    /// Files with credentials of this node, shown to its peers. Default: none.
    pub credentials: Vec<PathBuf>,
    /// How long what a document or a record says is believed, 1 s to 24 h. Default: 5 min.
    pub cache_ttl: Duration,
    /// The name server that is asked for records, `IP` or `IP:PORT`. Default: those of the system.
    pub name_server: String,
}

impl Default for IdentityConfig {
    fn default() -> Self {
        Self {
            did_web: String::new(),
            did_dns_domain: String::new(),
            credentials: Vec::new(),
            cache_ttl: Duration::from_mins(5),
            name_server: String::new(),
        }
    }
}

/// `[telemetry]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TelemetryConfig {
    /// Default: whether `otlp_endpoint` is given.
    pub enabled: bool,
    /// The collector, `http://HOST:PORT` (plaintext), `https://HOST:PORT` (TLS) or `HOST:PORT` (as `insecure` says).
    /// Default: `http://localhost:4317`, that of OpenTelemetry's specification.
    pub otlp_endpoint: String,
    /// Share of the traces that begin here that is sent, 0 to 1; others are sent as who began them says. Default: 1.
    pub sample_rate: Share,
    /// `HOST:PORT` is dialled in plaintext instead of TLS. Default: false.
    pub insecure: bool,
}

/// `[transport.nats]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NatsConfig {
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
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyConfig {
    /// A line for each decision goes there, mode 0600. Default: none.
    pub audit_log_path: Option<PathBuf>,
    /// Each line has the SHA-256 of the one before. Default: false.
    pub audit_chain: bool,
    /// A task is accepted when its line is on the disk, and not only handed over. Default: false.
    pub audit_sync: bool,
    /// No new task is taken while the log cannot be written. Default: true.
    pub audit_required: bool,
    /// `[[policy.acl]]`: the first that matches decides; where there are some, the rest is denied. Default: none.
    pub acl: Vec<AclRule>,
    /// `[policy.groups]`: names for several sources. Default: none.
    pub groups: SourceGroups,
    /// Which peers may send tasks at all. Default: open.
    pub trust: TrustMode,
    /// The peers of `trust = "known"` and `"pinned"`. Default: none.
    pub trusted_peers: Vec<String>,
    /// With `trust = "known"`: whoever has a credential of one of these issuers, DIDs, is known too. Default: none.
    pub trusted_issuers: Vec<String>,
    /// `rate_limit.default_rps`: new tasks a second of one source, 0 for no limit. Default: 0.
    pub default_rps: f64,
    /// `rate_limit.max_in_flight`: open tasks of one source, 0 for no limit. Default: 0.
    pub max_in_flight: u64,
    /// `rate_limit.max_bytes`: bytes of the open tasks of one source, 0 for no limit. Default: 0.
    pub max_bytes: ByteSize,
    /// `[[policy.rate_limit.overrides]]`: the first that matches counts. Default: none.
    pub overrides: Vec<RateOverride>,
    /// Names of the gateways that the program is made with besides A2A and MCP; no setting.
    pub gateways: Vec<&'static str>,
}

impl Default for PolicyConfig {
    fn default() -> Self {
        Self {
            audit_log_path: None,
            audit_chain: false,
            audit_sync: false,
            audit_required: true,
            acl: Vec::new(),
            groups: SourceGroups::default(),
            trust: TrustMode::Open,
            trusted_peers: Vec::new(),
            trusted_issuers: Vec::new(),
            default_rps: 0.0,
            max_in_flight: 0,
            max_bytes: ByteSize(0),
            overrides: Vec::new(),
            gateways: Vec::new(),
        }
    }
}

words! {
    /// Which peers may send tasks at all.
    TrustMode {
        /// All.
        Open = "open",
        /// Those of a list, and those that a credential vouches for.
        Known = "known",
        /// Those of a list of keys.
        Pinned = "pinned",
    }
}

words! {
    /// Who may use agents that say nothing of it.
    DefaultAccess {
        /// This node, and peers that a rule, an invite or trust lets in.
        Private = "private",
        /// Every peer that the policy lets in.
        Open = "open",
    }
}

words! {
    /// To which of an agent's listeners a task goes.
    Deliver {
        /// To one at a time, the one with the fewest tasks.
        One = "one",
        /// To all of them: the first that claims it has it.
        All = "all",
    }
}

words! {
    /// How one of several agents with a skill is chosen.
    RoutingStrategy {
        /// Any.
        Random = "random",
        /// Each in its turn, by peer id.
        RoundRobin = "round_robin",
        /// The one that acknowledges fastest; those that are not known yet come first.
        LeastLatency = "least_latency",
        /// Of two at random the one with less to do: tasks in flight, times how long it takes to acknowledge one and
        /// how often it failed to.
        LeastLoaded = "least_loaded",
    }
}

words! {
    /// Part that the node takes in the DHT.
    DhtMode {
        /// Server while it has a confirmed public address of its own, client otherwise.
        Auto = "auto",
        /// Asks and announces only.
        Client = "client",
        /// Keeps for others and answers them too.
        Server = "server",
        /// None.
        Off = "off",
    }
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
            wss_ca_file: None,
            enable_relay_client: true,
            enable_hole_punching: true,
            enable_upnp: false,
            enable_quic: true,
            enable_webtransport: false,
            enable_mdns: true,
            store_path: at_home("~/.agentanycast/data"),
            offline_queue_ttl: Some(Duration::from_hours(24)),
            log_level: LogLevel::Info,
            log_format: LogFormat::Auto,
            log_file: None,
            agent_grace: Duration::from_mins(5),
            max_agent_ends: 5,
            max_task_time: None,
            task_retention: Duration::from_hours(7 * 24),
            task_retention_count: 100_000,
            store_quota: ByteSize(10 << 30),
            max_artifact_bytes: ByteSize(64 << 20),
            max_open_tasks: 100_000,
            retry_delays: [2, 4, 8].map(Duration::from_secs).to_vec(),
            node_name: String::new(),
            transport: "auto".into(),
            namespace: "default".into(),
            agents: AgentsConfig::default(),
            outbound: OutboundConfig::default(),
            anycast: AnycastConfig::default(),
            metrics: ListenerConfig {
                enabled: false,
                listen: ListenOn(METRICS_LISTEN.into()),
            },
            anp: ListenerConfig::default(),
            identity: IdentityConfig::default(),
            telemetry: TelemetryConfig::default(),
            nats: NatsConfig {
                subject_prefix: "agentanycast".into(),
                ..NatsConfig::default()
            },
            policy: PolicyConfig::default(),
            parts: PartValues::default(),
        }
    }
}

pub(crate) fn uses_quic(address: &Multiaddr) -> bool {
    address.iter().any(|part| part == Protocol::QuicV1)
}

/// `/ip4/0.0.0.0` and `/ip6/::`, each with `tcp/0` and `udp/0/quic-v1`.
fn default_listen_addrs() -> Vec<Multiaddr> {
    let (v4, v6) = (
        Protocol::Ip4(Ipv4Addr::UNSPECIFIED),
        Protocol::Ip6(Ipv6Addr::UNSPECIFIED),
    );
    let on = |any: Protocol<'static>| {
        let any = Multiaddr::from(any);
        let quic = any.clone().with(Protocol::Udp(0)).with(Protocol::QuicV1);
        [any.with(Protocol::Tcp(0)), quic]
    };
    [on(v4), on(v6)].concat()
}

impl Default for AnycastConfig {
    fn default() -> Self {
        Self {
            routing_strategy: RoutingStrategy::LeastLoaded,
            cache_ttl: Duration::from_secs(30),
            auto_register: true,
            registry_addr: String::new(),
            registry_addrs: Vec::new(),
            enable_dht: false,
            dht_mode: DhtMode::Auto,
        }
    }
}
