//! The node as a process: wiring and order. Up: store, engine, network (whose events the engine
//! already awaits), gRPC, the bridge. Down in reverse: no new requests and calls, drain the engine, let the network go.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    net::SocketAddr,
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use agentanycast_bridge::{Bridge, fetch::Fetcher, http::Requests};
use agentanycast_identity as identity;
use agentanycast_program::{
    process,
    spans::OnSpan,
    traces::{Teller, Traces},
};
use agentanycast_proto::{
    FILE_DESCRIPTOR_SET, MAX_GRPC_MESSAGE,
    v1::{
        diagnostics_service_server::DiagnosticsServiceServer, network_service_server::NetworkServiceServer,
        node_service_server::NodeServiceServer, session_service_server::SessionServiceServer,
        task_list_service_server::TaskListServiceServer, task_note_service_server::TaskNoteServiceServer,
    },
};
use anyhow::Context as _;
use libp2p::{Multiaddr, multiaddr::Protocol};
use tokio::sync::{mpsc, watch};
use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject as _};
use tokio_util::sync::CancellationToken;
use tonic::{service::InterceptorLayer, transport::Server};
use tower::util::MapResponseLayer;

use crate::{
    anycast::{self, Anycast, Routes},
    api::{
        self, Api,
        auth::Gate,
        listen::{self, GrpcListener},
        too_large,
    },
    bridge::LocalGateway,
    config::{self, Config},
    engine::{self, Engine},
    names::{self, Dns, Ear},
    net, outbound,
    policy::{
        Rules,
        audit::{self, Audit},
    },
    reload::{Health, Reload, warn_of_silence},
    spool::Spool,
    store::disk::DiskStore,
    telemetry::{self, Face},
};

/// Events of the network that wait for the engine.
const EVENTS: usize = 1024;

/// How long a stop may take (docs/operating.md); what is not drained by then is on disk.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// How long calls that are being answered may take after the engine has stopped.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// What a client may send on one HTTP/2 stream ahead of what is read of it, in bytes: eight chunks, which
/// hide the way to the agent and back.
const STREAM_WINDOW: u32 = 512 << 10;

/// The same for all streams of a connection together: no limit beyond theirs. Were it less than their sum,
/// a few artifacts whose readers have stopped would stop everything else that their agent sends.
const CONNECTION_WINDOW: u32 = i32::MAX as u32;

/// Streams that a client may have open at once: bounds with [`STREAM_WINDOW`] what it can make us hold.
const CONCURRENT_STREAMS: u32 = 4096;

/// Largest HTTP/2 frame that is taken: a chunk of 64 KiB is one frame and not five.
const HTTP2_FRAME: u32 = 256 << 10;

/// Steps that the runtime takes before it looks what the sockets and the store's thread have brought: few,
/// since beside many streams there is always a next step, and a step of one can take 0.2 ms.
const LOOK_UP: u32 = 8;

/// Threads for what waits for the disk, files of artifacts above all. Enough to keep a disk busy; each has
/// memory of its own, so that a thread for every reader of an artifact would cost more than the artifacts.
const BLOCKING: usize = 8;

/// Where relays have their registry by default (docs/operating.md, "Relays").
const REGISTRY_PORT: u16 = 50_052;

/// How often a silent client is asked whether it is still there: an agent on a host that lost its
/// power must not count as listening.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Streams that a client may reset before they are taken up; deployed SDKs drop a stream per task.
const PENDING_RESETS: usize = 4096;

/// What it calls itself when it complains.
const PROGRAM: &str = "agentanycastd";

/// Runs the daemon as the command line says; the whole of `agentanycastd` and of `anycast daemon`.
/// `args` begins with the program's name.
pub fn main_with_args(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    let loaded = config::load_from_process(args.clone().into_iter());
    process::main(PROGRAM, loaded, |config| run_process(config, args))
}

fn run_process(config: Config, args: Vec<OsString>) -> anyhow::Result<()> {
    process::begin(PROGRAM, config.log_level, config.log_format);
    // One thread: on small machines the hops of a task's road cost more across threads than on one
    // (docs/design.md, "Threads").
    let runtime = tokio::runtime::Builder::new_current_thread()
        .event_interval(LOOK_UP)
        .global_queue_interval(LOOK_UP)
        .max_blocking_threads(BLOCKING)
        .enable_all()
        .build()?;
    process::block_on(runtime, run(config, args))
}

