//! How tasks end, as assertions.

use agentanycast::{Task, TaskError, TaskHandle};

use crate::wait::within;

/// The task, once it has completed.
///
/// # Panics
/// When it ends otherwise or not at all.
pub async fn completed(handle: &TaskHandle) -> Task {
    let outcome = within("the task completes", handle.wait()).await;
    outcome.unwrap_or_else(|error| panic!("task {}: {error}", handle.id()))
}

/// The error that the task ended with.
///
/// # Panics
/// When it completes, or does not end.
pub async fn not_completed(handle: &TaskHandle) -> TaskError {
    let outcome = within("the task ends", handle.wait()).await;
    outcome.expect_err("the task was not to complete")
}
