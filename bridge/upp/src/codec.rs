//! Requests of UPP as messages of tasks, and results of tasks as answers of UPP. PURE.
//!
//! Invariant: an agent that knows UPP reads the whole request and its turn comes back unchanged; an agent that
//! does not reads the last text of the user, and its texts and files become one message.

use agentanycast_gateway::is_reference;
use agentanycast_proto::{
    struct_json::{EXACT, carry, restore},
    v1::{self, part::Content},
};
use agentanycast_upp::{
    Base64Bytes, ContentBlock, DocumentSource, ImageSource, MediaBlock, Message, Turn, UppError,
    wire::WireRequest,
};
use bytes::Bytes;
use serde_json::{Value, json};

/// The media types of results that hold events, one a line.
const EVENTS: [&str; 2] = [
    "application/vnd.upp.events+jsonl",
    "application/vnd.uap.events+jsonl",
];

/// The media type of a turn in bytes, where its JSON is deeper than a data part may be.
const TURN: &str = "application/vnd.upp.turn+json";

/// The media type of a request in bytes, for the same reason.
const REQUEST: &str = "application/vnd.upp.request+json";

/// The version of UPP in a request.
const VERSION: &str = "1.3";

/// The message of a task that carries this request.
pub(super) fn message_of_request(request: &WireRequest) -> Result<v1::Message, UppError> {
    let value = serde_json::to_value(request)
        .map_err(|error| UppError::invalid_request(format!("the request has no JSON form: {error}")))?;
    let text = v1::TextPart {
        text: text_of_user(&request.messages),
    };
    let text = v1::Part {
        content: Some(Content::TextPart(text)),
        ..v1::Part::default()
    };
    Ok(v1::Message {
        role: v1::MessageRole::User.into(),
        parts: vec![request_part(&json!({"upp": VERSION, "request": value})), text],
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
    let mut part = v1::Part::default();
    if let Ok((data, exact)) = carry(value) {
        part.metadata = exact.map(|text| (EXACT.to_owned(), text)).into_iter().collect();
        part.content = Some(Content::DataPart(v1::DataPart { data: Some(data) }));
    } else {
        REQUEST.clone_into(&mut part.media_type);
        part.content = Some(Content::RawPart(v1::RawPart {
            data: value.to_string().into_bytes(),
            filename: String::new(),
        }));
    }
    part
}

/// Whether a result is a stream of events.
pub(super) fn is_events(artifact: &v1::Artifact) -> bool {
    artifact
        .parts
        .iter()
        .any(|part| EVENTS.contains(&part.media_type.as_str()))
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
        let has = |key: &&str| json.get(*key).is_some();
        if ["messages", "usage", "cycles"].iter().all(has) {
            let turn = serde_json::from_value(json);
            return turn.map(Some).map_err(|error| {
                UppError::invalid_response(format!("the turn of the agent is malformed: {error}"))
            });
        }
    }
    Ok(None)
}

fn json_of_part(part: &v1::Part) -> Option<Value> {
    match part.content.as_ref()? {
        Content::DataPart(data) => {
            let exact = part.metadata.get(EXACT).map(String::as_str);
            Some(restore(data.data.as_ref()?, exact))
        }
        Content::RawPart(raw) if part.media_type == TURN => serde_json::from_slice(&raw.data).ok(),
        _ => None,
    }
}

/// The text of a message.
pub(super) fn text_of(message: Option<&v1::Message>) -> String {
    let parts = message.map_or(&[][..], |message| message.parts.as_slice());
    let texts = parts.iter().filter_map(|part| match &part.content {
        Some(Content::TextPart(part)) => Some(part.text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
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

fn block_of_bytes(data: Vec<u8>, mime_type: String) -> ContentBlock {
    let kind = mime_type.split('/').next().unwrap_or_default();
    match kind {
        "text" => return ContentBlock::text(String::from_utf8_lossy(&data)),
        "image" => return ContentBlock::image(data, mime_type),
        _ if mime_type == "application/pdf" => {
            let source = DocumentSource::Base64 {
                data: Base64Bytes::from(data),
            };
            return ContentBlock::Document {
                source,
                mime_type,
                title: None,
            };
        }
        _ => {}
    }
    let make = match kind {
        "audio" => ContentBlock::Audio,
        "video" => ContentBlock::Video,
        _ => ContentBlock::Binary,
    };
    make(MediaBlock {
        data: data.into(),
        mime_type,
        details: serde_json::Map::new(),
    })
}

#[cfg(test)]
mod tests;
