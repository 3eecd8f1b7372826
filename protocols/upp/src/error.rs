//! The error of UPP: a code that programs match on, a sentence for people, and whether to try again.
//!
//! Every operation of the crate fails with [`UppError`]. It is one word wide and cheap to clone, since
//! streams hand out the same error twice: to the reader of the events and to the reader of the result.

use std::{error::Error, fmt, sync::Arc, time::Duration};

/// The longest `Retry-After` that is honoured; a longer one counts as this (UPP-1.3).
pub const MAX_RETRY_AFTER: Duration = Duration::from_hours(1);

/// Why an operation failed, as UPP names it.
///
/// ```
/// use agentanycast_upp::ErrorCode;
///
/// assert_eq!(ErrorCode::RateLimited.as_str(), "RATE_LIMITED");
/// assert!(ErrorCode::RateLimited.is_retryable());
/// assert!(!ErrorCode::AuthenticationFailed.is_retryable());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// The provider does not accept the key.
    AuthenticationFailed,
    /// The provider refuses more requests for now.
    RateLimited,
    /// The input is longer than the model's context.
    ContextLengthExceeded,
    /// The provider does not know the model.
    ModelNotFound,
    /// The request is malformed, or a limit that the caller set is used up.
    InvalidRequest,
    /// The provider's answer is malformed or ends early.
    InvalidResponse,
    /// The provider's filter refuses the content.
    ContentFiltered,
    /// The account has no credit left.
    QuotaExceeded,
    /// The provider failed.
    ProviderError,
    /// The provider cannot be reached, or the connection broke.
    NetworkError,
    /// The time limit ran out.
    Timeout,
    /// The caller cancelled the operation.
    Cancelled,
}

const CODES: [(ErrorCode, &str); 12] = [
    (ErrorCode::AuthenticationFailed, "AUTHENTICATION_FAILED"),
    (ErrorCode::RateLimited, "RATE_LIMITED"),
    (ErrorCode::ContextLengthExceeded, "CONTEXT_LENGTH_EXCEEDED"),
    (ErrorCode::ModelNotFound, "MODEL_NOT_FOUND"),
    (ErrorCode::InvalidRequest, "INVALID_REQUEST"),
    (ErrorCode::InvalidResponse, "INVALID_RESPONSE"),
    (ErrorCode::ContentFiltered, "CONTENT_FILTERED"),
    (ErrorCode::QuotaExceeded, "QUOTA_EXCEEDED"),
    (ErrorCode::ProviderError, "PROVIDER_ERROR"),
    (ErrorCode::NetworkError, "NETWORK_ERROR"),
    (ErrorCode::Timeout, "TIMEOUT"),
    (ErrorCode::Cancelled, "CANCELLED"),
];

impl ErrorCode {
    /// The name on the wire, for example `RATE_LIMITED`.
    pub fn as_str(self) -> &'static str {
        CODES
            .iter()
            .find(|(code, _)| *code == self)
            .map_or("PROVIDER_ERROR", |(_, name)| name)
    }

    /// The code with this name on the wire.
    pub fn parse(name: &str) -> Option<Self> {
        CODES
            .iter()
            .find(|(_, known)| *known == name)
            .map(|(code, _)| *code)
    }

    /// The code of an HTTP status that is not a success (error table of UPP-1.3).
    pub fn from_status(status: u16) -> Self {
        match status {
            400 | 409 | 422 => Self::InvalidRequest,
            401 | 403 => Self::AuthenticationFailed,
            402 => Self::QuotaExceeded,
            404 => Self::ModelNotFound,
            408 => Self::Timeout,
            413 => Self::ContextLengthExceeded,
            429 => Self::RateLimited,
            451 => Self::ContentFiltered,
            _ => Self::ProviderError,
        }
    }

    /// The HTTP status with which a server of the proxy wire reports this code. Except for codes that have no
    /// status of their own, [`ErrorCode::from_status`] reads it back.
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidRequest => 400,
            Self::AuthenticationFailed => 401,
            Self::QuotaExceeded => 402,
            Self::ModelNotFound => 404,
            Self::Timeout => 408,
            Self::ContextLengthExceeded => 413,
            Self::RateLimited => 429,
            Self::ContentFiltered => 451,
            // The status with which nginx reports a client that closed the request.
            Self::Cancelled => 499,
            Self::ProviderError | Self::InvalidResponse | Self::NetworkError => 502,
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::RateLimited | Self::NetworkError | Self::Timeout | Self::ProviderError
        )
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failed operation. Its text reads `CODE: sentence`.
///
/// ```
/// use agentanycast_upp::{ErrorCode, UppError};
///
/// let error = UppError::new(ErrorCode::ModelNotFound, "the model `gpt-9` does not exist");
/// assert_eq!(error.code(), ErrorCode::ModelNotFound);
/// assert!(!error.is_retryable());
/// assert_eq!(error.to_string(), "MODEL_NOT_FOUND: the model `gpt-9` does not exist");
/// ```
#[derive(Clone)]
pub struct UppError(Box<ErrorFields>);

