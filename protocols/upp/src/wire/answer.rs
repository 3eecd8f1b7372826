//! Answers of the proxy wire: a turn, or an error with its status.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::{error::UppError, message::Message, provider::Response, turn::Turn, usage::TokenUsage};

/// Which answer the client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerForm {
    /// One JSON object.
    Json,
    /// Server-sent events.
    EventStream,
}

impl AnswerForm {
    /// Reads the header `Accept`.
    ///
    /// ```
    /// use agentanycast_upp::wire::AnswerForm;
    ///
    /// assert_eq!(AnswerForm::from_accept("text/event-stream"), AnswerForm::EventStream);
    /// assert_eq!(AnswerForm::from_accept("*/*"), AnswerForm::Json);
    /// ```
    pub fn from_accept(accept: &str) -> Self {
        let wants_events = accept.split(',').any(|range| {
            let media_type = range.split(';').next().unwrap_or_default().trim();
            media_type.eq_ignore_ascii_case("text/event-stream")
        });
        if wants_events {
            Self::EventStream
        } else {
            Self::Json
        }
    }
}

/// The turn of one inference: the answer of a provider as the proxy wire carries it.
pub fn turn_of(response: Response) -> Turn {
    let mut usage = TokenUsage::default();
    usage.add_cycle(&response.usage);
    Turn {
        messages: vec![Message::from(response.message)],
        tool_executions: Vec::new(),
        usage,
        cycles: 1,
        data: response.data,
    }
}

/// The answer of a provider in the turn of one inference: its last message of the model. Fails with
/// `INVALID_RESPONSE` if there is none.
pub fn response_of(turn: Turn) -> Result<Response, UppError> {
    let mut usage = turn.usage;
    usage.cycles.clear();
    let said = turn.messages.into_iter().rev().find_map(|message| match message {
        Message::Assistant(message) => Some(message),
        _ => None,
    });
    let message = said.ok_or_else(|| UppError::invalid_response("the turn has no message of the model"))?;
    Ok(Response {
        message: (*message).clone(),
        usage,
        stop_reason: None,
        data: turn.data,
    })
}

/// The JSON of a turn.
///
/// ```
/// use agentanycast_upp::{AssistantMessage, ContentBlock, Response, wire};
///
/// let response = Response::new(AssistantMessage::new([ContentBlock::text("hello")]));
/// let json: serde_json::Value = serde_json::from_str(&wire::turn_json(&wire::turn_of(response))).unwrap();
/// assert_eq!(json["messages"][0]["content"][0]["text"], "hello");
/// assert_eq!(json["cycles"], 1);
/// ```
pub fn turn_json(turn: &Turn) -> String {
    // A turn has text keys and finite numbers only, so that it always has a JSON form.
    serde_json::to_string(turn).unwrap_or_else(|error| json!({"error": error.to_string()}).to_string())
}

/// An error as HTTP carries it.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorAnswer {
    /// The status.
    pub status: u16,
    /// The JSON of the body: `{"error": {"message": .., "code": ..}}`.
    pub body: String,
    /// The value of `Retry-After` in seconds, rounded up.
    pub retry_after: Option<u64>,
}

/// The answer that tells of this error.
///
/// ```
/// use agentanycast_upp::{ErrorCode, UppError, wire};
///
/// let answer = wire::error_answer(&UppError::new(ErrorCode::ModelNotFound, "no agent has this name"));
/// assert_eq!(answer.status, 404);
/// assert_eq!(answer.body, r#"{"error":{"code":"MODEL_NOT_FOUND","message":"no agent has this name"}}"#);
/// ```
pub fn error_answer(error: &UppError) -> ErrorAnswer {
    let body = json!({"error": {"code": error.code().as_str(), "message": error.message()}});
    ErrorAnswer {
        status: error.code().status(),
        body: body.to_string(),
        retry_after: error
            .retry_after()
            .map(|wait| wait.as_millis().div_ceil(1000) as u64),
    }
}

/// The sentence in the body of an error: `{error: {message}}`, `{error: text}`, `{message}` or `{detail}`.
///
/// ```
/// use agentanycast_upp::wire::message_of_error_body;
///
/// let body = br#"{"error": {"message": "no credit"}}"#;
/// assert_eq!(message_of_error_body(body).as_deref(), Some("no credit"));
/// assert_eq!(message_of_error_body(b"<html>"), None);
/// ```
pub fn message_of_error_body(body: &[u8]) -> Option<String> {
    let body = agentanycast_readers::json::value(body).ok()?;
    // Gemini wraps the object into a list.
    let body = body.get(0).unwrap_or(&body);
    let places = [
        &body["error"]["message"],
        &body["error"],
        &body["message"],
        &body["detail"],
    ];
    places.into_iter().find_map(Value::as_str).map(str::to_owned)
}

/// Longer waits are read as this one, 30 years.
const MAX_RETRY_AFTER_SECONDS: f64 = 1e9;

/// Reads `Retry-After`: seconds, or a date of HTTP. `None` if it is neither; a date in the past is zero.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use agentanycast_upp::wire::parse_retry_after;
///
/// let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
/// assert_eq!(parse_retry_after("7", now), Some(Duration::from_secs(7)));
/// assert_eq!(parse_retry_after("Sun, 06 Nov 1994 08:49:47 GMT", now), Some(Duration::from_secs(10)));
/// assert_eq!(parse_retry_after("soon", now), None);
/// ```
pub fn parse_retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        // Some servers send fractions. Not a number and negative seconds are no time.
        return Duration::try_from_secs_f64(seconds.min(MAX_RETRY_AFTER_SECONDS)).ok();
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}
