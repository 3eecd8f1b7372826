//! Failures of the front, of the mesh and of agents as errors of UPP. PURE.
//!
//! The code says what failed. Where one code has two statuses, the error holds the status of its cause.

use std::time::Duration;

use agentanycast_front::refusal::{Refusal, RefusalKind};
use agentanycast_gateway::{ErrorKind, GatewayError, tasks::TaskRefusal};
use agentanycast_upp::{ErrorCode, UppError};

/// After what time a caller that met a bound asks again, at the earliest.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Of a request that the front does not let in.
pub(super) fn of_refusal(refusal: &Refusal) -> UppError {
    let code = match refusal.kind() {
        RefusalKind::Malformed
        | RefusalKind::Invalid
        | RefusalKind::InvalidValue
        | RefusalKind::MediaType => ErrorCode::InvalidRequest,
        RefusalKind::Unauthenticated | RefusalKind::Denied => ErrorCode::AuthenticationFailed,
        RefusalKind::Exhausted => ErrorCode::RateLimited,
        RefusalKind::Unavailable => ErrorCode::ProviderError,
    };
    UppError::new(code, refusal.to_string()).with_status(refusal.status().as_u16())
}

/// Of a task that did not begin.
pub(super) fn of_task_refusal(refusal: TaskRefusal) -> UppError {
    let code = match refusal {
        TaskRefusal::Node(error) => return of_node(&error),
        TaskRefusal::TooLarge { .. } => ErrorCode::ContextLengthExceeded,
        TaskRefusal::TooManyFollowed(_) => {
            return UppError::new(ErrorCode::RateLimited, refusal.to_string()).with_retry_after(RETRY_AFTER);
        }
        TaskRefusal::UrlForUnknown => ErrorCode::AuthenticationFailed,
        _ => ErrorCode::InvalidRequest,
    };
    UppError::new(code, refusal.to_string())
}

/// Of a call to the node.
pub(super) fn of_node(error: &GatewayError) -> UppError {
    let said = |code| UppError::new(code, error.to_string());
    match error.kind() {
        ErrorKind::AgentNotFound | ErrorKind::TaskNotFound => said(ErrorCode::ModelNotFound),
        ErrorKind::Invalid | ErrorKind::Unsupported => said(ErrorCode::InvalidRequest),
        ErrorKind::Denied => said(ErrorCode::AuthenticationFailed).with_status(403),
        ErrorKind::Busy => said(ErrorCode::RateLimited).with_retry_after(RETRY_AFTER),
        ErrorKind::Unavailable => said(ErrorCode::NetworkError).with_status(503),
        ErrorKind::Conflict | ErrorKind::Internal => said(ErrorCode::ProviderError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_the_mesh_have_a_code_and_a_status() {
        for (kind, code, status) in [
            (ErrorKind::AgentNotFound, ErrorCode::ModelNotFound, None),
            (ErrorKind::Invalid, ErrorCode::InvalidRequest, None),
            (ErrorKind::Denied, ErrorCode::AuthenticationFailed, Some(403)),
            (ErrorKind::Busy, ErrorCode::RateLimited, None),
            (ErrorKind::Unavailable, ErrorCode::NetworkError, Some(503)),
            (ErrorKind::Internal, ErrorCode::ProviderError, None),
        ] {
            let error = of_node(&GatewayError::new(kind, "why"));
            assert_eq!((error.code(), error.status()), (code, status));
            assert_eq!(error.retry_after().is_some(), kind == ErrorKind::Busy);
        }
    }
}