async fn run(config: Config, args: Vec<OsString>) -> anyhow::Result<()> {
    let mut stop = process::Stop::listen()?;
    let mut node = Node::start(&config, args).await?;
    node.announce()?;
    tokio::select! {
        () = stop.asked() => {}
        part = node.ended_by_itself() => anyhow::bail!("the {part} has ended; its last error is in the log"),
    }
    tracing::info!("stopping");
    if tokio::time::timeout(STOP_WITHIN, node.stop()).await.is_err() {
        tracing::warn!("stopped before everything was drained; what was accepted is on disk");
    }
    Ok(())
}

struct Node {
    net: net::Handle,
    net_task: tokio::task::JoinHandle<()>,
    anycast_stop: CancellationToken,
    anycast_task: tokio::task::JoinHandle<()>,
    engine_stop: CancellationToken,
    engine_task: tokio::task::JoinHandle<()>,
    outbound_stop: CancellationToken,
    outbound: tokio::task::JoinHandle<()>,
    server_stop: CancellationToken,
    server: tokio::task::JoinHandle<()>,
    metrics_addr: Option<SocketAddr>,
    face_stop: CancellationToken,
    face: tokio::task::JoinHandle<()>,
    traces_stop: CancellationToken,
    traces: tokio::task::JoinHandle<()>,
    bridge: Option<Bridge>,
}

impl Node {
    async fn start(config: &Config, args: Vec<OsString>) -> anyhow::Result<Self> {
        let keypair = identity::load_or_create(&config.key_path)?;
        let me = identity::peer_id(&keypair);
        let routes = Routes::new();
        let traces_stop = CancellationToken::new();
        let traces = if config.telemetry.enabled {
            let teller = Teller {
                service: "agentanycastd",
                instance: &me.to_string(),
                key: "telemetry.otlp_endpoint",
                endpoint: &config.telemetry.otlp_endpoint,
                insecure: config.telemetry.insecure,
            };
            Traces::start(teller, traces_stop.clone())?
        } else {
            Traces::off()
        };
        let audit = open_audit(&config.policy)?;
        let audit_state = audit.as_ref().map(Audit::state);
        let reload = Reload::new(args, config, audit.as_ref().and_then(Audit::reopener))?;
        let health = Health {
            policy: reload.trouble(),
            audit: audit_state,
        };
        let shown = names::own::names(&config.identity, &config.key_path, me)?;
        let rules = read_rules(&config.policy)?;
        let (ear, heard) = names::ear(rules.asks());
        let hooks = Hooks {
            routes: routes.clone(),
            on_span: traces.hear,
            ear: ear.clone(),
        };
        let mut loaded = load_engine(config, me, hooks)?;
        loaded.guard(rules, audit, config.policy.audit_required)?;

        let (events, inbox) = mpsc::channel(EVENTS);
        let (net, net_task) =
            net::start(net_config(config, keypair.clone(), shown, &loaded)?, events).await?;
        let engine_stop = CancellationToken::new();
        let (engine, engine_task) = loaded.run(net.clone(), inbox, engine_stop.clone());
        tokio::spawn(reload.run(engine.clone(), ear.clone()));
        let names = names_parts(config, &engine, &net)?;
        names::start(names, &ear, heard, engine_stop.clone());
        let anycast_stop = CancellationToken::new();
        let parts = anycast_parts(config, keypair.clone(), net.clone(), routes, engine.listening());
        let (anycast, anycast_task) = anycast::start(parts, &anycast_stop)?;
        keep_what_is_bound(&engine, &net, &anycast).await?;

        let listener = listen::bind(&config.grpc_listen, &config.grpc).await?;
        let agents = engine.clone();
        listener
            .connections()
            .on_closed(move |connection| agents.caller_gone(connection.0));
        let requests = Arc::<Requests>::default();
        let face_stop = CancellationToken::new();
        let face = Face::new(
            engine.clone(),
            net.clone(),
            anycast.clone(),
            health.clone(),
            Arc::clone(&requests),
        );
        let shown = telemetry::bind(&config.metrics).await;
        let metrics_addr = shown.as_ref().and_then(|shown| shown.local_addr().ok());
        let face = tokio::spawn(telemetry::serve(shown, face, face_stop.clone()));
        let audit_log = config.policy.audit_log_path.clone();
        let api = Api::new(engine.clone(), net.clone(), anycast, limits_of(config), audit_log);
        let outbound_stop = CancellationToken::new();
        let outbound = outbound::start(&engine, &config.bridge.outbound, outbound_stop.clone())?;
        let server_stop = CancellationToken::new();
        let gate = Gate::of(&config.grpc)?;
        let bridge = match &config.bridge {
            config::Bridge {
                enabled: true, front, ..
            } => {
                let gateway = Arc::new(LocalGateway::new(api.clone(), net.clone()));
                Some(Bridge::start(front, gateway, Some(keypair), Arc::clone(&requests)).await?)
            }
            _ => None,
        };
        let server = serve(api, gate, listener, (engine, health), server_stop.clone())?;
        Ok(Self {
            net,
            net_task,
            anycast_stop,
            anycast_task,
            engine_stop,
            engine_task,
            outbound_stop,
            outbound,
            server_stop,
            server,
            metrics_addr,
            face_stop,
            face,
            traces_stop,
            traces: traces.task,
            bridge,
        })
    }

