//! Requests and answers of UPP as parts of tasks. Pure, except for reading an answer that its daemon left
//! out.

use agentanycast::{Artifact, Content, Message as TaskMessage, Part, Task, TaskHandle};
use serde_json::Value;

use super::error::node_error;
use crate::{
    content::{ContentBlock, DocumentSource, ImageSource},
    error::UppError,
    message::{AssistantMessage, Message},
    provider::{Request, Response},
    task_wire::{UPP_REQUEST, UPP_TURN, block_of_bytes, is_events, request_data, turn_of_data},
    turn::Turn,
    wire::{WireRequest, parse_request, response_of, turn_json},
};

/// The message of a task that carries a request.
pub(super) fn request_message(request: &Request) -> Result<TaskMessage, UppError> {
    let data = request_data(&WireRequest::from(request))?;
    let last = data["request"]["messages"]
        .as_array()
        .and_then(|messages| messages.last());
    let plain = last.map(plain_text).unwrap_or_default();
    let part = json_part(data, UPP_REQUEST);
    Ok(TaskMessage::new([part, Part::text(plain)]))
}

/// What an agent without UPP reads: the text of the last message, or its results as JSON.
fn plain_text(message: &Value) -> String {
    match serde_json::from_value::<Message>(message.clone()) {
        Ok(Message::ToolResult(results)) => results
            .results
            .iter()
            .map(|result| result.result.to_string())
            .collect::<Vec<_>>()
            .join("\n"),
        Ok(message) => message.text(),
        Err(_) => String::new(),
    }
}

/// JSON as a data part, or as bytes where a data part would change it.
fn json_part(value: Value, media_type: &str) -> Part {
    let text = value.to_string();
    Part::data(value).unwrap_or_else(|_| Part::raw(text, media_type))
}

/// The request that a task carries; `None` if it carries none.
pub fn request_of_parts(parts: &[Part]) -> Result<Option<WireRequest>, UppError> {
    for part in parts {
        let Some(json) = part_json(part, UPP_REQUEST) else {
            continue;
        };
        let version = json["upp"].as_str().unwrap_or_default();
        if version.is_empty() {
            continue;
        }
        if !version.starts_with("1.") {
            return Err(UppError::invalid_request(format!(
                "UPP `{version}` is not known; 1.x is"
            )));
        }
        return Ok(Some(parse_request(json["request"].to_string().as_bytes())?));
    }
    Ok(None)
}

/// The JSON of a data part, or of bytes of this type.
fn part_json(part: &Part, media_type: &str) -> Option<Value> {
    match part.as_raw() {
        Some(bytes) if part.media_type == media_type => agentanycast_readers::json::value(bytes).ok(),
        Some(_) => None,
        None => part.to_json(),
    }
}

/// The parts of an answer: the turn for those who know UPP, and its text for all.
pub fn parts_of_turn(turn: &Turn) -> Vec<Part> {
    let json = serde_json::from_str(&turn_json(turn)).unwrap_or_default();
    vec![json_part(json, UPP_TURN), Part::text(turn.text())]
}

/// The content of a message or artifact as blocks.
pub fn blocks_of_parts(parts: &[Part]) -> Vec<ContentBlock> {
    parts.iter().filter_map(block_of_part).collect()
}

fn block_of_part(part: &Part) -> Option<ContentBlock> {
    let mime_type = part.media_type.clone();
    Some(match &part.content {
        Content::Text(text) => ContentBlock::text(text),
        Content::Data(_) => ContentBlock::text(part.to_json()?.to_string()),
        Content::Url { url, .. } if mime_type.starts_with("image/") => ContentBlock::Image {
            source: ImageSource::Url { url: url.clone() },
            mime_type,
            width: None,
            height: None,
        },
        Content::Url { url, .. } => ContentBlock::Document {
            source: DocumentSource::Url { url: url.clone() },
            mime_type,
            title: None,
        },
        Content::Raw { data, .. } => block_of_bytes(data.clone(), mime_type),
        _ => return None,
    })
}

/// The answer of a task that completed.
pub(super) async fn answer_of(handle: &TaskHandle, task: &Task) -> Result<Response, UppError> {
    if let Some(turn) = turn_of_task(task)? {
        return response_of(turn);
    }
    let mut blocks = Vec::new();
    for artifact in task.artifacts.iter().filter(|artifact| !holds_events(artifact)) {
        if artifact.is_streamed() {
            let data = handle.read_artifact(&artifact.id).await.map_err(node_error)?;
            let mime_type = artifact
                .parts
                .first()
                .map(|part| part.media_type.clone())
                .unwrap_or_default();
            blocks.push(block_of_bytes(data, mime_type));
        } else {
            blocks.extend(blocks_of_parts(&artifact.parts));
        }
    }
    // An agent may answer in the closing message alone.
    if blocks.is_empty() {
        blocks = task
            .status_message
            .iter()
            .flat_map(|message| blocks_of_parts(&message.parts))
            .collect();
    }
    Ok(Response::new(AssistantMessage::new(blocks)))
}

fn holds_events(artifact: &Artifact) -> bool {
    artifact.parts.iter().any(|part| is_events(&part.media_type))
}

fn turn_of_task(task: &Task) -> Result<Option<Turn>, UppError> {
    let parts = task.artifacts.iter().flat_map(|artifact| &artifact.parts);
    for json in parts.filter_map(|part| part_json(part, UPP_TURN)) {
        if let Some(turn) = turn_of_data(json)? {
            return Ok(Some(turn));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{message::UserMessage, tool::ToolSchema};

    fn request(argument: Value) -> Request {
        Request {
            model: "skill:x".into(),
            messages: vec![UserMessage::text("hi").into()],
            tools: Arc::new([ToolSchema {
                name: "t".into(),
                description: String::new(),
                parameters: argument,
                metadata: None,
            }]),
            ..Request::default()
        }
    }

    #[test]
    fn requests_cross_a_task_also_where_a_data_part_would_change_them() {
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!([deep]);
        }
        for argument in [json!({"type": "object"}), json!(u64::MAX), deep] {
            let request = request(argument);
            let message = request_message(&request).unwrap();
            let read = request_of_parts(&message.parts).unwrap().unwrap();
            assert_eq!(read, WireRequest::from(&request));
            assert_eq!(message.text_content(), "hi");
        }
        assert_eq!(request_of_parts(&[Part::text("plain")]).unwrap(), None);
        let future = Part::data(json!({"upp": "2.0", "request": {}})).unwrap();
        assert!(request_of_parts(&[future]).is_err());
    }

    #[test]
    fn parts_become_blocks() {
        let parts = [
            Part::text("a"),
            Part::raw([1], "image/png"),
            Part::raw([1], "audio/wav"),
            Part::raw([1], "application/x-thing"),
            Part::raw(*b"text", "text/plain"),
            Part::data(json!({"n": 1})).unwrap(),
            Part::url("https://example.com/a.png").with_media_type("image/png"),
        ];
        let blocks = blocks_of_parts(&parts);
        assert_eq!(blocks.len(), parts.len());
        assert_eq!(blocks[4], ContentBlock::text("text"));
        assert_eq!(blocks[5], ContentBlock::text("{\"n\":1}"));
        assert!(matches!(blocks[3], ContentBlock::Binary(_)));
    }
}
