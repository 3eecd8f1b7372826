//! What a message of a server is. PURE.

use serde_json::{Map, Value, json};

use crate::failure::McpFailure;

/// Longest text of an error of a server that is shown, in characters.
const MOST_WORDS: usize = 2000;

/// A message of a server.
#[derive(Debug, PartialEq)]
pub(crate) enum Message {
    /// An answer to our request; `None`: it does not say to which.
    Answer(Option<u64>, Result<Value, McpFailure>),
    /// A request of the server.
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    /// A notification.
    Notification { method: String, params: Value },
    /// No message of JSON-RPC.
    Other,
}

/// The messages of a document: one, or those of a batch.
pub(crate) fn messages(document: Value) -> Vec<Message> {
    match document {
        Value::Array(batch) => batch.into_iter().map(message).collect(),
        one => vec![message(one)],
    }
}

fn message(value: Value) -> Message {
    let Value::Object(mut object) = value else {
        return Message::Other;
    };
    let id = object.remove("id").unwrap_or_default();
    if let Some(Value::String(method)) = object.remove("method") {
        let params = object.remove("params").unwrap_or_default();
        return if id.is_null() {
            Message::Notification { method, params }
        } else {
            Message::Request { id, method, params }
        };
    }
    let own = own_id(&id);
    match (object.remove("error"), object.remove("result")) {
        (None | Some(Value::Null), Some(result)) => Message::Answer(own, Ok(result)),
        (Some(error), _) if !error.is_null() => Message::Answer(own, Err(refusal(&error))),
        _ => Message::Other,
    }
}

/// The id of a request of ours: servers write a number as text, or with a fraction of zero.
pub(crate) fn own_id(id: &Value) -> Option<u64> {
    match id {
        Value::Number(number) => number.as_u64().or_else(|| {
            number
                .as_f64()
                .filter(|n| n.fract() == 0.0 && *n >= 0.0)
                .map(|n| n as u64)
        }),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// An error of JSON-RPC as a failure: its message, and its data where it has any.
pub(crate) fn refusal(error: &Value) -> McpFailure {
    let message = match error.get("message").unwrap_or(error) {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let text = match error.get("data") {
        None | Some(Value::Null) => message,
        Some(data) => format!("{message} ({data})"),
    };
    let text = text
        .char_indices()
        .nth(MOST_WORDS)
        .map_or(text.as_str(), |(end, _)| &text[..end]);
    McpFailure::refused(
        error.get("code").and_then(Value::as_i64).unwrap_or_default(),
        text,
    )
}

/// A request of ours.
pub(crate) fn request(id: u64, method: &str, params: Map<String, Value>) -> Value {
    let params = Value::Object(params);
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A notification of ours.
pub(crate) fn notification(method: &str, params: Option<Value>) -> Value {
    match params {
        Some(params) => json!({"jsonrpc": "2.0", "method": method, "params": params}),
        None => json!({"jsonrpc": "2.0", "method": method}),
    }
}

/// The answer to a request of the server.
pub(crate) fn answer(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// The refusal of a request of the server.
pub(crate) fn no_such_method(id: &Value, method: &str) -> Value {
    let message = format!("this client does not offer {method}");
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": message}})
}

/// Progress for people: its message, or how far it is.
pub(crate) fn progress_text(params: &Value) -> Option<String> {
    if let Some(Value::String(text)) = params.get("message") {
        return Some(text.clone());
    }
    let progress = params.get("progress").filter(|value| value.is_number())?;
    Some(match params.get("total").filter(|value| value.is_number()) {
        Some(total) => format!("{progress} of {total}"),
        None => progress.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FailureKind;

    fn one(value: Value) -> Message {
        messages(value).remove(0)
    }

    #[test]
    fn answers_are_known_by_their_ids_however_they_are_written() {
        for id in [json!(7), json!("7"), json!(7.0)] {
            let answer = one(json!({"id": id, "result": {"a": 1}, "error": null}));
            assert_eq!(answer, Message::Answer(Some(7), Ok(json!({"a": 1}))));
        }
        for id in [json!(null), json!("seven"), json!(-7), json!([7])] {
            assert_eq!(
                one(json!({"id": id, "result": {}})),
                Message::Answer(None, Ok(json!({})))
            );
        }
        let batch = messages(json!([{"id": 1, "result": {}}, 5, {"method": "x"}]));
        assert_eq!(batch.len(), 3);
        assert_eq!(batch[1], Message::Other);
    }

    #[test]
    fn an_error_is_its_words() {
        let refused = |error: Value| match one(json!({"id": 1, "error": error, "result": {}})) {
            Message::Answer(Some(1), Err(failure)) => (failure.kind(), failure.code(), failure.to_string()),
            other => panic!("{other:?}"),
        };
        let whole = json!({"code": -32602, "message": "no such city", "data": {"city": "X"}});
        assert_eq!(
            refused(whole),
            (
                FailureKind::Refused,
                Some(-32602),
                r#"no such city ({"city":"X"})"#.to_owned()
            )
        );
        assert_eq!(refused(json!("broken")).2, "broken");
        assert_eq!(refused(json!({"code": "x"})).2, r#"{"code":"x"}"#);
        assert_eq!(
            refused(json!({"message": "ä".repeat(5000)})).2.chars().count(),
            MOST_WORDS
        );
    }

    #[test]
    fn requests_have_ids_and_notifications_none() {
        assert!(matches!(
            one(json!({"id": 0, "method": "ping"})),
            Message::Request { .. }
        ));
        assert!(matches!(
            one(json!({"method": "x"})),
            Message::Notification { .. }
        ));
        assert_eq!(one(json!({"level": "info", "id": 1})), Message::Other);
        assert_eq!(one(json!({"id": 1, "error": null})), Message::Other);
    }
}
