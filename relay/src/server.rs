//! The relay as a process: wiring and order. Up: key, store, registry, network, gRPC, federation, HTTP; then it says where
//! it is. Down in reverse, within five seconds.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    net::SocketAddr,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use agentanycast_daemon_kit::{
    listening,
    process::{self, StartLines},
    service_manager,
    settings::{self, CommandLine},
    traces::{TraceExporter, Traces},
};
use agentanycast_identity::{self as identity, Keypair};
use agentanycast_proto::v1::{RelayEndpoint, RelayInfo, RelayLimits};
use anyhow::Context as _;
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use crate::{
    bounded_listener::BoundedListener,
    clock::{HybridClock, now},
    config::{self, Config, RegistryAuth},
    fd_budget::FdBudget,
    federation::sync,
    grpc::{self, SpanRecorder},
    http::{self, RelayHttpState},
    metrics::Metrics,
    net::{self, NetConfig},
    registry::{RecordSender, RegistryLimits, RemoteRecord, SkillRegistry, StoredRecord},
    registry_handle::Handle,
    store::Store,
};

/// What it calls itself when it complains.
const PROGRAM: &str = "agentanycast-relay";

/// How long a stop may take (the contract's figure is 5 s).
const STOP_WITHIN: Duration = Duration::from_secs(4);

/// How long calls that are being answered may take after that.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// How often expired entries are looked for.
const EXPIRE_EVERY: Duration = Duration::from_millis(250);

/// Runs the relay as the command line says. `args` begins with the program's name.
pub fn main_with_args(args: impl Iterator<Item = OsString>) -> ExitCode {
    process::main(PROGRAM, config::load_from_process(args), run_process)
}

/// The command line of the relay.
pub fn command_line() -> CommandLine {
    settings::command(&config::PROGRAM)
}

fn run_process(config: Config) -> anyhow::Result<()> {
    process::begin(PROGRAM, config.log_level, config.log_format);
    process::warn_of_variables(&config::PROGRAM);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    process::block_on(runtime, run(config))
}

async fn run(config: Config) -> anyhow::Result<()> {
    let mut stop = process::Stop::listen()?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut relay = RelayProcess::start(&config).await?;
    let lines = relay.lines.join("\n") + "\n";
    let announcing = StartLines::Stdout.announce(lines.into_bytes());
    tokio::pin!(announcing);
    let living = service_manager::keep_alive();
    tokio::pin!(living);
    service_manager::ready();
    let mut outcome = Ok(());
    loop {
        tokio::select! {
            () = stop.asked() => break,
            () = &mut living => {}
            error = &mut announcing => {
                outcome = Err(error.into());
                break;
            }
            Some(()) = hangup.recv() => {
                service_manager::reloading();
                tracing::info!("SIGHUP: the relay reads no file again; restart it to change its settings");
                service_manager::ready();
            }
            part = relay.ended_by_itself() => anyhow::bail!("the {part} has ended; its last error is in the log"),
        }
    }
    tracing::info!("stopping");
    service_manager::stopping();
    if tokio::time::timeout(STOP_WITHIN, relay.stop()).await.is_err() {
        tracing::warn!("stopped before everything was drained");
    }
    outcome
}

struct RelayProcess {
    /// The start lines: where the relay listens.
    lines: Vec<String>,
    _key: Option<identity::KeyLock>,
    handle: Handle,
    stop: CancellationToken,
    net: JoinHandle<()>,
    grpc: JoinHandle<anyhow::Result<()>>,
    traces: JoinHandle<()>,
    traces_stop: CancellationToken,
    /// What nobody needs to wait for long.
    others: Vec<JoinHandle<()>>,
    writer: Option<std::thread::JoinHandle<()>>,
}

