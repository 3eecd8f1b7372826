//! `anycast run`: a program, or whatever else a backend of the runner knows, as an agent of the daemon, until Ctrl-C.

mod run_args;
mod who_may_use;

use std::{
    io::IsTerminal as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use agentanycast::{AgentAccess, ErrorKind, Node, NodeAgent};
use agentanycast_daemon_kit::{
    logging,
    settings::{LogFormat, LogLevel},
};
use agentanycast_gateway::SdkGateway;
use agentanycast_runner::{
    Runner, RunnerError, RunnerState, RunnerStop, check_program, program_of, show_words_of_programs,
    wait_for_service,
};
use serde_json::{Value, json};

use agentanycast_cli::{
    agent_access,
    context::Context,
    failure::{CommandFailure, FailureCode},
    hints,
    interrupt::Interrupt,
    output::{self, Paint},
    parts::PartAction,
};
use clap::{Args as _, FromArgMatches as _};
use futures::FutureExt as _;

use run_args::RunArgs;

/// The command.
pub(super) const ACTION: PartAction = PartAction {
    options: RunArgs::augment_args,
    examples: &[(
        "run",
        [
            (
                "anycast run --name summarise --skill summarise=\"Sums a text up\" -- ./summarise.sh",
                "a script that reads a text and prints the sum, as an agent",
            ),
            (
                "anycast run --name worker --protocol jsonl --concurrency 8 -- python3 worker.py",
                "one process for all tasks, which speaks JSON lines",
            ),
        ],
    )],
    starts_daemon: true,
    run: |context, given| {
        let args = RunArgs::from_arg_matches(given);
        async move {
            let args = args.map_err(|error| CommandFailure::usage(error.to_string()))?;
            run(context, args).await
        }
        .boxed()
    },
};

async fn run(context: &Context, args: RunArgs) -> Result<(), CommandFailure> {
    let asks_open = args.open;
    let settings = args.into_settings()?;
    check_program(&settings).map_err(|error| failure(&error.into()))?;
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
        Runner::from_settings(&settings, home)
            .await
            .map_err(|error| failure(&error))
    };
    let (runner, backend) = interrupt.or(starting).await?;
    let access = if asks_open {
        AgentAccess::Open
    } else {
        AgentAccess::Default
    };
    let agents = SdkGateway::new(node.clone()).for_access(access);
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
            let announcement = Announcement {
                context: context.clone(),
                node: node.clone(),
                name: name.clone(),
                peer: peer.to_string(),
                asks_open,
            };
            // A closed standard output is no reason to take no tasks.
            tokio::spawn(async move { announcement.tell().await });
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
    outcome.map_err(|error| failure(&error))
}

/// What is told when the agent takes tasks.
struct Announcement {
    context: Context,
    node: Node,
    name: String,
    peer: String,
    /// It was started with `--open`.
    asks_open: bool,
}

impl Announcement {
    async fn tell(&self) -> std::io::Result<()> {
        let agent = self.agent().await;
        let name = self.name.as_str();
        if self.context.json {
            let mut document = json!({"agent": name, "peer_id": self.peer});
            if let Value::Object(fields) = &mut document {
                agent_access::put_into(fields, agent.as_ref());
            }
            return output::json(&document);
        }
        output::pieces(&[
            ("The agent ", Paint::Plain),
            (name, Paint::Good),
            (" takes tasks at ", Paint::Plain),
            (&self.peer, Paint::Good),
            ("; Ctrl-C ends it.", Paint::Plain),
        ])?;
        let send = hints::command(&format!("send self/{name} \"hello\""));
        output::line(&format!("Try it: {send}"))?;
        match agent {
            Some(agent) if agent.access == AgentAccess::Unspecified && self.knows_no_access().await => {
                let restart = hints::command("restart");
                output::line(&format!(
                    "{name} is open: every peer may send it tasks, since the daemon is older than this program and has no private \
                     agents; start it with this version: {restart}"
                ))
            }
            Some(agent) => output::line(&who_may_use::line(&agent, self.asks_open)),
            None => Ok(()),
        }
    }

    /// The agent as it is registered; `None`: the daemon does not say it now.
    async fn agent(&self) -> Option<NodeAgent> {
        let agents = self.node.node_agents().await.ok()?;
        agents.into_iter().find(|agent| agent.name == self.name)
    }

    /// Whether the daemon is too old to have private agents.
    async fn knows_no_access(&self) -> bool {
        let trusted = self.node.trusted_peers().await;
        trusted.is_err_and(|error| error.kind() == ErrorKind::Unsupported)
    }
}

/// How the command ends by this error.
fn failure(error: &RunnerError) -> CommandFailure {
    let (code, kind) = match error {
        RunnerError::Node(error) if error.kind() == agentanycast_gateway::ErrorKind::Unavailable => {
            (FailureCode::Daemon, "DaemonUnavailable")
        }
        RunnerError::Detached => (FailureCode::Daemon, "Detached"),
        RunnerError::State { .. } => (FailureCode::General, "Io"),
        _ => (FailureCode::General, "Run"),
    };
    CommandFailure::new(code, kind, error.to_string())
}
