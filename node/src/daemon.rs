//! The node as a process: wiring and order. Up: store, engine, network (whose events the engine
//! already awaits), gRPC, the bridge. Down in reverse: no new requests and calls, drain the engine, let the network go.

mod grpc;
mod hints;
mod home;
mod key_file;
mod parts;
mod program_link;

use std::{ffi::OsString, io, net::SocketAddr, process::ExitCode, time::Duration};

use agentanycast_identity as identity;
use agentanycast_program::{
    process::{self, StartLines},
    service_manager,
};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    anycast::{self, Anycast, Neighbours, Routes},
    api::{Api, auth::Gate, listen},
    bridge::{self, Counted, Fetcher, Fronts},
    config::{self, Config},
    engine::Engine,
    health::Health,
    names, net,
    other_daemons::OtherDaemons,
    policy::audit::Audit,
    reload::Reload,
    telemetry::{self, Face},
};
use home::Home;

/// Events of the network that wait for the engine.
const EVENTS: usize = 1024;

/// How long a stop may take (docs/operating.md); what is not drained by then is on disk.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// How long calls that are being answered may take after the engine has stopped.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// Steps that the runtime takes before it looks what the sockets and the store's thread have brought: few,
/// since beside many streams there is always a next step, and a step of one can take 0.2 ms.
const LOOK_UP: u32 = 8;

