//! Events of a stream: what a model says while it says it, and the beginning and end of each tool.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{content::Base64Bytes, timestamp::Timestamp};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StreamEventType {
    /// More text.
    TextDelta,
    /// More reasoning.
    ReasoningDelta,
    /// Bytes of an image.
    ImageDelta,
    /// Bytes of sound.
    AudioDelta,
    /// Bytes of a video.
    VideoDelta,
    /// More of the text of a structured answer.
    ObjectDelta,
    /// A call of a tool, or more of its arguments.
    ToolCallDelta,
    /// A tool begins.
    ToolExecutionStart,
    /// A tool ended.
    ToolExecutionEnd,
    /// A message of the model begins.
    MessageStart,
    /// A message of the model ended.
    MessageStop,
    /// A block begins.
    ContentBlockStart,
    /// A block ended.
    ContentBlockStop,
}

/// What an event carries; which fields are set depends on its type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EventDelta {
    /// Text, reasoning, or the text of a structured answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Base64Bytes>,
    /// The id of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The name of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// A piece of the JSON of the arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments_json: Option<String>,
    /// What the tool returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Whether the tool failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// When the tool began or ended, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<i64>,
}

/// An event of a stream.
///
/// ```
/// use agentanycast_upp::StreamEvent;
///
/// let event = StreamEvent::text(0, "hi");
/// let json = serde_json::to_string(&event)?;
/// assert_eq!(json, r#"{"type":"text_delta","index":0,"delta":{"text":"hi"}}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamEvent {
    /// What happened.
    #[serde(rename = "type")]
    pub kind: StreamEventType,
    /// The index of the block, or of the call within its message.
    #[serde(default)]
    pub index: u64,
    /// What the event carries.
    #[serde(default)]
    pub delta: EventDelta,
}

impl StreamEvent {
    /// An event that carries nothing.
    pub fn bare(kind: StreamEventType, index: u64) -> Self {
        Self {
            kind,
            index,
            delta: EventDelta::default(),
        }
    }

    /// More text.
    pub fn text(index: u64, text: impl Into<String>) -> Self {
        Self::with_text(StreamEventType::TextDelta, index, text)
    }

    /// More reasoning.
    pub fn reasoning(index: u64, text: impl Into<String>) -> Self {
        Self::with_text(StreamEventType::ReasoningDelta, index, text)
    }

    /// An event of the type `kind` that carries text.
    pub fn with_text(kind: StreamEventType, index: u64, text: impl Into<String>) -> Self {
        let delta = EventDelta {
            text: Some(text.into()),
            ..EventDelta::default()
        };
        Self { kind, index, delta }
    }

    /// A call of a tool, or a piece of its arguments.
    pub fn tool_call(
        index: u64,
        id: Option<String>,
        name: Option<String>,
        arguments: Option<String>,
    ) -> Self {
        let delta = EventDelta {
            tool_call_id: id,
            tool_name: name,
            arguments_json: arguments,
            ..EventDelta::default()
        };
        Self {
            kind: StreamEventType::ToolCallDelta,
            index,
            delta,
        }
    }

    pub(crate) fn tool_start(index: u64, id: &str, name: &str) -> Self {
        let delta = EventDelta {
            tool_call_id: Some(id.to_owned()),
            tool_name: Some(name.to_owned()),
            timestamp: Some(Timestamp::now().as_millis()),
            ..EventDelta::default()
        };
        Self {
            kind: StreamEventType::ToolExecutionStart,
            index,
            delta,
        }
    }

    pub(crate) fn tool_end(index: u64, id: &str, name: &str, result: &Value, is_error: bool) -> Self {
        let delta = EventDelta {
            tool_call_id: Some(id.to_owned()),
            tool_name: Some(name.to_owned()),
            result: Some(result.clone()),
            is_error: Some(is_error),
            timestamp: Some(Timestamp::now().as_millis()),
            ..EventDelta::default()
        };
        Self {
            kind: StreamEventType::ToolExecutionEnd,
            index,
            delta,
        }
    }
}
