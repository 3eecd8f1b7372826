//! What the port refuses, in the words of the protocol. PURE.

use agentanycast_front::refusal::{Refusal, RefusalKind};
use agentanycast_gateway::{ErrorKind, GatewayError, tasks::TaskRefusal};
use agentanycast_uamp::error::{UampCode, UampError, shown};

/// What the node said no to.
pub(super) fn of_node(error: &GatewayError) -> UampError {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::Denied => UampError::coded(UampCode::Unauthorized, text),
        ErrorKind::Busy | ErrorKind::Unavailable | ErrorKind::Internal => {
            UampError::coded(UampCode::BackendBusy, text)
        }
        ErrorKind::AgentNotFound => UampError::field("to", text),
        ErrorKind::TaskNotFound | ErrorKind::Conflict => UampError::field("reply_to", text),
        ErrorKind::Invalid | ErrorKind::Unsupported => UampError::field("body", text),
    }
}

/// What the view of the caller's tasks said no to.
pub(super) fn of_task(refusal: TaskRefusal) -> UampError {
    let text = refusal.to_string();
    match refusal {
        TaskRefusal::Node(error) => of_node(&error),
        TaskRefusal::UrlForUnknown => UampError::coded(UampCode::Unauthorized, text),
        TaskRefusal::TooLarge { .. } => UampError::coded(UampCode::PayloadTooLarge, text),
        TaskRefusal::TooManyFollowed(_) => UampError::coded(UampCode::BackendBusy, text),
        TaskRefusal::KeyReused(_) | TaskRefusal::BadKey(_) => UampError::field(
            "id",
            "was used for another envelope or by another caller; give each envelope an id of its own",
        ),
        TaskRefusal::NotFound(_)
        | TaskRefusal::Ended(..)
        | TaskRefusal::AsksNothing(_)
        | TaskRefusal::OtherContext { .. } => UampError::field("reply_to", text),
    }
}

/// As [`of_task`], of a task for the agents with this skill, which is of the receiver with this number. What the node
/// says of its registries is for its operator.
pub(super) fn of_skill(refusal: TaskRefusal, skill: &str, at: usize) -> UampError {
    let TaskRefusal::Node(error) = &refusal else {
        return of_task(refusal);
    };
    match error.kind() {
        ErrorKind::Unavailable if !error.has_no_discovery() => {
            let text = format!(
                "agents with the skill {:?} cannot be looked for now",
                shown(skill)
            );
            UampError::coded(UampCode::BackendBusy, text)
        }
        ErrorKind::AgentNotFound | ErrorKind::Unavailable => {
            let text = format!("no agent with the skill {:?} is known here", shown(skill));
            UampError::field(format!("to.{at}"), text)
        }
        _ => of_task(refusal),
    }
}

/// What the front said no to.
pub(super) fn of_front(refusal: &Refusal) -> UampError {
    let text = refusal.to_string();
    if refusal.is_slow_body() {
        return UampError::SlowBody(text);
    }
    match refusal.kind() {
        RefusalKind::Unauthenticated => UampError::coded(UampCode::Unauthenticated, text),
        RefusalKind::Denied => UampError::coded(UampCode::Unauthorized, text),
        RefusalKind::Exhausted | RefusalKind::Unavailable => UampError::coded(UampCode::BackendBusy, text),
        RefusalKind::Malformed
        | RefusalKind::Invalid
        | RefusalKind::InvalidValue
        | RefusalKind::MediaType => UampError::field("request", text),
    }
}
