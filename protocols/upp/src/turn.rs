//! A turn: everything that one call of a model with its tools produced. Its JSON is the proxy wire's
//! `TurnJSON`.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    error::UppError,
    message::{AssistantMessage, Message},
    usage::TokenUsage,
};

/// One call of a tool and how it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolExecution {
    /// The name of the tool.
    pub tool_name: String,
    /// The id of the call.
    pub tool_call_id: String,
    /// What the tool was called with.
    #[serde(default)]
    pub arguments: Value,
    /// What it returned, or the sentence with which it failed.
    #[serde(default)]
    pub result: Value,
    /// Whether it failed.
    #[serde(default)]
    pub is_error: bool,
    /// How long it ran, in milliseconds.
    #[serde(default)]
    pub duration: u64,
    /// What the approval said, where the tool asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<bool>,
}

/// What one call of a model with its tools produced.
///
/// ```
/// use agentanycast_upp::Turn;
///
/// let turn: Turn = serde_json::from_str(
///     r#"{"messages": [{"id": "a1", "type": "assistant", "timestamp": "2026-11-20T22:41:54.152Z",
///         "content": [{"type": "text", "text": "hello"}]}],
///         "usage": {"inputTokens": 3, "outputTokens": 1, "totalTokens": 4}, "cycles": 1}"#,
/// )?;
/// assert_eq!(turn.text(), "hello");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// The messages that were given as input and all messages that were produced; not the history.
    pub messages: Vec<Message>,
    /// The calls of tools, in the order in which the model made them.
    #[serde(default)]
    pub tool_executions: Vec<ToolExecution>,
    /// The tokens of all inferences.
    pub usage: TokenUsage,
    /// How often the model was asked.
    pub cycles: u64,
    /// The structured answer, where one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl Turn {
    /// The last message of the model.
    pub fn response(&self) -> Option<&AssistantMessage> {
        self.messages.iter().rev().find_map(Message::as_assistant)
    }

    /// The text of the last message of the model; empty without one.
    pub fn text(&self) -> String {
        self.response().map(AssistantMessage::text).unwrap_or_default()
    }

    /// The structured answer as a Rust type. Fails with `INVALID_RESPONSE` if there is none or if it does not
    /// fit.
    ///
    /// ```
    /// # use agentanycast_upp::Turn;
    /// # use serde_json::json;
    /// let turn = Turn { data: Some(json!({"x": 1})), ..Turn::default() };
    /// let data: std::collections::BTreeMap<String, u32> = turn.data_as()?;
    /// assert_eq!(data["x"], 1);
    /// # Ok::<(), agentanycast_upp::UppError>(())
    /// ```
    pub fn data_as<T: DeserializeOwned>(&self) -> Result<T, UppError> {
        let data = self
            .data
            .as_ref()
            .ok_or_else(|| UppError::invalid_response("the turn has no structured answer"))?;
        T::deserialize(data).map_err(|error| {
            UppError::invalid_response(format!("the structured answer does not fit: {error}"))
                .with_source(error)
        })
    }
}
