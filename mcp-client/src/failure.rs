//! Why a request has no result, and what its caller may do about it.

use agentanycast_daemon_kit::sanitize::without_url_secrets;

/// What a caller decides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// The server refuses the request, in words of its own.
    Refused,
    /// The server did not take the request: it may be sent once more.
    NotDone,
    /// The server answered with bytes that cannot be read, or with no answer of MCP.
    Unreadable,
    /// The connection ended while the request was under way: what it did is not known.
    Ended,
    /// The server did not answer in time.
    Silent,
}

/// Why a request has no result, as one text for people, without what may be secret in URLs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct McpFailure {
    kind: FailureKind,
    text: String,
    code: Option<i64>,
}

impl McpFailure {
    pub(crate) fn new(kind: FailureKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: without_url_secrets(&text.into()).into_owned(),
            code: None,
        }
    }

    /// A refusal by an error of JSON-RPC.
    pub(crate) fn refused(code: i64, text: impl Into<String>) -> Self {
        Self {
            code: Some(code),
            ..Self::new(FailureKind::Refused, text)
        }
    }

    pub(crate) fn ended(text: impl Into<String>) -> Self {
        Self::new(FailureKind::Ended, text)
    }

    pub(crate) fn unreadable(text: impl Into<String>) -> Self {
        Self::new(FailureKind::Unreadable, text)
    }

    /// What a caller decides by.
    pub const fn kind(&self) -> FailureKind {
        self.kind
    }

    /// The code of JSON-RPC by which the server refused.
    pub const fn code(&self) -> Option<i64> {
        self.code
    }
}
