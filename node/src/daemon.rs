//! The node as a process: wiring and order. Up: store, engine, network (whose events the engine
//! already awaits), gRPC, gateways. Down in reverse: no new requests and calls, drain the engine, let the network go.

mod assemble;
mod grpc_server;
mod key_file_watch;
mod program_link;
mod single_instance;
mod terminal_hints;

use std::{
    ffi::OsString,
    io,
    net::SocketAddr,
    process::ExitCode,
    sync::{Arc, OnceLock},
    time::Duration,
};

use agentanycast_core::Engine;
use agentanycast_core::policy::audit::Audit;
use agentanycast_daemon_kit::{
    process, service_manager,
    settings::{self, CommandLine},
};
use agentanycast_gateway::{
    NodePort,
    agents::Agents,
    composition::{Composition, RunnerContext, RunnerPart, ServedAgents},
    registration::GatewayHost,
    running_gateways::RunningGateways,
    settings::{part::Host, run::ConfiguredAgents},
};
use agentanycast_identity as identity;
use agentanycast_net::{self as net, duplicate_key::DuplicateKeyReports};
use anyhow::Context as _;
use futures::FutureExt as _;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    agent_programs::AgentPrograms,
    anycast::{self, Anycast, NeighbourCards, PeerHealthHandle},
    config::{Config, GrpcAccess, GrpcListen},
    external_tasks,
    gateway_counters::GatewayCounters,
    grpc::{GrpcFace, auth::CallAuth, listen},
    health::Health,
    identity_resolver,
    in_process::LocalGateway,
    load_config,
    policy_reload::PolicyReload,
    service::Service,
    telemetry::{self, MetricsHttp},
};
use single_instance::HomeState;

/// Events of the network that wait for the engine.
const EVENTS: usize = 1024;

/// How long a stop may take (docs/operating.md); what is not drained by then is on disk.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// How long calls that are being answered may take after the engine has stopped.
const LAST_ANSWERS_WAIT: Duration = Duration::from_millis(500);

/// Steps that the runtime takes before it looks what the sockets and the store's thread have brought: few,
/// since beside many streams there is always a next step, and a step of one can take 0.2 ms.
const EVENT_INTERVAL: u32 = 8;

/// Threads for what waits for the disk, files of artifacts above all. Enough to keep a disk busy; each has
/// memory of its own, so that a thread for every reader of an artifact would cost more than the artifacts.
const MAX_BLOCKING_THREADS: usize = 8;

/// What it calls itself when it complains.
const PROGRAM: &str = "agentanycastd";

/// Runs the daemon with these parts as the command line says; the whole of `agentanycastd` and of `anycast daemon`.
/// `args` begins with the program's name.
pub fn main_with_args(args: impl Iterator<Item = OsString>, parts: &'static Composition) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    if let Some(ended) = parts.run_helper(&args) {
        return ended;
    }
    load_config::know(parts);
    let loaded = load_config::load_from_process(args.clone().into_iter());
    process::main(PROGRAM, loaded, |config| run_process(config, args, parts))
}

/// The command line of the daemon with these parts.
pub fn command_line(parts: &'static Composition) -> CommandLine {
    load_config::know(parts);
    settings::command(load_config::program())
}

fn run_process(config: Config, args: Vec<OsString>, parts: &'static Composition) -> anyhow::Result<()> {
    process::begin_with_log_file(
        PROGRAM,
        config.log_level,
        config.log_format,
        config.log_file.as_deref(),
    )?;
    process::warn_of_variables(load_config::program());
    // One thread: on small machines the hops of a task's road cost more across threads than on one
    // (docs/design.md, "Threads").
    let runtime = tokio::runtime::Builder::new_current_thread()
        .event_interval(EVENT_INTERVAL)
        .global_queue_interval(EVENT_INTERVAL)
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .enable_all()
        .build()?;
    process::block_on(runtime, run(config, args, parts))
}

