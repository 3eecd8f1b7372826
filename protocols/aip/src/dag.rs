//! Task graphs that a constellation executes: tasks, dependencies of four kinds, edits while it runs. The graph is
//! PURE; [`run`] executes one by a [`ConstellationClient`](crate::endpoints::ConstellationClient).
//!
//! Invariants: the graph has no circle; a task starts only when all its dependencies are met; a task that has started
//! is not edited.

mod constellation;
mod document;
mod edits;
mod error;
mod execution;
#[cfg(test)]
mod model_tests;
mod runner;
mod star_line;
mod task_star;

pub use constellation::{ConstellationState, TaskConstellation};
pub use document::ConstellationDocument;
pub use error::DagError;
pub use runner::{ConstellationAgent, DefaultAgent, RunnerSettings, TaskAssigner, run};
pub use star_line::{DependencyType, LineState, TaskStarLine};
pub use task_star::{TaskPriority, TaskStar, TaskStarStatus};
