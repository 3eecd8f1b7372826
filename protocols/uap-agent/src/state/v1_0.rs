//! Messages as version 1.0 writes them: a role, the content in a form that depends on it, and the metadata.

use agentanycast_upp::{AssistantMessage, Message, ToolResultMessage, UserMessage};
use serde_json::{Map, Value, json};

use super::{StateError, field_path::read};

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
pub(super) fn read_message(name: &str, json: &Value) -> Result<Message, StateError> {
    let content_name = format!("{name}.content");
    let content = json
        .get("content")
        .ok_or_else(|| StateError::field(&content_name, "it is missing"))?;
    let metadata: Option<Map<String, Value>> = read(&format!("{name}.metadata"), &json["metadata"])?;
    match json["role"].as_str() {
        Some("user") => {
            let mut message = UserMessage::new(read::<Vec<_>>(&content_name, content)?);
            message.metadata = metadata;
            Ok(message.into())
        }
        Some("assistant") => {
            // Some writers give the blocks alone where no tool is called.
            let (blocks_name, blocks) = match content.get("content") {
                Some(blocks) => (&format!("{content_name}.content"), blocks),
                None => (&content_name, content),
            };
            let calls = content.get("toolCalls").unwrap_or(&Value::Null);
            let calls: Option<Vec<_>> = read(&format!("{content_name}.toolCalls"), calls)?;
            let mut message = AssistantMessage::new(read::<Vec<_>>(blocks_name, blocks)?);
            message.tool_calls = calls.unwrap_or_default();
            message.metadata = metadata;
            Ok(message.into())
        }
        Some("tool_result" | "tool") => {
            let mut message = ToolResultMessage::new(read::<Vec<_>>(&content_name, content)?);
            message.metadata = metadata;
            Ok(message.into())
        }
        _ => Err(StateError::field(
            format!("{name}.role"),
            "it is none of user, assistant and tool_result",
        )),
    }
}