async fn run(config: Config, args: Vec<OsString>, parts: &Composition) -> anyhow::Result<()> {
    let mut stop = process::Stop::listen()?;
    let entered = tokio::select! {
        entered = HomeState::enter(&config, parts.is_wanted_on_stdio(Host::Daemon, &config.parts)) => entered?,
        () = stop.asked() => return Ok(()),
    };
    let key = match entered {
        HomeState::Free(keypair, held) => (keypair, held),
        HomeState::Served(host) => {
            return tokio::select! {
                outcome = host.announce_and_wait() => outcome,
                () = stop.asked() => Ok(()),
            };
        }
    };
    let mut node = RunningNode::start(&config, key, args, parts).await?;
    program_link::create_in_home(&config);
    let (start_lines, served) = node.gateways.stdio();
    let mut lines = Vec::new();
    node.announce(&mut lines)?;
    let hints = terminal_hints::TerminalHints::new(&config);
    hints.say_ready(node.net.local_peer(), start_lines);
    service_manager::ready();
    let mut outcome = Ok(());
    tokio::select! {
        () = stop.asked() => {}
        () = service_manager::keep_alive() => {}
        part = node.wait_for_failure() => anyhow::bail!("the {part} has ended; its last error is in the log"),
        path = key_file_watch::wait_until_lost(&config.key_path) => {
            let path = path.display();
            outcome = Err(anyhow::anyhow!(
                "the key {path} was deleted or replaced while the daemon ran; it ends, since it cannot be started again with \
                 what it would accept"
            ));
        }
        served = served => outcome = served,
        error = start_lines.announce(lines) => outcome = Err(error.into()),
    }
    tracing::info!("stopping");
    service_manager::stopping();
    if let Some(agents) = &mut node.configured_agents {
        agents.drain(stop.asked().boxed()).await;
    }
    if tokio::time::timeout(STOP_TIMEOUT, node.stop()).await.is_err() {
        tracing::warn!("stopped before everything was drained; what was accepted is on disk");
    }
    hints.say_stopped();
    outcome
}

struct RunningNode {
    _key: identity::KeyLock,
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
    /// Agents with sockets of their own, and where these are.
    agent_sockets: Vec<(String, GrpcListen)>,
    metrics_addr: Option<SocketAddr>,
    metrics_stop: CancellationToken,
    metrics_server: tokio::task::JoinHandle<()>,
    traces_stop: CancellationToken,
    traces: tokio::task::JoinHandle<()>,
    gateways: RunningGateways,
    configured_agents: Option<Box<dyn ServedAgents>>,
}

