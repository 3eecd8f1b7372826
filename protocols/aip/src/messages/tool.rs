//! A tool of a device, as `list_tools` returns it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ToolCommandType, command::null_is_default};

/// A tool of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct McpToolInfo {
    /// `TYPE::NAME`.
    pub tool_key: String,
    /// Its name.
    pub tool_name: String,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The tool server that has it.
    #[serde(default, deserialize_with = "null_is_default")]
    pub namespace: String,
    /// What kind of tool it is.
    pub tool_type: ToolCommandType,
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// JSON Schema of its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// More of its server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
    /// Hints of its server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
}

impl McpToolInfo {
    /// A tool with its arguments' schema.
    pub fn new(kind: ToolCommandType, namespace: &str, name: &str, input_schema: Value) -> Self {
        Self {
            tool_key: format!("{kind}::{name}"),
            tool_name: name.to_owned(),
            title: None,
            namespace: namespace.to_owned(),
            tool_type: kind,
            description: None,
            input_schema: Some(input_schema),
            output_schema: None,
            meta: None,
            annotations: None,
        }
    }
}
