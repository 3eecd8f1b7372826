//! Commands of a COMMAND message, and their results.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{JsonObject, wire_enum::wire_enum};

wire_enum! {
    /// What kind of tool a command calls.
    ToolCommandType, "tool_type" {
        /// It acts.
        Action = "action",
        /// It observes.
        DataCollection = "data_collection",
    }
}

wire_enum! {
    /// How a command ended.
    CommandStatus, "status of a result" {
        /// It was executed.
        Success = "success",
        /// It failed.
        Failure = "failure",
        /// It was not executed, since one before it failed.
        Skipped = "skipped",
        /// It has no outcome.
        None = "none",
    }
}

/// One command: a call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCommand {
    /// The tool.
    pub tool_name: String,
    /// Its arguments.
    #[serde(default, deserialize_with = "null_is_default")]
    pub parameters: JsonObject,
    /// What kind of tool it is.
    #[serde(default = "action", deserialize_with = "null_is_action")]
    pub tool_type: ToolCommandType,
    /// The id that its result repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
}

impl ToolCommand {
    /// A call of `tool` as an action, without an id.
    pub fn new(tool: impl Into<String>, parameters: JsonObject) -> Self {
        Self {
            tool_name: tool.into(),
            parameters,
            tool_type: ToolCommandType::Action,
            call_id: None,
        }
    }

    /// The same command with an id.
    #[must_use]
    pub fn with_call_id(mut self, id: impl Into<String>) -> Self {
        self.call_id = Some(id.into());
        self
    }
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandResult {
    /// How it ended.
    pub status: CommandStatus,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What the tool returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The tool server that executed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The id of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
}

impl CommandResult {
    /// A result of `command` with this status and nothing else.
    pub fn of(command: &ToolCommand, status: CommandStatus) -> Self {
        Self {
            status,
            error: None,
            result: None,
            namespace: None,
            call_id: command.call_id.clone(),
        }
    }
}

const fn action() -> ToolCommandType {
    ToolCommandType::Action
}

fn null_is_action<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ToolCommandType, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(ToolCommandType::Action))
}

/// `null` is the default.
pub(super) fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
