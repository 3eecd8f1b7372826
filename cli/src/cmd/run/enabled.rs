//! Runs an agent on the daemon by the runner.

use std::{
    io::IsTerminal as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use agentanycast_daemon_kit::{
    logging,
    settings::{LogFormat, LogLevel},
};
use agentanycast_gateway::SdkGateway;
use agentanycast_runner::{
    Runner, RunnerError, RunnerState, RunnerStop, check_program, program_of, show_words_of_programs,
    wait_for_service,
};
use serde_json::json;

use crate::{
    context::Context,
    failure::{CommandFailure, FailureCode},
    hints,
    interrupt::Interrupt,
    output::{self, Paint},
    run_args::RunArgs,
};

/// What is called as `anycast run-helper`, by the runner alone.
pub(crate) use agentanycast_runner::run_helper::main as run_helper;

pub(crate) async fn run(context: &Context, args: RunArgs) -> Result<(), CommandFailure> {
    let settings = args.into_settings()?;
    check_program(&settings).map_err(RunnerError::from)?;
    let mut interrupt = Interrupt::new()?;
    let format = if context.json {
        LogFormat::Json
    } else {
        LogFormat::Text
    };
    // Tasks that fail are logged, and what a program says that does all tasks.
    let says_much = matches!(settings.work.kind(), "acp" | "http" | "mcp");
    let level = if says_much { LogLevel::Info } else { LogLevel::Warn };
    logging::init(level, format, None)?;
    if std::io::stderr().is_terminal() {
        show_words_of_programs();
    }
    let node = interrupt.or(context.connect_or_start()).await?;
    let info = node.info().await?;
    let peer = info.peer_id.ok_or_else(CommandFailure::unnamed_daemon)?;
    let (name, program) = (settings.name.clone(), program_of(&settings));
    let home = context.home.directory()?;
    let starting = async {
        wait_for_service(&settings.work, output::warn).await;
        Ok(Runner::from_settings(&settings, home).await?)
    };
    let (runner, backend) = interrupt.or(starting).await?;
    let agents = SdkGateway::new(node.clone());
    let stop = RunnerStop::default();
    let was_announced = AtomicBool::new(false);
    let agent = node.agent(&name).program(program.kind, program.command);
    let unready = Mutex::new(None);
    let set_unready = |report| *unready.lock().unwrap_or_else(PoisonError::into_inner) = report;
    let told = |state: RunnerState<'_>| match state {
        RunnerState::TakesTasks if was_announced.swap(true, Relaxed) => {
            set_unready(None);
            output::warn(&format!("the agent {name} takes tasks again"));
        }
        RunnerState::TakesTasks => {
            set_unready(None);
            // A closed standard output is no reason to take no tasks.
            let _ = announce(context, &name, peer.as_str());
        }
        RunnerState::Wants(what) => {
            set_unready(Some(agent.report_unready(what)));
            output::warn(&format!(
                "the agent {name} takes no tasks, since the host lacks something: {what}"
            ));
        }
    };
    let running = runner.run(&agents, Arc::clone(&backend), stop.clone(), told);
    let mut running = std::pin::pin!(running);
    let outcome = loop {
        tokio::select! {
            outcome = &mut running => break outcome,
            () = interrupt.wait() => {
                if stop.gently.is_cancelled() {
                    stop.now.cancel();
                } else {
                    stop.gently.cancel();
                }
            }
        }
    };
    node.shutdown().await;
    Ok(outcome?)
}

fn announce(context: &Context, name: &str, peer: &str) -> std::io::Result<()> {
    if context.json {
        return output::json(&json!({"agent": name, "peer_id": peer}));
    }
    output::pieces(&[
        ("The agent ", Paint::Plain),
        (name, Paint::Good),
        (" takes tasks at ", Paint::Plain),
        (peer, Paint::Good),
        ("; Ctrl-C ends it.", Paint::Plain),
    ])?;
    let send = hints::command(&format!("send self/{name} \"hello\""));
    output::line(&format!("Try it: {send}"))
}

impl From<RunnerError> for CommandFailure {
    fn from(error: RunnerError) -> Self {
        let (code, kind) = match &error {
            RunnerError::Node(error) if error.kind() == agentanycast_gateway::ErrorKind::Unavailable => {
                (FailureCode::Daemon, "DaemonUnavailable")
            }
            RunnerError::Detached => (FailureCode::Daemon, "Detached"),
            RunnerError::State { .. } => (FailureCode::General, "Io"),
            _ => (FailureCode::General, "Run"),
        };
        Self::new(code, kind, error.to_string())
    }
}
