//! The labels of gateways, by their names: those by which they know their tasks again (`caller`), and those by which an agent
//! says what the mesh has no word for. PURE.

use std::collections::BTreeMap;

pub use agentanycast_proto::gateway_labels::{CALLER, CONTEXT, STRANGER, TARGET};
use agentanycast_proto::v1::{self, TaskStatus};
use sha2::{Digest as _, Sha256};

use super::TaskGroup;

/// The label by which an agent names a state that the mesh has no word for, on a part of the message that
/// comes with INPUT_REQUIRED. The only value is [`AUTH_REQUIRED`].
pub const STATE: &str = "gateway.state";

/// The value of [`STATE`] with which an agent waits for credentials that reach it by another way than a
/// message.
pub const AUTH_REQUIRED: &str = "auth-required";

/// The label by which an agent answers with a message and not with a task, on a part of the message that
/// comes with COMPLETED. The only value is [`MESSAGE`].
pub const ANSWER: &str = "gateway.answer";

/// The value of [`ANSWER`].
pub const MESSAGE: &str = "message";

/// Whether a part of the message has this label with this value.
fn says(message: &v1::Message, label: &str, value: &str) -> bool {
    let has = |part: &v1::Part| part.metadata.get(label).is_some_and(|said| said == value);
    message.parts.iter().any(has)
}

/// Whether a state means that the agent waits for credentials, and not for a message.
pub fn is_auth_required(status: TaskStatus, message: Option<&v1::Message>) -> bool {
    status == TaskStatus::InputRequired && message.is_some_and(|message| says(message, STATE, AUTH_REQUIRED))
}

/// The message that an agent answered with instead of a task: its task is completed, has no results and one
/// message of its client, and the message of the state has the label.
pub fn message_answer(task: &v1::Task) -> Option<&v1::Message> {
    let message = task.status_message.as_ref()?;
    let is_one = task.status() == TaskStatus::Completed
        && task.artifacts.is_empty()
        && task
            .messages
            .iter()
            .filter(|said| said.role() == v1::MessageRole::User)
            .count()
            <= 1
        && says(message, ANSWER, MESSAGE);
    is_one.then_some(message)
}

/// By what the node lists the tasks that carry these labels.
pub fn group_of(labels: &BTreeMap<String, String>) -> TaskGroup {
    let mut hash = Sha256::new();
    for (name, value) in labels {
        for text in [name, value] {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        }
    }
    let digest: [u8; 32] = hash.finalize().into();
    // Half of it is enough to tell callers apart, whatever they call themselves.
    std::array::from_fn(|at| digest[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(label: &str, value: &str) -> v1::Message {
        let metadata = BTreeMap::from([(label.to_owned(), value.to_owned())]);
        let plain = v1::Part::default();
        let part = v1::Part {
            metadata,
            ..v1::Part::default()
        };
        v1::Message {
            parts: vec![plain, part],
            ..v1::Message::default()
        }
    }

    #[test]
    fn credentials_are_waited_for_in_input_required_only() {
        let asks = labelled(STATE, AUTH_REQUIRED);
        assert!(is_auth_required(TaskStatus::InputRequired, Some(&asks)));
        assert!(!is_auth_required(TaskStatus::Working, Some(&asks)));
        assert!(!is_auth_required(TaskStatus::InputRequired, None));
        let other = labelled(STATE, "tired");
        assert!(!is_auth_required(TaskStatus::InputRequired, Some(&other)));
    }

    #[test]
    fn a_message_is_the_answer_of_a_completed_task_without_results() {
        let task = |status: TaskStatus, artifacts| v1::Task {
            status: status.into(),
            status_message: Some(labelled(ANSWER, MESSAGE)),
            artifacts,
            ..v1::Task::default()
        };
        assert!(message_answer(&task(TaskStatus::Completed, Vec::new())).is_some());
        assert!(message_answer(&task(TaskStatus::Failed, Vec::new())).is_none());
        let result = vec![v1::Artifact::default()];
        assert!(message_answer(&task(TaskStatus::Completed, result)).is_none());
        let answered = v1::Message {
            role: v1::MessageRole::User.into(),
            ..v1::Message::default()
        };
        let further = v1::Task {
            messages: vec![answered; 2],
            ..task(TaskStatus::Completed, Vec::new())
        };
        assert!(message_answer(&further).is_none(), "its client knows the task");
        let plain = v1::Task {
            status_message: Some(v1::Message::default()),
            ..task(TaskStatus::Completed, Vec::new())
        };
        assert!(message_answer(&plain).is_none());
    }
}