#[derive(Clone)]
struct ErrorFields {
    code: ErrorCode,
    message: String,
    provider: Option<String>,
    status: Option<u16>,
    retry_after: Option<Duration>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl UppError {
    /// An error with a code and a sentence.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self(Box::new(ErrorFields {
            code,
            message: message.into(),
            provider: None,
            status: None,
            retry_after: None,
            source: None,
        }))
    }

    /// An `INVALID_REQUEST`.
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, message)
    }

    /// An `INVALID_RESPONSE`.
    pub fn invalid_response(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidResponse, message)
    }

    /// A `CANCELLED`.
    pub fn cancelled() -> Self {
        Self::new(ErrorCode::Cancelled, "the caller cancelled the operation")
    }

    /// Names the provider that failed. A name that is there already stays.
    #[must_use]
    pub fn with_provider(mut self, provider: impl Into<String>) -> Self {
        self.0.provider.get_or_insert_with(|| provider.into());
        self
    }

    /// Adds the HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.0.status = Some(status);
        self
    }

    /// Adds how long to wait before the next try; more than [`MAX_RETRY_AFTER`] counts as that.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.0.retry_after = Some(wait.min(MAX_RETRY_AFTER));
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// What kind of failure this is.
    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    /// The sentence, without the code.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The provider that failed, if one did.
    pub fn provider(&self) -> Option<&str> {
        self.0.provider.as_deref()
    }

    /// The HTTP status of the provider's answer.
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// How long the provider asks to wait, at most [`MAX_RETRY_AFTER`].
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Whether the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        self.0.code.is_retryable()
    }
}

impl fmt::Display for UppError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.code, self.0.message)
    }
}

impl fmt::Debug for UppError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UppError")
            .field("code", &self.0.code)
            .field("message", &self.0.message)
            .field("provider", &self.0.provider)
            .field("status", &self.0.status)
            .field("retry_after", &self.0.retry_after)
            .field("source", &self.0.source)
            .finish()
    }
}

impl Error for UppError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0
            .source
            .as_deref()
            .map(|source| source as &(dyn Error + 'static))
    }
}

/// Two errors are equal if all but their causes are.
impl PartialEq for UppError {
    fn eq(&self, other: &Self) -> bool {
        let (one, two) = (&self.0, &other.0);
        one.code == two.code
            && one.message == two.message
            && one.provider == two.provider
            && one.status == two.status
            && one.retry_after == two.retry_after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_statuses_are_read_back() {
        for (code, name) in CODES {
            assert_eq!(ErrorCode::parse(name), Some(code));
            assert_eq!(code.as_str(), name);
            let without_status = [
                ErrorCode::InvalidResponse,
                ErrorCode::NetworkError,
                ErrorCode::Cancelled,
            ];
            if !without_status.contains(&code) {
                assert_eq!(ErrorCode::from_status(code.status()), code);
            }
        }
        assert_eq!(ErrorCode::parse("rate_limited"), None);
    }

    #[test]
    fn the_error_table_of_statuses() {
        let table = [
            (400, "INVALID_REQUEST"),
            (409, "INVALID_REQUEST"),
            (422, "INVALID_REQUEST"),
            (401, "AUTHENTICATION_FAILED"),
            (403, "AUTHENTICATION_FAILED"),
            (402, "QUOTA_EXCEEDED"),
            (404, "MODEL_NOT_FOUND"),
            (408, "TIMEOUT"),
            (413, "CONTEXT_LENGTH_EXCEEDED"),
            (429, "RATE_LIMITED"),
            (451, "CONTENT_FILTERED"),
            (418, "PROVIDER_ERROR"),
            (500, "PROVIDER_ERROR"),
            (529, "PROVIDER_ERROR"),
        ];
        for (status, name) in table {
            assert_eq!(ErrorCode::from_status(status).as_str(), name, "status {status}");
        }
    }

    #[test]
    fn retry_after_is_capped() {
        let error =
            UppError::new(ErrorCode::RateLimited, "slow down").with_retry_after(Duration::from_secs(1 << 40));
        assert_eq!(error.retry_after(), Some(MAX_RETRY_AFTER));
    }
}
