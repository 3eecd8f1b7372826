//! The options of `anycast run`.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use agentanycast_daemon_kit::duration;
use agentanycast_gateway::settings::run::{MAX_CONCURRENCY, RunSkill, is_variable_name};
use agentanycast_proto::agent_name::is_agent_name;
use clap::{Args as ClapArgs, ValueEnum};

mod acp;
mod http;
mod mcp;
mod settings;

use acp::AcpArgs;
use http::HttpArgs;
use mcp::McpArgs;

/// How a program and the runner talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// One process per task: the text on standard input, the result on standard output
    Process,
    /// One process for all tasks, which speaks JSON lines (docs/run.md)
    Jsonl,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunArgs {
    /// The agent's name: a letter or digit, then letters, digits, dots, dashes and underscores, in lower case, at most 64
    #[arg(long, value_name = "NAME", value_parser = agent_name)]
    pub(crate) name: String,
    /// A skill on the agent's card; can be repeated
    #[arg(long = "skill", value_name = "ID[=DESCRIPTION]", value_parser = skill)]
    pub(crate) skills: Vec<RunSkill>,
    /// What the agent's card says of it
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) description: String,
    /// Let every peer that the policy lets in use the agent. Without, it is private: only this node and peers that a rule, an
    /// invite or trust lets in may use it. What `anycast agents set` has said of the agent stays
    #[arg(long)]
    pub(crate) open: bool,
    /// How the program and the runner talk
    #[arg(long, value_enum, default_value_t = Protocol::Process, value_name = "PROTOCOL", conflicts_with = "kind")]
    pub(crate) protocol: Protocol,
    /// Most tasks that are done at a time; the rest waits, and is not claimed [default: the number of processors; 4 with
    /// --mcp]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_CONCURRENCY)))]
    pub(crate) concurrency: Option<u32>,
    /// End a task that takes longer, such as 30s or 1h, without the time in which it waits for an answer; 0: no limit
    /// [default: 0; 60s with --mcp]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) timeout: Option<Duration>,
    /// How often a task is given again whose program had been started when the runner ended; otherwise it fails
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) retry: u32,
    /// When told to end by Ctrl-C or SIGTERM, wait so long for the tasks that run; a second signal does not wait
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    pub(crate) drain: Duration,
    /// The media type of what the program prints [default: JSON, text or bytes, as it looks]
    #[arg(long = "type", value_name = "MEDIA_TYPE", conflicts_with = "kind")]
    pub(crate) media_type: Option<String>,
    /// Report the lines that the program writes to standard error as progress, at most one a second
    #[arg(long, conflicts_with = "kind")]
    pub(crate) progress: bool,
    /// Most that the program may print for a task, and that the task's files may take on the disk; a task beyond fails
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size)]
    pub(crate) max_output: u64,
    /// Most processes and threads of a program at a time, where this process may make cgroups (version 2)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_processes: Option<u32>,
    /// Set a variable of the program's environment; can be repeated
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) env: Vec<(String, String)>,
    /// Of the variables of this environment, pass the program only PATH, HOME, LANG and the like (docs/run.md), and those of
    /// --pass-env
    #[arg(long)]
    pub(crate) clean_env: bool,
    /// Pass a variable of this environment, with --clean-env; can be repeated
    #[arg(long = "pass-env", value_name = "NAME", requires = "clean_env", value_parser = variable_name)]
    pub(crate) pass_env: Vec<String>,
    /// The directory that the program is started in [default: this one]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) http: HttpArgs,
    #[command(flatten)]
    pub(crate) mcp: McpArgs,
    #[command(flatten)]
    pub(crate) acp: AcpArgs,
}

fn agent_name(text: &str) -> Result<String, String> {
    if is_agent_name(text) {
        return Ok(text.to_owned());
    }
    Err("expected at most 64 of a-z, 0-9, '.', '_' and '-', the first one a letter or digit".to_owned())
}

fn skill(text: &str) -> Result<RunSkill, String> {
    RunSkill::parse(text).ok_or_else(|| "expected ID or ID=DESCRIPTION".to_owned())
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if is_variable_name(name) => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

fn variable_name(text: &str) -> Result<String, String> {
    if is_variable_name(text) {
        return Ok(text.to_owned());
    }
    Err("expected the name of a variable, without '='".to_owned())
}

fn time(text: &str) -> Result<Duration, String> {
    duration::parse_seconds(text).ok_or_else(|| format!("expected {}", duration::ALLOWED))
}

fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 3] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let unit = UNITS
        .iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)));
    let (number, unit) = unit.unwrap_or((text, 1));
    let number = number.trim_end().parse::<u64>().ok();
    let bytes = number.and_then(|number| number.checked_mul(unit));
    bytes.ok_or_else(|| "expected a size such as 65536, 64KiB, 64MiB or 1GiB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_agents() {
        for good in ["a", "summarise", "0.a-b_c", &"a".repeat(64)] {
            assert_eq!(agent_name(good), Ok(good.to_owned()));
        }
        for bad in ["", "A", "-a", ".a", "a/b", "ä", &"a".repeat(65)] {
            assert!(agent_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("0", 0),
            ("65536", 65536),
            ("64MiB", 64 << 20),
            ("1 GiB", 1 << 30),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for bad in ["", "MiB", "1MB", "-1", "99999999999GiB"] {
            assert!(size(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_skill_may_have_a_description() {
        let read = |text: &str| skill(text).map(|skill| (skill.id, skill.description));
        assert_eq!(read("sum"), Ok(("sum".to_owned(), String::new())));
        assert_eq!(
            read("sum=Adds = up"),
            Ok(("sum".to_owned(), "Adds = up".to_owned()))
        );
        assert!(read("=x").is_err());
    }
}
