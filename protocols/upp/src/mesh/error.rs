//! Errors of the mesh as errors of UPP. A reason that reads `CODE: sentence` keeps its code.

use agentanycast::{Error, ErrorKind, TaskError};

use crate::{
    error::{ErrorCode, UppError},
    task_wire::error_of_reason,
};

/// The error of a task that did not complete.
pub fn error_of_task(error: TaskError) -> UppError {
    match error {
        TaskError::Failed { reason, .. } | TaskError::Rejected { reason, .. } => error_of_reason(&reason),
        TaskError::Canceled { .. } => UppError::new(ErrorCode::Cancelled, "the task was cancelled"),
        TaskError::Node(error) => node_error(error),
        other => UppError::new(ErrorCode::ProviderError, other.to_string()),
    }
}

/// The error of a call to the daemon.
pub fn node_error(error: Error) -> UppError {
    let code = match error.kind() {
        // There is no such agent: the same request fails again.
        ErrorKind::PeerNotFound | ErrorKind::SkillNotFound => ErrorCode::ModelNotFound,
        _ if error.is_retryable() => ErrorCode::NetworkError,
        ErrorKind::InvalidArgument => ErrorCode::InvalidRequest,
        ErrorKind::Canceled => ErrorCode::Cancelled,
        _ => ErrorCode::ProviderError,
    };
    UppError::new(code, error.to_string()).with_source(error)
}
