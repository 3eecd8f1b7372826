//! Errors of the service as those of the port.

use agentanycast_core::EngineError;
use agentanycast_gateway::{ErrorKind, GatewayError};

use crate::service::{ServiceError, ServiceErrorKind};

/// The error of a report about a task, or of a look at it: what is not kept because the store failed is reported again.
pub(crate) fn report_error(error: EngineError) -> GatewayError {
    task_error(ServiceError::while_away(error))
}

/// The error of a call about a task.
pub(super) fn task_error(error: ServiceError) -> GatewayError {
    gateway_error(error, ErrorKind::TaskNotFound)
}

/// The error of a call that looks for an agent. An id of a peer that is none, or a registry that does not answer, is no
/// agent either.
pub(super) fn agent_error(error: ServiceError) -> GatewayError {
    match error.kind() {
        ServiceErrorKind::Invalid | ServiceErrorKind::Unavailable => {
            GatewayError::new(ErrorKind::AgentNotFound, error.into_text())
        }
        _ => gateway_error(error, ErrorKind::AgentNotFound),
    }
}

/// What an error means; `missing` is what was not found.
pub(super) fn gateway_error(error: ServiceError, missing: ErrorKind) -> GatewayError {
    let kind = match error.kind() {
        ServiceErrorKind::NotFound => missing,
        ServiceErrorKind::Invalid => ErrorKind::Invalid,
        ServiceErrorKind::Conflict => ErrorKind::Conflict,
        ServiceErrorKind::Denied => ErrorKind::Denied,
        ServiceErrorKind::Exhausted => ErrorKind::Busy,
        ServiceErrorKind::Unavailable => ErrorKind::Unavailable,
        ServiceErrorKind::StoreFailed | ServiceErrorKind::Damaged => ErrorKind::Internal,
    };
    GatewayError::new(kind, error.into_text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anycast::SearchError;

    #[test]
    fn each_error_has_the_kind_that_gateways_decide_on() {
        for (kind, task, agent) in [
            (
                ServiceErrorKind::Invalid,
                ErrorKind::Invalid,
                ErrorKind::AgentNotFound,
            ),
            (
                ServiceErrorKind::NotFound,
                ErrorKind::TaskNotFound,
                ErrorKind::AgentNotFound,
            ),
            (
                ServiceErrorKind::Conflict,
                ErrorKind::Conflict,
                ErrorKind::Conflict,
            ),
            (ServiceErrorKind::Denied, ErrorKind::Denied, ErrorKind::Denied),
            (ServiceErrorKind::Exhausted, ErrorKind::Busy, ErrorKind::Busy),
            (
                ServiceErrorKind::Unavailable,
                ErrorKind::Unavailable,
                ErrorKind::AgentNotFound,
            ),
            (
                ServiceErrorKind::StoreFailed,
                ErrorKind::Internal,
                ErrorKind::Internal,
            ),
            (
                ServiceErrorKind::Damaged,
                ErrorKind::Internal,
                ErrorKind::Internal,
            ),
        ] {
            let error = || ServiceError::new(kind, "why");
            assert_eq!(task_error(error()), GatewayError::new(task, "why"));
            assert_eq!(agent_error(error()), GatewayError::new(agent, "why"));
        }
    }

    #[test]
    fn gateways_tell_a_node_without_discovery_from_one_that_has_no_answer() {
        let told = |error: SearchError| gateway_error(error.into(), ErrorKind::AgentNotFound);
        assert!(told(SearchError::NotConfigured).has_no_discovery());
        let refused = crate::anycast::RegistryFailures(vec!["refused".to_owned()]);
        assert!(!told(SearchError::NoAnswer(refused)).has_no_discovery());
    }
}
