//! The bridge as a process of its own. Up: daemon, callers, fronts; then it says where they are. Down: no more requests, and
//! those that are there are answered, within five seconds.

use std::{ffi::OsString, process::ExitCode, sync::Arc, time::Duration};

use agentanycast::Node;
use agentanycast_daemon_kit::{
    hot_reload,
    process::{self, StartLines},
    settings::{self, CommandLine, Program},
};
use agentanycast_gateway::{
    NodePort, SdkGateway,
    registration::{ProgramContext, Registration, RequestCounts},
    running::RunningGateway,
};
use futures::{
    FutureExt as _,
    future::{join_all, select_all},
};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::{self, Config, LoadedBridgeConfig};

/// How long a call waits for a daemon that is away, such as while it is upgraded. Callers wait with it, and give up
/// themselves after some 30 s.
const DAEMON_WITHIN: Duration = Duration::from_secs(10);

/// The program, as it calls itself.
const PROGRAM: &str = "agentanycast-bridge";

/// The gateways that are built in, one line each.
pub static GATEWAYS: &[GatewayRegistration] = &[
    Registration::with_own_section(agentanycast_a2a::NAME, |bridge, port| {
        bridge.start_a2a(port).boxed()
    }),
    Registration::with_own_section(agentanycast_mcp::NAME, |bridge, port| {
        bridge.start_mcp(port).boxed()
    }),
    #[cfg(feature = "upp")]
    Registration::new::<agentanycast_upp_gateway::UppGateway>(),
];

/// A gateway of a bridge.
pub type GatewayRegistration = Registration<BridgeContext>;

/// What gateways are given of the bridge.
#[derive(Debug)]
pub struct BridgeContext {
    config: Config,
}

impl ProgramContext for BridgeContext {
    type Config = Config;

    fn config(&self) -> &Config {
        &self.config
    }

    /// This program has no metrics.
    fn request_counts(&self, _: &'static str) -> Arc<RequestCounts> {
        Arc::default()
    }
}

impl BridgeContext {
    async fn start_a2a(&self, port: NodePort) -> anyhow::Result<Option<RunningGateway>> {
        let started = agentanycast_a2a::start(&self.config.front, port.client, None, Arc::default());
        started.await.map(Some)
    }

    async fn start_mcp(&self, port: NodePort) -> anyhow::Result<Option<RunningGateway>> {
        let Some(settings) = self.config.mcp_front() else {
            return Ok(None);
        };
        let started = agentanycast_mcp::start(&settings.front, port.client, Arc::default());
        started.await.map(Some)
    }
}

/// Runs the bridge as the command line says. `args` begins with the program's name.
pub fn main_with_args(args: impl Iterator<Item = OsString>) -> ExitCode {
    main_with_gateways(args, GATEWAYS)
}

/// The same with these gateways, which may be others than those of [`GATEWAYS`].
pub fn main_with_gateways(
    args: impl Iterator<Item = OsString>,
    gateways: &'static [GatewayRegistration],
) -> ExitCode {
    let program = program_with_gateways(gateways);
    let loaded = settings::load_from_process(&program, args).and_then(|loaded| {
        if let LoadedBridgeConfig::Run { config, sources } = &loaded {
            gateways
                .iter()
                .try_for_each(|gateway| gateway.check(config, sources))?;
        }
        Ok(loaded)
    });
    process::main(PROGRAM, loaded, |config| run_process(config, &program, gateways))
}

/// The command line of the bridge, with the settings of its gateways.
pub fn command_line() -> CommandLine {
    settings::command(&program_with_gateways(GATEWAYS))
}

/// The program with the settings of these gateways.
fn program_with_gateways(gateways: &[GatewayRegistration]) -> Program<Config> {
    let keys: Vec<_> = gateways.iter().flat_map(GatewayRegistration::keys).collect();
    config::program_with(&keys)
}

fn run_process(
    config: Config,
    program: &Program<Config>,
    gateways: &[GatewayRegistration],
) -> anyhow::Result<()> {
    process::begin(PROGRAM, config.log_level, config.log_format);
    process::warn_of_variables(program);
    // One thread, as the daemon has (docs/design.md, "The bridge in figures").
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    process::block_on(runtime, run(config, gateways))
}

async fn run(config: Config, registered: &[GatewayRegistration]) -> anyhow::Result<()> {
    let mut stop = process::Stop::listen()?;
    let mut hangup = signal(SignalKind::hangup())?;
    let node = Node::builder()
        .patience(DAEMON_WITHIN)
        .connect(&config.daemon)
        .await
        .map_err(|error| anyhow::anyhow!("{error}; start one, or set --daemon"))?;
    let gateway = Arc::new(SdkGateway::new(node));
    let port = NodePort {
        client: Arc::clone(&gateway) as _,
        agents: gateway,
        // The daemon has tasks by URL carried.
        external: None,
        key: None,
        home: None,
    };
    let bridge = BridgeContext { config };
    let mut gateways = Vec::new();
    for gateway in registered {
        gateways.extend(gateway.start(&bridge, port.clone()).await?);
    }
    anyhow::ensure!(!gateways.is_empty(), "no gateway is to run; turn one on");
    let mut lines = Vec::new();
    for gateway in &gateways {
        gateway.announce(&mut lines)?;
    }
    let outcome = tokio::select! {
        outcome = until_stopped(&mut stop, &mut hangup, &mut gateways) => outcome,
        error = StartLines::Stdout.announce(lines) => Err(error.into()),
    };
    tracing::info!("stopping");
    join_all(gateways.into_iter().map(RunningGateway::stop)).await;
    outcome
}

/// Ends well when it is asked to stop.
async fn until_stopped(
    stop: &mut process::Stop,
    hangup: &mut Signal,
    gateways: &mut [RunningGateway],
) -> anyhow::Result<()> {
    let ended = gateways.iter_mut().map(|gateway| {
        Box::pin(async move {
            gateway.wait_ended().await;
            gateway.part()
        })
    });
    let mut ended = select_all(ended);
    loop {
        tokio::select! {
            () = stop.asked() => return Ok(()),
            Some(()) = hangup.recv() => {
                hot_reload::request_reload();
                tracing::info!("SIGHUP: certificates and tokens are read again; restart the bridge to change its settings");
            }
            (part, ..) = &mut ended => anyhow::bail!("the {part} has ended; its last error is in the log"),
        }
    }
}
