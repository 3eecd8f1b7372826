//! What an agent of the runner consists of: the [`Backend`] does its tasks. Each kind of program has an implementation
//! of its own; the runner takes the tasks, keeps the bounds and reports the ends.

use std::time::SystemTime;

use agentanycast_daemon_kit::sanitize::without_url_secrets;
use agentanycast_gateway::agents::AgentTask;
use agentanycast_proto::v1;
use async_trait::async_trait;

use crate::{host_want, log_words};

/// Largest text of a [`RunError`], in bytes.
const ERROR_LIMIT: usize = 4 << 10;

/// Ends the text of a [`RunError`] that was cut.
const CUT: &str = " …";

/// Does the tasks of one agent: a program, a process that speaks JSON lines, an HTTP service, an MCP server, an ACP
/// agent.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// The skills by its own account; `None`: the skills of the command line are the agent's. Starts what has to run
    /// for that.
    async fn skills(&self) -> Result<Option<Vec<v1::Skill>>, RunError> {
        Ok(None)
    }

    /// Whether [`skills`](Self::skills) told them all. Until then the agent keeps the skills of its last card.
    fn skills_are_known(&self) -> bool {
        true
    }

    /// Resolves when its skills have changed, or are known. Never resolves where they cannot change.
    async fn skills_changed(&self) {
        std::future::pending::<()>().await;
    }

    /// Does one task. Progress, chunks and questions go by `task`. Dropping the future, or `task.cancelled()`, ends
    /// what it started.
    async fn run(&self, task: &dyn AgentTask, attempt: Attempt) -> Result<TaskResult, RunError>;

    /// Ends everything that it started: within 5 s gently, then by force.
    async fn stop(&self) {}
}

/// Which try of a task this is, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// 1 at the first time; more where the runner ended while the task ran, with `--retry`.
    pub number: u32,
    /// When the runner ends the task for its time-out; `None`: there is no time-out.
    pub deadline: Option<SystemTime>,
}

/// How a task ended well.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskResult {
    /// The task is complete.
    Completed {
        /// Its results, besides those that were streamed.
        artifacts: Vec<v1::Artifact>,
        /// A last message to the sender.
        message: Option<v1::Message>,
    },
    /// The sender is asked; the answer starts the task anew, with all messages.
    Question(v1::Message),
}

/// Why a task fails, as one text for people of at most 4 KiB.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct RunError {
    text: String,
    interrupted: bool,
    /// The host lacked something for a while, and nothing was started.
    unstarted: bool,
    /// The text without words of a program, a service or the task.
    summary: Option<String>,
}

impl RunError {
    /// An error with this text, which is cut at 4 KiB, and is told to the sender of a task: without what may be secret in
    /// URLs.
    pub fn new(text: impl Into<String>) -> Self {
        let mut text = without_url_secrets(&text.into()).into_owned();
        if text.len() > ERROR_LIMIT {
            text.truncate(text.floor_char_boundary(ERROR_LIMIT - CUT.len()));
            text.push_str(CUT);
        }
        Self {
            text,
            interrupted: false,
            unstarted: false,
            summary: None,
        }
    }

    /// As [`RunError::new`], of a text that the log may show: it has no words of a program, a service or the task.
    pub fn plain(text: impl Into<String>) -> Self {
        let error = Self::new(text);
        let summary = error.text.clone();
        error.summarised(summary)
    }

    /// As [`RunError::plain`], of work that could not be started since the host lacked something that passes: it is tried again
    /// then.
    pub(crate) fn unstarted(text: impl Into<String>) -> Self {
        Self {
            unstarted: true,
            ..Self::plain(text)
        }
    }

    /// An error of the system before anything was started: one that passes, or not.
    pub(crate) fn of_start(what: &str, error: &std::io::Error) -> Self {
        let text = format!("{what}: {error}");
        if host_want::is_passing(error) {
            Self::unstarted(text)
        } else {
            Self::plain(text)
        }
    }

    /// Whether nothing was started, and the host may have what is needed later.
    pub(crate) fn is_unstarted(&self) -> bool {
        self.unstarted
    }

    /// With what the log may show of it.
    #[must_use]
    pub fn summarised(mut self, summary: impl Into<String>) -> Self {
        self.summary = Some(summary.into());
        self
    }

    /// What the log shows of it.
    pub fn for_log(&self) -> &str {
        match &self.summary {
            Some(summary) if !log_words::are_shown() => summary,
            _ => log_words::said(&self.text),
        }
    }

    /// As [`RunError::new`], of a task that did nothing wrong: the process that does all tasks has ended. With `--retry` it
    /// is given again.
    pub fn interrupted(text: impl Into<String>) -> Self {
        Self {
            interrupted: true,
            ..Self::new(text)
        }
    }

    /// Whether the task may be given again.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted
    }
}

impl From<String> for RunError {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for RunError {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_shows_no_words_of_others() {
        let failed = RunError::new("exit code 1: hunter22");
        assert!(!failed.for_log().contains("hunter22"), "{}", failed.for_log());
        assert_eq!(failed.summarised("exit code 1").for_log(), "exit code 1");
        assert_eq!(RunError::plain("exit code 1").for_log(), "exit code 1");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text = RunError::new("ä".repeat(ERROR_LIMIT)).to_string();
        assert!(
            text.len() <= ERROR_LIMIT && text.ends_with("ä …"),
            "{}",
            text.len()
        );
        assert_eq!(RunError::new("short").to_string(), "short");
    }

    #[test]
    fn secrets_of_urls_are_not_told() {
        let error = RunError::plain("http://u:hunter22@h/x?api_key=hunter22 is not allowed");
        assert_eq!(error.to_string(), "http://***@h/x?api_key=*** is not allowed");
        assert_eq!(error.for_log(), error.to_string());
    }
}
