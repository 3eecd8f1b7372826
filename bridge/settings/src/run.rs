//! What an agent is told that is made of a program or a service: by the options of `anycast run`, or by an entry
//! `[[agents.run]]` or `[[agents.mcp]]` of the daemon's configuration.

mod configured;
mod entry;
mod passed_env;

use std::{
    ffi::{OsStr, OsString},
    num::NonZero,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use agentanycast_daemon_kit::{address::bare_url, words};

pub use configured::{ConfiguredAgents, MCP_PROXY};
pub use entry::{McpEntry, RunEntry};
pub use passed_env::{PassedEnv, is_variable_name};

/// Most tasks of an agent at a time.
pub const MAX_CONCURRENCY: u32 = 10_000;

/// The largest result, unless another is set.
pub const DEFAULT_MAX_OUTPUT: u64 = 64 << 20;

/// How long running tasks may go on when `anycast run` is told to end, unless another time is set.
pub const DEFAULT_DRAIN: Duration = Duration::from_secs(30);

/// How long running tasks of an agent that the daemon serves may go on when it is told to end, unless another time is set.
pub const DAEMON_DRAIN: Duration = Duration::from_secs(3);

/// How long a question for permission waits, unless another time is set.
pub const DEFAULT_PERMIT_TIMEOUT: Duration = Duration::from_hours(1);

/// What an MCP server has in the place of the general defaults.
const MCP_CONCURRENCY: u32 = 4;
const MCP_TIMEOUT: Duration = Duration::from_mins(1);

/// Checks the URL of a service or an MCP server.
///
/// # Errors
/// What is allowed, for people.
pub fn check_url(text: &str) -> Result<(), &'static str> {
    let url = url::Url::parse(text).ok();
    match url.filter(|url| matches!(url.scheme(), "http" | "https") && url.host_str().is_some()) {
        None => Err("a URL, http://HOST… or https://HOST…"),
        Some(url) if !url.username().is_empty() || url.password().is_some() => {
            Err("a URL without a user in it; a token is given by the variable that api_key_env names")
        }
        Some(_) => Ok(()),
    }
}

words! {
    /// How a program and the runner talk.
    Protocol {
        /// One process per task: the text on standard input, the result on standard output.
        Process = "process",
        /// One process for all tasks, which speaks JSON lines.
        Jsonl = "jsonl",
        /// A coding agent of the Agent Client Protocol.
        Acp = "acp",
    }
}

words! {
    /// How an HTTP service is spoken to.
    HttpStyle {
        /// The message is the body of a request, and the answer is the result.
        Post = "post",
        /// The message is a JSON document, and the answer is the result.
        Json = "json",
        /// A2A 1.0 or 0.3, by the service's card.
        A2a = "a2a",
        /// Chat completions of OpenAI.
        OpenAi = "openai",
    }
}

words! {
    /// Who decides what a coding agent may do.
    Permit {
        /// The sender of the task is asked.
        Ask = "ask",
        /// Reading and searching are permitted; the sender is asked for everything else.
        Read = "read",
        /// Everything is permitted.
        All = "all",
        /// Nothing is permitted.
        None = "none",
    }
}

/// A skill on the card of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSkill {
    /// Its id.
    pub id: String,
    /// What it does; may be empty.
    pub description: String,
}

impl RunSkill {
    /// Reads `ID` or `ID=DESCRIPTION`; `None`: it has no id.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, description) = text.split_once('=').unwrap_or((text, ""));
        (!id.is_empty()).then(|| Self {
            id: id.to_owned(),
            description: description.to_owned(),
        })
    }

    /// As [`RunSkill::parse`] reads it.
    pub fn text(&self) -> String {
        match self.description.as_str() {
            "" => self.id.clone(),
            description => format!("{}={description}", self.id),
        }
    }
}

/// A program that is started for an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunProgram {
    /// The program, a path or a name that is looked for in `PATH`, and its arguments; not empty.
    pub command: Vec<OsString>,
    /// Variables that are set for it.
    pub env: Vec<(String, String)>,
    /// Which variables of the runner it gets besides.
    pub passed_env: PassedEnv,
    /// The directory that it is started in; `None`: the runner's.
    pub cwd: Option<PathBuf>,
    /// Most processes and threads of it at a time, where the system has cgroups for it; `None`: no bound.
    pub max_processes: Option<u32>,
}

/// The name of a program, without its directories.
pub fn program_name(program: impl AsRef<OsStr>) -> String {
    let path = Path::new(program.as_ref());
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// A URL without its user, its query and its fragment: a key may be in them.
pub fn shown_url(text: &str) -> String {
    match url::Url::parse(text) {
        Ok(_) => bare_url(text),
        Err(_) => "a URL that cannot be read".to_owned(),
    }
}

/// What does the tasks of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunWork {
    /// One process per task.
    Program {
        /// What is started.
        program: RunProgram,
        /// The media type of what it prints; `None`: as it looks.
        media_type: Option<String>,
        /// Whether the lines of its standard error are progress.
        progress: bool,
    },
    /// One process for all tasks, which speaks JSON lines.
    Jsonl(RunProgram),
    /// A coding agent of the Agent Client Protocol.
    Acp {
        /// What is started.
        program: RunProgram,
        /// Who decides what it may do.
        permit: Permit,
        /// How long a question for permission waits; then it is no.
        permit_timeout: Duration,
        /// Whether commands are run for it.
        terminal: bool,
    },
    /// An MCP server that is started.
    McpProgram(RunProgram),
    /// An MCP server at a URL.
    McpUrl {
        /// Where it is.
        url: String,
        /// The variable with the bearer token that it wants.
        api_key_env: Option<String>,
    },
    /// An HTTP service.
    Http {
        /// Where it is.
        url: String,
        /// How it is spoken to; `None`: in A2A if it has a card, else by requests.
        style: Option<HttpStyle>,
        /// The model that is asked for, in the style `openai`.
        model: Option<String>,
        /// The variable with the bearer token that it wants.
        api_key_env: Option<String>,
    },
}

