//! What is said of a task that is sealed, out of its boxes. PURE.
//!
//! The one rule: nothing is passed on as the agent's that is not sealed by it for this task. What whoever carries it says
//! in the clear counts for the state alone, and as the reason of a failure, marked as theirs. That the task asks or is complete
//! counts only if the agent's node has sealed that too.

use agentanycast_gateway::{TaskSeal, is_terminal};
use agentanycast_proto::v1::{self, Message, MessageRole, Part, TaskStatus, TextPart, part::Content};

use super::{decode::UpdateContent, error::OutboundError};

/// Longest remark that is passed on of whoever carries a task, in bytes.
const MAX_REMARK: usize = 1000;

/// What was heard, opened. `has`: whether a result was heard before.
pub(crate) fn open(
    seal: &dyn TaskSeal,
    what: UpdateContent,
    has: impl Fn(&str) -> bool,
) -> Result<UpdateContent, OutboundError> {
    match what {
        UpdateContent::Task(task) => {
            open_task(seal, *task, has).map(|task| UpdateContent::Task(Box::new(task)))
        }
        UpdateContent::Message(message) => {
            let message = open_status(seal, TaskStatus::Completed, Some(*message), has)?;
            Ok(UpdateContent::Status(TaskStatus::Completed, message))
        }
        UpdateContent::Status(status, message) => {
            let message = open_status(seal, status, message, has)?;
            Ok(UpdateContent::Status(status, message))
        }
        UpdateContent::Artifact { append: true, .. } => Err(OutboundError::permanent(
            "an artifact came in pieces, and a sealed one comes as a whole",
        )),
        UpdateContent::Artifact {
            artifact,
            append: false,
            last,
        } => Ok(UpdateContent::Artifact {
            artifact: open_artifact(seal, &artifact)?,
            append: false,
            last,
        }),
    }
}

fn open_task(
    seal: &dyn TaskSeal,
    mut task: v1::Task,
    has: impl Fn(&str) -> bool,
) -> Result<v1::Task, OutboundError> {
    let artifacts = task.artifacts.iter();
    task.artifacts = artifacts
        .map(|artifact| open_artifact(seal, artifact))
        .collect::<Result<_, _>>()?;
    let last = task.status_message.take();
    let mut messages = Vec::new();
    for message in std::mem::take(&mut task.messages) {
        if message.role == MessageRole::User as i32 {
            messages.push(message);
        } else if last
            .as_ref()
            .is_none_or(|last| last.message_id != message.message_id)
        {
            messages.extend(open_status(seal, TaskStatus::Working, Some(message), |_| true)?);
        }
    }
    let comes_along = |id: &str| task.artifacts.iter().any(|artifact| artifact.artifact_id == id);
    let said = open_status(seal, task.status(), last, |id| comes_along(id) || has(id))?;
    messages.extend(said.clone());
    task.messages = messages;
    task.status_message = said;
    Ok(task)
}

fn open_artifact(seal: &dyn TaskSeal, artifact: &v1::Artifact) -> Result<v1::Artifact, OutboundError> {
    let opened = seal.open_artifact(artifact);
    opened.map_err(|reason| {
        OutboundError::permanent(format!("an artifact of the sealed task is not taken: {reason}"))
    })
}

/// What was said with a state.
fn open_status(
    seal: &dyn TaskSeal,
    status: TaskStatus,
    message: Option<Message>,
    has: impl Fn(&str) -> bool,
) -> Result<Option<Message>, OutboundError> {
    let ends = is_terminal(status) && status != TaskStatus::Completed;
    let counts_only_sealed = matches!(status, TaskStatus::Completed | TaskStatus::InputRequired);
    let Some(message) = message else {
        return if counts_only_sealed {
            let state = state(status);
            let text = format!("it says that the sealed task {state}, and that is not sealed");
            Err(OutboundError::permanent(text))
        } else {
            Ok(None)
        };
    };
    let opened = seal.open(&message);
    let opened = opened.map_err(|reason| {
        OutboundError::permanent(format!("an answer to the sealed task is not taken: {reason}"))
    })?;
    let Some(answer) = opened else {
        return match status {
            _ if ends => Ok(Some(remark(message))),
            // Nobody works on it yet: it is none of the agent's words.
            TaskStatus::Submitted | TaskStatus::Unspecified => Ok(None),
            _ => Err(OutboundError::permanent(
                "an answer to the sealed task is not taken: it is not sealed",
            )),
        };
    };
    if (ends || counts_only_sealed) && answer.status != status {
        let (theirs, said) = (state(answer.status), state(status));
        let text = format!("it was sealed with a task that {theirs}, and came with one that {said}");
        return Err(OutboundError::permanent(text));
    }
    let missing = answer.results.iter().filter(|_| status == TaskStatus::Completed);
    if let Some(missing) = missing.clone().find(|id| !has(id)) {
        let text = format!("the sealed task is complete, and its artifact {missing:?} has not come");
        return Err(OutboundError::permanent(text));
    }
    Ok(Some(answer.message).filter(|message| !message.parts.is_empty()))
}

fn state(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Completed => "is complete",
        TaskStatus::InputRequired => "asks for input",
        TaskStatus::Failed => "has failed",
        TaskStatus::Canceled => "is canceled",
        TaskStatus::Rejected => "is rejected",
        _ => "is worked on",
    }
}

/// What whoever carries a task says of its end, as theirs.
fn remark(message: Message) -> Message {
    let texts = message.parts.iter().filter_map(|part| match &part.content {
        Some(Content::TextPart(text)) => Some(text.text.as_str()),
        _ => None,
    });
    let said = texts.collect::<Vec<_>>().join(" ");
    let said = match said.trim() {
        "" => "nothing",
        said => &said[..said.floor_char_boundary(MAX_REMARK)],
    };
    Message {
        parts: vec![Part {
            content: Some(Content::TextPart(TextPart {
                text: format!("not sealed, by whoever carries the task: {said}"),
            })),
            ..Part::default()
        }],
        ..message
    }
}

#[cfg(test)]
mod tests;
