//! The tools of devices.

use crate::messages::McpToolInfo;

/// A tool of a device, and the agent on the device that has it.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceTool {
    /// The agent's name, which a COMMAND has to carry.
    pub agent_name: String,
    /// The tool.
    pub tool: McpToolInfo,
}