impl RelayProcess {
    async fn start(config: &Config) -> anyhow::Result<Self> {
        let (keypair, key) = keypair(config)?;
        let me = identity::peer_id(&keypair).to_string();
        let metrics = Arc::new(Metrics::default());
        let stop = CancellationToken::new();
        let (handle, writer) = registry(config, &me, &metrics)?;

        let peer = keypair.public().to_peer_id();
        let ceilings = ceilings(config);
        // Bound first, since nodes that connect are told the ports.
        let address = config.registry_listen.to_bind();
        let registry = listening::bind(&config.registry_listen).await.with_context(|| {
            format!("cannot listen for the registry on {address}; end what uses it, or set --registry-listen")
        })?;
        let registry_addr = registry.local_addr()?;
        let api = match &config.api_listen {
            listen if listen.0.is_empty() => None,
            listen => Some(listening::bind(listen).await),
        };
        let api_addr = api
            .as_ref()
            .and_then(|bound| bound.as_ref().ok()?.local_addr().ok());
        let info = relay_info(config, registry_addr, api_addr);
        let registry_endpoint = info.registry.clone().unwrap_or_default();
        let net = net::start(
            net_config(config, &ceilings, info, keypair),
            Arc::clone(&metrics),
            stop.clone(),
        )
        .await?;
        let mut lines: Vec<String> = net::with_peer(&net.addresses, peer)
            .iter()
            .map(|address| format!("RELAY_ADDR={address}"))
            .collect();
        lines.push(format!("REGISTRY_ADDR={registry_addr}"));
        let listener = BoundedListener::new(registry, "registry", ceilings.registry, Arc::clone(&metrics));
        let traces_stop = CancellationToken::new();
        let (recorder, traces) = traces(config, &me, traces_stop.clone())?;
        let grpc = tokio::spawn(grpc::serve(handle.clone(), listener, recorder, stop.clone()));

        let (peers, mut others) = sync::start(
            &handle,
            &config.federation_peers,
            config.federation_sync_interval,
            &stop,
        );
        others.push(tokio::spawn(expire(handle.clone(), stop.clone())));
        let face = RelayHttpState::new(handle.clone(), peers, registry_endpoint, Instant::now());
        let faces = [
            (
                ("METRICS_ADDR", "metrics", ceilings.metrics),
                (&config.metrics_listen, None),
                http::metrics_router(&face),
            ),
            (
                ("MCP_ADDR", "mcp", ceilings.mcp),
                (&config.mcp_listen, None),
                http::mcp_router(&face, &config.api_cors_origins, stop.clone()),
            ),
            (
                ("API_ADDR", "api", ceilings.api),
                (&config.api_listen, api),
                http::api_router(&face, &config.api_cors_origins)?,
            ),
        ];
        for ((name, listener, places), (listen, bound), router) in faces {
            if listen.0.is_empty() {
                continue;
            }
            let address = listen.to_bind();
            let bound = match bound {
                Some(bound) => bound,
                None => listening::bind(listen).await,
            };
            match bound {
                Ok(bound) => {
                    lines.push(format!("{name}={}", bound.local_addr()?));
                    let bounded = BoundedListener::new(bound, listener, places, Arc::clone(&metrics));
                    others.push(tokio::spawn(http::serve(bounded, router, stop.clone())));
                }
                Err(error) => face.report_problem(format!(
                    "{name}: cannot listen on {address}: {error}; end what uses it, or set --{listener}-listen"
                )),
            }
        }
        Ok(Self {
            lines,
            _key: key,
            handle,
            stop,
            net: net.task,
            grpc,
            traces,
            traces_stop,
            others,
            writer,
        })
    }

    /// Returns when a part has ended that nobody has stopped.
    async fn ended_by_itself(&mut self) -> &'static str {
        tokio::select! {
            _ = &mut self.net => "network",
            ended = &mut self.grpc => {
                if let Ok(Err(error)) = ended {
                    tracing::error!(%error, "the gRPC server failed");
                }
                "gRPC server"
            }
        }
    }

    async fn stop(self) {
        self.stop.cancel();
        let _ = tokio::time::timeout(LAST_ANSWERS, self.grpc).await;
        for other in self.others {
            other.abort();
        }
        let _ = self.net.await;
        if let (Some(store), Some(writer)) = (self.handle.store(), self.writer) {
            store.stop();
            let _ = tokio::task::spawn_blocking(move || writer.join()).await;
        }
        // Last, since a collector may be slow.
        self.traces_stop.cancel();
        let _ = self.traces.await;
    }
}

/// Who is told of calls, and what tells the collector.
fn traces(
    config: &Config,
    me: &str,
    stop: CancellationToken,
) -> anyhow::Result<(Option<SpanRecorder>, JoinHandle<()>)> {
    if config.otlp_endpoint.is_empty() {
        return Ok((None, Traces::off().task));
    }
    let teller = TraceExporter {
        service: PROGRAM,
        instance: me,
        endpoint: &config.otlp_endpoint,
        insecure: false,
    };
    let traces = Traces::start(teller, stop)?;
    Ok((
        Some(SpanRecorder::new(traces.hear, config.otlp_sample_rate.0)),
        traces.task,
    ))
}

/// The relay's key, and its file for this process alone.
fn keypair(config: &Config) -> anyhow::Result<(Keypair, Option<identity::KeyLock>)> {
    if let Some(path) = &config.key {
        let (keypair, held) = identity::load_and_hold(path)?;
        return Ok((keypair, Some(held)));
    }
    tracing::warn!(
        "no --key: this relay has a new identity at each start, and whoever reserved a place loses it then"
    );
    Ok((Keypair::generate_ed25519(), None))
}

/// The ceilings, within what this process may have open.
fn ceilings(config: &Config) -> FdBudget {
    let descriptors = process::descriptors();
    let (ceilings, lowered) = FdBudget::new(descriptors, config.max_connections, config.connections_per_ip);
    if let Some(lowered) = lowered {
        tracing::warn!("{lowered}");
    }
    ceilings
}

