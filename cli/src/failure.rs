//! How a command fails: an exit code that scripts decide on, and one line for people or a JSON
//! document for scripts.

use std::process::ExitCode;

use agentanycast::{Error, ErrorKind, TaskError};
use agentanycast_daemon_kit::{process, sanitize};
use serde_json::{Value, json};

use crate::output;

/// Documented exit codes, see `lib.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCode {
    /// It failed.
    General = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The daemon cannot be reached.
    Daemon = 3,
    /// The target was not found.
    NotFound = 4,
    /// The time was up.
    Timeout = 5,
    /// Nobody could be asked who has the skill.
    Discovery = 6,
    /// The agent asks for input, and nobody is there to answer.
    Input = 7,
    /// Ended by SIGHUP.
    HungUp = 129,
    /// Ended by Ctrl-C.
    Interrupted = 130,
    /// Ended by SIGQUIT.
    Quit = 131,
    /// Ended by SIGTERM.
    Terminated = 143,
    /// Standard output was closed before all was written.
    OutputClosed = process::OUTPUT_CLOSED as isize,
}

/// Why a command failed.
#[derive(Debug)]
pub struct CommandFailure {
    /// How the process ends.
    pub code: FailureCode,
    kind: String,
    message: String,
    /// The task that it is about.
    task: Option<String>,
    /// Everything has been said already.
    silent: bool,
    /// It repeats what an agent said to the user, whose addresses are to be opened.
    whole: bool,
}

impl CommandFailure {
    /// With a kind for scripts, such as `NotFound`, and a message for people.
    pub fn new(code: FailureCode, kind: &str, message: impl Into<String>) -> Self {
        Self {
            code,
            kind: kind.to_owned(),
            message: message.into(),
            task: None,
            silent: false,
            whole: false,
        }
    }

    /// Of a command line that is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(FailureCode::Usage, "Usage", message)
    }

    /// A daemon that does not say its peer id.
    pub fn unnamed_daemon() -> Self {
        Self::new(
            FailureCode::General,
            "Protocol",
            "the daemon did not say who it is",
        )
    }

    /// Whether no daemon answered.
    pub(crate) fn is_daemon_away(&self) -> bool {
        self.code == FailureCode::Daemon
    }

    /// Whether the task waits for an answer.
    pub(crate) fn is_question(&self) -> bool {
        self.code == FailureCode::Input
    }

    /// Whether the wait was ended by a signal other than Ctrl-C.
    pub(crate) fn is_termination(&self) -> bool {
        matches!(
            self.code,
            FailureCode::Terminated | FailureCode::HungUp | FailureCode::Quit
        )
    }

    /// The same failure, said to be of this option's value.
    pub(crate) fn with_option(mut self, option: &str) -> Self {
        self.message = format!("{option}: {}", self.message);
        self
    }

    /// The same failure, with what else could be tried, if it is about a name.
    pub(crate) fn with_hint(mut self, hint: &str) -> Self {
        if matches!(self.kind.as_str(), "Usage" | "PeerNotFound") {
            self.message.push_str(hint);
        }
        self
    }

    /// The same failure, with this behind it.
    pub(crate) fn with_more(mut self, more: &str) -> Self {
        self.message.push_str(more);
        self
    }

    /// Whether no agent that has the skill is known.
    pub(crate) fn is_skill_unknown(&self) -> bool {
        self.code == FailureCode::Discovery || self.kind == "SkillNotFound"
    }

    /// What happened, for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The task that it is about, for scripts.
    pub(crate) fn with_task(mut self, task: &str) -> Self {
        self.task = Some(task.to_owned());
        self
    }

    /// A failure that repeats what an agent said to the user: nothing in it is hidden.
    pub(crate) fn told_whole(mut self) -> Self {
        self.whole = true;
        self
    }

    /// A failure that standard output already tells in full.
    pub(crate) fn already_reported(mut self) -> Self {
        self.silent = true;
        self
    }

    /// Says what happened and gives the exit code.
    pub(crate) fn report(&self, as_json: bool) -> ExitCode {
        if self.code == FailureCode::OutputClosed {
            // In silence.
        } else if as_json {
            let document = self.document();
            output::json_error(&document);
            // Scripts of before the errors were on standard error look here. When even this cannot be written there is only
            // the code left.
            if !self.silent {
                drop(output::json(&document));
            }
        } else if self.whole && !self.silent {
            output::say(&format!("anycast: {}", self.message));
        } else if !self.silent {
            output::warn(&format!("anycast: {}", self.message));
        }
        ExitCode::from(self.code as u8)
    }

    /// Of a command line that cannot be read: on standard error alone, as JSON.
    pub(crate) fn report_usage(&self) -> ExitCode {
        output::json_error(&self.document());
        ExitCode::from(self.code as u8)
    }

    /// For scripts.
    fn document(&self) -> Value {
        let message = output::flat(&sanitize::without_url_secrets(&self.message));
        let mut error = json!({"kind": self.kind, "message": message, "exit_code": self.code as u8});
        if let Some(task) = &self.task {
            error["task_id"] = task.as_str().into();
        }
        json!({"error": error})
    }
}

impl From<Error> for CommandFailure {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            ErrorKind::DaemonUnavailable => FailureCode::Daemon,
            ErrorKind::InvalidArgument => FailureCode::Usage,
            ErrorKind::Timeout => FailureCode::Timeout,
            ErrorKind::PeerNotFound
            | ErrorKind::SkillNotFound
            | ErrorKind::TaskNotFound
            | ErrorKind::CardNotFound
            | ErrorKind::InviteNotFound
            | ErrorKind::TrustNotFound => FailureCode::NotFound,
            ErrorKind::DiscoveryUnavailable => FailureCode::Discovery,
            _ => FailureCode::General,
        };
        Self::new(code, &format!("{:?}", error.kind()), error.to_string())
    }
}

impl From<TaskError> for CommandFailure {
    fn from(error: TaskError) -> Self {
        let kind = match &error {
            TaskError::Node(error) => return error.clone().into(),
            TaskError::Failed { .. } => "TaskFailed",
            TaskError::Rejected { .. } => "TaskRejected",
            _ => "TaskCanceled",
        };
        Self::new(FailureCode::General, kind, error.to_string())
    }
}

impl From<std::io::Error> for CommandFailure {
    fn from(error: std::io::Error) -> Self {
        // The reader of our output has ended, as `head` does: the command ends in silence, as one that
        // SIGPIPE ends.
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::new(FailureCode::OutputClosed, "OutputClosed", error.to_string())
                .already_reported();
        }
        Self::new(FailureCode::General, "Io", error.to_string())
    }
}