    /// The lines that whoever started the daemon waits for: calls are taken from here on.
    fn announce(&self) -> io::Result<()> {
        let mut out = io::stdout();
        let me = self.net.local_peer();
        writeln!(out, "PEER_ID={me}")?;
        out.flush()?;
        for address in self.net.listen_addrs() {
            writeln!(out, "LISTEN_ADDR={address}/p2p/{me}")?;
            out.flush()?;
        }
        if let Some(address) = self.metrics_addr {
            writeln!(out, "METRICS_ADDR={address}")?;
            out.flush()?;
        }
        self.bridge.as_ref().map_or(Ok(()), Bridge::announce)
    }

    /// Returns when a part has ended that nobody has stopped: without it the daemon would look alive and
    /// answer nobody. Whoever started it starts it again; what was accepted is on disk.
    async fn ended_by_itself(&mut self) -> &'static str {
        tokio::select! {
            _ = &mut self.engine_task => "engine",
            _ = &mut self.net_task => "network",
            _ = &mut self.outbound => "outbound bridge",
            _ = &mut self.server => "gRPC server",
            () = ended(&mut self.bridge) => "bridge",
        }
    }

    async fn stop(self) {
        if let Some(bridge) = self.bridge {
            bridge.stop().await;
        }
        self.server_stop.cancel();
        self.anycast_stop.cancel();
        self.outbound_stop.cancel();
        let _ = self.outbound.await; // What it heard last is still kept.
        self.engine_stop.cancel();
        let _ = self.engine_task.await;
        let _ = tokio::time::timeout(LAST_ANSWERS, self.server).await;
        let _ = self.anycast_task.await;
        self.net.shutdown().await;
        let _ = self.net_task.await;
        // Last, so that it can be seen how the rest ends.
        self.face_stop.cancel();
        self.traces_stop.cancel();
        let _ = self.face.await;
        let _ = self.traces.await;
    }
}

/// Returns when the bridge has ended though nobody has stopped it; never without one.
async fn ended(bridge: &mut Option<Bridge>) {
    match bridge {
        Some(bridge) => bridge.ended_by_itself().await,
        None => std::future::pending().await,
    }
}

/// What of the settings calls depend on.
fn limits_of(config: &Config) -> api::Limits {
    api::Limits {
        max_artifact_bytes: config.max_artifact_bytes.0,
        outbound: config.bridge.outbound.enabled,
    }
}

/// Opens the audit log, if there is to be one.
fn open_audit(policy: &config::Policy) -> anyhow::Result<Option<Audit>> {
    let Some(path) = policy.audit_log_path.clone() else {
        return Ok(None);
    };
    let cannot = format!("cannot open the audit log {}", path.display());
    let settings = audit::Settings {
        path,
        chain: policy.audit_chain,
        sync: policy.audit_sync,
    };
    Audit::start(&settings).map(Some).context(cannot)
}

/// Whom the settings let in.
fn read_rules(policy: &config::Policy) -> anyhow::Result<Rules> {
    let rules = Rules::read(policy).map_err(|bad| anyhow::anyhow!("{} must be {}", bad.key, bad.allowed))?;
    warn_of_silence(&rules);
    Ok(rules)
}

/// Who is told what the engine does.
struct Hooks {
    routes: Routes,
    on_span: OnSpan,
    ear: Ear,
}

/// How the names of peers are looked up.
fn names_parts(config: &Config, engine: &Engine, net: &net::Handle) -> anyhow::Result<names::Parts> {
    Ok(names::Parts {
        engine: engine.clone(),
        net: net.clone(),
        fetcher: Fetcher::new(&config.bridge.outbound)?,
        dns: Dns::new(&config.identity.name_server)?,
        believed_for: config.identity.cache_ttl,
    })
}