impl RunningNode {
    #[expect(
        clippy::too_many_lines,
        reason = "the order in which the parts start, in one place"
    )]
    async fn start(
        config: &Config,
        (keypair, held): (identity::Keypair, identity::KeyLock),
        args: Vec<OsString>,
        parts: &Composition,
    ) -> anyhow::Result<Self> {
        let me = identity::peer_id(&keypair);
        let (routes, neighbours) = (PeerHealthHandle::new(), NeighbourCards::default());
        let traces_stop = CancellationToken::new();
        let traces = assemble::start_traces(config, me, traces_stop.clone())?;
        let audit = assemble::open_audit(&config.policy)?;
        let audit_state = audit.as_ref().map(Audit::state);
        let reload = PolicyReload::new(args, config, audit.as_ref().and_then(Audit::reopener))?;
        let unfindable = watch::Sender::default();
        let other_daemons = DuplicateKeyReports::new(&keypair);
        let health = Health {
            policy: reload.trouble(),
            audit: audit_state,
            store: config.store_path.clone(),
            card: unfindable.subscribe(),
            other_daemons: other_daemons.clone(),
            programs: AgentPrograms::default(),
            metrics: Arc::default(),
        };
        let shown = identity_resolver::own_identity::load(&config.identity, &config.key_path, me)?;
        let rules = assemble::read_rules(&config.policy)?;
        let (ear, heard) = identity_resolver::channel(rules.required_proofs());
        let (shown_cards_sender, shown_cards) = mpsc::unbounded_channel();
        let hooks = assemble::EngineHooks {
            peer_health: routes.clone(),
            on_span: traces.hear,
            resolver: ear.clone(),
            neighbours: neighbours.clone(),
            shown_cards: shown_cards_sender,
        };
        let mut loaded = assemble::load_engine(config, keypair.clone(), hooks)?;
        loaded.guard(rules, audit, config.policy.audit_required)?;

        let (events, inbox) = mpsc::channel(EVENTS);
        let (net, net_task) = net::start(
            assemble::net_config(config, keypair.clone(), shown, other_daemons.clone(), &loaded)?,
            events,
        )
        .await?;
        let engine_stop = CancellationToken::new();
        let (engine, engine_task) = loaded.run(Arc::new(net.clone()), inbox, engine_stop.clone());
        tokio::spawn(reload.run(engine.clone(), ear.clone()));
        net.judge_invites(assemble::invite_judge(engine.clone()));
        net.show_agents(assemble::agent_pages(engine.clone()));
        net.show_by_peer(assemble::cards_for_peers(engine.clone()));
        tokio::spawn(assemble::show_changed_cards(net.clone(), shown_cards));
        let fetcher = parts.outside.fetcher(&config.outbound)?;
        let names = assemble::resolver_parts(config, &engine, &net, Arc::clone(&fetcher))?;
        identity_resolver::start(names, &ear, heard, engine_stop.clone());
        let anycast_stop = CancellationToken::new();
        let told = (engine.listening(), unfindable);
        let of_anycast = assemble::anycast_parts(
            config,
            keypair.clone(),
            net.clone(),
            (routes, neighbours),
            told,
            other_daemons,
        );
        let (anycast, anycast_task) = anycast::start(of_anycast, &anycast_stop)?;
        remember_ports_and_card(&engine, &net, &anycast).await?;

        let listener = listen::bind(&config.grpc_listen, &config.grpc).await?;
        let listener = listener.kept_while(&config.key_path, me);
        let agents = engine.clone();
        listener
            .connections()
            .on_closed(move |connection| agents.connection_closed(connection.0));
        let mut listeners = vec![listener];
        let mut agent_sockets = Vec::new();
        for socket in &config.agents.socket {
            let bound = listen::bind(&socket.listen, &GrpcAccess::default()).await;
            let bound = bound.with_context(|| format!("the socket of agent {}", socket.name))?;
            let bound = bound.kept_while(&config.key_path, me);
            agent_sockets.push((socket.name.clone(), bound.address().clone()));
            let name = socket.name.as_str().into();
            listeners.push(bound.for_agent(name, listeners[0].connections()));
        }
        let counted = GatewayCounters::default();
        let face_stop = CancellationToken::new();
        let face = MetricsHttp::new(
            engine.clone(),
            net.clone(),
            anycast.clone(),
            health.clone(),
            counted.clone(),
        );
        let metrics_problem = Arc::clone(&health.metrics);
        let (metrics_addr, face) = serve_metrics(config, face, &metrics_problem, face_stop.clone()).await;
        let audit_log = config.policy.audit_log_path.clone();
        let service = Service::new(
            engine.clone(),
            net.clone(),
            anycast,
            assemble::limits_of(config, parts.outside),
            audit_log,
            health.clone(),
            identity_resolver::DidWebLookup::new(fetcher),
        );
        tokio::spawn(service.clone().publish_changes());
        let outbound_stop = CancellationToken::new();
        let (outbound, external) = external_tasks::start(
            &engine,
            keypair.clone(),
            parts.outside,
            &config.outbound,
            outbound_stop.clone(),
        )?;
        let server_stop = CancellationToken::new();
        let gate = CallAuth::from_access(&config.grpc)?;
        let local = Arc::new(LocalGateway::new(service.clone(), net.clone()));
        let port = NodePort {
            client: Arc::clone(&local) as _,
            agents: local,
            external,
            key: Some(keypair),
            home: config.key_path.parent().map(Into::into),
        };
        let host = GatewayHost {
            host: Host::Daemon,
            values: &config.parts,
            request_counts: &|gateway| counted.of_gateway(gateway),
        };
        let gateways = RunningGateways::start(parts.gateways, host, &port).await?;
        counted.set_own(gateways.metrics());
        let configured_agents = serve_configured_agents(config, parts.runner, port.agents, &service);
        let server = grpc_server::serve(
            GrpcFace::new(service),
            gate,
            listeners,
            (engine, health),
            server_stop.clone(),
        )?;
        Ok(Self {
            _key: held,
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
            agent_sockets,
            metrics_addr,
            metrics_stop: face_stop,
            metrics_server: face,
            traces_stop,
            traces: traces.task,
            gateways,
            configured_agents,
        })
    }

    /// The start lines: calls are taken from here on.
    fn announce(&self, mut out: impl io::Write) -> io::Result<()> {
        let me = self.net.local_peer();
        writeln!(out, "PEER_ID={me}")?;
        out.flush()?;
        for address in self.net.listen_addrs() {
            writeln!(out, "LISTEN_ADDR={address}/p2p/{me}")?;
            out.flush()?;
        }
        for (name, address) in &self.agent_sockets {
            writeln!(out, "AGENT_ADDR={name} {address}")?;
            out.flush()?;
        }
        if let Some(address) = self.metrics_addr {
            writeln!(out, "METRICS_ADDR={address}")?;
            out.flush()?;
        }
        self.gateways.announce(&mut out)
    }

    /// Returns when a part has ended that nobody has stopped: without it the daemon would look alive and
    /// answer nobody. Whoever started it starts it again; what was accepted is on disk.
    async fn wait_for_failure(&mut self) -> &'static str {
        tokio::select! {
            _ = &mut self.engine_task => "engine",
            _ = &mut self.net_task => "network",
            _ = &mut self.outbound => "outbound bridge",
            _ = &mut self.server => "gRPC server",
            front = self.gateways.wait_for_failure() => front,
        }
    }

    async fn stop(self) {
        self.gateways.stop().await;
        self.server_stop.cancel();
        self.anycast_stop.cancel();
        self.outbound_stop.cancel();
        let _ = self.outbound.await; // What it heard last is still kept.
        self.engine_stop.cancel();
        let _ = self.engine_task.await;
        let _ = tokio::time::timeout(LAST_ANSWERS_WAIT, self.server).await;
        let _ = self.anycast_task.await;
        self.net.shutdown().await;
        let _ = self.net_task.await;
        // Last, so that it can be seen how the rest ends.
        self.metrics_stop.cancel();
        self.traces_stop.cancel();
        let _ = self.metrics_server.await;
        let _ = self.traces.await;
    }
}

