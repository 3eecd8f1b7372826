//! How UPP travels in a task of the mesh: media types, the request, the turn, the events of an agent, and what a failed
//! task says. Used by the provider `agentanycast` and by gateways, which have tasks in types of their own.
//!
//! All of it is pure. Invariant: both sides read what the other one writes by the same rules.

use agentanycast_daemon_kit::json_lines;
use agentanycast_readers::json as lenient;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    content::{Base64Bytes, ContentBlock, DocumentSource, MediaBlock},
    error::{ErrorCode, UppError},
    event::StreamEvent,
    turn::Turn,
    wire::WireRequest,
};

/// The media type of an artifact of `StreamEvent`s, one a line.
pub const UPP_EVENTS: &str = "application/vnd.upp.events+jsonl";

/// The media type of an artifact of `AgentStreamEvent`s, one a line.
pub const AGENT_EVENTS: &str = "application/vnd.uap.events+jsonl";

/// The media type of a turn in bytes, where its JSON has numbers or levels that a data part does not carry.
pub const UPP_TURN: &str = "application/vnd.upp.turn+json";

/// The media type of a request in bytes, for the same reason.
pub const UPP_REQUEST: &str = "application/vnd.upp.request+json";

/// The version of UPP in a request.
const VERSION: &str = "1.3";

/// Whether an artifact of this media type holds events, one a line.
///
/// ```
/// use agentanycast_upp::task_wire::{AGENT_EVENTS, is_events};
///
/// assert!(is_events(AGENT_EVENTS) && !is_events("text/plain"));
/// ```
pub fn is_events(media_type: &str) -> bool {
    [UPP_EVENTS, AGENT_EVENTS].contains(&media_type)
}

/// The data of the task that carries a request. Fails with `INVALID_REQUEST` if the request has no JSON form.
///
/// ```
/// use agentanycast_upp::{task_wire::request_data, wire::parse_request};
///
/// let body = br#"{"model": "m", "messages": []}"#;
/// let data = request_data(&parse_request(body).unwrap()).unwrap();
/// assert_eq!((&data["upp"], &data["request"]["model"]), (&"1.3".into(), &"m".into()));
/// ```
pub fn request_data(request: &WireRequest) -> Result<Value, UppError> {
    let request = serde_json::to_value(request)
        .map_err(|error| UppError::invalid_request(format!("the request has no JSON form: {error}")))?;
    Ok(json!({"upp": VERSION, "request": request}))
}

/// The turn that JSON of a result is; `None` if it is something else. Fails with `INVALID_RESPONSE` if it is malformed.
///
/// ```
/// use agentanycast_upp::task_wire::turn_of_data;
///
/// assert!(turn_of_data(serde_json::json!({"answer": 42})).unwrap().is_none());
/// ```
pub fn turn_of_data(data: Value) -> Result<Option<Turn>, UppError> {
    let has = |key: &&str| data.get(*key).is_some();
    if !["messages", "usage", "cycles"].iter().all(has) {
        return Ok(None);
    }
    let turn = serde_json::from_value(data);
    turn.map(Some)
        .map_err(|error| UppError::invalid_response(format!("the agent's turn is malformed: {error}")))
}

/// The event of a model in a line of an agent's events: a `StreamEvent`, or an `AgentStreamEvent` around one. `None`
/// if the line is blank or holds another event. Fails with `INVALID_RESPONSE` if it is malformed.
///
/// ```
/// use agentanycast_upp::task_wire::event_of_line;
///
/// assert!(event_of_line(b" \n").unwrap().is_none());
/// assert!(event_of_line(b"half").is_err());
/// ```
pub fn event_of_line(line: &[u8]) -> Result<Option<StreamEvent>, UppError> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let malformed = |error: serde_json::Error| {
        UppError::invalid_response(format!("an event of the agent is malformed: {error}"))
    };
    let mut json = lenient::value(line).map_err(malformed)?;
    let event = match json["source"].as_str() {
        None => json,
        Some("upp") => json["upp"].take(),
        Some(_) => return Ok(None),
    };
    serde_json::from_value(event).map(Some).map_err(malformed)
}

/// Adds an event as a line. Some readers end a line at characters that JSON allows raw, so that those are escaped.
///
/// ```
/// use agentanycast_upp::{StreamEvent, task_wire::{event_of_line, push_line}};
///
/// let (event, mut lines) = (StreamEvent::text(0, "a\u{2028}b"), Vec::new());
/// push_line(&mut lines, &event);
/// assert!(lines.is_ascii() && lines.ends_with(b"\n"));
/// assert_eq!(event_of_line(&lines).unwrap(), Some(event));
/// ```
pub fn push_line(lines: &mut Vec<u8>, event: &impl Serialize) {
    // An event has text keys only, so that it always has a JSON form.
    let line = serde_json::to_string(event).unwrap_or_default();
    lines.extend_from_slice(json_lines::escape(&line).as_bytes());
    lines.push(b'\n');
}

/// Bytes of this media type as a block: text, an image, a document, audio, video, or else binary.
///
/// ```
/// use agentanycast_upp::{ContentBlock, task_wire::block_of_bytes};
///
/// let block = block_of_bytes(b"hello".to_vec(), "text/plain".to_owned());
/// assert_eq!(block, ContentBlock::text("hello"));
/// ```
pub fn block_of_bytes(data: Vec<u8>, mime_type: String) -> ContentBlock {
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

/// The error that a reason of a failed task tells of. A reason of the form `CODE: sentence` keeps its code.
///
/// ```
/// use agentanycast_upp::{ErrorCode, task_wire::error_of_reason};
///
/// let error = error_of_reason("RATE_LIMITED: slow down");
/// assert_eq!((error.code(), error.message()), (ErrorCode::RateLimited, "slow down"));
/// assert_eq!(error_of_reason("out of paper").code(), ErrorCode::ProviderError);
/// ```
pub fn error_of_reason(reason: &str) -> UppError {
    let coded = reason
        .split_once(": ")
        .and_then(|(code, sentence)| Some((ErrorCode::parse(code)?, sentence)));
    let (code, sentence) = coded.unwrap_or((ErrorCode::ProviderError, reason));
    let sentence = if sentence.is_empty() {
        "the agent failed and gave no reason"
    } else {
        sentence
    };
    UppError::new(code, sentence)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_reason_keeps_its_code() {
        for (reason, code, sentence) in [
            ("RATE_LIMITED: slow down", ErrorCode::RateLimited, "slow down"),
            ("out of paper", ErrorCode::ProviderError, "out of paper"),
            (
                "NOTE: out of paper",
                ErrorCode::ProviderError,
                "NOTE: out of paper",
            ),
            (
                "",
                ErrorCode::ProviderError,
                "the agent failed and gave no reason",
            ),
            (
                "TIMEOUT: ",
                ErrorCode::Timeout,
                "the agent failed and gave no reason",
            ),
        ] {
            let error = error_of_reason(reason);
            assert_eq!((error.code(), error.message()), (code, sentence), "{reason}");
        }
    }

    proptest! {
        #[test]
        fn hostile_lines_do_no_harm(line in ".{0,60}") {
            let _ = event_of_line(line.as_bytes());
        }
    }
}