impl RunWork {
    /// The kind, for people.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Program { .. } => "program",
            Self::Jsonl(_) => "jsonl",
            Self::Acp { .. } => "acp",
            Self::McpProgram(_) | Self::McpUrl { .. } => "mcp",
            Self::Http { .. } => "http",
        }
    }

    /// What is started or called, for people of this host: the command, or the URL without what may be a key.
    pub fn target(&self) -> String {
        match self {
            Self::McpUrl { url, .. } | Self::Http { url, .. } => shown_url(url),
            _ => {
                let words = self.program().into_iter().flat_map(|program| &program.command);
                let words = words.map(|word| word.to_string_lossy());
                words.collect::<Vec<_>>().join(" ")
            }
        }
    }

    /// The same for a log and for others: the name of the program without its arguments, or the URL without what may be a key.
    pub fn shown(&self) -> String {
        match self {
            Self::McpUrl { url, .. } | Self::Http { url, .. } => shown_url(url),
            _ => {
                let program = self.program().and_then(|program| program.command.first());
                program.map(program_name).unwrap_or_default()
            }
        }
    }

    /// The program that is started, if one is.
    pub fn program(&self) -> Option<&RunProgram> {
        match self {
            Self::Program { program, .. }
            | Self::Jsonl(program)
            | Self::Acp { program, .. }
            | Self::McpProgram(program) => Some(program),
            Self::McpUrl { .. } | Self::Http { .. } => None,
        }
    }

    fn is_mcp(&self) -> bool {
        matches!(self, Self::McpProgram(_) | Self::McpUrl { .. })
    }
}

/// An agent that is made of a program or a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSettings {
    /// Its name on the node: `[a-z0-9][a-z0-9._-]{0,63}`.
    pub name: String,
    /// What its card says of it.
    pub description: String,
    /// Its skills, where what does the tasks has none by its own account.
    pub skills: Vec<RunSkill>,
    /// What does its tasks.
    pub work: RunWork,
    /// Whether every peer may use it; `None`: as `agents.default_access` says.
    pub open: Option<bool>,
    /// Most tasks that are done at a time; `None`: see [`RunSettings::concurrency`].
    pub concurrency: Option<u32>,
    /// How long a task may take, without the time in which it waits for an answer, zero for no bound; `None`: see
    /// [`RunSettings::timeout`].
    pub timeout: Option<Duration>,
    /// How often a task is given again that had been started when the runner ended.
    pub retry: u32,
    /// How long running tasks may go on when the runner is told to end.
    pub drain: Duration,
    /// The largest result in bytes; for a program also most that a task's files take on the disk.
    pub max_output: u64,
}

impl RunSettings {
    /// An agent of this name with the defaults.
    pub fn new(name: String, work: RunWork) -> Self {
        Self {
            name,
            description: String::new(),
            skills: Vec::new(),
            work,
            open: None,
            concurrency: None,
            timeout: None,
            retry: 0,
            drain: DEFAULT_DRAIN,
            max_output: DEFAULT_MAX_OUTPUT,
        }
    }

    /// Most tasks at a time: as it is set, else 4 for an MCP server, else the number of processors.
    pub fn concurrency(&self) -> usize {
        let processors = || thread::available_parallelism().map_or(1, NonZero::get);
        match self.concurrency {
            Some(number) => number as usize,
            None if self.work.is_mcp() => MCP_CONCURRENCY as usize,
            None => processors(),
        }
    }

    /// How long a task may take: as it is set, else 60 s for an MCP server, else without a bound.
    pub fn timeout(&self) -> Option<Duration> {
        let default = self.work.is_mcp().then_some(MCP_TIMEOUT);
        self.timeout.or(default).filter(|limit| !limit.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_has_no_keys() {
        let program = RunProgram {
            command: ["/opt/tools/sum.sh", "--token", "hunter22"]
                .map(Into::into)
                .to_vec(),
            ..RunProgram::default()
        };
        let work = RunWork::Jsonl(program);
        assert_eq!(work.target(), "/opt/tools/sum.sh --token hunter22");
        assert_eq!(work.shown(), "sum.sh");
        for (url, shown) in [
            ("http://h:1/v1?api_key=hunter22#hunter22", "http://h:1/v1"),
            ("https://me:hunter22@h/mcp", "https://h/mcp"),
            ("hunter22", "a URL that cannot be read"),
        ] {
            assert_eq!(shown_url(url), shown);
            let work = RunWork::McpUrl {
                url: url.to_owned(),
                api_key_env: None,
            };
            assert_eq!(
                (work.target(), work.shown()),
                (shown.to_owned(), shown.to_owned())
            );
        }
    }
}
