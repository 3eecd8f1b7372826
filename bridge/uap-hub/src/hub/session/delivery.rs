//! What came of a session, handed to its task: a report and artifacts. What is small goes with the end of the task, the rest in
//! pieces before it.

use agentanycast_gateway::{
    GatewayError,
    agents::{AgentTask, stream_whole as stream},
};
use agentanycast_proto::{struct_json::MAX_DEPTH, v1 as mesh};
use agentanycast_uap_hub::v1::Attachment;
use mesh::part::Content;

use crate::{
    payloads::{JSON, media_type_of},
    results::{Output, REPORT, SessionResult, State, depth, report_artifact, set_end, status_message},
};

/// What goes with the end of a task at most, in bytes. A message of the mesh has 3.5 MiB, beside which a report and names fit.
const INLINE: usize = 3 << 20;

/// Ends a task as its session has ended.
///
/// # Errors
/// Those of the node; mostly, that the task has ended meanwhile.
pub(super) async fn deliver(
    task: &dyn AgentTask,
    state: State,
    text: &str,
    result: Option<SessionResult>,
) -> Result<(), GatewayError> {
    let mut room = INLINE;
    let mut artifacts = Vec::new();
    let is_done = state == State::Completed;
    if let Some(SessionResult {
        mut report, outputs, ..
    }) = result
    {
        // A result may come before the end that counts, and say another state.
        set_end(&mut report, state, text);
        // A task that fails has no artifacts but those that were streamed.
        let written = report.to_string();
        if is_done && written.len() <= room && depth(&report) <= MAX_DEPTH {
            room -= written.len();
            artifacts.push(report_artifact(&report));
        } else {
            stream(task, REPORT, JSON, written.as_bytes()).await?;
        }
        for (at, output) in outputs.into_iter().enumerate() {
            let size = size_of(&output);
            if is_done && size <= room {
                room -= size;
                artifacts.push(output.artifact(at + 1));
                continue;
            }
            for part in output.artifact(at + 1).parts {
                stream_part(task, at + 1, part).await?;
            }
        }
    }
    match state {
        State::Completed => task.complete(artifacts, status_message(text)).await,
        State::Failed | State::Working if text.trim().is_empty() => {
            task.fail("the agent says that it failed, and not why").await
        }
        State::Failed | State::Working => task.fail(text).await,
        State::Invalid => {
            let text = if text.trim().is_empty() {
                "no reason was given"
            } else {
                text
            };
            task.fail(&super::rejected(&format!(
                "the agent says that the payloads are invalid: {text}"
            )))
            .await
        }
    }
}

/// Bytes that an output takes in a message.
fn size_of(output: &Output) -> usize {
    use prost::Message as _;
    match output {
        Output::Attachment(attachment) => attachment.encoded_len(),
        Output::Payload(payload) => payload.encoded_len(),
    }
}

async fn stream_part(task: &dyn AgentTask, number: usize, part: mesh::Part) -> Result<(), GatewayError> {
    match part.content {
        Some(Content::RawPart(raw)) => {
            let name = if raw.filename.is_empty() {
                format!("result-{number}")
            } else {
                raw.filename
            };
            stream(task, &name, &media_type_of(&part.media_type), &raw.data).await
        }
        Some(Content::DataPart(data)) => {
            let data = crate::payloads::metadata_json(&data.data.unwrap_or_default());
            stream(
                task,
                &format!("result-{number}.json"),
                JSON,
                data.to_string().as_bytes(),
            )
            .await
        }
        _ => Ok(()),
    }
}

/// Streams the attachments that do not fit into a message, and gives back the others.
///
/// # Errors
/// Those of the node.
pub(super) async fn stream_large(
    task: &dyn AgentTask,
    attachments: Vec<Attachment>,
) -> Result<Vec<Attachment>, GatewayError> {
    let mut room = INLINE;
    let mut small = Vec::new();
    for attachment in attachments {
        if attachment.data.len() <= room {
            room -= attachment.data.len();
            small.push(attachment);
            continue;
        }
        let Attachment {
            name,
            mime_type,
            data,
        } = attachment;
        let name = if name.is_empty() { "attachment" } else { &name };
        stream(task, name, &media_type_of(&mime_type), &data).await?;
    }
    Ok(small)
}
