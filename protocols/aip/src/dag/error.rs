//! Why an edit or a step of a graph is refused.

use thiserror::Error;

use super::TaskStarStatus;

/// Why an edit or a step of a graph is refused. The graph is as it was.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DagError {
    /// There is no such task.
    #[error("there is no task '{0}'")]
    NoTask(String),
    /// There is no such dependency.
    #[error("there is no dependency '{0}'")]
    NoLine(String),
    /// The id is taken.
    #[error("the id '{0}' is taken already; choose another one")]
    Taken(String),
    /// The task is not in a state for this.
    #[error("task '{task_id}' is {status}, which does not allow this")]
    Status {
        /// The task.
        task_id: String,
        /// Its status.
        status: TaskStarStatus,
    },
    /// The dependency would make a circle.
    #[error("a dependency from '{from}' to '{to}' would make a circle")]
    Circle {
        /// The task that has to end first.
        from: String,
        /// The task that waits.
        to: String,
    },
    /// The dependency has no condition that is asked for now.
    #[error("dependency '{0}' has no open condition")]
    NoCondition(String),
    /// The graph is too large.
    #[error("a graph has at most {max} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        max: usize,
    },
    /// The graph was cancelled.
    #[error("the constellation is cancelled")]
    Cancelled,
}
