//! What goes wrong in A2A, once for all bindings: JSON-RPC code, HTTP status, gRPC status, and the reason that
//! programs read. PURE.

use std::time::Duration;

use agentanycast_front::refusal::{Refusal, RefusalKind};
use agentanycast_gateway::{ErrorKind, GatewayError, shorten, tasks::TaskRefusal};
use agentanycast_proto::json::NotJson;
use serde_json::{Value, json};

use super::version::Version;

/// Whose words the reasons are.
pub(crate) const DOMAIN: &str = "a2a-protocol.org";

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// No such task, or not the caller's.
    TaskNotFound,
    /// It has ended.
    TaskNotCancelable,
    /// No push notifications here.
    PushNotificationNotSupported,
    /// Not in the task's state, or not at all.
    UnsupportedOperation,
    /// The request's media type.
    ContentTypeNotSupported,
    /// The agent answered what no agent may.
    InvalidAgentResponse,
    /// No extended card here.
    ExtendedAgentCardNotConfigured,
    /// An extension is required that the client does not declare.
    ExtensionSupportRequired,
    /// Neither 0.3 nor 1.0, or not what the request is written in.
    VersionNotSupported,
    /// Not JSON.
    ParseError,
    /// Not a request.
    InvalidRequest,
    /// No such method or path.
    MethodNotFound,
    /// A parameter is missing or wrong.
    InvalidParams,
    /// No such agent, or out of reach.
    AgentNotFound,
    /// The caller did not say who it is.
    Unauthenticated,
    /// The node, or the caller's token, forbids it.
    PermissionDenied,
    /// An idempotency key came again with another message.
    IdempotencyKeyReused,
    /// Too much at once; later it may work.
    ResourceExhausted,
    /// The node cannot be asked now.
    Unavailable,
    /// Failed inside.
    Internal,
}

/// How a reason is said in each binding: the word, JSON-RPC, HTTP, gRPC.
struct ReasonCodes(&'static str, i32, u16, &'static str);

/// What 0.3 says instead, as its official SDK does: the error's name, HTTP, gRPC.
struct ReasonCodesV03(&'static str, u16, &'static str);

impl Reason {
    /// The bindings' words for it. What A2A does not number is an internal error to JSON-RPC.
    fn row(self) -> ReasonCodes {
        const BAD: &str = "INVALID_ARGUMENT";
        const STATE: &str = "FAILED_PRECONDITION";
        match self {
            Self::TaskNotFound => ReasonCodes("TASK_NOT_FOUND", -32001, 404, "NOT_FOUND"),
            Self::TaskNotCancelable => ReasonCodes("TASK_NOT_CANCELABLE", -32002, 400, STATE),
            Self::PushNotificationNotSupported => {
                ReasonCodes("PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, 400, STATE)
            }
            Self::UnsupportedOperation => ReasonCodes("UNSUPPORTED_OPERATION", -32004, 400, STATE),
            Self::ContentTypeNotSupported => ReasonCodes("CONTENT_TYPE_NOT_SUPPORTED", -32005, 400, BAD),
            Self::InvalidAgentResponse => ReasonCodes("INVALID_AGENT_RESPONSE", -32006, 500, "INTERNAL"),
            Self::ExtendedAgentCardNotConfigured => {
                ReasonCodes("EXTENDED_AGENT_CARD_NOT_CONFIGURED", -32007, 400, STATE)
            }
            Self::ExtensionSupportRequired => ReasonCodes("EXTENSION_SUPPORT_REQUIRED", -32008, 400, STATE),
            Self::VersionNotSupported => ReasonCodes("VERSION_NOT_SUPPORTED", -32009, 400, STATE),
            Self::ParseError => ReasonCodes("INVALID_REQUEST", -32700, 400, BAD),
            Self::InvalidRequest => ReasonCodes("INVALID_REQUEST", -32600, 400, BAD),
            Self::MethodNotFound => ReasonCodes("METHOD_NOT_FOUND", -32601, 404, "NOT_FOUND"),
            Self::InvalidParams => ReasonCodes("INVALID_PARAMS", -32602, 400, BAD),
            Self::AgentNotFound => ReasonCodes("AGENT_NOT_FOUND", -32603, 404, "NOT_FOUND"),
            Self::Unauthenticated => ReasonCodes("UNAUTHENTICATED", -32603, 401, "UNAUTHENTICATED"),
            Self::PermissionDenied => ReasonCodes("PERMISSION_DENIED", -32603, 403, "PERMISSION_DENIED"),
            Self::IdempotencyKeyReused => ReasonCodes("IDEMPOTENCY_KEY_REUSED", -32603, 409, "ABORTED"),
            Self::ResourceExhausted => ReasonCodes("RESOURCE_EXHAUSTED", -32603, 429, "RESOURCE_EXHAUSTED"),
            Self::Unavailable => ReasonCodes("UNAVAILABLE", -32603, 503, "UNAVAILABLE"),
            Self::Internal => ReasonCodes("INTERNAL_ERROR", -32603, 500, "INTERNAL"),
        }
    }

    /// The same in 0.3; none for what only 1.0 has a name for.
    fn old_row(self) -> Option<ReasonCodesV03> {
        const BAD: &str = "INVALID_ARGUMENT";
        const NOT_HERE: &str = "UNIMPLEMENTED";
        Some(match self {
            Self::TaskNotFound => ReasonCodesV03("TaskNotFoundError", 404, "NOT_FOUND"),
            Self::TaskNotCancelable => ReasonCodesV03("TaskNotCancelableError", 409, NOT_HERE),
            Self::PushNotificationNotSupported => {
                ReasonCodesV03("PushNotificationNotSupportedError", 501, NOT_HERE)
            }
            Self::UnsupportedOperation => ReasonCodesV03("UnsupportedOperationError", 501, NOT_HERE),
            Self::ContentTypeNotSupported => ReasonCodesV03("ContentTypeNotSupportedError", 415, NOT_HERE),
            Self::InvalidAgentResponse => ReasonCodesV03("InvalidAgentResponseError", 502, "INTERNAL"),
            Self::ExtendedAgentCardNotConfigured => {
                ReasonCodesV03("AuthenticatedExtendedCardNotConfiguredError", 404, "UNKNOWN")
            }
            Self::ParseError => ReasonCodesV03("JSONParseError", 400, "INTERNAL"),
            Self::InvalidRequest => ReasonCodesV03("InvalidRequestError", 400, BAD),
            Self::MethodNotFound => ReasonCodesV03("MethodNotFoundError", 404, "NOT_FOUND"),
            Self::InvalidParams => ReasonCodesV03("InvalidParamsError", 422, BAD),
            Self::Internal => ReasonCodesV03("InternalError", 500, "INTERNAL"),
            _ => return None,
        })
    }

    /// The word in `google.rpc.ErrorInfo`.
    pub fn word(self) -> &'static str {
        self.row().0
    }

