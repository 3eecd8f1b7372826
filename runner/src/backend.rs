//! What an agent of the runner consists of: the [`Backend`] does its tasks. Each kind of program has an implementation
//! of its own; the runner takes the tasks, keeps the bounds and reports the ends.

use std::time::SystemTime;

use agentanycast_gateway::agents::AgentTask;
use agentanycast_proto::v1;
use async_trait::async_trait;

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

    /// Resolves when its skills have changed. Never resolves where they cannot change.
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
}

impl RunError {
    /// An error with this text, which is cut at 4 KiB.
    pub fn new(text: impl Into<String>) -> Self {
        let mut text: String = text.into();
        if text.len() > ERROR_LIMIT {
            text.truncate(text.floor_char_boundary(ERROR_LIMIT - CUT.len()));
            text.push_str(CUT);
        }
        Self {
            text,
            interrupted: false,
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
    fn a_long_text_is_cut_between_characters() {
        let text = RunError::new("ä".repeat(ERROR_LIMIT)).to_string();
        assert!(
            text.len() <= ERROR_LIMIT && text.ends_with("ä …"),
            "{}",
            text.len()
        );
        assert_eq!(RunError::new("short").to_string(), "short");
    }
}
