//! Tools and results of MCP as those of AIP. PURE.
//!
//! A result is the tool's structured content if it has any; else its only text; else its content as MCP has
//! it.

use agentanycast_mcp_client::{Tool, ToolResult, text_of_block};
use serde_json::{Map, Value};

use crate::messages::{McpToolInfo, ToolCommandType};

/// Servers of the library FastMCP put a result that is not an object into one of this key, and say so in the
/// schema of the output.
const WRAPPED: &str = "x-fastmcp-wrap-result";

/// A tool as `list_tools` of AIP has it. One that only reads collects data.
pub(super) fn tool_info(tool: &Tool, namespace: &str) -> McpToolInfo {
    let only_reads = tool
        .annotations
        .as_ref()
        .and_then(|hints| hints.get("readOnlyHint"));
    let kind = if only_reads == Some(&Value::Bool(true)) {
        ToolCommandType::DataCollection
    } else {
        ToolCommandType::Action
    };
    McpToolInfo {
        title: tool.title.clone(),
        description: tool.description.clone(),
        output_schema: tool.output_schema.clone().map(Value::Object),
        meta: tool.meta.clone(),
        annotations: tool.annotations.clone(),
        ..McpToolInfo::new(kind, namespace, &tool.name, tool.input_schema.clone().into())
    }
}

/// The result of a call.
///
/// # Errors
/// The text by which the tool says that it failed.
pub(super) fn value(tool: &Tool, result: Map<String, Value>) -> Result<Value, String> {
    let result = ToolResult::of(&tool.name, result)?;
    if let Some(structured) = result.structured {
        return Ok(unwrapped(tool, structured));
    }
    Ok(match result.content.as_slice() {
        [] => Value::Null,
        [block] => text_of_block(block).map_or_else(|| Value::from(vec![block.clone()]), Value::from),
        _ => Value::Array(result.content),
    })
}

fn unwrapped(tool: &Tool, structured: Value) -> Value {
    let schema = tool.output_schema.as_ref();
    let is_wrapped = schema.and_then(|schema| schema.get(WRAPPED)) == Some(&Value::Bool(true));
    match structured {
        Value::Object(mut object) if is_wrapped && object.len() == 1 => match object.remove("result") {
            Some(result) => result,
            None => Value::Object(object),
        },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(more: &Value) -> Tool {
        let object = |key: &str| more.get(key).and_then(Value::as_object).cloned();
        let text = |key: &str| more.get(key).and_then(Value::as_str).map(str::to_owned);
        Tool {
            name: "t".to_owned(),
            title: text("title"),
            description: text("description"),
            input_schema: json!({ "type": "object" }).as_object().cloned().unwrap(),
            output_schema: object("outputSchema"),
            annotations: more.get("annotations").cloned(),
            meta: more.get("_meta").cloned(),
        }
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
        let several = json!([text, image, { "type": "hologram" }]);
        assert_eq!(result(&none, json!({ "content": several })), Ok(several));
    }

    #[test]
    fn an_error_is_its_text() {
        let failed = |json: Value| result(&json!({}), json).unwrap_err();
        let text = json!({ "isError": true, "content": [{ "type": "text", "text": "no such city\n" }] });
        assert_eq!(failed(text), "no such city");
    }
}
