//! The arguments of a tool, made of the message of a task. PURE.
//!
//! A data part that is an object is the arguments; so is a text that is a JSON object. Another text is the
//! argument of a tool whose only required parameter is a string. A message without a skill may name its tool.
//! Everything else is an error that shows the tool's input schema.

use agentanycast_proto::v1::{self, part::Content};
use serde_json::{Map, Value};

use crate::parts::text_of;
use crate::task_content::json_of;

/// The arguments that a message means for a tool with this input schema.
///
/// # Errors
/// The reason for people, with the schema.
pub(super) fn arguments(
    tool: &str,
    schema: &Map<String, Value>,
    message: &v1::Message,
) -> Result<Map<String, Value>, String> {
    let refused = |why: &str| {
        let schema = Value::Object(schema.clone());
        format!("the tool {tool} cannot be called with this message: {why}; its input schema is {schema}")
    };
    for part in &message.parts {
        match &part.content {
            Some(Content::RawPart(_)) => return Err(refused("it takes no files")),
            Some(Content::UrlPart(_)) => return Err(refused("it takes no links to files")),
            _ => {}
        }
    }
    let mut objects = message.parts.iter().filter_map(json_of);
    match (objects.next(), objects.next()) {
        (Some(_), Some(_)) => return Err(refused("it has more than one data part")),
        (Some(Value::Object(arguments)), None) => return Ok(arguments),
        (Some(_), None) => return Err(refused("its data part is no JSON object")),
        (None, _) => {}
    }
    let text = text_of(message);
    if let Ok(Value::Object(arguments)) = serde_json::from_str(&text) {
        return Ok(arguments);
    }
    let required = required(schema);
    match required.as_slice() {
        [] if text.trim().is_empty() => Ok(Map::new()),
        [name] if !text.is_empty() && takes_text(schema, name) => {
            Ok(Map::from_iter([((*name).to_owned(), Value::String(text))]))
        }
        _ if text.trim().is_empty() => Err(refused("it is empty")),
        _ => Err(refused(
            "it is no JSON object, and the tool has not exactly one required parameter that is a string",
        )),
    }
}

/// A call that says itself which tool it is for, as `tools/call` of MCP does: an object with `name` and, if
/// it has any, `arguments`, and nothing else.
pub(super) fn call_by_name(message: &v1::Message) -> Option<(String, Map<String, Value>)> {
    let mut objects = message.parts.iter().filter_map(json_of);
    let call = match (objects.next(), objects.next()) {
        (Some(only), None) => only,
        (Some(_), Some(_)) => return None,
        (None, _) => serde_json::from_str(&text_of(message)).ok()?,
    };
    let Value::Object(mut call) = call else {
        return None;
    };
    let name = call.remove("name")?.as_str()?.to_owned();
    let arguments = match call.remove("arguments") {
        None => Map::new(),
        Some(Value::Object(arguments)) => arguments,
        Some(_) => return None,
    };
    call.is_empty().then_some((name, arguments))
}

/// The names of the required parameters.
fn required(schema: &Map<String, Value>) -> Vec<&str> {
    let names = schema.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Whether a parameter may be a text.
fn takes_text(schema: &Map<String, Value>, name: &str) -> bool {
    let parameter = schema.get("properties").and_then(|all| all.get(name));
    parameter.is_some_and(is_string)
}

fn is_string(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "string",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        Some(_) => false,
        None => ["anyOf", "oneOf"].iter().any(|any| {
            let choices = schema.get(any).and_then(Value::as_array);
            choices.is_some_and(|choices| choices.iter().any(is_string))
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::parts::{data_part, raw_part};
    use crate::task_content::typed_text;

    fn called(schema: Value, parts: Vec<v1::Part>) -> Result<Value, String> {
        let Value::Object(schema) = schema else {
            panic!("{schema}")
        };
        let message = v1::Message {
            parts,
            ..v1::Message::default()
        };
        arguments("add", &schema, &message).map(Value::Object)
    }

    fn numbers() -> Value {
        json!({"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]})
    }

    fn city() -> Value {
        json!({"type": "object", "required": ["city"],
            "properties": {"city": {"type": "string"}, "unit": {"type": "string"}}})
    }

    fn text(text: &str) -> Vec<v1::Part> {
        vec![typed_text(text, "text/plain")]
    }

    #[test]
    fn an_object_is_the_arguments() {
        let object = json!({"a": 1, "b": 9_007_199_254_740_993_i64});
        assert_eq!(called(numbers(), vec![data_part(&object)]), Ok(object.clone()));
        assert_eq!(called(numbers(), text(&object.to_string())), Ok(object));
        // Text beside data is for people.
        let beside = vec![typed_text("please", "text/plain"), data_part(&json!({"a": 1}))];
        assert_eq!(called(numbers(), beside), Ok(json!({"a": 1})));
    }

    #[test]
    fn a_text_is_the_only_required_string() {
        assert_eq!(called(city(), text("Bern")), Ok(json!({"city": "Bern"})));
        assert_eq!(called(city(), text("[1]")), Ok(json!({"city": "[1]"})));
        for kind in [
            json!({"type": ["null", "string"]}),
            json!({"anyOf": [{"type": "null"}, {"type": "string"}]}),
        ] {
            let schema = json!({"properties": {"x": kind}, "required": ["x"]});
            assert_eq!(called(schema, text("t")), Ok(json!({"x": "t"})));
        }
    }

    #[test]
    fn nothing_is_the_arguments_of_a_tool_that_requires_none() {
        let none = json!({"type": "object", "properties": {"depth": {"type": "integer"}}});
        assert_eq!(called(none.clone(), Vec::new()), Ok(json!({})));
        assert!(called(none, text("now")).is_err());
    }

    #[test]
    fn a_call_may_name_its_tool() {
        let named = |parts| {
            call_by_name(&v1::Message {
                parts,
                ..v1::Message::default()
            })
        };
        let arguments = json!({"a": 1});
        let call = json!({"name": "add", "arguments": arguments});
        for parts in [vec![data_part(&call)], text(&call.to_string())] {
            let (tool, given) = named(parts).unwrap();
            assert_eq!((tool.as_str(), Value::Object(given)), ("add", arguments.clone()));
        }
        assert_eq!(
            named(text(r#"{"name": "now"}"#)),
            Some(("now".to_owned(), Map::new()))
        );
        for other in [
            json!({"name": "add", "arguments": [1]}),
            json!({"name": "add", "unit": "m"}),
            json!({"name": 7}),
            json!({"a": 1}),
            json!("add"),
        ] {
            assert_eq!(named(text(&other.to_string())), None, "{other}");
        }
    }

    #[test]
    fn everything_else_is_refused_with_the_schema() {
        let refusal = |schema: Value, parts| called(schema, parts).unwrap_err();
        let why = refusal(numbers(), text("1 and 2"));
        assert!(
            why.contains("the tool add") && why.contains(r#""required":["a","b"]"#),
            "{why}"
        );
        assert!(refusal(city(), Vec::new()).contains("it is empty"));
        assert!(refusal(city(), vec![data_part(&json!([1]))]).contains("no JSON object"));
        let file = vec![raw_part(vec![1], "a.bin", "")];
        assert!(refusal(city(), file).contains("no files"));
        let two = vec![data_part(&json!({"a": 1})), data_part(&json!({"b": 2}))];
        assert!(refusal(numbers(), two).contains("more than one"));
        let number = json!({"properties": {"n": {"type": "integer"}}, "required": ["n"]});
        assert!(called(number, text("seven")).is_err());
    }
}
