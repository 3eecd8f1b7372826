//! Parameters of a call that the revision 2026-07-28 sends in headers too (`x-mcp-header` in the schema of a
//! tool), so that what stands between can route by them. PURE.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Map, Value};

const MARK: &str = "x-mcp-header";

/// The parameters with a header: their paths and the names of the headers.
fn marked<'a>(
    schema: &'a Map<String, Value>,
    path: &mut Vec<&'a str>,
    found: &mut Vec<(Vec<&'a str>, &'a Value, Option<&'a str>)>,
) {
    let Some(Value::Object(properties)) = schema.get("properties") else {
        return;
    };
    for (name, property) in properties {
        let Value::Object(property) = property else {
            continue;
        };
        path.push(name);
        if let Some(header) = property.get(MARK) {
            found.push((path.clone(), header, property.get("type").and_then(Value::as_str)));
        }
        marked(property, path, found);
        path.pop();
    }
}

/// How often the mark stands in a schema, wherever.
fn marks(schema: &Value) -> usize {
    match schema {
        Value::Object(object) => marks_of(object),
        Value::Array(all) => all.iter().map(marks).sum(),
        _ => 0,
    }
}

fn marks_of(schema: &Map<String, Value>) -> usize {
    let inner = schema.iter().map(|(key, value)| match (key.as_str(), value) {
        // Their keys are names.
        (
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
            Value::Object(named),
        ) => named.values().map(marks).sum(),
        // They hold no schemas.
        ("default" | "const" | "enum" | "examples" | "dependentRequired", _) => 0,
        _ => marks(value),
    });
    usize::from(schema.contains_key(MARK)) + inner.sum::<usize>()
}

/// Whether the headers of a tool are what the revision allows: a client must not offer another tool.
pub(crate) fn check(schema: &Map<String, Value>) -> Result<(), String> {
    let mut found = Vec::new();
    marked(schema, &mut Vec::new(), &mut found);
    if marks_of(schema) != found.len() {
        return Err(format!("{MARK} stands where it is not allowed"));
    }
    let mut names = std::collections::BTreeSet::new();
    for (path, header, kind) in found {
        let path = path.join(".");
        let name = header
            .as_str()
            .filter(|name| !name.is_empty() && name.bytes().all(is_token));
        let Some(name) = name else {
            return Err(format!("{MARK} of {path} is no name of a header"));
        };
        if !matches!(kind, Some("string" | "integer" | "boolean")) {
            return Err(format!(
                "{MARK} of {path} is for text, whole numbers and booleans alone"
            ));
        }
        if !names.insert(name.to_ascii_lowercase()) {
            return Err(format!("{MARK} {name} comes twice"));
        }
    }
    Ok(())
}

/// The headers of a call with these arguments.
pub(crate) fn of_call(schema: &Map<String, Value>, arguments: &Map<String, Value>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    marked(schema, &mut Vec::new(), &mut found);
    let headers = found.into_iter().filter_map(|(path, header, _)| {
        let (first, rest) = path.split_first()?;
        let value = rest
            .iter()
            .try_fold(arguments.get(*first)?, |value, key| value.get(key))?;
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            _ => return None,
        };
        Some((format!("Mcp-Param-{}", header.as_str()?), text_of_header(&text)))
    });
    headers.collect()
}

/// A value as a header may have it.
pub(crate) fn text_of_header(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && text.trim() == text
        && !(text.starts_with("=?base64?") && text.ends_with("?="));
    if is_plain {
        text.to_owned()
    } else {
        format!("=?base64?{}?=", BASE64_STANDARD.encode(text))
    }
}

const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn marked_parameters_are_headers() {
        let schema = object(json!({"properties": {
            "region": {"type": "string", MARK: "Region"},
            "count": {"type": "integer", MARK: "Count"},
            "where": {"type": "object", "properties": {"city": {"type": "string", MARK: "City"}}},
            "other": {"type": "string", "default": {MARK: "x"}},
        }}));
        check(&schema).unwrap();
        let arguments = object(json!({"region": "eu", "count": 3, "where": {"city": "Köln"}, "other": "x"}));
        let mut headers = of_call(&schema, &arguments);
        headers.sort();
        assert_eq!(
            headers,
            [
                ("Mcp-Param-City".to_owned(), "=?base64?S8O2bG4=?=".to_owned()),
                ("Mcp-Param-Count".to_owned(), "3".to_owned()),
                ("Mcp-Param-Region".to_owned(), "eu".to_owned()),
            ]
        );
        assert_eq!(text_of_header(" x"), "=?base64?IHg=?=");
    }

    #[test]
    fn other_marks_are_refused() {
        let refused = |schema: Value| check(&object(schema)).unwrap_err();
        refused(json!({MARK: "X"}));
        refused(json!({"anyOf": [{"properties": {"a": {"type": "string", MARK: "A"}}}]}));
        refused(json!({"properties": {"a": {"type": "string", MARK: ""}}}));
        refused(json!({"properties": {"a": {"type": "string", MARK: "a b"}}}));
        refused(json!({"properties": {"a": {"type": "number", MARK: "A"}}}));
        refused(
            json!({"properties": {"a": {"type": "string", MARK: "A"}, "b": {"type": "string", MARK: "a"}}}),
        );
    }
}