/// What nodes are told of this relay.
fn relay_info(config: &Config, registry: SocketAddr, api: Option<SocketAddr>) -> RelayInfo {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let endpoint = |address: &str, bound: SocketAddr| RelayEndpoint {
        address: address.to_owned(),
        port: bound.port().into(),
        loopback_only: bound.ip().is_loopback(),
    };
    RelayInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        registry: Some(endpoint(&config.announce_registry, registry)),
        api: api.map(|api| endpoint("", api)),
        limits: Some(RelayLimits {
            registration_ms: millis(config.registry_ttl),
            signed_only: config.registry_auth == RegistryAuth::Signed,
            skills: u32::try_from(RegistryLimits::default().skills).unwrap_or(u32::MAX),
            circuit_bytes: config.circuit_bytes.0,
            circuit_ms: millis(config.circuit_duration),
        }),
    }
}

fn net_config(config: &Config, ceilings: &FdBudget, info: RelayInfo, keypair: Keypair) -> NetConfig {
    let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let per_hour = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    NetConfig {
        keypair,
        listen: config.listen.clone(),
        announce: config.announce.clone(),
        info,
        max_reservations: count(config.max_reservations),
        max_reservations_per_ip: count(config.max_reservations_per_ip),
        max_circuits: count(config.max_circuits),
        max_circuits_per_peer: count(config.max_circuits_per_peer),
        max_circuits_per_ip: count(config.max_circuits_per_ip),
        circuit_duration: config.circuit_duration,
        circuit_bytes: config.circuit_bytes.0,
        reservations_per_ip: per_hour(config.reservations_per_ip),
        circuits_per_ip: per_hour(config.circuits_per_ip),
        max_connections: per_hour(ceilings.peers.all as u64),
        connections_per_ip: ceilings.peers.of_one_address,
        max_pending: per_hour(ceilings.pending.all as u64),
        pending_per_ip: ceilings.pending.of_one_address,
    }
}

/// The registry with what its store has kept, and the thread that writes it.
fn registry(
    config: &Config,
    me: &str,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<(Handle, Option<std::thread::JoinHandle<()>>)> {
    let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let limits = RegistryLimits {
        ttl: config.registry_ttl,
        local: count(config.registry_entries),
        federated: count(config.federated_entries),
        per_source: count(config.entries_per_ip),
        source_bytes: count(config.entry_bytes_per_ip.0),
        per_origin: count(config.federated_entries.div_ceil(4)),
        signed_only: config.registry_auth == RegistryAuth::Signed,
        ..RegistryLimits::default()
    };
    let Some(directory) = &config.store else {
        let registry = SkillRegistry::new(me, limits, HybridClock::default());
        return Ok((
            Handle::new(me, registry, None, config.requests_per_ip, Arc::clone(metrics)),
            None,
        ));
    };
    let opened = Store::open(directory)?;
    let mut registry = SkillRegistry::new(me, limits, HybridClock::after(opened.last_version));
    let gone = restore(&mut registry, me, config.registry_ttl, opened.records);
    let handle = Handle::new(
        me,
        registry,
        Some(opened.store.clone()),
        config.requests_per_ip,
        Arc::clone(metrics),
    );
    for peer in gone {
        opened.store.mark(&peer);
    }
    let (of_peer, all, clock) = (handle.clone(), handle.clone(), handle.clone());
    let writer = opened.store.run(
        move |peer| of_peer.stored(peer),
        move || all.own_peers(),
        move || clock.last_version(),
    )?;
    Ok((handle, Some(writer)))
}

/// Takes up what the store has kept. The peers of the entries that do not count any more.
fn restore(registry: &mut SkillRegistry, me: &str, ttl: Duration, records: Vec<StoredRecord>) -> Vec<String> {
    let (mut kept, mut gone) = (0, Vec::new());
    // Signed for another identity of this relay.
    let mut foreign: BTreeMap<String, usize> = BTreeMap::new();
    for stored in records {
        let told = stored.registration.clone();
        let peer = told.peer_id.clone();
        // What was signed for another identity of this relay proves nothing any more; its agent registers anew.
        let is_foreign = told.origin_relay_id != me && !told.proofs.is_empty();
        let of = told.origin_relay_id.clone();
        let incoming = RemoteRecord::from_registration(told, now().wall, ttl, RecordSender::default());
        if is_foreign {
            *foreign.entry(of).or_default() += 1;
            gone.push(peer);
        } else if registry.restore(now(), incoming, &stored).is_err() {
            gone.push(peer);
        } else {
            kept += 1;
        }
    }
    let signed_for_another: usize = foreign.values().sum();
    tracing::info!(
        kept,
        expired = gone.len() - signed_for_another,
        signed_for_another,
        "the registry was read from its store"
    );
    for (was, entries) in foreign {
        tracing::warn!(
            %was,
            is = me,
            entries,
            "this relay had another identity when its store was written: what agents signed for that one does not count, and \
             they are found again once they have registered anew; start it with the same --key"
        );
    }
    gone
}

async fn expire(handle: Handle, stop: CancellationToken) {
    let mut ticks = interval(EXPIRE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            _ = ticks.tick() => handle.expire(),
        }
    }
}
