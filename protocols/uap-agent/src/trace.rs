//! What a sub-agent did: kept in the state, so that a restored parent still knows it.

use agentanycast_upp::{TokenUsage, ToolExecution};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One call of a tool by a sub-agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolExecutionTrace {
    /// The name of the tool.
    pub tool_name: String,
    /// The id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// What the tool was called with.
    #[serde(default)]
    pub arguments: Value,
    /// What it returned, as text.
    #[serde(default)]
    pub result: String,
    /// Whether it failed.
    #[serde(default)]
    pub is_error: bool,
    /// How long it ran, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<u64>,
}

impl From<&ToolExecution> for ToolExecutionTrace {
    fn from(execution: &ToolExecution) -> Self {
        let result = &execution.result;
        Self {
            tool_name: execution.tool_name.clone(),
            tool_call_id: Some(execution.tool_call_id.clone()),
            arguments: execution.arguments.clone(),
            result: result.as_str().map_or_else(|| result.to_string(), str::to_owned),
            is_error: execution.is_error,
            duration: Some(execution.duration),
        }
    }
}

/// One run of a sub-agent.
///
/// ```
/// use agentanycast_uap::SubagentExecutionTrace;
///
/// let trace: SubagentExecutionTrace = serde_json::from_str(
///     r#"{"subagentId": "s", "subagentType": "explorer", "parentToolCallId": "t1", "prompt": "look",
///         "startTime": 1, "endTime": 2, "success": true, "result": "found"}"#,
/// )?;
/// assert_eq!(trace.result.as_deref(), Some("found"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubagentExecutionTrace {
    /// The id of the sub-agent's run, an UUID.
    pub subagent_id: String,
    /// What kind of sub-agent it is: the name of its tool.
    pub subagent_type: String,
    /// The call of the parent that started it.
    pub parent_tool_call_id: String,
    /// What it was asked.
    pub prompt: String,
    /// When it began, in milliseconds since 1970.
    pub start_time: i64,
    /// When it ended, in milliseconds since 1970.
    pub end_time: i64,
    /// Whether it ended well.
    pub success: bool,
    /// What it answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The tools that it called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_executions: Option<Vec<ToolExecutionTrace>>,
    /// The tokens that it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
}
