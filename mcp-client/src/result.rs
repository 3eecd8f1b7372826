//! The result of a tool: its blocks and its structured content, or why it failed. PURE.

use serde_json::{Map, Value};

/// The result of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// Its blocks, as the server gives them.
    pub content: Vec<Value>,
    /// Its structured content.
    pub structured: Option<Value>,
}

impl ToolResult {
    /// The result of this tool.
    ///
    /// # Errors
    /// The text by which the tool says that it failed.
    pub fn of(tool: &str, mut result: Map<String, Value>) -> Result<Self, String> {
        let mut member = |key: &str| result.remove(key).filter(|value| !value.is_null());
        let content = match member("content") {
            None => Vec::new(),
            Some(Value::Array(blocks)) => blocks,
            Some(one) => vec![one],
        };
        // `toolResult` is the result in the first revision.
        let structured = member("structuredContent").or_else(|| member("toolResult"));
        let result = Self { content, structured };
        match member("isError") {
            None | Some(Value::Bool(false)) => Ok(result),
            // A word in place of a boolean is not success.
            Some(_) => Err(result.words(tool)),
        }
    }

    /// What a tool says of its failure.
    fn words(&self, tool: &str) -> String {
        let texts = self.content.iter().filter_map(text_of_block).map(str::trim);
        let text = texts.collect::<Vec<_>>().join("\n");
        match (&self.structured, text.is_empty(), self.content.as_slice()) {
            (_, false, _) => text,
            (Some(structured), true, _) => structured.to_string(),
            (None, true, []) => format!("the tool {tool} failed and does not say why"),
            (None, true, blocks) => Value::Array(blocks.to_vec()).to_string(),
        }
    }
}

/// The text of a block of text; some servers give the text alone.
pub fn text_of_block(block: &Value) -> Option<&str> {
    match block {
        Value::String(text) => Some(text),
        block if block.get("type").is_none_or(|kind| kind == "text") => block.get("text")?.as_str(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(json: &Value) -> Result<ToolResult, String> {
        ToolResult::of("t", json.as_object().cloned().unwrap())
    }

    #[test]
    fn an_error_is_its_text() {
        let failed = |json: Value| result(&json).unwrap_err();
        let text = json!({"isError": true, "content": [{"type": "text", "text": "no such city\n"}]});
        assert_eq!(failed(text), "no such city");
        let structured = json!({"isError": true, "content": [], "structuredContent": {"code": 7}});
        assert_eq!(failed(structured), r#"{"code":7}"#);
        assert!(failed(json!({"isError": true, "content": []})).contains("the tool t failed"));
        assert_eq!(failed(json!({"isError": "yes", "content": "no"})), "no");
        let image = json!({"isError": true, "content": [{"type": "image"}]});
        assert!(failed(image).contains("image"));
    }

    #[test]
    fn what_is_left_out_is_empty() {
        let all = |json: Value| result(&json).map(|result| (result.content.len(), result.structured));
        assert_eq!(all(json!({})), Ok((0, None)));
        assert_eq!(all(json!({"content": null, "isError": null})), Ok((0, None)));
        assert_eq!(
            all(json!({"content": {"type": "text"}, "isError": false})),
            Ok((1, None))
        );
        assert_eq!(all(json!({"toolResult": [1]})), Ok((0, Some(json!([1])))));
    }
}
