//! The server-sent events of the proxy wire, written and read one at a time.
//!
//! A stream is `data: <StreamEvent>` lines, then `data: <TurnJSON>`, then `data: [DONE]`. An error in its
//! middle is `data: {"error": sentence}`.

use agentanycast_daemon_kit::json_lines;
use agentanycast_readers::json as lenient;
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::{
    error::{ErrorCode, UppError},
    event::StreamEvent,
    turn::Turn,
};

/// The end of a stream.
pub const DONE: &str = "data: [DONE]\n\n";

/// An event.
///
/// ```
/// use agentanycast_upp::{StreamEvent, wire::sse};
///
/// let frame = sse::event(&StreamEvent::text(0, "hi"));
/// assert_eq!(frame, "data: {\"type\":\"text_delta\",\"index\":0,\"delta\":{\"text\":\"hi\"}}\n\n");
/// ```
pub fn event(event: &StreamEvent) -> String {
    // An event has text keys only, so that it always has a JSON form.
    frame(&serde_json::to_string(event).unwrap_or_default())
}

/// The turn at the end.
pub fn turn(turn: &Turn) -> String {
    frame(&super::turn_json(turn))
}

/// An error in the middle of a stream. It ends the stream; [`DONE`] does not follow.
///
/// ```
/// use agentanycast_upp::{UppError, wire::sse};
///
/// let frame = sse::error(&UppError::invalid_response("half an answer"));
/// let data: serde_json::Value = serde_json::from_str(frame.strip_prefix("data: ").unwrap()).unwrap();
/// assert_eq!(data, serde_json::json!({"code": "INVALID_RESPONSE", "error": "half an answer"}));
/// ```
pub fn error(error: &UppError) -> String {
    frame(&json!({"error": error.message(), "code": error.code().as_str()}).to_string())
}

fn frame(value: &str) -> String {
    // Some readers end a line at characters that JSON allows raw.
    format!("data: {}\n\n", json_lines::escape(value))
}

/// What one `data:` of a stream holds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(
    clippy::large_enum_variant,
    reason = "an event is moved once, to the reader of its stream"
)]
pub enum Data {
    /// An event.
    Event(StreamEvent),
    /// The turn at the end.
    Turn(Box<Turn>),
    /// The end.
    Done,
}

/// Reads the text behind one `data:`. An error in the stream is the error that it tells of.
///
/// ```
/// use agentanycast_upp::wire::sse::{Data, parse};
///
/// assert_eq!(parse("[DONE]"), Ok(Data::Done));
/// assert_eq!(parse(r#"{"error": "gone"}"#).unwrap_err().message(), "gone");
/// ```
pub fn parse(data: &str) -> Result<Data, UppError> {
    if data == "[DONE]" {
        return Ok(Data::Done);
    }
    read(&lenient::value(data.as_bytes()).map_err(|error| malformed(&error))?)
}

/// Reads the JSON behind one `data:`.
pub(crate) fn read(value: &Value) -> Result<Data, UppError> {
    if let Some(error) = error_in(value) {
        return Err(error);
    }
    if ["messages", "usage", "cycles"]
        .iter()
        .all(|key| value.get(key).is_some())
    {
        let turn = Turn::deserialize(value).map_err(|error| malformed(&error))?;
        return Ok(Data::Turn(Box::new(turn)));
    }
    StreamEvent::deserialize(value)
        .map(Data::Event)
        .map_err(|error| malformed(&error))
}

/// The error that this JSON tells of, if it tells of one.
fn error_in(value: &Value) -> Option<UppError> {
    let error = value.get("error")?;
    let message = error
        .as_str()
        .or_else(|| error["message"].as_str())
        .unwrap_or("the stream tells of an error");
    let code = value["code"]
        .as_str()
        .or_else(|| error["code"].as_str())
        .and_then(ErrorCode::parse);
    Some(UppError::new(code.unwrap_or(ErrorCode::ProviderError), message))
}

fn malformed(error: &serde_json::Error) -> UppError {
    UppError::invalid_response(format!("the stream holds a malformed event: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_for_every_reader() {
        let text = "a\u{85}b\u{2028}c\u{2029}d";
        let said = StreamEvent::text(0, text);
        let ended = UppError::new(ErrorCode::ProviderError, text);
        for frame in [event(&said), error(&ended)] {
            assert!(frame.is_ascii(), "{frame:?}");
        }
        let told = event(&said);
        let data = told.strip_prefix("data: ").unwrap().trim_end();
        assert_eq!(parse(data), Ok(Data::Event(said)));
        assert_eq!(
            parse(error(&ended).strip_prefix("data: ").unwrap().trim_end()),
            Err(ended)
        );
    }
}
