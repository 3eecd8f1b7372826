//! What can be wrong with an envelope, a delta or a request: the codes of the specification, and schema
//! errors by field. Used by every module and by all bindings.
//!
//! Invariant: an error is one line that names the field or the cause, and has exactly one status of HTTP.
//! PURE.

use std::time::Duration;

/// After how long a peer that was told 5.04 may try again.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The error codes (UAMP 1.0 §9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UampCode {
    /// 4.01: the sender is not proven.
    Unauthenticated,
    /// 4.03: the sender may not do this.
    Unauthorized,
    /// 4.09: a `delta_seq` is missing.
    MissingDelta,
    /// 4.13: the content is too large.
    PayloadTooLarge,
    /// 5.04: the backend is busy; a retry may work.
    BackendBusy,
}

impl UampCode {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 5] = [
        Self::Unauthenticated,
        Self::Unauthorized,
        Self::MissingDelta,
        Self::PayloadTooLarge,
        Self::BackendBusy,
    ];

    /// Its text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unauthenticated => "4.01",
            Self::Unauthorized => "4.03",
            Self::MissingDelta => "4.09",
            Self::PayloadTooLarge => "4.13",
            Self::BackendBusy => "5.04",
        }
    }

    /// Reads it; `None` for a code that the table does not have.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.as_str() == text)
    }

    /// Its status of HTTP.
    pub fn status(self) -> u16 {
        match self {
            Self::Unauthenticated => 401,
            Self::Unauthorized => 403,
            Self::MissingDelta => 409,
            Self::PayloadTooLarge => 413,
            Self::BackendBusy => 503,
        }
    }

    /// Whether the same request may work later (the table's column "Retry").
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::MissingDelta | Self::BackendBusy)
    }
}

/// Why an envelope, a delta or a request is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UampError {
    /// A cause of the table.
    #[error("{}: {message}", code.as_str())]
    Coded {
        /// Which.
        code: UampCode,
        /// For people.
        message: String,
    },
    /// A field is wrong. The specification has no code for it; HTTP says 400.
    #[error("{field}: {message}")]
    Field {
        /// The field, as a path such as `body.content`; `envelope` for the whole.
        field: String,
        /// What it has to be.
        message: String,
    },
    /// This caller has no such stream. HTTP says 404.
    #[error("this caller has no stream {0:?}")]
    UnknownStream(String),
    /// The path takes another method. HTTP says 405.
    #[error("{method} is not served here; use {allowed}")]
    Method {
        /// The method of the request.
        method: String,
        /// The one that the path takes.
        allowed: &'static str,
    },
    /// The body of a request arrived too slowly. HTTP says 408.
    #[error("{0}; send it again, faster or in smaller parts")]
    SlowBody(String),
}

impl UampError {
    /// With a code of the table.
    pub fn coded(code: UampCode, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::Coded { code, message }
    }

    /// Of a field.
    pub fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Field {
            field: field.into(),
            message: message.into(),
        }
    }

    /// The code, if the table has one for it.
    pub fn code(&self) -> Option<UampCode> {
        match self {
            Self::Coded { code, .. } => Some(*code),
            Self::Field { .. } | Self::UnknownStream(_) | Self::Method { .. } | Self::SlowBody(_) => None,
        }
    }

    /// The status of gRPC.
    #[cfg(feature = "grpc")]
    pub fn grpc_code(&self) -> tonic::Code {
        use tonic::Code;
        match self {
            Self::Coded { code, .. } => match code {
                UampCode::Unauthenticated => Code::Unauthenticated,
                UampCode::Unauthorized => Code::PermissionDenied,
                UampCode::MissingDelta => Code::OutOfRange,
                UampCode::PayloadTooLarge => Code::ResourceExhausted,
                UampCode::BackendBusy => Code::Unavailable,
            },
            Self::UnknownStream(_) => Code::NotFound,
            Self::Field { .. } => Code::InvalidArgument,
            Self::Method { .. } => Code::Unimplemented,
            Self::SlowBody(_) => Code::DeadlineExceeded,
        }
    }

    /// The status of HTTP.
    pub fn status(&self) -> u16 {
        match self {
            Self::Coded { code, .. } => code.status(),
            Self::Field { .. } => 400,
            Self::UnknownStream(_) => 404,
            Self::Method { .. } => 405,
            Self::SlowBody(_) => 408,
        }
    }

    /// After how long it may work.
    pub fn retry_after(&self) -> Option<Duration> {
        (self.code() == Some(UampCode::BackendBusy)).then_some(RETRY_AFTER)
    }

    /// The payload of an error delta, and the content of an error envelope.
    pub fn payload(&self) -> serde_json::Map<String, serde_json::Value> {
        let mut payload = serde_json::Map::new();
        if let Some(code) = self.code() {
            payload.insert("code".to_owned(), code.as_str().into());
        }
        if let Self::Field { field, .. } = self {
            payload.insert("field".to_owned(), field.as_str().into());
        }
        let message = match self {
            Self::Coded { message, .. } => message.clone(),
            other => other.to_string(),
        };
        payload.insert("message".to_owned(), message.into());
        payload
    }
}

/// As much of a foreign text as an error shows, in characters.
const SHOWN: usize = 80;

/// A foreign text as an error shows it: 80 characters at most, without control characters.
pub fn shown(text: &str) -> String {
    text.chars()
        .take(SHOWN)
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_its_status_and_its_retry() {
        let table = [
            ("4.01", 401, false),
            ("4.03", 403, false),
            ("4.09", 409, true),
            ("4.13", 413, false),
            ("5.04", 503, true),
        ];
        for (code, (text, status, retry)) in UampCode::ALL.into_iter().zip(table) {
            assert_eq!(
                (code.as_str(), code.status(), code.is_retryable()),
                (text, status, retry)
            );
            assert_eq!(UampCode::parse(text), Some(code));
            let error = UampError::coded(code, "why");
            assert_eq!(error.status(), status);
            assert_eq!(error.retry_after().is_some(), text == "5.04");
            assert_eq!(error.payload()["code"], text);
        }
        assert_eq!(UampCode::parse("4.04"), None);
        let field = UampError::field("body.content", "is missing");
        assert_eq!((field.status(), field.code()), (400, None));
        assert_eq!(field.payload()["field"], "body.content");
    }
}
