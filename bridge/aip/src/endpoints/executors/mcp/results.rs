//! Tools and results of MCP as those of AIP. PURE.
//!
//! A result is the tool's structured content if it has any; else its only text; else its content as MCP has
//! it.

use rmcp::model::{CallToolResult, ContentBlock, Tool};
use serde_json::Value;

use crate::messages::{McpToolInfo, ToolCommandType};

/// Servers of the library FastMCP put a result that is not an object into one of this key, and say so in the
/// schema of the output.
const WRAPPED: &str = "x-fastmcp-wrap-result";

/// A tool as `list_tools` of AIP has it. One that only reads collects data.
pub(super) fn tool_info(tool: &Tool, namespace: &str) -> McpToolInfo {
    let only_reads = tool.annotations.as_ref().and_then(|hints| hints.read_only_hint);
    let kind = if only_reads == Some(true) {
        ToolCommandType::DataCollection
    } else {
        ToolCommandType::Action
    };
    let schema = Value::Object((*tool.input_schema).clone());
    McpToolInfo {
        title: tool.title.clone(),
        description: tool.description.as_deref().map(str::to_owned),
        output_schema: tool.output_schema.as_deref().cloned().map(Value::Object),
        meta: tool
            .meta
            .as_ref()
            .and_then(|meta| serde_json::to_value(meta).ok()),
        annotations: tool
            .annotations
            .as_ref()
            .and_then(|hints| serde_json::to_value(hints).ok()),
        ..McpToolInfo::new(kind, namespace, &tool.name, schema)
    }
}

/// The result of a call.
///
/// # Errors
/// The text by which the tool says that it failed.
pub(super) fn value(tool: &Tool, result: CallToolResult) -> Result<Value, String> {
    if result.is_error == Some(true) {
        return Err(failure(tool, &result));
    }
    if let Some(structured) = result.structured_content {
        return Ok(unwrapped(tool, structured));
    }
    if let [ContentBlock::Text(text)] = result.content.as_slice() {
        return Ok(Value::String(text.text.clone()));
    }
    if result.content.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::to_value(result.content).map_err(|error| error.to_string())
}

fn unwrapped(tool: &Tool, structured: Value) -> Value {
    let schema = tool.output_schema.as_deref();
    let is_wrapped = schema.and_then(|schema| schema.get(WRAPPED)) == Some(&Value::Bool(true));
    match structured {
        Value::Object(mut object) if is_wrapped && object.len() == 1 => match object.remove("result") {
            Some(result) => result,
            None => Value::Object(object),
        },
        other => other,
    }
}

/// What a tool says of its failure.
fn failure(tool: &Tool, result: &CallToolResult) -> String {
    let texts = result.content.iter().filter_map(ContentBlock::as_text);
    let text = texts.map(|text| text.text.trim()).collect::<Vec<_>>().join("\n");
    match (&result.structured_content, text.is_empty()) {
        (_, false) => text,
        (Some(structured), true) => structured.to_string(),
        (None, true) => format!("the tool {} failed and does not say why", tool.name),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(more: &Value) -> Tool {
        let mut tool = json!({ "name": "t", "inputSchema": { "type": "object" } });
        for (key, value) in more.as_object().unwrap() {
            tool[key] = value.clone();
        }
        serde_json::from_value(tool).unwrap()
    }

    fn result(more: &Value, result: Value) -> Result<Value, String> {
        value(&tool(more), serde_json::from_value(result).unwrap())
    }

    #[test]
    fn a_tool_keeps_what_its_server_says_of_it() {
        let reads = tool(&json!({
            "title": "T", "description": "does t", "annotations": { "readOnlyHint": true },
            "outputSchema": { "type": "object" }, "_meta": { "a": 1 },
        }));
        let info = tool_info(&reads, "S");
        assert_eq!(
            serde_json::to_value(info).unwrap(),
            json!({
                "tool_key": "data_collection::t", "tool_name": "t", "title": "T", "namespace": "S",
                "tool_type": "data_collection", "description": "does t", "input_schema": { "type": "object" },
                "output_schema": { "type": "object" }, "meta": { "a": 1 }, "annotations": { "readOnlyHint": true },
            })
        );
        assert_eq!(tool_info(&tool(&json!({})), "S").tool_key, "action::t");
    }

    #[test]
    fn a_result_is_its_structure_or_its_text_or_its_content() {
        let none = json!({});
        let text = json!({ "type": "text", "text": "hello" });
        let image = json!({ "type": "image", "data": "aGk=", "mimeType": "image/png" });
        let both = json!({ "content": [text], "structuredContent": { "result": [1] } });
        assert_eq!(result(&none, both.clone()), Ok(json!({ "result": [1] })));
        let wraps = json!({ "outputSchema": { "type": "object", WRAPPED: true } });
        assert_eq!(result(&wraps, both), Ok(json!([1])));
        assert_eq!(result(&none, json!({ "content": [text] })), Ok(json!("hello")));
        assert_eq!(result(&none, json!({ "content": [] })), Ok(Value::Null));
        let several = json!([text, image]);
        assert_eq!(result(&none, json!({ "content": several })), Ok(several));
    }

    #[test]
    fn an_error_is_its_text() {
        let failed = |json: Value| result(&json!({}), json).unwrap_err();
        let text = json!({ "isError": true, "content": [{ "type": "text", "text": "no such city\n" }] });
        assert_eq!(failed(text), "no such city");
        let structured = json!({ "isError": true, "content": [], "structuredContent": { "code": 7 } });
        assert_eq!(failed(structured), r#"{"code":7}"#);
        assert!(failed(json!({ "isError": true, "content": [] })).contains("the tool t failed"));
    }
}
