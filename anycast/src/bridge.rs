//! The bridge as a process of its own. Up: daemon, callers, fronts; then it says where they are. Down: no more requests, and
//! those that are there are answered, within five seconds.

mod config;

use std::{ffi::OsString, process::ExitCode, sync::Arc, time::Duration};

use agentanycast::Node;
use agentanycast_cli::parts::PartProgram;
use agentanycast_daemon_kit::{
    hot_reload, process,
    settings::{self, CommandLine, Program},
};
use agentanycast_gateway::{
    NodePort, SdkGateway, registration::GatewayHost, running_gateways::RunningGateways, settings::part::Host,
};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::COMPOSITION;
use config::Config;

/// How long a call waits for a daemon that is away, such as while it is upgraded. Callers wait with it, and give up
/// themselves after some 30 s.
const DAEMON_WITHIN: Duration = Duration::from_secs(10);

/// The program, as it calls itself.
const PROGRAM: &str = "agentanycast-bridge";

/// The program.
pub(super) const PART: PartProgram = PartProgram {
    main: main_with_args,
    command_line,
};

/// Runs the bridge as the command line says. `args` begins with the program's name.
fn main_with_args(args: &mut dyn Iterator<Item = OsString>) -> ExitCode {
    let program = config::program();
    let loaded =
        settings::load_from_process(&program, args).map_err(|error| COMPOSITION.tell_left_out(error));
    process::main(PROGRAM, loaded, |config| run_process(config, &program))
}

/// The command line of the bridge, with the settings of its gateways.
fn command_line() -> CommandLine {
    settings::command(&config::program())
}

fn run_process(config: Config, program: &Program<Config>) -> anyhow::Result<()> {
    process::begin(PROGRAM, config.log_level, config.log_format);
    process::warn_of_variables(program);
    // One thread, as the daemon has (docs/design.md, "The bridge in figures").
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    process::block_on(runtime, run(config))
}

async fn run(config: Config) -> anyhow::Result<()> {
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
    let host = GatewayHost {
        host: Host::Bridge,
        values: &config.gateways,
        // This program has no metrics.
        request_counts: &|_| Arc::default(),
    };
    let mut gateways = RunningGateways::start(COMPOSITION.gateways, host, &port).await?;
    let (start_lines, served) = gateways.stdio();
    let mut lines = Vec::new();
    gateways.announce(&mut lines)?;
    let outcome = tokio::select! {
        outcome = until_stopped(&mut stop, &mut hangup, &mut gateways) => outcome,
        served = served => served,
        error = start_lines.announce(lines) => Err(error.into()),
    };
    tracing::info!("stopping");
    gateways.stop().await;
    outcome
}

/// Ends well when it is asked to stop.
async fn until_stopped(
    stop: &mut process::Stop,
    hangup: &mut Signal,
    gateways: &mut RunningGateways,
) -> anyhow::Result<()> {
    let ended = gateways.wait_for_failure();
    let mut ended = std::pin::pin!(ended);
    loop {
        tokio::select! {
            () = stop.asked() => return Ok(()),
            Some(()) = hangup.recv() => {
                hot_reload::request_reload();
                tracing::info!("SIGHUP: certificates and tokens are read again; restart the bridge to change its settings");
            }
            part = &mut ended => anyhow::bail!("the {part} has ended; its last error is in the log"),
        }
    }
}