    /// The code of JSON-RPC.
    pub fn code(self) -> i32 {
        self.row().1
    }

    /// The status of gRPC, by its name.
    pub fn grpc(self, version: Version) -> &'static str {
        match (version, self.old_row()) {
            (Version::V03, Some(ReasonCodesV03(_, _, status))) => status,
            _ => self.row().3,
        }
    }

    /// When it may be over, if waiting helps: a node is there some seconds after it was started, and a limit of rate
    /// lets something through each second, unless it is a very low one.
    pub fn retry_after(self) -> Option<Duration> {
        match self {
            Self::Unavailable => Some(Duration::from_secs(5)),
            Self::ResourceExhausted => Some(Duration::from_secs(1)),
            _ => None,
        }
    }

    /// The status of HTTP.
    pub fn http(self, version: Version) -> u16 {
        match (version, self.old_row()) {
            (Version::V03, Some(ReasonCodesV03(_, status, _))) => status,
            _ => self.row().2,
        }
    }
}

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct A2aError {
    reason: Reason,
    message: String,
}

impl A2aError {
    /// With this text for people.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }

    /// A parameter is missing or wrong.
    pub fn params(message: impl Into<String>) -> Self {
        Self::new(Reason::InvalidParams, message)
    }

    /// What programs decide on.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    fn info(&self) -> Value {
        json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": self.reason.word(),
            "domain": DOMAIN,
            "metadata": {},
        })
    }

    /// The `error` of a JSON-RPC response. Its data is a list in 1.0, and is left out in 0.3, whose clients
    /// know none.
    pub fn json_rpc(&self, version: Version) -> Value {
        let mut error = json!({"code": self.reason.code(), "message": self.message});
        if version == Version::V10 {
            error["data"] = json!([self.info()]);
        }
        error
    }

    /// The body of a REST response. 0.3 has a message alone, beside which clients look for the error's name, or for the
    /// code of JSON-RPC.
    pub fn rest(&self, version: Version) -> Value {
        if version == Version::V03 {
            let mut body = json!({"code": self.reason.code(), "message": self.message});
            if let Some(ReasonCodesV03(name, ..)) = self.reason.old_row() {
                body["type"] = name.into();
            }
            return body;
        }
        let ReasonCodes(_, _, code, status) = self.reason.row();
        json!({"error": {
            "code": code,
            "status": status,
            "message": self.message,
            "details": [self.info()],
        }})
    }

    /// The message of a failed gRPC call. In 0.3 it begins with the error's name, which clients tell errors by.
    pub fn grpc(&self, version: Version) -> String {
        match (version, self.reason.old_row()) {
            (Version::V03, Some(ReasonCodesV03(name, _, _))) => format!("{name}: {}", self.message),
            _ => self.message.clone(),
        }
    }
}

