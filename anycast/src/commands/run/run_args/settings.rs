//! The agent of the options of `anycast run`, as the runner takes it.

use agentanycast_gateway::settings::run::{HttpStyle, PassedEnv, Permit, RunProgram, RunSettings, RunWork};

use super::{Protocol, RunArgs, acp::PermitOption, http::Style, mcp};
use agentanycast_cli::failure::CommandFailure;

impl RunArgs {
    /// The agent of these options.
    pub(crate) fn into_settings(self) -> Result<RunSettings, CommandFailure> {
        let program = RunProgram {
            command: self.command,
            env: self.env,
            passed_env: if self.clean_env {
                PassedEnv::Listed(self.pass_env)
            } else {
                PassedEnv::All
            },
            cwd: self.cwd,
            max_processes: self.max_processes,
        };
        let work = match (self.http.http, self.mcp.mcp) {
            (Some(url), _) => RunWork::Http {
                url: without_command(url, &program)?,
                style: self.http.style.map(|style| match style {
                    Style::Post => HttpStyle::Post,
                    Style::Json => HttpStyle::Json,
                    Style::A2a => HttpStyle::A2a,
                    Style::Openai => HttpStyle::OpenAi,
                }),
                model: self.http.model,
                api_key_env: self.http.api_key_env,
            },
            (None, Some(server)) if server == mcp::PROGRAM => RunWork::McpProgram(with_command(program)?),
            (None, Some(url)) => RunWork::McpUrl {
                url: without_command(url, &program)?,
                api_key_env: self.http.api_key_env,
            },
            (None, None) if self.acp.acp => RunWork::Acp {
                program: with_command(program)?,
                permit: match self.acp.permit {
                    PermitOption::Ask => Permit::Ask,
                    PermitOption::Read => Permit::Read,
                    PermitOption::All => Permit::All,
                    PermitOption::None => Permit::None,
                },
                permit_timeout: self.acp.permit_timeout,
                terminal: self.acp.terminal,
            },
            (None, None) => match self.protocol {
                Protocol::Process => RunWork::Program {
                    program: with_command(program)?,
                    media_type: self.media_type,
                    progress: self.progress,
                },
                Protocol::Jsonl => RunWork::Jsonl(with_command(program)?),
            },
        };
        Ok(RunSettings {
            name: self.name,
            description: self.description,
            skills: self.skills,
            work,
            open: self.open.then_some(true),
            concurrency: self.concurrency,
            timeout: self.timeout,
            retry: self.retry,
            drain: self.drain,
            max_output: self.max_output,
        })
    }
}

fn with_command(program: RunProgram) -> Result<RunProgram, CommandFailure> {
    if program.command.is_empty() {
        return Err(CommandFailure::usage(
            "give the program and its arguments behind --",
        ));
    }
    Ok(program)
}

/// A service has no program behind `--`.
fn without_command(url: String, program: &RunProgram) -> Result<String, CommandFailure> {
    if program.command.is_empty() {
        return Ok(url);
    }
    Err(CommandFailure::usage(
        "give either a URL or a program behind --, not both",
    ))
}
