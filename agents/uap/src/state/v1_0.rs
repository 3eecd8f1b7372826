//! Messages as version 1.0 writes them: a role, the content in a form that depends on it, and the metadata.

use agentanycast_upp::{AssistantMessage, Message, ToolResultMessage, UserMessage};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

pub(super) const VERSION: &str = "1.0.0";

pub(super) fn write_message(message: &Message) -> Value {
    let (mut json, metadata) = match message {
        Message::User(user) => (json!({"role": "user", "content": user.content}), &user.metadata),
        Message::Assistant(assistant) => {
            let content = json!({"content": assistant.content, "toolCalls": assistant.tool_calls});
            (
                json!({"role": "assistant", "content": content}),
                &assistant.metadata,
            )
        }
        Message::ToolResult(results) => (
            json!({"role": "tool_result", "content": results.results}),
            &results.metadata,
        ),
    };
    if let Some(metadata) = metadata {
        json["metadata"] = metadata.clone().into();
    }
    json
}

/// Reads a message; it gets a new id and the present time, since version 1.0 keeps neither.
pub(super) fn read_message(json: &Value) -> Result<Message, String> {
    let content = json.get("content").ok_or("it has no `content`")?;
    let metadata: Option<Map<String, Value>> = read(&json["metadata"], "metadata")?;
    match json["role"].as_str() {
        Some("user") => {
            let mut message = UserMessage::new(read::<Vec<_>>(content, "content")?);
            message.metadata = metadata;
            Ok(message.into())
        }
        Some("assistant") => {
            // Some writers give the blocks alone where no tool is called.
            let blocks = content.get("content").unwrap_or(content);
            let calls: Option<Vec<_>> = read(
                content.get("toolCalls").unwrap_or(&Value::Null),
                "content.toolCalls",
            )?;
            let mut message = AssistantMessage::new(read::<Vec<_>>(blocks, "content")?);
            message.tool_calls = calls.unwrap_or_default();
            message.metadata = metadata;
            Ok(message.into())
        }
        Some("tool_result" | "tool") => {
            let mut message = ToolResultMessage::new(read::<Vec<_>>(content, "content")?);
            message.metadata = metadata;
            Ok(message.into())
        }
        _ => Err("`role` is none of user, assistant and tool_result".to_owned()),
    }
}

fn read<T: DeserializeOwned>(value: &Value, name: &str) -> Result<T, String> {
    T::deserialize(value).map_err(|error: serde_json::Error| format!("`{name}`: {error}"))
}
