//! Answers within the limit of the caller: what does not fit is listed by reference, to be read with SubscribeTaskStream.

use std::sync::Arc;

use agentanycast_core::task::{Output, Task};
use agentanycast_core::{TaskChange, wire};
use agentanycast_proto::v1::{
    self, AgentCard, Artifact, Message, Part, SubscribeTaskUpdatesResponse, TextPart, part::Content,
};
use prost::Message as _;

use super::{Service, artifact_content};

/// Bytes of an answer besides its artifacts' content, kept free.
const MARGIN: usize = 4 << 10;

/// Bytes of a result that is listed by reference, at most but for long names.
const REFERENCE_BYTES: usize = 1 << 10;

impl Service {
    /// A task whole, within `most` bytes.
    pub(crate) async fn fit_task(&self, task: &Task, most: usize) -> v1::Task {
        let mut answer = self.fit_task_head(task, most);
        let room = if task.results.is_empty() {
            room_left(&answer, most)
        } else {
            most / 2
        };
        answer.messages = fit_messages(&task.messages, room).messages;
        self.add_results(task, &mut answer, most).await;
        answer
    }

    async fn add_results(&self, task: &Task, answer: &mut v1::Task, most: usize) {
        let room = room_left(answer, most);
        answer.artifacts = self
            .artifacts(&task.id, task.results.iter().map(|result| &**result), room)
            .await;
    }

    /// A task as it is handed over, with its sender's card, to an agent whose client takes `most` bytes. What that was told
    /// before may be left out, what it is asked for may not: an error says that it does not fit.
    pub(super) async fn fit_task_for_agent(
        &self,
        task: &Task,
        card: Option<&AgentCard>,
        most: usize,
    ) -> Result<v1::Task, String> {
        let most = most.saturating_sub(card.map_or(0, AgentCard::encoded_len));
        let mut answer = self.fit_task_head(task, most);
        // Its results it has made itself: they may be listed.
        let listed = (task.results.len() * REFERENCE_BYTES).min(most / 2);
        let room = room_left(&answer, most).saturating_sub(listed);
        let shown = fit_messages(&task.messages, room);
        if shown.is_without_last && !task.status.is_terminal() {
            let bytes = task.messages.last().map_or(0, |asked| encoded_size(asked));
            return Err(format!(
                "the message takes {bytes} bytes, and the agent's client takes {room} of this task at most; send large \
                 content by its URL"
            ));
        }
        answer.messages = shown.messages;
        self.add_results(task, &mut answer, most).await;
        Ok(answer)
    }

    /// A task without its messages and results, within `most` bytes.
    pub(super) fn fit_task_head(&self, task: &Task, most: usize) -> v1::Task {
        let mut answer = wire::head(task, self.engine().me());
        let too_long = |message: &mut Message| message.encoded_len() > most / 4;
        answer.status_message.take_if(too_long);
        answer
    }

    /// A change of a task, within `most` bytes.
    pub(super) async fn fit_update(&self, change: &TaskChange, most: usize) -> SubscribeTaskUpdatesResponse {
        let message =
            wire::owned(change.message.as_ref()).filter(|message| message.encoded_len() <= most / 2);
        let room = most.saturating_sub(message.as_ref().map_or(0, Message::encoded_len) + MARGIN);
        SubscribeTaskUpdatesResponse {
            task_id: change.task_id.clone(),
            status: change.status.to_wire() as i32,
            message,
            artifacts: self
                .artifacts(
                    &change.task_id,
                    change.results.iter().map(|result| &**result),
                    room,
                )
                .await,
            task: None,
        }
    }

    async fn artifacts<'a>(
        &self,
        task: &str,
        results: impl Iterator<Item = &'a Output>,
        mut room: usize,
    ) -> Vec<Artifact> {
        let mut artifacts = Vec::new();
        for result in results {
            let shown = match result {
                Output::Whole(artifact) if artifact.encoded_len() > room => by_reference(task, artifact),
                Output::Whole(artifact) => artifact.clone(),
                Output::Streamed(streamed) => {
                    let most = self.node.limits.max_artifact_bytes.min(room as u64);
                    // Boxed: a call that has none should not carry the room for it.
                    let whole = Box::pin(self.engine().streamed_artifact(task, streamed, most)).await;
                    if whole.encoded_len() > room {
                        by_reference(task, &whole)
                    } else {
                        whole
                    }
                }
            };
            room = room.saturating_sub(shown.encoded_len() + 16);
            artifacts.push(shown);
        }
        artifacts
    }
}

fn by_reference(task: &str, artifact: &Artifact) -> Artifact {
    let media_type = artifact.parts.first().map_or("", |part| part.media_type.as_str());
    wire::reference(
        task,
        &artifact.artifact_id,
        &artifact.name,
        media_type,
        artifact_content::length(artifact),
    )
}

/// What may be added to an answer of `most` bytes.
fn room_left(answer: &v1::Task, most: usize) -> usize {
    most.saturating_sub(answer.encoded_len() + MARGIN)
}

/// What a message takes within a task.
fn encoded_size(message: &Message) -> usize {
    message.encoded_len() + 8
}

/// What is shown of a task's messages.
struct FittedMessages {
    messages: Vec<Message>,
    /// The content of the last one is left out.
    is_without_last: bool,
}

/// The messages, without the contents of the largest ones, the last one at the end, so that all fit into `most` bytes; each
/// of those says so. Only what is shown is copied.
fn fit_messages(messages: &[Arc<Message>], most: usize) -> FittedMessages {
    let sizes: Vec<usize> = messages.iter().map(|message| encoded_size(message)).collect();
    let mut total: usize = sizes.iter().sum();
    let mut left_out = vec![None; messages.len()];
    let mut by_size: Vec<usize> = (0..messages.len()).collect();
    by_size.sort_by_key(|at| (at + 1 == messages.len(), std::cmp::Reverse(sizes[*at])));
    for at in by_size {
        if total <= most {
            break;
        }
        let stub = without_content(&messages[at], messages[at].encoded_len());
        total = total.saturating_sub(sizes[at]) + encoded_size(&stub);
        left_out[at] = Some(stub);
    }
    let is_without_last = left_out.last().is_some_and(Option::is_some);
    let shown = messages.iter().zip(left_out);
    let messages = shown
        .map(|(message, stub)| stub.unwrap_or_else(|| (**message).clone()))
        .collect();
    FittedMessages {
        messages,
        is_without_last,
    }
}

/// A message without its content.
fn without_content(message: &Message, bytes: usize) -> Message {
    let text = format!("[{bytes} bytes left out: larger than this caller takes in one message]");
    Message {
        message_id: message.message_id.clone(),
        role: message.role,
        parts: vec![Part {
            content: Some(Content::TextPart(TextPart { text })),
            ..Part::default()
        }],
        created_at: message.created_at,
    }
}