fn load_engine(
    config: &Config,
    me: identity::PeerId,
    Hooks { routes, on_span, ear }: Hooks,
) -> anyhow::Result<engine::Loaded> {
    let opened = DiskStore::open(&config.store_path)?;
    let artifacts = config.store_path.join("artifacts");
    if let Some(aside) = &opened.moved_aside {
        tracing::error!(path = %aside.display(), "the store was damaged; it was moved there, and an empty one begun");
        set_aside(&artifacts, aside);
    }
    let unusable = || format!("cannot use the artifacts in {}", artifacts.display());
    let spool = Spool::open(&artifacts).with_context(unusable)?;
    let limits = engine::Limits {
        retry_delays: config.retry_delays.clone(),
        offline_ttl: config.offline_queue_ttl,
        agent_grace: config.agent_grace,
        retention: config.task_retention,
        retention_count: usize::try_from(config.task_retention_count).unwrap_or(usize::MAX),
        quota: config.store_quota.0,
        max_open_tasks: usize::try_from(config.max_open_tasks).unwrap_or(usize::MAX),
        max_artifact_bytes: config.max_artifact_bytes.0,
        trace_share: config.telemetry.enabled.then_some(config.telemetry.sample_rate),
    };
    let loaded = engine::start(engine::Parts {
        store: Arc::new(opened.store),
        spool: spool.clone(),
        limits,
        me,
        on_route: Arc::new(move |news| routes.hear(news)),
        on_span,
        on_card: {
            let ear = ear.clone();
            Arc::new(move |peer, card| ear.card(peer, card))
        },
        on_doubt: Arc::new(move |peer| ear.doubt(peer)),
    })?;
    match spool.keep_only(loaded.core().task_ids()) {
        Ok(0) => {}
        Ok(count) => tracing::info!(count, "removed artifacts whose tasks are no more"),
        Err(error) => tracing::warn!(%error, "artifacts whose tasks are no more could not be removed"),
    }
    Ok(loaded)
}

/// The artifacts of a database that was moved aside go with it: whoever looks into it needs both, and in
/// the new one no task knows them.
fn set_aside(artifacts: &Path, aside: &Path) {
    if let Err(error) = std::fs::rename(artifacts, aside.join("artifacts"))
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "the artifacts could not be moved aside");
    }
}

fn net_config(
    config: &Config,
    keypair: identity::Keypair,
    names: net::Names,
    loaded: &engine::Loaded,
) -> anyhow::Result<net::NetConfig> {
    let authorities = config
        .wss_ca_file
        .as_deref()
        .map(authorities)
        .transpose()?
        .unwrap_or_default();
    Ok(net::NetConfig {
        keypair,
        listen_addrs: config.listen_addrs.iter().map(ToString::to_string).collect(),
        preferred_listen: loaded.core().listened(),
        bootstrap_peers: config.bootstrap_peers.iter().map(ToString::to_string).collect(),
        known_addrs: loaded.core().addresses(),
        mdns: config.enable_mdns,
        quic: config.enable_quic,
        relay_client: config.enable_relay_client,
        hole_punching: config.enable_hole_punching,
        upnp: config.enable_upnp,
        authorities,
        dht: dht_config(&config.anycast),
        agent_version: format!("agentanycast-rs/{}", env!("CARGO_PKG_VERSION")),
        names,
        limits: net::Limits::default(),
    })
}

/// The certificates of a file.
fn authorities(path: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    let unusable = || {
        format!(
            "wss_ca_file {}: give certificate authorities in PEM",
            path.display()
        )
    };
    let read: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path)
        .with_context(unusable)?
        .map(|certificate| certificate.map(|certificate| certificate.to_vec()))
        .collect();
    let read = read.with_context(unusable)?;
    anyhow::ensure!(!read.is_empty(), "{}: it holds none", unusable());
    Ok(read)
}

fn anycast_parts(
    config: &Config,
    key: identity::Keypair,
    net: net::Handle,
    routes: Routes,
    listening: watch::Receiver<bool>,
) -> anycast::Parts {
    let named = std::iter::once(&config.anycast.registry_addr).chain(&config.anycast.registry_addrs);
    let mut registries: Vec<String> = Vec::new();
    for address in named.filter(|address| !address.is_empty()) {
        if !registries.contains(address) {
            registries.push(address.clone());
        }
    }
    let guessed = registries.is_empty();
    if guessed {
        registries = config
            .bootstrap_peers
            .iter()
            .filter_map(registry_beside)
            .collect();
        registries.dedup();
    }
    anycast::Parts {
        key,
        net,
        registries,
        guessed,
        register: config.anycast.auto_register,
        strategy: config.anycast.routing_strategy,
        cache_ttl: config.anycast.cache_ttl,
        routes,
        listening,
    }
}

