//! Why the node does not do what a caller asks, for every face. PURE.
//!
//! Each face translates [`ServiceErrorKind`] in one place: `grpc/status.rs`, `in_process/error.rs`.

use agentanycast_core::{EngineError, SendError, spool::ReadError};

use crate::anycast::SearchError;

/// Longest text of an error, in bytes: a text may repeat what the caller said, and clients take 8 KiB of headers.
const MAX_TEXT: usize = 2 << 10;

/// What a caller decides on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServiceErrorKind {
    /// The caller's mistake: the same again is refused again.
    Invalid,
    /// No such task, agent, peer or card.
    NotFound,
    /// The state does not allow it.
    Conflict,
    /// Not this caller.
    Denied,
    /// A bound is reached.
    Exhausted,
    /// Nothing was done, and a restart or another try may help.
    Unavailable,
    /// The store failed: nothing was done, and waiting does not help.
    StoreFailed,
    /// What is kept cannot be read any more.
    Damaged,
}

/// A refused call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ServiceError {
    kind: ServiceErrorKind,
    text: String,
}

impl ServiceError {
    /// With this text for people, of which at most 2 KiB are kept.
    pub(crate) fn new(kind: ServiceErrorKind, text: impl Into<String>) -> Self {
        let mut text = text.into();
        text.truncate(text.floor_char_boundary(MAX_TEXT));
        Self { kind, text }
    }

    pub(super) fn invalid(text: impl Into<String>) -> Self {
        Self::new(ServiceErrorKind::Invalid, text)
    }

    pub(super) fn not_found(text: impl Into<String>) -> Self {
        Self::new(ServiceErrorKind::NotFound, text)
    }

    pub(super) fn unavailable(text: impl Into<String>) -> Self {
        Self::new(ServiceErrorKind::Unavailable, text)
    }

    /// The daemon stops.
    pub(crate) fn stopping() -> Self {
        Self::unavailable(agentanycast_proto::STOPPING)
    }

    /// For calls that report of a task or follow one: their callers keep what they have to say, or ask again, until the
    /// daemon is back, so a store that failed is [`ServiceErrorKind::Unavailable`] to them.
    pub(crate) fn while_away(error: impl Into<Self>) -> Self {
        match error.into() {
            Self {
                kind: ServiceErrorKind::StoreFailed,
                text,
            } => Self::unavailable(text),
            error => error,
        }
    }

    /// What a caller decides on.
    pub(crate) fn kind(&self) -> ServiceErrorKind {
        self.kind
    }

    /// The text for people.
    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

impl From<EngineError> for ServiceError {
    fn from(error: EngineError) -> Self {
        let kind = match error {
            EngineError::Invalid(_) => ServiceErrorKind::Invalid,
            EngineError::NotFound(_) | EngineError::NotRegistered(_) => ServiceErrorKind::NotFound,
            EngineError::Precondition(_) => ServiceErrorKind::Conflict,
            EngineError::Denied(_) => ServiceErrorKind::Denied,
            EngineError::Exhausted(_) => ServiceErrorKind::Exhausted,
            EngineError::Unavailable(_) => ServiceErrorKind::Unavailable,
            EngineError::Store(_) => ServiceErrorKind::StoreFailed,
        };
        Self::new(kind, error.to_string())
    }
}

/// Callers tell by it whether there is no agent or no answer.
impl From<SearchError> for ServiceError {
    fn from(error: SearchError) -> Self {
        let kind = match error {
            SearchError::Nobody { .. } => ServiceErrorKind::NotFound,
            SearchError::NotConfigured | SearchError::NoAnswer(_) => ServiceErrorKind::Unavailable,
        };
        Self::new(kind, error.to_string())
    }
}

/// An agent sends an artifact, and keeps it until the daemon is back.
impl From<SendError> for ServiceError {
    fn from(error: SendError) -> Self {
        let kind = match error {
            SendError::Engine(error) => return Self::while_away(error),
            SendError::Refused(_) | SendError::TaskEnded(_) => ServiceErrorKind::Conflict,
            SendError::TooLarge(_) => ServiceErrorKind::Exhausted,
            SendError::Spool(ref error) if error.is_full() => ServiceErrorKind::Exhausted,
            SendError::Spool(_) => ServiceErrorKind::Unavailable,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<ReadError> for ServiceError {
    fn from(error: ReadError) -> Self {
        let kind = match error {
            ReadError::NotFound | ReadError::Removed => ServiceErrorKind::NotFound,
            ReadError::TooManyReaders => ServiceErrorKind::Exhausted,
            _ => ServiceErrorKind::Damaged,
        };
        Self::new(kind, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_store_is_told_to_askers_and_waited_for_by_reporters() {
        let failed = || EngineError::Store("disk full".into());
        let told = ServiceError::from(failed());
        assert_eq!(told.kind(), ServiceErrorKind::StoreFailed);
        for kept in [
            ServiceError::while_away(failed()),
            ServiceError::from(SendError::Engine(failed())),
        ] {
            assert_eq!(kept.kind(), ServiceErrorKind::Unavailable);
            assert_eq!(kept.to_string(), told.to_string());
        }
        let denied = ServiceError::while_away(EngineError::Denied("no".into()));
        assert_eq!(denied.kind(), ServiceErrorKind::Denied);
    }

    #[test]
    fn a_text_that_repeats_the_caller_is_bounded() {
        let long = EngineError::Invalid("ä".repeat(MAX_TEXT));
        let text = ServiceError::from(long).into_text();
        assert!((MAX_TEXT - 1..=MAX_TEXT).contains(&text.len()));
    }
}
