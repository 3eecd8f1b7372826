//! The runner and the backend of an agent, by its settings. A further kind of work has its arm here.

use std::{env, ffi::OsString, io, path::PathBuf, sync::Arc, time::Duration};

use agentanycast_gateways::run::{PassedEnv, RunProgram, RunSettings, RunWork, check_url};
use agentanycast_proto::v1;

use crate::{
    AgentSettings, Backend, RunError, Runner, RunnerError,
    acp::{AcpBackend, AcpConfig},
    http::HttpConfig,
    jsonl::JsonlBackend,
    mcp::{McpBackend, McpEndpoint},
    process::ProgramCommand,
    program::{ProgramBackend, ProgramSettings},
};

/// The file with the sessions of an ACP agent's conversations.
const SESSIONS: &str = "acp-sessions.json";

/// How long an A2A agent may take to begin an answer, where a task has no time-out.
const ANSWER_WITHIN: Duration = Duration::from_mins(30);

impl Runner {
    /// The runner of this agent, with its files in `run/NAME` below `state`, and what does its tasks.
    ///
    /// # Errors
    /// When the files cannot be made, the URL cannot be called, or the variable of the key is not set.
    pub async fn from_settings(
        settings: &RunSettings,
        state: PathBuf,
    ) -> Result<(Self, Arc<dyn Backend>), RunnerError> {
        let runner = Self::new(agent_settings(settings, state))?;
        let backend = backend(settings, &runner).await?;
        Ok((runner, backend))
    }
}

fn agent_settings(settings: &RunSettings, state: PathBuf) -> AgentSettings {
    let skills = settings.skills.iter().map(|skill| v1::Skill {
        id: skill.id.clone(),
        description: skill.description.clone(),
        ..v1::Skill::default()
    });
    AgentSettings {
        name: settings.name.clone(),
        description: settings.description.clone(),
        skills: skills.collect(),
        concurrency: settings.concurrency(),
        timeout: settings.timeout(),
        retry: settings.retry,
        drain: settings.drain,
        program: program_of(settings),
        state,
    }
}

/// Looks whether the program of this agent, if it has one, is there.
///
/// # Errors
/// When it cannot be started.
pub fn check_program(settings: &RunSettings) -> Result<(), RunError> {
    settings
        .work
        .program()
        .map_or(Ok(()), |program| command(program).map(drop))
}

/// What does the tasks of this agent, for people.
pub fn program_of(settings: &RunSettings) -> v1::AgentProgram {
    v1::AgentProgram {
        kind: settings.work.kind().to_owned(),
        command: settings.work.target(),
        ..v1::AgentProgram::default()
    }
}

async fn backend(settings: &RunSettings, runner: &Runner) -> Result<Arc<dyn Backend>, RunnerError> {
    let directory = runner.directory();
    let command = |program: &RunProgram| {
        let held = Some(runner.lock());
        command(program).map(|command| ProgramCommand { held, ..command })
    };
    let no_files = |source| RunnerError::State {
        path: directory.clone(),
        source,
    };
    let max_output = usize::try_from(settings.max_output).unwrap_or(usize::MAX);
    let backend: Arc<dyn Backend> = match &settings.work {
        RunWork::Program {
            program,
            media_type,
            progress,
        } => {
            let settings = ProgramSettings {
                command: command(program)?,
                media_type: media_type.clone(),
                progress: *progress,
                max_output: settings.max_output,
            };
            Arc::new(ProgramBackend::new(settings, &directory, None).map_err(no_files)?)
        }
        RunWork::Jsonl(program) => Arc::new(JsonlBackend::new(command(program)?, None).map_err(no_files)?),
        RunWork::Acp {
            program,
            permit,
            permit_timeout,
            terminal,
        } => {
            let command = command(program)?;
            let config = AcpConfig {
                cwd: command
                    .cwd
                    .clone()
                    .map_or_else(env::current_dir, Ok)
                    .map_err(|error| no_directory(&error))?,
                command,
                permit: *permit,
                permit_timeout: *permit_timeout,
                terminal: *terminal,
                session_file: runner.agent_directory().join(SESSIONS),
                max_output,
            };
            Arc::new(AcpBackend::new(config, None)?)
        }
        RunWork::McpProgram(program) => {
            let endpoint = McpEndpoint::Command(command(program)?);
            Arc::new(McpBackend::new(endpoint, None, max_output).map_err(no_files)?)
        }
        RunWork::McpUrl { url, api_key_env } => {
            url_of(url)?;
            let endpoint = McpEndpoint::Url {
                url: url.clone(),
                token: token(api_key_env.as_deref())?,
            };
            Arc::new(McpBackend::new(endpoint, None, max_output).map_err(no_files)?)
        }
        RunWork::Http {
            url,
            style,
            model,
            api_key_env,
        } => {
            url_of(url)?;
            let config = HttpConfig {
                url: url.clone(),
                style: *style,
                model: model.clone(),
                token: token(api_key_env.as_deref())?,
                max_output,
                answer_within: settings.timeout().unwrap_or(ANSWER_WITHIN),
            };
            Arc::from(config.backend().await?)
        }
    };
    Ok(backend)
}

fn url_of(url: &str) -> Result<(), RunError> {
    check_url(url).map_err(|allowed| RunError::new(format!("{url:?} is not allowed; it must be {allowed}")))
}

fn command(program: &RunProgram) -> Result<ProgramCommand, RunError> {
    let mut words = program.command.iter().cloned();
    let cwd = program.cwd.as_ref().map(std::path::absolute).transpose();
    // The one that is set last counts.
    let set = program.env.iter();
    let set = set.map(|(name, value)| (name.into(), value.into()));
    let command = ProgramCommand {
        program: words.next().ok_or("the command is empty")?,
        args: words.collect(),
        env: passed(&program.passed_env).chain(set).collect(),
        cwd: cwd.map_err(|error| no_directory(&error))?,
        max_processes: program.max_processes,
        held: None,
    };
    // Said now, not by the first task.
    command.check()?;
    Ok(command)
}

/// The variables of this process that a program gets.
fn passed(passed: &PassedEnv) -> impl Iterator<Item = (OsString, OsString)> {
    env::vars_os().filter(|(name, _)| passed.passes(&name.to_string_lossy()))
}

fn no_directory(error: &io::Error) -> RunError {
    RunError::new(format!("the directory of the program is not known: {error}"))
}

/// The key out of this variable.
fn token(variable: Option<&str>) -> Result<Option<String>, RunError> {
    let Some(name) = variable else {
        return Ok(None);
    };
    match env::var(name) {
        Ok(key) if !key.is_empty() => Ok(Some(key)),
        _ => Err(RunError::new(format!(
            "the variable {name} with the key is not set"
        ))),
    }
}
