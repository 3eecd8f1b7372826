//! A dependency of a graph.

use serde::{Deserialize, Serialize};

use super::{TaskStar, TaskStarStatus};
use crate::messages::wire_enum;

wire_enum! {
    /// When a dependency is met.
    DependencyType, "dependency_type" {
        /// The first task has ended in any way, also without having run.
        Unconditional = "unconditional",
        /// The first task was completed, and a condition holds for its result.
        Conditional = "conditional",
        /// The first task was completed.
        SuccessOnly = "success_only",
        /// The first task has run: it was completed, or it failed.
        CompletionOnly = "completion_only",
    }
}

/// A dependency: one task waits for another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskStarLine {
    /// Its id.
    pub line_id: String,
    /// The task that has to end first.
    pub from_task_id: String,
    /// The task that waits.
    pub to_task_id: String,
    /// When it is met.
    pub dependency_type: DependencyType,
    /// The condition, in words.
    #[serde(default)]
    pub condition_description: String,
    /// Whether the condition holds; `None`: it was not evaluated.
    #[serde(default)]
    pub condition_holds: Option<bool>,
}

/// What a dependency is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineState {
    /// The first task has not ended.
    Open,
    /// The first task was completed; the condition has to be evaluated.
    AwaitsCondition,
    /// It is met.
    Met,
    /// It cannot be met any more.
    Unmet,
}

impl TaskStarLine {
    /// A dependency with the id `FROM->TO`.
    pub fn new(from: &str, to: &str, dependency_type: DependencyType) -> Self {
        Self {
            line_id: format!("{from}->{to}"),
            from_task_id: from.to_owned(),
            to_task_id: to.to_owned(),
            dependency_type,
            condition_description: String::new(),
            condition_holds: None,
        }
    }

    /// What it is, given the task that has to end first.
    pub(super) fn state(&self, from: &TaskStar) -> LineState {
        use DependencyType::{CompletionOnly, Conditional, SuccessOnly, Unconditional};
        let met = match (from.status, self.dependency_type) {
            (TaskStarStatus::Completed, Conditional) => match self.condition_holds {
                None => return LineState::AwaitsCondition,
                Some(holds) => holds,
            },
            (TaskStarStatus::Completed, _)
            | (TaskStarStatus::Failed, Unconditional | CompletionOnly)
            | (TaskStarStatus::Cancelled, Unconditional) => true,
            (TaskStarStatus::Failed, SuccessOnly | Conditional) | (TaskStarStatus::Cancelled, _) => false,
            _ => return LineState::Open,
        };
        if met { LineState::Met } else { LineState::Unmet }
    }
}
