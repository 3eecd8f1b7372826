//! Which backend does the tasks, by the options. A further kind of backend has its options in `run_args.rs` and its arm here.

use std::{env, sync::Arc, time::Duration};

use agentanycast_runner::{
    Backend, RunError, Runner, RunnerError,
    acp::{AcpBackend, AcpConfig, Permit},
    http::{HttpConfig, HttpStyle},
    jsonl::JsonlBackend,
    mcp::{McpBackend, McpEndpoint},
    process::ProgramCommand,
    program::{ProgramBackend, ProgramSettings},
};

use crate::{
    failure::CommandFailure,
    run_args::{Protocol, RunArgs, acp::PermitOption, http::Style, mcp},
};

/// The file with the sessions of an ACP agent's conversations.
const SESSIONS: &str = "acp-sessions.json";

/// How long an A2A agent may take to begin an answer, where a task has no time-out.
const ANSWER_WITHIN: Duration = Duration::from_mins(30);

/// The backend, with its files in the runner's directory.
pub(super) async fn of(args: &RunArgs, runner: &Runner) -> Result<Arc<dyn Backend>, CommandFailure> {
    let directory = runner.directory();
    let max_output = usize::try_from(args.max_output).unwrap_or(usize::MAX);
    if let Some(url) = &args.http.http {
        no_command(args)?;
        let config = HttpConfig {
            url: url.clone(),
            style: args.http.style.map(|style| match style {
                Style::Post => HttpStyle::Post,
                Style::A2a => HttpStyle::A2a,
                Style::Openai => HttpStyle::OpenAi,
            }),
            model: args.http.model.clone(),
            token: token(args)?,
            max_output,
            answer_within: args
                .timeout
                .filter(|limit| !limit.is_zero())
                .unwrap_or(ANSWER_WITHIN),
        };
        return Ok(Arc::from(config.backend().await?));
    }
    if let Some(server) = &args.mcp.mcp {
        let endpoint = if server == mcp::PROGRAM {
            McpEndpoint::Command(command(args)?)
        } else {
            no_command(args)?;
            McpEndpoint::Url {
                url: server.clone(),
                token: token(args)?,
            }
        };
        return Ok(Arc::new(McpBackend::new(endpoint, &directory, None, max_output)?));
    }
    let command = command(args)?;
    if args.acp.acp {
        let config = AcpConfig {
            cwd: command.cwd.clone().map_or_else(env::current_dir, Ok)?,
            command,
            permit: match args.acp.permit {
                PermitOption::Ask => Permit::Ask,
                PermitOption::Read => Permit::Read,
                PermitOption::All => Permit::All,
                PermitOption::None => Permit::None,
            },
            permit_timeout: args.acp.permit_timeout,
            terminal: args.acp.terminal,
            session_file: runner.agent_directory().join(SESSIONS),
            max_output,
        };
        return Ok(Arc::new(AcpBackend::new(config, &directory, None)?));
    }
    Ok(match args.protocol {
        Protocol::Process => {
            let settings = ProgramSettings {
                command,
                media_type: args.media_type.clone(),
                progress: args.progress,
                max_output: args.max_output,
            };
            Arc::new(ProgramBackend::new(settings, &directory, None)?)
        }
        Protocol::Jsonl => Arc::new(JsonlBackend::new(command, &directory, None)?),
    })
}

fn command(args: &RunArgs) -> Result<ProgramCommand, CommandFailure> {
    let mut words = args.command.iter().cloned();
    let program = words
        .next()
        .ok_or_else(|| CommandFailure::usage("give the program and its arguments behind --"))?;
    let cwd = args.cwd.as_ref().map(std::path::absolute).transpose()?;
    Ok(ProgramCommand {
        program,
        args: words.collect(),
        env: args
            .env
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        cwd,
        max_processes: args.max_processes,
    })
}

/// A service has no program behind `--`.
fn no_command(args: &RunArgs) -> Result<(), CommandFailure> {
    if args.command.is_empty() {
        return Ok(());
    }
    Err(CommandFailure::usage(
        "give either a URL or a program behind --, not both",
    ))
}

/// The key out of the variable that `--api-key-env` names.
fn token(args: &RunArgs) -> Result<Option<String>, CommandFailure> {
    let Some(name) = &args.http.api_key_env else {
        return Ok(None);
    };
    match env::var(name) {
        Ok(key) if !key.is_empty() => Ok(Some(key)),
        _ => Err(CommandFailure::usage(format!(
            "the variable {name} of --api-key-env is not set"
        ))),
    }
}

impl From<RunError> for CommandFailure {
    fn from(error: RunError) -> Self {
        RunnerError::Backend(error).into()
    }
}
