//! The bridge as a process of its own. Up: daemon, callers, fronts; then it says where they are. Down: no more requests, and
//! those that are there are answered, within five seconds.

use std::{ffi::OsString, process::ExitCode, sync::Arc, time::Duration};

use agentanycast::Node;
use agentanycast_daemon_kit::{
    hot_reload,
    process::{self, StartLines},
};
use agentanycast_gateway::{SdkGateway, running::RunningGateway};
use futures::future::{join_all, select_all};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::{self, Config};

/// How long a call waits for a daemon that is away, such as while it is upgraded. Callers wait with it, and give up
/// themselves after some 30 s.
const DAEMON_WITHIN: Duration = Duration::from_secs(10);

/// The program, as it calls itself.
const PROGRAM: &str = "agentanycast-bridge";

/// Runs the bridge as the command line says. `args` begins with the program's name.
pub fn main_with_args(args: impl Iterator<Item = OsString>) -> ExitCode {
    process::main(PROGRAM, config::load_from_process(args), run_process)
}

fn run_process(config: Config) -> anyhow::Result<()> {
    process::begin(PROGRAM, config.log_level, config.log_format);
    process::warn_of_variables(&config::PROGRAM);
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
    let bridge =
        agentanycast_a2a::start(&config.front, Arc::clone(&gateway) as _, None, Arc::default()).await?;
    let mut gateways = vec![bridge];
    if let Some(settings) = config.mcp_front() {
        gateways.push(agentanycast_mcp::start(&settings.front, gateway, Arc::default()).await?);
    }
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