impl From<NotJson> for A2aError {
    fn from(error: NotJson) -> Self {
        Self::params(error.to_string())
    }
}

impl From<Refusal> for A2aError {
    fn from(refusal: Refusal) -> Self {
        let reason = match refusal.kind() {
            RefusalKind::Malformed => Reason::ParseError,
            RefusalKind::Invalid => Reason::InvalidRequest,
            RefusalKind::InvalidValue => Reason::InvalidParams,
            RefusalKind::MediaType => Reason::ContentTypeNotSupported,
            RefusalKind::Unauthenticated => Reason::Unauthenticated,
            RefusalKind::Denied => Reason::PermissionDenied,
            RefusalKind::Exhausted => Reason::ResourceExhausted,
            RefusalKind::Unavailable => Reason::Unavailable,
        };
        Self::new(reason, refusal.to_string())
    }
}

impl From<TaskRefusal> for A2aError {
    fn from(refusal: TaskRefusal) -> Self {
        let not_now = |id: &str, what: &str| {
            Self::new(
                Reason::UnsupportedOperation,
                format!("task {} {what}", shorten(id)),
            )
        };
        match &refusal {
            TaskRefusal::NotFound(_) => Self::new(Reason::TaskNotFound, refusal.to_string()),
            TaskRefusal::Ended(id, _) => not_now(id, "has ended; send the message without message.taskId"),
            TaskRefusal::AsksNothing(id) => not_now(id, "asks for nothing now, so it takes no message"),
            TaskRefusal::OtherContext { id, context } => Self::params(format!(
                "message.contextId is not that of task {}, which is {context}",
                shorten(id)
            )),
            TaskRefusal::BadKey(_) | TaskRefusal::TooLarge { .. } => Self::params(refusal.to_string()),
            TaskRefusal::KeyReused(_) => Self::new(Reason::IdempotencyKeyReused, refusal.to_string()),
            TaskRefusal::UrlForUnknown => Self::new(Reason::PermissionDenied, refusal.to_string()),
            TaskRefusal::TooManyFollowed(_) => Self::new(Reason::ResourceExhausted, refusal.to_string()),
            TaskRefusal::Node(error) => error.clone().into(),
        }
    }
}

impl From<GatewayError> for A2aError {
    fn from(error: GatewayError) -> Self {
        let reason = match error.kind() {
            ErrorKind::TaskNotFound => Reason::TaskNotFound,
            ErrorKind::AgentNotFound => Reason::AgentNotFound,
            ErrorKind::Invalid => Reason::InvalidParams,
            ErrorKind::Conflict | ErrorKind::Unsupported => Reason::UnsupportedOperation,
            ErrorKind::Denied => Reason::PermissionDenied,
            ErrorKind::Busy => Reason::ResourceExhausted,
            ErrorKind::Unavailable => Reason::Unavailable,
            ErrorKind::Internal => Reason::Internal,
        };
        Self::new(reason, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_binding_says_it_its_way() {
        let error = A2aError::new(Reason::TaskNotFound, "no task x");
        let rest = error.rest(Version::V10);
        assert_eq!(rest["error"]["code"], 404);
        assert_eq!(rest["error"]["status"], "NOT_FOUND");
        assert_eq!(rest["error"]["details"][0]["reason"], "TASK_NOT_FOUND");
        let rpc = error.json_rpc(Version::V10);
        assert_eq!(
            (&rpc["code"], &rpc["data"][0]["domain"]),
            (&json!(-32001), &json!("a2a-protocol.org"))
        );
        assert!(error.json_rpc(Version::V03).get("data").is_none());
    }

    #[test]
    fn version_0_3_has_statuses_and_names_of_its_own() {
        let of = |reason: Reason| {
            let error = A2aError::new(reason, "x");
            (
                reason.http(Version::V03),
                reason.grpc(Version::V03),
                error.grpc(Version::V03),
            )
        };
        let named = |http, grpc, text: &str| (http, grpc, text.to_owned());
        assert_eq!(
            of(Reason::TaskNotFound),
            named(404, "NOT_FOUND", "TaskNotFoundError: x")
        );
        assert_eq!(
            of(Reason::TaskNotCancelable),
            named(409, "UNIMPLEMENTED", "TaskNotCancelableError: x")
        );
        assert_eq!(
            of(Reason::InvalidParams),
            named(422, "INVALID_ARGUMENT", "InvalidParamsError: x")
        );
        // It knows no such error.
        assert_eq!(of(Reason::Unavailable), named(503, "UNAVAILABLE", "x"));
        let body = A2aError::new(Reason::TaskNotFound, "x").rest(Version::V03);
        assert_eq!(
            body,
            json!({"code": -32001, "message": "x", "type": "TaskNotFoundError"})
        );
    }
}
