//! Requests of UPP as messages of tasks, and results of tasks as answers of UPP. PURE.
//!
//! Invariant: an agent that knows UPP reads the whole request and its turn comes back unchanged; an agent that
//! does not reads the last text of the user, and its texts and files become one message.

use agentanycast_gateway::is_reference;
use agentanycast_proto::{
    parts::{self, data_of, data_part, text_part},
    v1::{self, part::Content},
};
use agentanycast_upp::{
    ContentBlock, DocumentSource, ImageSource, Message, Turn, UppError,
    task_wire::{self, UPP_REQUEST, UPP_TURN, block_of_bytes, request_data, turn_of_data},
    wire::WireRequest,
};
use bytes::Bytes;
use serde_json::Value;

/// The message of a task that carries this request.
pub(super) fn message_of_request(request: &WireRequest) -> Result<v1::Message, UppError> {
    let data = request_data(request)?;
    let text = text_part(text_of_user(&request.messages));
    Ok(v1::Message {
        role: v1::MessageRole::User.into(),
        parts: vec![request_part(&data), text],
        ..v1::Message::default()
    })
}

/// What an agent without UPP reads: the text of the last message of the user.
fn text_of_user(messages: &[Message]) -> String {
    let is_user = |message: &&Message| matches!(message, Message::User(_));
    messages
        .iter()
        .rfind(is_user)
        .map(Message::text)
        .unwrap_or_default()
}

fn request_part(value: &Value) -> v1::Part {
    match data_part(value) {
        // The label says what it is, so that it needs no media type.
        Ok(part) => v1::Part {
            media_type: String::new(),
            ..part
        },
        Err(_) => v1::Part {
            content: Some(Content::RawPart(v1::RawPart {
                data: value.to_string().into_bytes(),
                filename: String::new(),
            })),
            media_type: UPP_REQUEST.to_owned(),
            ..v1::Part::default()
        },
    }
}

/// Whether a result is a stream of events.
pub(super) fn is_events(artifact: &v1::Artifact) -> bool {
    artifact
        .parts
        .iter()
        .any(|part| task_wire::is_events(&part.media_type))
}

/// A result with the content that was read apart from the task.
pub(super) fn with_content(mut artifact: v1::Artifact, content: Bytes) -> v1::Artifact {
    if let [part] = artifact.parts.as_mut_slice()
        && is_referring(part)
    {
        part.content = Some(Content::RawPart(v1::RawPart {
            data: content.into(),
            filename: String::new(),
        }));
    }
    artifact
}

fn is_referring(part: &v1::Part) -> bool {
    let alone = v1::Artifact {
        parts: vec![part.clone()],
        ..v1::Artifact::default()
    };
    is_reference(&alone)
}

/// The turn that these results hold, if they hold one. Fails with `INVALID_RESPONSE` if it is malformed.
pub(super) fn turn_of_artifacts(artifacts: &[v1::Artifact]) -> Result<Option<Turn>, UppError> {
    let parts = artifacts.iter().flat_map(|artifact| &artifact.parts);
    for json in parts.filter_map(json_of_part) {
        if let Some(turn) = turn_of_data(json)? {
            return Ok(Some(turn));
        }
    }
    Ok(None)
}

fn json_of_part(part: &v1::Part) -> Option<Value> {
    match part.content.as_ref()? {
        Content::RawPart(raw) if part.media_type == UPP_TURN => {
            agentanycast_readers::json::value(&raw.data).ok()
        }
        _ => data_of(part),
    }
}

/// The text of a message.
pub(super) fn text_of(message: Option<&v1::Message>) -> String {
    parts::text_of(message.map_or(&[][..], |message| &message.parts))
}

/// Parts of a result or message as blocks.
pub(super) fn blocks_of_parts(parts: &[v1::Part]) -> Vec<ContentBlock> {
    parts.iter().filter_map(block_of_part).collect()
}

fn block_of_part(part: &v1::Part) -> Option<ContentBlock> {
    let mime_type = part.media_type.clone();
    Some(match part.content.as_ref()? {
        Content::TextPart(text) => ContentBlock::text(&text.text),
        Content::DataPart(_) => ContentBlock::text(json_of_part(part)?.to_string()),
        Content::UrlPart(part) if mime_type.starts_with("image/") => ContentBlock::Image {
            source: ImageSource::Url {
                url: part.url.clone(),
            },
            mime_type,
            width: None,
            height: None,
        },
        Content::UrlPart(part) => ContentBlock::Document {
            source: DocumentSource::Url {
                url: part.url.clone(),
            },
            mime_type,
            title: None,
        },
        Content::RawPart(raw) => block_of_bytes(raw.data.clone(), mime_type),
    })
}

#[cfg(test)]
mod tests;
