//! Messages from a device or a constellation to a service.

use serde::{Deserialize, Serialize};

use super::{CommandResult, JsonObject, MessageStatus, command::null_is_default, wire_enum::wire_enum};

wire_enum! {
    /// The types of a [`ClientMessage`].
    ClientMessageType, "type" {
        /// A task is requested.
        Task = "task",
        /// The client is there.
        Heartbeat = "heartbeat",
        /// Results of a COMMAND.
        CommandResults = "command_results",
        /// An error.
        Error = "error",
        /// The first message: who the client is.
        Register = "register",
        /// A task ended on the client's side.
        TaskEnd = "task_end",
        /// A constellation asks what a device is.
        DeviceInfoRequest = "device_info_request",
        /// A device says what it is.
        DeviceInfoResponse = "device_info_response",
    }
}

wire_enum! {
    /// What a client of a service is.
    ClientRole, "client_type" {
        /// It executes commands.
        Device = "device",
        /// It assigns tasks.
        Constellation = "constellation",
    }
}

#[allow(clippy::derivable_impls, reason = "the macro derives")]
impl Default for ClientRole {
    fn default() -> Self {
        Self::Device
    }
}

/// A message from a client to a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientMessage {
    /// What it is.
    #[serde(rename = "type")]
    pub kind: ClientMessageType,
    /// Its status.
    pub status: MessageStatus,
    /// What its sender is; absent: a device.
    #[serde(default, deserialize_with = "null_is_default")]
    pub client_type: ClientRole,
    /// The session (one task) that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The task's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_name: Option<String>,
    /// Its sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The device that a constellation means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_id: Option<String>,
    /// What a task asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Results of a COMMAND, in the order of its commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_results: Option<Vec<CommandResult>>,
    /// When it was sent, ISO 8601.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// The id of this message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The `response_id` of the message that this one answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prev_response_id: Option<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// More, by type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
}

impl ClientMessage {
    /// A message of a device with a type, a status and nothing else.
    pub const fn new(kind: ClientMessageType, status: MessageStatus) -> Self {
        Self {
            kind,
            status,
            client_type: ClientRole::Device,
            session_id: None,
            task_name: None,
            client_id: None,
            target_id: None,
            request: None,
            action_results: None,
            timestamp: None,
            request_id: None,
            prev_response_id: None,
            error: None,
            metadata: None,
        }
    }
}
