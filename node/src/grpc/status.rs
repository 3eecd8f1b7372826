//! Errors of the service as gRPC statuses.

use tonic::{Code, Status};

use crate::service::{ServiceError, ServiceErrorKind};

impl From<ServiceError> for Status {
    fn from(error: ServiceError) -> Self {
        Self::new(code_of(error.kind()), error.into_text())
    }
}

/// INTERNAL, UNKNOWN and UNAVAILABLE are what deployed SDKs repeat, so only a call that did nothing may get one of them. To
/// agents UNAVAILABLE means that they keep what they have to say of a task until the daemon is back. That the store failed
/// is told at once to those that ask something or send a task.
fn code_of(kind: ServiceErrorKind) -> Code {
    match kind {
        ServiceErrorKind::Invalid => Code::InvalidArgument,
        ServiceErrorKind::NotFound => Code::NotFound,
        ServiceErrorKind::Conflict => Code::FailedPrecondition,
        ServiceErrorKind::Denied => Code::PermissionDenied,
        ServiceErrorKind::Exhausted => Code::ResourceExhausted,
        ServiceErrorKind::Unavailable => Code::Unavailable,
        ServiceErrorKind::StoreFailed => Code::Internal,
        ServiceErrorKind::Damaged => Code::DataLoss,
    }
}

#[cfg(test)]
mod tests {
    use agentanycast_core::EngineError;

    use super::*;
    use crate::anycast::SearchError;

    #[test]
    fn each_error_has_the_code_that_deployed_sdks_know() {
        let text = || "why".to_owned();
        let engine = [
            (EngineError::Invalid(text()), Code::InvalidArgument),
            (EngineError::NotFound(text()), Code::NotFound),
            (EngineError::NotRegistered(text()), Code::NotFound),
            (EngineError::Precondition(text()), Code::FailedPrecondition),
            (EngineError::Denied(text()), Code::PermissionDenied),
            (EngineError::Exhausted(text()), Code::ResourceExhausted),
            (EngineError::Unavailable(text()), Code::Unavailable),
            (EngineError::Store(text()), Code::Internal),
        ];
        for (error, code) in engine {
            let words = error.to_string();
            let status = Status::from(ServiceError::from(error));
            assert_eq!((status.code(), status.message()), (code, &*words));
        }
        let nobody = SearchError::Nobody {
            skill: text(),
            meant: None,
        };
        for (error, code) in [
            (nobody, Code::NotFound),
            (SearchError::NotConfigured, Code::Unavailable),
        ] {
            assert_eq!(Status::from(ServiceError::from(error)).code(), code);
        }
        assert_eq!(code_of(ServiceErrorKind::Damaged), Code::DataLoss);
    }
}