/// Begins to serve the agents of the configuration, if it has some.
fn serve_configured_agents(
    config: &Config,
    runner: RunnerPart,
    agents: Arc<dyn Agents>,
    service: &Service,
) -> Option<Box<dyn ServedAgents>> {
    let configured = ConfiguredAgents::read(&config.parts);
    let RunnerPart::BuiltIn { serve, .. } = runner else {
        return None;
    };
    configured.given().next()?;
    // The home of the daemon: an `anycast run` of the same agent there knows what was started here.
    let home = config.key_path.parent().or_else(|| config.store_path.parent());
    let context = RunnerContext {
        agents,
        state: home.unwrap_or(&config.store_path).to_owned(),
        reports: Arc::new(service.programs().clone()),
    };
    Some(serve(&configured, context))
}

/// Serves metrics and health over HTTP; where they are served, if they are.
async fn serve_metrics(
    config: &Config,
    face: MetricsHttp,
    problem: &OnceLock<String>,
    stop: CancellationToken,
) -> (Option<SocketAddr>, tokio::task::JoinHandle<()>) {
    let listener = telemetry::bind(&config.metrics).await.unwrap_or_else(|why| {
        tracing::error!("{why}");
        // Set once: it is bound once.
        let _ = problem.set(why);
        None
    });
    let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
    (address, tokio::spawn(telemetry::serve(listener, face, stop)))
}

/// Keeps the ports for the next start, and shows the card of the last run until an agent sets one.
async fn remember_ports_and_card(
    engine: &Engine,
    net: &net::Handle,
    anycast: &Anycast,
) -> anyhow::Result<()> {
    let bound = net.bound_addrs();
    let shown = engine.remember_listen_addresses(bound).await?;
    let card = shown.public.as_deref().cloned();
    anycast.set_own_card(shown.own.clone());
    if card.is_some() || shown.has_private {
        net.set_cards(card.clone(), shown.has_private).await;
    }
    if card.is_some() {
        anycast.recall_card(card);
    }
    Ok(())
}
