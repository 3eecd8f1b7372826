//! Errors as gRPC says them: a code, a text, and `google.rpc.ErrorInfo` in the details; and when to try again. PURE.

use agentanycast_front::refusal::Refusal;
use axum::{body::Body, response::Response};
use prost::Message as _;
use tonic::{
    Code, Status,
    metadata::{MetadataMap, MetadataValue},
};

use crate::protocol::{error::A2aError, version::Version};

/// How long to wait, in milliseconds, before a call is made again: the header that clients which do so look at.
pub(crate) const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, prost::Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// `google.rpc.ErrorInfo`, without its metadata.
#[derive(Clone, PartialEq, prost::Message)]
struct ErrorInfo {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    domain: String,
}

/// What a failed call ends with.
pub(crate) fn from_a2a_error(version: Version, error: &A2aError) -> Status {
    let reason = error.reason();
    let code = code(reason.grpc(version));
    let message = error.grpc(version);
    let info = ErrorInfo {
        reason: reason.word().to_owned(),
        domain: crate::protocol::error::DOMAIN.to_owned(),
    };
    let details = RpcStatus {
        code: code as i32,
        message: message.clone(),
        details: vec![prost_types::Any {
            type_url: "type.googleapis.com/google.rpc.ErrorInfo".to_owned(),
            value: info.encode_to_vec(),
        }],
    };
    let mut metadata = MetadataMap::new();
    if let Some(wait) = reason.retry_after() {
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        metadata.insert(PUSHBACK, MetadataValue::from(millis));
    }
    Status::with_details_and_metadata(code, message, details.encode_to_vec().into(), metadata)
}

/// The answer to a call that does not come in.
pub(super) fn refused(refusal: Refusal) -> Response {
    let wait = refusal.retry_after();
    let mut response = from_a2a_error(Version::V10, &refusal.into()).into_http::<Body>();
    if let Some(wait) = wait {
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
        response.headers_mut().insert(PUSHBACK, millis.into());
    }
    response
}

/// The reason that a failed call gave, if it is one of A2A.
pub(crate) fn reason(status: &Status) -> Option<String> {
    let details = RpcStatus::decode(status.details()).ok()?;
    let info = details
        .details
        .iter()
        .find(|any| any.type_url.ends_with("google.rpc.ErrorInfo"))?;
    let info = ErrorInfo::decode(&*info.value).ok()?;
    (!info.reason.is_empty()).then_some(info.reason)
}

fn code(word: &str) -> Code {
    match word {
        "INVALID_ARGUMENT" => Code::InvalidArgument,
        "NOT_FOUND" => Code::NotFound,
        "UNAUTHENTICATED" => Code::Unauthenticated,
        "PERMISSION_DENIED" => Code::PermissionDenied,
        "RESOURCE_EXHAUSTED" => Code::ResourceExhausted,
        "FAILED_PRECONDITION" => Code::FailedPrecondition,
        "ABORTED" => Code::Aborted,
        "UNAVAILABLE" => Code::Unavailable,
        "UNIMPLEMENTED" => Code::Unimplemented,
        "UNKNOWN" => Code::Unknown,
        _ => Code::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::error::Reason;

    #[test]
    fn the_reason_is_in_the_details() {
        let status = from_a2a_error(
            Version::V10,
            &A2aError::new(Reason::TaskNotCancelable, "it has ended"),
        );
        assert_eq!(status.code(), Code::FailedPrecondition);
        let details = RpcStatus::decode(status.details()).unwrap();
        let info = ErrorInfo::decode(details.details[0].value.as_slice()).unwrap();
        assert_eq!(info.reason, "TASK_NOT_CANCELABLE");
        assert!(!status.metadata().contains_key(PUSHBACK));
    }

    #[test]
    fn version_0_3_has_codes_of_its_own() {
        let status = from_a2a_error(
            Version::V03,
            &A2aError::new(Reason::TaskNotCancelable, "it has ended"),
        );
        assert_eq!(status.code(), Code::Unimplemented);
        assert_eq!(status.message(), "TaskNotCancelableError: it has ended");
        assert_eq!(reason(&status).as_deref(), Some("TASK_NOT_CANCELABLE"));
    }

    #[test]
    fn a_refused_call_says_when_it_may_come() {
        let answer = refused(Refusal::rate_limited(5, std::time::Duration::from_millis(1_200)));
        assert_eq!(answer.headers()["grpc-status"], "8");
        assert_eq!(answer.headers()["grpc-retry-pushback-ms"], "1200");
    }

    #[test]
    fn who_may_try_again_is_told_when() {
        let status = from_a2a_error(
            Version::V10,
            &A2aError::new(Reason::Unavailable, "the daemon is away"),
        );
        assert_eq!(status.metadata().get(PUSHBACK).unwrap(), "5000");
    }
}
