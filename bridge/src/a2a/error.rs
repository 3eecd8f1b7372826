//! What goes wrong in A2A, once for all bindings: JSON-RPC code, HTTP status, gRPC status, and the reason that
//! programs read. PURE.

use serde_json::{Value, json};

use super::version::Version;
use crate::gateway::{ErrorKind, GatewayError};

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
    /// Too much at once; later it may work.
    ResourceExhausted,
    /// The node cannot be asked now.
    Unavailable,
    /// Failed inside.
    Internal,
}

/// How a reason is said in each binding: the word, JSON-RPC, HTTP, gRPC.
struct Row(&'static str, i32, u16, &'static str);

impl Reason {
    /// The bindings' words for it. What A2A does not number is an internal error to JSON-RPC.
    fn row(self) -> Row {
        const BAD: &str = "INVALID_ARGUMENT";
        const STATE: &str = "FAILED_PRECONDITION";
        match self {
            Self::TaskNotFound => Row("TASK_NOT_FOUND", -32001, 404, "NOT_FOUND"),
            Self::TaskNotCancelable => Row("TASK_NOT_CANCELABLE", -32002, 400, STATE),
            Self::PushNotificationNotSupported => Row("PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, 400, STATE),
            Self::UnsupportedOperation => Row("UNSUPPORTED_OPERATION", -32004, 400, STATE),
            Self::ContentTypeNotSupported => Row("CONTENT_TYPE_NOT_SUPPORTED", -32005, 400, BAD),
            Self::InvalidAgentResponse => Row("INVALID_AGENT_RESPONSE", -32006, 500, "INTERNAL"),
            Self::ExtendedAgentCardNotConfigured => {
                Row("EXTENDED_AGENT_CARD_NOT_CONFIGURED", -32007, 400, STATE)
            }
            Self::ExtensionSupportRequired => Row("EXTENSION_SUPPORT_REQUIRED", -32008, 400, STATE),
            Self::VersionNotSupported => Row("VERSION_NOT_SUPPORTED", -32009, 400, STATE),
            Self::ParseError => Row("INVALID_REQUEST", -32700, 400, BAD),
            Self::InvalidRequest => Row("INVALID_REQUEST", -32600, 400, BAD),
            Self::MethodNotFound => Row("METHOD_NOT_FOUND", -32601, 404, "NOT_FOUND"),
            Self::InvalidParams => Row("INVALID_PARAMS", -32602, 400, BAD),
            Self::AgentNotFound => Row("AGENT_NOT_FOUND", -32603, 404, "NOT_FOUND"),
            Self::Unauthenticated => Row("UNAUTHENTICATED", -32603, 401, "UNAUTHENTICATED"),
            Self::PermissionDenied => Row("PERMISSION_DENIED", -32603, 403, "PERMISSION_DENIED"),
            Self::ResourceExhausted => Row("RESOURCE_EXHAUSTED", -32603, 429, "RESOURCE_EXHAUSTED"),
            Self::Unavailable => Row("UNAVAILABLE", -32603, 503, "UNAVAILABLE"),
            Self::Internal => Row("INTERNAL_ERROR", -32603, 500, "INTERNAL"),
        }
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
    pub fn grpc(self) -> &'static str {
        self.row().3
    }

    /// The status of HTTP.
    pub fn http(self) -> u16 {
        self.row().2
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

    /// The body of a REST response.
    pub fn rest(&self) -> Value {
        let Row(_, _, code, status) = self.reason.row();
        json!({"error": {
            "code": code,
            "status": status,
            "message": self.message,
            "details": [self.info()],
        }})
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
        let rest = error.rest();
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
}