/// Where a relay at this address has its registry, unless it was told otherwise: deployed clients name the relay only.
fn registry_beside(relay: &Multiaddr) -> Option<String> {
    let host = match relay.iter().next()? {
        Protocol::Ip4(ip) => ip.to_string(),
        Protocol::Ip6(ip) => format!("[{ip}]"),
        Protocol::Dns(name) | Protocol::Dns4(name) | Protocol::Dns6(name) => name.into_owned(),
        _ => return None,
    };
    Some(format!("{host}:{REGISTRY_PORT}"))
}

fn dht_config(anycast: &config::Anycast) -> Option<net::DhtConfig> {
    let mode = match anycast.dht_mode {
        config::DhtMode::Off => return None,
        config::DhtMode::Auto => net::DhtMode::Auto,
        config::DhtMode::Client => net::DhtMode::Client,
        config::DhtMode::Server => net::DhtMode::Server,
    };
    let network = if anycast.enable_dht {
        net::DhtNetwork::Public
    } else {
        net::DhtNetwork::Mesh
    };
    Some(net::DhtConfig {
        network,
        mode,
        times: net::DhtTimes::default(),
    })
}

/// Keeps the ports for the next start, and shows the card of the last run until an agent sets one.
async fn keep_what_is_bound(engine: &Engine, net: &net::Handle, anycast: &Anycast) -> anyhow::Result<()> {
    let bound = net.bound_addrs();
    let card = engine
        .call(move |core, _| {
            core.set_listened(bound);
            Ok(core.card())
        })
        .await?;
    if card.is_some() {
        net.set_card(card.clone()).await;
        anycast.recall_card(card);
    }
    Ok(())
}

fn serve(
    api: Api,
    gate: Gate,
    listener: GrpcListener,
    (engine, mut wellbeing): (Engine, Health),
    stop: CancellationToken,
) -> anyhow::Result<tokio::task::JoinHandle<()>> {
    let (health, health_service) = tonic_health::server::health_reporter();
    let described = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let reflection = described().build_v1()?;
    // Older tools ask for the first version of reflection only.
    let old_reflection = described().build_v1alpha()?;
    let node_service = NodeServiceServer::new(api.clone())
        .max_decoding_message_size(MAX_GRPC_MESSAGE)
        .max_encoding_message_size(MAX_GRPC_MESSAGE);
    let session = SessionServiceServer::new(api.clone())
        .max_decoding_message_size(MAX_GRPC_MESSAGE)
        .max_encoding_message_size(MAX_GRPC_MESSAGE);
    let network = NetworkServiceServer::new(api.clone()).max_encoding_message_size(MAX_GRPC_MESSAGE);
    let task_notes = TaskNoteServiceServer::new(api.clone());
    let diagnostics = DiagnosticsServiceServer::new(api.clone()).max_encoding_message_size(MAX_GRPC_MESSAGE);
    let task_list = TaskListServiceServer::new(api)
        .max_decoding_message_size(MAX_GRPC_MESSAGE)
        .max_encoding_message_size(MAX_GRPC_MESSAGE);
    let router = Server::builder()
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(CONCURRENT_STREAMS)
        .max_frame_size(HTTP2_FRAME)
        .http2_max_pending_accept_reset_streams(Some(PENDING_RESETS))
        .http2_keepalive_interval(Some(KEEPALIVE))
        .tcp_nodelay(true)
        .layer(MapResponseLayer::new(too_large::restate))
        .layer(InterceptorLayer::new(gate))
        .add_service(health_service)
        .add_service(reflection)
        .add_service(old_reflection)
        .add_service(node_service)
        .add_service(session)
        .add_service(task_list)
        .add_service(task_notes)
        .add_service(network)
        .add_service(diagnostics);
    Ok(tokio::spawn(async move {
        health.set_serving::<NodeServiceServer<Api>>().await;
        let watch_health = async {
            tokio::join!(
                async {
                    engine.failed().await;
                    health.set_not_serving::<NodeServiceServer<Api>>().await;
                },
                wellbeing.tell(&health),
            );
            std::future::pending::<()>().await;
        };
        tokio::select! {
            done = router.serve_with_incoming_shutdown(listener.into_incoming(), stop.cancelled_owned()) => {
                if let Err(error) = done {
                    tracing::error!(%error, "the gRPC server stopped");
                }
            }
            () = watch_health => {}
        }
    }))
}
