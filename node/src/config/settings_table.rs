//! The table of every setting: its name in TOML, its flag, its variable, and the field it fills.
//!
//! The rule: a setting is one line here, one field in `Config`, and nothing else. Those of gateways and of what runs agents come with these.

use std::{sync::OnceLock, time::Duration};

use agentanycast_daemon_kit::{
    key,
    settings::{self, Bounds},
};

use super::{Config, IDENTITY_CACHE_TTL, MAX_POLICY_ENTRIES, MAX_RETRIES, MIN_HAND_OVER};

/// A setting of the node.
pub(crate) type NodeSetting = settings::SettingKey<Config>;

/// The setting of that name.
pub(crate) fn find(name: &str) -> Option<&'static NodeSetting> {
    settings::find(all(), name)
}

/// Those that every node has.
#[rustfmt::skip] // A table.
pub(crate) static SETTINGS: &[NodeSetting] = &[
    key!(Config, "key_path", key_path).variable("KEY_PATH").flag("key", "FILE", "The node's key; made if it is missing"),
    key!(Config, "listen_addrs", listen_addrs).flag("listen", "ADDRS", "Multiaddrs to listen on, comma list").what("Where peers connect: multiaddrs of this host with tcp/PORT, tcp/PORT/ws or udp/PORT/quic-v1; port 0 is a free one"),
    key!(Config, "grpc_listen", grpc_listen).variable("GRPC_LISTEN").flag("grpc-listen", "URL", "Where agents connect: unix://PATH or tcp://HOST:PORT"),
    key!(Config, "grpc_token_file", grpc.token_file).flag("grpc-token-file", "FILE", "Callers must send this file's content as Bearer token"),
    key!(Config, "grpc_tls_cert", grpc.tls_cert).flag("grpc-tls-cert", "FILE", "Certificate chain (PEM) of a tcp:// gRPC address"),
    key!(Config, "grpc_tls_key", grpc.tls_key).flag("grpc-tls-key", "FILE", "Private key (PEM) of --grpc-tls-cert"),
    key!(Config, "grpc_allow_remote", grpc.allow_remote).flag("grpc-allow-remote", "", "Listen beyond loopback without token and TLS"),
    key!(Config, "bootstrap_peers", bootstrap_peers).variable("BOOTSTRAP_PEERS").flag("bootstrap-peers", "ADDRS", "Multiaddrs of peers to keep connected to, comma list").what("Peers to stay connected to, such as relays: multiaddrs with /p2p/PEER_ID"),
    key!(Config, "wss_ca_file", wss_ca_file).variable("WSS_CA_FILE").flag("wss-ca-file", "FILE", "Certificate authorities (PEM) of wss addresses, besides those of the web"),
    key!(Config, "enable_relay_client", enable_relay_client).what("Places on relays, and ways through them"),
    key!(Config, "enable_hole_punching", enable_hole_punching).what("Direct ways instead of relayed ones"),
    key!(Config, "enable_upnp", enable_upnp).what("Ask the router to open the listen ports"),
    key!(Config, "enable_quic", enable_quic).what("Listen and dial with QUIC"),
    key!(Config, "enable_webtransport", enable_webtransport).flag("enable-webtransport", "", "Not available"),
    key!(Config, "enable_mdns", enable_mdns).variable("ENABLE_MDNS").what("Find nodes on the local network, and be found"),
    key!(Config, "store_path", store_path).variable("STORE_PATH").flag("store-path", "DIR", "Directory of tasks, cards and artifacts"),
    key!(Config, "offline_queue_ttl", offline_queue_ttl).what("How long a message waits for its peer; 0 is for ever"),
    key!(Config, "log_level", log_level).variable("LOG_LEVEL").flag("log-level", "LEVEL", "error, warn, info, debug or trace"),
    key!(Config, "log_format", log_format).what("json, text for people, or auto: text where standard error is a terminal and the log goes there"),
    key!(Config, "log_file", log_file).variable("LOG_FILE").flag("log-file", "FILE", "Write the log to this file instead of standard error, at most 64 MiB with the files before it"),
    key!(Config, "agent_grace", agent_grace).what("How long a claimed task outlives its last agent's connection").bounds(Bounds::Times(Duration::from_millis(1), Duration::MAX)),
    key!(Config, "max_agent_ends", max_agent_ends).what("A task fails when so many agents ended while they had it; 0: never"),
    key!(Config, "max_task_time", max_task_time).what("How long an agent of this node may have a task, without the time in which it waits for an answer; 0: for ever"),
    key!(Config, "task_retention", task_retention).what("How long an ended task is kept"),
    key!(Config, "task_retention_count", task_retention_count).what("How many ended tasks are kept, the newest"),
    key!(Config, "store_quota", store_quota).what("What messages and artifacts may take in the store").bounds(Bounds::Sizes(1, u64::MAX)),
    key!(Config, "max_artifact_bytes", max_artifact_bytes).what("Largest artifact that becomes part of a task, at most store_quota; larger ones are streamed only"),
    key!(Config, "max_open_tasks", max_open_tasks).what("Tasks that have not ended; further ones are refused").bounds(Bounds::Numbers(1, u64::MAX)),
    key!(Config, "retry_delays", retry_delays).what("Waits for an acknowledgement before a message is sent again, each longer than 0").bounds(Bounds::Items(1, MAX_RETRIES)),
    key!(Config, "node_name", node_name).what("The name on the node's card where it has several agents; empty for that of the primary agent"),
    key!(Config, "transport", transport).only_flag().flag("transport", "NAME", "auto or libp2p"),
    key!(Config, "namespace", namespace).only_flag().flag("namespace", "NAME", "default"),
    key!(Config, "agents.max_agents", agents.max_agents).what("Agents of this node; further ones are refused").bounds(Bounds::Numbers(1, 65_536)),
    key!(Config, "agents.agent_forget", agents.agent_forget).what("An agent that came by SetAgentCard is forgotten when nobody has listened for it so long and no task waits; 0: never"),
    key!(Config, "agents.prefer_local", agents.prefer_local).what("A task for a skill goes to an agent of this node that has it, if there is one"),
    key!(Config, "agents.socket", agents.socket).variable("AGENT_SOCKETS").flag("agent-sockets", "NAME=ADDR,…", "Give agents sockets of their own, each a Unix socket or a loopback address").what("Sockets that are one agent's each: its name, and where its programs connect"),
    key!(Config, "bridge.outbound", outbound).what("Agents that are called by URL, and a table for each host, or HOST:PORT in quotes"),
    key!(Config, "agents.default_access", agents.default_access).what("Who may use agents of run, mcp, anycast run and gateways that do not say open: private is this node and peers that a rule, an invite or trust lets in"),
    key!(Config, "agents.deliver", agents.deliver).what("To which of an agent's listeners a task goes: one at a time, or all"),
    key!(Config, "agents.hand_over_timeout", agents.hand_over_timeout).what("How long a task stays with a listener that does not take it off its stream; with deliver = \"one\"").bounds(Bounds::Times(MIN_HAND_OVER, Duration::MAX)),
    key!(Config, "agents.claim_within", agents.claim_within).what("How long a task stays with a listener that has read and not claimed it, and that claims its tasks, from 2s; 0: as long as it listens; with deliver = \"one\""),
    key!(Config, "anycast.routing_strategy", anycast.routing_strategy).what("How one of several agents with a skill is chosen"),
    key!(Config, "anycast.cache_ttl", anycast.cache_ttl).what("How long a task goes by the last answer of a registry"),
    key!(Config, "anycast.auto_register", anycast.auto_register).what("Tell registries and the DHT about the own agent"),
    key!(Config, "anycast.registry_addr", anycast.registry_addr).what("A registry, HOST:PORT or http(s)://HOST:PORT"),
    key!(Config, "anycast.registry_addrs", anycast.registry_addrs).variable("REGISTRY_ADDRS").what("More registries"),
    key!(Config, "anycast.enable_dht", anycast.enable_dht).what("The public DHT instead of the mesh's own"),
    key!(Config, "anycast.dht_mode", anycast.dht_mode).what("Part that the node takes in the DHT"),
    key!(Config, "metrics.enabled", metrics.enabled).what("Metrics, health and readiness over HTTP"),
    key!(Config, "metrics.listen", metrics.listen).variable("METRICS_LISTEN").flag("metrics-listen", "ADDR", "Show metrics, health and readiness over HTTP at HOST:PORT").enabling("metrics.enabled").what("Where metrics, health and readiness are shown, HOST:PORT or :PORT"),
    key!(Config, "anp.enabled", anp.enabled).variable("ANP_ENABLED").what("The ANP bridge (not available yet)"),
    key!(Config, "anp.listen", anp.listen).variable("ANP_LISTEN").flag("anp-listen", "ADDR", "Turn on the ANP bridge at HOST:PORT (not available yet)").enabling("anp.enabled"),
    key!(Config, "identity.did_web", identity.did_web).variable("DID_WEB").flag("did-web", "DID", "The did:web of this node, whose document its bridge has"),
    key!(Config, "identity.did_dns_domain", identity.did_dns_domain).variable("DID_DNS_DOMAIN").flag("did-dns", "DOMAIN", "The domain whose TXT records name this node's key (did:dns)"),
    key!(Config, "identity.credentials", identity.credentials).what("Files with credentials of this node, shown to its peers"),
    key!(Config, "identity.cache_ttl", identity.cache_ttl).what("How long what others' names lead to is believed").bounds(Bounds::Times(*IDENTITY_CACHE_TTL.start(), *IDENTITY_CACHE_TTL.end())),
    key!(Config, "identity.name_server", identity.name_server).what("Who is asked for records, IP or IP:PORT; empty for the system's"),
    key!(Config, "telemetry.enabled", telemetry.enabled).variable("TELEMETRY_ENABLED").what("Traces to an OpenTelemetry collector; also on where otlp_endpoint is given"),
    key!(Config, "telemetry.otlp_endpoint", telemetry.otlp_endpoint).variable("OTLP_ENDPOINT").flag("otlp-endpoint", "URL", "Send traces to an OpenTelemetry collector, HOST:PORT or http(s)://HOST:PORT").enabling("telemetry.enabled"),
    key!(Config, "telemetry.sample_rate", telemetry.sample_rate).variable("SAMPLE_RATE").what("Share of the traces that begin here that is sent"),
    key!(Config, "telemetry.insecure", telemetry.insecure).what("HOST:PORT is plaintext instead of TLS"),
    key!(Config, "transport.nats.enabled", nats.enabled).variable("NATS_ENABLED").what("The NATS transport (not available yet)"),
    key!(Config, "transport.nats.broker", nats.broker).variable("NATS_BROKER").flag("nats-broker", "URL", "Turn on the NATS transport (not available yet)").enabling("transport.nats.enabled"),
    key!(Config, "transport.nats.subject_prefix", nats.subject_prefix).variable("NATS_SUBJECT_PREFIX").what("What subjects begin with (not available yet)"),
    key!(Config, "transport.nats.auth_user", nats.auth_user).what("The user (not available yet)"),
    key!(Config, "transport.nats.auth_pass", nats.auth_pass).secret().what("The password (not available yet)"),
    key!(Config, "transport.nats.tls_enabled", nats.tls_enabled).what("TLS to the broker (not available yet)"),
    key!(Config, "transport.nats.tls_cert_file", nats.tls_cert_file).what("The certificate, PEM (not available yet)"),
    key!(Config, "transport.nats.tls_key_file", nats.tls_key_file).what("Its key, PEM (not available yet)"),
    key!(Config, "policy.audit_log_path", policy.audit_log_path).what("The audit log: a line for each decision"),
    key!(Config, "policy.audit_chain", policy.audit_chain).what("Each line has the SHA-256 of the one before; needs audit_log_path"),
    key!(Config, "policy.audit_sync", policy.audit_sync).what("A task is accepted when its line is on the disk; needs audit_log_path"),
    key!(Config, "policy.audit_required", policy.audit_required).only_with("policy.audit_log_path").what("No new task while the log cannot be written; needs audit_log_path"),
    key!(Config, "policy.acl", policy.acl).what("Rules, of which the first that matches decides; where there are some, the rest is denied").bounds(Bounds::Items(0, MAX_POLICY_ENTRIES)),
    key!(Config, "policy.groups", policy.groups).what("Names for several sources each"),
    key!(Config, "policy.trust", policy.trust).what("Which peers may send tasks at all"),
    key!(Config, "policy.trusted_peers", policy.trusted_peers).what("The peers of trust = \"known\" (patterns over sources) and \"pinned\" (peer ids and did:keys)").bounds(Bounds::Items(0, MAX_POLICY_ENTRIES)),
    key!(Config, "policy.trusted_issuers", policy.trusted_issuers).what("With trust = \"known\", the DIDs of issuers whose credentials make a peer known, did:web or did:key").bounds(Bounds::Items(0, MAX_POLICY_ENTRIES)),
    key!(Config, "policy.rate_limit.default_rps", policy.default_rps).what("New tasks a second of each source; 0 is no limit"),
    key!(Config, "policy.rate_limit.max_in_flight", policy.max_in_flight).what("Open tasks of each source; 0 is no limit"),
    key!(Config, "policy.rate_limit.max_bytes", policy.max_bytes).what("What the open tasks of one source take; 0 is no limit"),
    key!(Config, "policy.rate_limit.overrides", policy.overrides).what("Limits of their own for one source, of which the first that matches counts").bounds(Bounds::Items(0, MAX_POLICY_ENTRIES)),
];

/// Those with the settings of parts that the program is made with.
static WITH_ADDED: OnceLock<&'static [NodeSetting]> = OnceLock::new();

/// All settings that this program has.
pub(crate) fn all() -> &'static [NodeSetting] {
    WITH_ADDED.get().copied().unwrap_or(SETTINGS)
}

/// Adds settings to those that every node has, once; all that there are.
pub(crate) fn add(added: &[NodeSetting]) -> &'static [NodeSetting] {
    WITH_ADDED.get_or_init(|| {
        let all: Vec<NodeSetting> = SETTINGS.iter().chain(added).copied().collect();
        Box::leak(all.into_boxed_slice())
    })
}
