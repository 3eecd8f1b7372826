//! What can go wrong when the SDK talks to the daemon: one error with a kind that a program decides
//! on, a hint whether trying again may help, and a line of text for people.

use std::{error::Error as StdError, sync::Arc};

use agentanycast_proto::STOPPING;
use tonic::{Code, Status};

/// Why a call failed. Programs match on this; the text of an [`Error`] is for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No daemon answers at the address, also after the retries that the node's patience allows.
    DaemonUnavailable,
    /// The peer is unknown or cannot be reached.
    PeerNotFound,
    /// No agent offers the skill.
    SkillNotFound,
    /// The daemon does not know the task.
    TaskNotFound,
    /// The task has no such artifact.
    ArtifactNotFound,
    /// The artifact's producer failed or went away before it was whole.
    ArtifactAborted,
    /// The peer is known, but its card is not.
    CardNotFound,
    /// There is no such invite.
    InviteNotFound,
    /// The peer is not trusted so, or there is no such access request.
    TrustNotFound,
    /// The daemon has no way to discover agents (no registry, no DHT).
    DiscoveryUnavailable,
    /// A value that the caller gave is not acceptable; the text names it.
    InvalidArgument,
    /// A policy or the task's ownership forbids the call.
    PermissionDenied,
    /// A bound was reached: too many tasks, too many bytes.
    LimitExceeded,
    /// The task is in a state that does not allow the call (gRPC `FAILED_PRECONDITION`).
    Conflict,
    /// The task was canceled while the call waited for it.
    Canceled,
    /// The daemon did not answer in time.
    Timeout,
    /// The daemon does not have the call; it is older than this SDK.
    Unsupported,
    /// The daemon failed inside, before the call took effect.
    Internal,
    /// The other side said something that the protocol does not allow.
    Protocol,
}

/// A failed call.
///
/// ```
/// use agentanycast::{ErrorKind, Message};
/// # fn classify(error: &agentanycast::Error) -> &'static str {
/// match error.kind() {
///     ErrorKind::SkillNotFound => "nobody can do this",
///     _ if error.is_retryable() => "try again later",
///     _ => "give up",
/// }
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    pub(crate) fn because(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// What a program decides on.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether the same call may succeed later without a change by the caller.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::DaemonUnavailable
                | ErrorKind::PeerNotFound
                | ErrorKind::DiscoveryUnavailable
                | ErrorKind::LimitExceeded
                | ErrorKind::Timeout
                | ErrorKind::Internal
        )
    }
}

/// What a call was about: decides what `NOT_FOUND` and `UNAVAILABLE` mean in its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Node,
    Peer,
    Card,
    Task,
    /// `SendTask` to a peer or a URL.
    Target,
    /// `SendTask` to a skill.
    Skill,
    Discovery,
    Invite,
    /// Trust in a peer, or an access request.
    Trust,
    /// An agent of the own node.
    Agent,
}

/// Whether the connection broke rather than the daemon having answered. Only errors made on this
/// side have a source; a status that came over the wire has none.
pub(crate) fn is_connection_loss(status: &Status, subject: Subject) -> bool {
    let local = StdError::source(status).is_some();
    // A daemon that is being stopped refuses with UNAVAILABLE; for the calls below it means other things too.
    let draining = status.code() == Code::Unavailable
        && (status.message() == STOPPING
            || !matches!(
                subject,
                Subject::Target | Subject::Skill | Subject::Peer | Subject::Discovery
            ));
    local && status.code() != Code::OutOfRange || draining
}

/// Whether a broken event stream should be opened again.
pub(crate) fn is_stream_loss(status: &Status) -> bool {
    StdError::source(status).is_some()
        || matches!(
            status.code(),
            Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled | Code::Aborted
        )
}

/// Translates what the daemon answered.
pub(crate) fn from_status(status: Status, subject: Subject) -> Error {
    let kind = match (status.code(), subject) {
        (Code::NotFound, Subject::Skill) => ErrorKind::SkillNotFound,
        (Code::NotFound, Subject::Task) => ErrorKind::TaskNotFound,
        (Code::NotFound, Subject::Card) => ErrorKind::CardNotFound,
        (Code::NotFound, Subject::Invite) => ErrorKind::InviteNotFound,
        (Code::NotFound, Subject::Trust) => ErrorKind::TrustNotFound,
        (Code::NotFound, _) | (Code::Unavailable, Subject::Peer | Subject::Target) => ErrorKind::PeerNotFound,
        (Code::Unavailable, Subject::Skill | Subject::Discovery) => ErrorKind::DiscoveryUnavailable,
        (Code::Unavailable, _) => ErrorKind::DaemonUnavailable,
        (Code::InvalidArgument, _) => ErrorKind::InvalidArgument,
        (Code::PermissionDenied | Code::Unauthenticated, _) => ErrorKind::PermissionDenied,
        (Code::ResourceExhausted | Code::OutOfRange, _) => ErrorKind::LimitExceeded,
        (Code::FailedPrecondition | Code::AlreadyExists | Code::Aborted, _) => ErrorKind::Conflict,
        (Code::DeadlineExceeded, _) => ErrorKind::Timeout,
        (Code::Cancelled, _) => ErrorKind::Canceled,
        (Code::Unimplemented, _) => ErrorKind::Unsupported,
        _ => ErrorKind::Internal,
    };
    let message = if status.message().is_empty() {
        format!("the daemon answered {}", status.code().description())
    } else {
        status.message().to_owned()
    };
    Error::new(kind, message).because(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_code_means_what_the_call_was_about() {
        let kind = |code, subject| from_status(Status::new(code, "x"), subject).kind();
        assert_eq!(kind(Code::NotFound, Subject::Skill), ErrorKind::SkillNotFound);
        assert_eq!(kind(Code::NotFound, Subject::Task), ErrorKind::TaskNotFound);
        assert_eq!(kind(Code::Unavailable, Subject::Target), ErrorKind::PeerNotFound);
        assert_eq!(
            kind(Code::Unavailable, Subject::Discovery),
            ErrorKind::DiscoveryUnavailable
        );
        assert_eq!(kind(Code::FailedPrecondition, Subject::Task), ErrorKind::Conflict);
    }

    #[test]
    fn an_answer_of_the_daemon_is_no_connection_loss() {
        assert!(!is_connection_loss(
            &Status::unavailable("peer not found"),
            Subject::Target
        ));
        assert!(is_connection_loss(
            &Status::unavailable("stopping"),
            Subject::Task
        ));
        for subject in [Subject::Target, Subject::Skill] {
            assert!(is_connection_loss(&Status::unavailable(STOPPING), subject));
        }
        let broken = Status::from_error(Box::new(std::io::Error::other("reset")));
        assert!(is_connection_loss(&broken, Subject::Target));
    }
}
