//! Messages from a service to a device or a constellation.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{MessageStatus, ToolCommand, cut_error, wire_enum::wire_enum};

wire_enum! {
    /// The types of a [`ServerMessage`].
    ServerMessageType, "type" {
        /// A task for a device, or progress of one for a constellation.
        Task = "task",
        /// Accepted, or still there.
        Heartbeat = "heartbeat",
        /// A task ended.
        TaskEnd = "task_end",
        /// Commands to execute.
        Command = "command",
        /// An error.
        Error = "error",
        /// A device is asked what it is.
        DeviceInfoRequest = "device_info_request",
        /// What a device is.
        DeviceInfoResponse = "device_info_response",
    }
}

/// A message from a service to a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerMessage {
    /// What it is.
    #[serde(rename = "type")]
    pub kind: ServerMessageType,
    /// Its status.
    pub status: MessageStatus,
    /// What a task asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_request: Option<String>,
    /// The agent on the device that executes commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// The process that commands act on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_name: Option<String>,
    /// The root of that process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_name: Option<String>,
    /// Commands, to be executed in this order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actions: Option<Vec<ToolCommand>>,
    /// Progress of a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<String>>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The session (one task) that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The task's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_name: Option<String>,
    /// When it was sent, ISO 8601.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// The id of this message, or of the request that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// A task's result, or what a device is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
}

impl ServerMessage {
    /// A message with a type, a status and nothing else.
    pub const fn new(kind: ServerMessageType, status: MessageStatus) -> Self {
        Self {
            kind,
            status,
            user_request: None,
            agent_name: None,
            process_name: None,
            root_name: None,
            actions: None,
            messages: None,
            error: None,
            session_id: None,
            task_name: None,
            timestamp: None,
            response_id: None,
            result: None,
        }
    }

    /// An error message. It says the first [`LONGEST_ERROR`](super::LONGEST_ERROR) characters of the text.
    pub fn error(text: impl Into<String>) -> Self {
        Self {
            error: Some(cut_error(text.into())),
            ..Self::new(ServerMessageType::Error, MessageStatus::Error)
        }
    }
}