/// Threads for what waits for the disk, files of artifacts above all. Enough to keep a disk busy; each has
/// memory of its own, so that a thread for every reader of an artifact would cost more than the artifacts.
const BLOCKING: usize = 8;

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
    process::begin_with_log_file(
        PROGRAM,
        config.log_level,
        config.log_format,
        config.log_file.as_deref(),
    )?;
    process::warn_of_variables(&config::PROGRAM);
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
    let entered = tokio::select! {
        entered = Home::enter(&config) => entered?,
        () = stop.asked() => return Ok(()),
    };
    let key = match entered {
        Home::Free(keypair, held) => (keypair, held),
        Home::Served(host) => {
            return tokio::select! {
                outcome = host.be_guest() => outcome,
                () = stop.asked() => Ok(()),
            };
        }
    };
    let mut node = Node::start(&config, key, args).await?;
    program_link::place_in_home(&config);
    let start_lines = if node.fronts.take_stdout() {
        StartLines::Log
    } else {
        StartLines::Stdout
    };
    let mut lines = Vec::new();
    node.announce(&mut lines)?;
    let served = node.fronts.stdio();
    let hints = hints::Hints::new(&config);
    hints.say_ready(node.net.local_peer(), start_lines);
    service_manager::ready();
    let mut outcome = Ok(());
    tokio::select! {
        () = stop.asked() => {}
        () = service_manager::keep_alive() => {}
        part = node.ended_by_itself() => anyhow::bail!("the {part} has ended; its last error is in the log"),
        path = key_file::lost(&config.key_path) => {
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
    if tokio::time::timeout(STOP_WITHIN, node.stop()).await.is_err() {
        tracing::warn!("stopped before everything was drained; what was accepted is on disk");
    }
    hints.say_stopped();
    outcome
}

struct Node {
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
    metrics_addr: Option<SocketAddr>,
    face_stop: CancellationToken,
    face: tokio::task::JoinHandle<()>,
    traces_stop: CancellationToken,
    traces: tokio::task::JoinHandle<()>,
    fronts: Fronts,
}

impl Node {
    #[expect(
        clippy::too_many_lines,
        reason = "the order in which the parts start, in one place"
    )]
    async fn start(
        config: &Config,
        (keypair, held): (identity::Keypair, identity::KeyLock),
        args: Vec<OsString>,
    ) -> anyhow::Result<Self> {
        let me = identity::peer_id(&keypair);
        let (routes, neighbours) = (Routes::new(), Neighbours::default());
        let traces_stop = CancellationToken::new();
        let traces = parts::start_traces(config, me, traces_stop.clone())?;
        let audit = parts::open_audit(&config.policy)?;
        let audit_state = audit.as_ref().map(Audit::state);
        let reload = Reload::new(args, config, audit.as_ref().and_then(Audit::reopener))?;
        let unfindable = watch::Sender::default();
        let other_daemons = OtherDaemons::new(&keypair);
        let health = Health {
            policy: reload.trouble(),
            audit: audit_state,
            store: config.store_path.clone(),
            card: unfindable.subscribe(),
            other_daemons: other_daemons.clone(),
        };
        let shown = names::own::names(&config.identity, &config.key_path, me)?;
        let rules = parts::read_rules(&config.policy)?;
        let (ear, heard) = names::ear(rules.asks());
        let hooks = parts::Hooks {
            routes: routes.clone(),
            on_span: traces.hear,
            ear: ear.clone(),
            neighbours: neighbours.clone(),
        };
        let mut loaded = parts::load_engine(config, keypair.clone(), hooks)?;
        loaded.guard(rules, audit, config.policy.audit_required)?;

        let (events, inbox) = mpsc::channel(EVENTS);
        let (net, net_task) = net::start(
            parts::net_config(config, keypair.clone(), shown, other_daemons.clone(), &loaded)?,
            events,
        )
        .await?;
        let engine_stop = CancellationToken::new();
        let (engine, engine_task) = loaded.run(net.clone(), inbox, engine_stop.clone());
        tokio::spawn(reload.run(engine.clone(), ear.clone()));
        net.judge_invites(parts::invite_judge(engine.clone()));
        let names = parts::names_parts(config, &engine, &net)?;
        names::start(names, &ear, heard, engine_stop.clone());
        let anycast_stop = CancellationToken::new();
        let told = (engine.listening(), unfindable);
        let parts = parts::anycast_parts(
            config,
            keypair.clone(),
            net.clone(),
            (routes, neighbours),
            told,
            other_daemons,
        );
        let (anycast, anycast_task) = anycast::start(parts, &anycast_stop)?;
        keep_what_is_bound(&engine, &net, &anycast).await?;

        let listener = listen::bind(&config.grpc_listen, &config.grpc).await?;
        let agents = engine.clone();
        listener
            .connections()
            .on_closed(move |connection| agents.caller_gone(connection.0));
        let counted = Counted::default();
        let face_stop = CancellationToken::new();
        let face = Face::new(
            engine.clone(),
            net.clone(),
            anycast.clone(),
            health.clone(),
            counted.clone(),
        );
        let (metrics_addr, face) = serve_metrics(config, face, face_stop.clone()).await;
        let audit_log = config.policy.audit_log_path.clone();
        let api = Api::new(
            engine.clone(),
            net.clone(),
            anycast,
            parts::limits_of(config),
            audit_log,
            health.clone(),
            names::WebNames::new(Fetcher::new(&config.bridge.outbound)?),
        );
        let outbound_stop = CancellationToken::new();
        let outbound = bridge::start_outbound(
            &engine,
            keypair.clone(),
            &config.bridge.outbound,
            outbound_stop.clone(),
        )?;
        let server_stop = CancellationToken::new();
        let gate = Gate::of(&config.grpc)?;
        let fronts = Fronts::start(config, (api.clone(), net.clone()), keypair, counted).await?;
        let server = grpc::serve(api, gate, listener, (engine, health), server_stop.clone())?;
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
            metrics_addr,
            face_stop,
            face,
            traces_stop,
            traces: traces.task,
            fronts,
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
        if let Some(address) = self.metrics_addr {
            writeln!(out, "METRICS_ADDR={address}")?;
            out.flush()?;
        }
        self.fronts.announce(&mut out)
    }

    /// Returns when a part has ended that nobody has stopped: without it the daemon would look alive and
    /// answer nobody. Whoever started it starts it again; what was accepted is on disk.
    async fn ended_by_itself(&mut self) -> &'static str {
        tokio::select! {
            _ = &mut self.engine_task => "engine",
            _ = &mut self.net_task => "network",
            _ = &mut self.outbound => "outbound bridge",
            _ = &mut self.server => "gRPC server",
            front = self.fronts.ended_by_itself() => front,
        }
    }

    async fn stop(self) {
        self.fronts.stop().await;
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

/// Serves metrics and health over HTTP; where they are served, if they are.
async fn serve_metrics(
    config: &Config,
    face: Face,
    stop: CancellationToken,
) -> (Option<SocketAddr>, tokio::task::JoinHandle<()>) {
    let listener = telemetry::bind(&config.metrics).await;
    let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
    (address, tokio::spawn(telemetry::serve(listener, face, stop)))
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
