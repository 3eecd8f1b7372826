//! Messages: of the user, of the model, and the results of tools. Their JSON is the proxy wire's
//! `MessageJSON`.
//!
//! A [`Message`] is one reference to a shared value: histories are cloned for every request, and a clone of a
//! history must not copy its images.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{
    content::{ContentBlock, joined_text},
    timestamp::Timestamp,
};

/// A message of a conversation.
///
/// ```
/// use agentanycast_upp::{Message, UserMessage};
///
/// let message = Message::from(UserMessage::text("hi"));
/// let json = serde_json::to_value(&message)?;
/// assert_eq!(json["type"], "user");
/// assert_eq!(serde_json::from_value::<Message>(json)?, message);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Message {
    /// What the user says.
    User(Arc<UserMessage>),
    /// What the model says, and the tools that it calls.
    Assistant(Arc<AssistantMessage>),
    /// What the called tools returned.
    ToolResult(Arc<ToolResultMessage>),
}

impl Message {
    /// The id of the message.
    pub fn id(&self) -> &str {
        match self {
            Self::User(message) => &message.id,
            Self::Assistant(message) => &message.id,
            Self::ToolResult(message) => &message.id,
        }
    }

    /// When the message was made.
    pub fn timestamp(&self) -> Timestamp {
        match self {
            Self::User(message) => message.timestamp,
            Self::Assistant(message) => message.timestamp,
            Self::ToolResult(message) => message.timestamp,
        }
    }

    /// The text blocks, joined by a blank line. Results of tools have no text.
    pub fn text(&self) -> String {
        match self {
            Self::User(message) => message.text_content(),
            Self::Assistant(message) => message.text(),
            Self::ToolResult(_) => String::new(),
        }
    }

    /// The model's message, if this is one.
    pub fn as_assistant(&self) -> Option<&AssistantMessage> {
        match self {
            Self::Assistant(message) => Some(message),
            _ => None,
        }
    }
}

/// What the user says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserMessage {
    /// An UUID, or what another implementation chose.
    pub id: String,
    /// When it was made.
    pub timestamp: Timestamp,
    /// Its blocks, in order.
    pub content: Vec<ContentBlock>,
    /// Labels, among them those of providers under their names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

impl UserMessage {
    /// A message of these blocks, with a new id and the present time.
    pub fn new(content: impl Into<Vec<ContentBlock>>) -> Self {
        Self {
            id: Uuid::new_v4().to_string(),
            timestamp: Timestamp::now(),
            content: content.into(),
            metadata: None,
        }
    }

    /// A message of one text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new([ContentBlock::text(text)])
    }

    /// The text blocks, joined by a blank line.
    pub fn text_content(&self) -> String {
        joined_text(&self.content)
    }
}

/// What the model says, and the tools that it calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssistantMessage {
    /// An UUID, or what another implementation chose.
    pub id: String,
    /// When it was made.
    pub timestamp: Timestamp,
    /// Its blocks, in order.
    pub content: Vec<ContentBlock>,
    /// The tools that the model calls.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_empty"
    )]
    pub tool_calls: Vec<ToolCall>,
    /// Labels, among them those of providers under their names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

impl AssistantMessage {
    /// A message of these blocks, with a new id and the present time.
    pub fn new(content: impl Into<Vec<ContentBlock>>) -> Self {
        Self {
            id: Uuid::new_v4().to_string(),
            timestamp: Timestamp::now(),
            content: content.into(),
            tool_calls: Vec::new(),
            metadata: None,
        }
    }

    /// Sets the tools that the model calls.
    #[must_use]
    pub fn with_tool_calls(mut self, calls: impl IntoIterator<Item = ToolCall>) -> Self {
        self.tool_calls = calls.into_iter().collect();
        self
    }

    /// The text blocks, joined by a blank line.
    pub fn text(&self) -> String {
        joined_text(&self.content)
    }

    /// The blocks of reasoning, joined by a blank line.
    pub fn reasoning(&self) -> String {
        let texts = self.content.iter().filter_map(|block| match block {
            ContentBlock::Reasoning { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }
}

/// A tool that the model calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The id that the model gave the call.
    pub tool_call_id: String,
    /// The name of the tool.
    pub tool_name: String,
    /// What the model passes to it.
    #[serde(default)]
    pub arguments: Value,
    /// Ids of calls of the same message that have to end first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
}

impl ToolCall {
    /// A call that waits for no other one.
    pub fn new(id: impl Into<String>, tool: impl Into<String>, arguments: Value) -> Self {
        Self {
            tool_call_id: id.into(),
            tool_name: tool.into(),
            arguments,
            after: Vec::new(),
        }
    }
}

/// What the called tools returned, in the order of the calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultMessage {
    /// An UUID, or what another implementation chose.
    pub id: String,
    /// When it was made.
    pub timestamp: Timestamp,
    /// Always empty; other implementations send it and expect it.
    #[serde(default)]
    pub content: Vec<ContentBlock>,
    /// The results.
    pub results: Vec<ToolResult>,
    /// Labels, among them those of providers under their names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

impl ToolResultMessage {
    /// A message of these results, with a new id and the present time.
    pub fn new(results: impl Into<Vec<ToolResult>>) -> Self {
        Self {
            id: Uuid::new_v4().to_string(),
            timestamp: Timestamp::now(),
            content: Vec::new(),
            results: results.into(),
            metadata: None,
        }
    }
}

/// What one call of a tool returned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// The id of the call.
    pub tool_call_id: String,
    /// What the tool returned, or the sentence with which it failed.
    #[serde(default)]
    pub result: Value,
    /// Whether the tool failed.
    #[serde(default, deserialize_with = "null_is_false")]
    pub is_error: bool,
}

fn null_is_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<ToolCall>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn null_is_false<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl From<UserMessage> for Message {
    fn from(message: UserMessage) -> Self {
        Self::User(Arc::new(message))
    }
}

impl From<AssistantMessage> for Message {
    fn from(message: AssistantMessage) -> Self {
        Self::Assistant(Arc::new(message))
    }
}

impl From<ToolResultMessage> for Message {
    fn from(message: ToolResultMessage) -> Self {
        Self::ToolResult(Arc::new(message))
    }
}
