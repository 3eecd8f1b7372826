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

/// Codes of JSON-RPC by which a server refuses what it will never do: a request that it cannot read, a method that it
/// does not have, parameters or a revision that it does not take.
const FINAL: [i64; 5] = [-32700, -32600, -32601, -32602, -32022];

/// Why a request has no result, as one text for people, without what may be secret in URLs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct McpFailure {
    kind: FailureKind,
    text: String,
    code: Option<i64>,
    may_pass: bool,
}

impl McpFailure {
    pub(crate) fn new(kind: FailureKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: without_url_secrets(&text.into()).into_owned(),
            code: None,
            may_pass: false,
        }
    }

    /// A refusal by an error of JSON-RPC.
    pub(crate) fn refused(code: i64, text: impl Into<String>) -> Self {
        Self {
            code: Some(code),
            may_pass: !FINAL.contains(&code),
            ..Self::new(FailureKind::Refused, text)
        }
    }

    pub(crate) fn ended(text: impl Into<String>) -> Self {
        Self::new(FailureKind::Ended, text)
    }

    pub(crate) fn unreadable(text: impl Into<String>) -> Self {
        Self::new(FailureKind::Unreadable, text)
    }

    /// The same failure with other words.
    pub(crate) fn with_text(&self, text: impl Into<String>) -> Self {
        Self {
            text: without_url_secrets(&text.into()).into_owned(),
            ..self.clone()
        }
    }

    /// The same failure, which passes or does not.
    pub(crate) fn passing(self, may_pass: bool) -> Self {
        Self { may_pass, ..self }
    }

    /// Whether the server may take the same request later: it is not ready.
    pub const fn may_pass(&self) -> bool {
        self.may_pass
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_passes_unless_its_code_says_that_it_stays() {
        for (code, may_pass) in [
            (-32603, true),
            (-32002, true),
            (0, true),
            (-32601, false),
            (-32602, false),
        ] {
            assert_eq!(McpFailure::refused(code, "no").may_pass(), may_pass, "{code}");
        }
        assert!(!McpFailure::new(FailureKind::Refused, "no").may_pass());
        assert!(!McpFailure::ended("gone").may_pass());
    }
}
