//! How tasks end.

use serde_json::Value;

use crate::messages::MessageStatus;

/// How a task ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskOutcome {
    /// Whether it was completed.
    pub completed: bool,
    /// Its result.
    pub result: Option<Value>,
    /// Why it failed.
    pub error: Option<String>,
}

impl TaskOutcome {
    /// It was completed.
    pub const fn completed(result: Value) -> Self {
        Self {
            completed: true,
            result: Some(result),
            error: None,
        }
    }

    /// It failed.
    pub fn failed(error: impl Into<String>) -> Self {
        Self {
            completed: false,
            result: None,
            error: Some(error.into()),
        }
    }

    /// Its status on the wire.
    pub const fn status(&self) -> MessageStatus {
        if self.completed {
            MessageStatus::Completed
        } else {
            MessageStatus::Failed
        }
    }
}
