//! 0.3 as REST and gRPC say it: JSON of its protobuf (package `a2a.v1`), which is neither 0.3's own JSON nor that of 1.0. PURE.
//!
//! The one rule: what goes out has no field that the protobuf lacks, since its readers refuse such; what comes in keeps
//! whatever it has.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

/// States whose word is not the protobuf's in small letters.
const STATES: [(&str, &str); 2] = [
    ("canceled", "TASK_STATE_CANCELLED"),
    ("unknown", "TASK_STATE_UNSPECIFIED"),
];

/// What every state begins with.
const STATE: &str = "TASK_STATE_";

/// The parameters that send a message, from those of JSON-RPC.
pub(crate) fn to_send(mut params: Value) -> Value {
    let message = params["message"].take();
    let mut sent = Map::from_iter([("message".to_owned(), to_message(message))]);
    for name in ["configuration", "metadata"] {
        if let Some(value) = params.get_mut(name) {
            sent.insert(name.to_owned(), value.take());
        }
    }
    Value::Object(sent)
}

fn to_message(mut message: Value) -> Value {
    let mut written = Map::new();
    for name in ["messageId", "contextId", "taskId", "metadata", "extensions"] {
        keep(&mut written, &mut message, name);
    }
    let role = if message["role"] == "user" {
        "ROLE_USER"
    } else {
        "ROLE_AGENT"
    };
    written.insert("role".to_owned(), role.into());
    let parts = match message["parts"].take() {
        Value::Array(parts) => parts,
        _ => Vec::new(),
    };
    written.insert("content".to_owned(), parts.into_iter().map(to_part).collect());
    Value::Object(written)
}

fn to_part(mut part: Value) -> Value {
    let mut written = Map::new();
    keep(&mut written, &mut part, "metadata");
    match part["kind"].as_str() {
        Some("file") => {
            let mut file = part["file"].take();
            let mut of_file = Map::new();
            for (from, to) in [("uri", "fileWithUri"), ("mimeType", "mimeType"), ("name", "name")] {
                if let Some(value) = file.get_mut(from) {
                    of_file.insert(to.to_owned(), value.take());
                }
            }
            if let Some(base64) = file["bytes"].as_str() {
                // The field's bytes are those of the text: so the official SDKs write and read it.
                of_file.insert("fileWithBytes".to_owned(), STANDARD.encode(base64).into());
            }
            written.insert("file".to_owned(), Value::Object(of_file));
        }
        Some("data") => {
            written.insert("data".to_owned(), json!({ "data": part["data"].take() }));
        }
        _ => keep(&mut written, &mut part, "text"),
    }
    Value::Object(written)
}

fn keep(written: &mut Map<String, Value>, from: &mut Value, name: &str) {
    if let Some(value) = from.get_mut(name).filter(|value| !value.is_null()) {
        written.insert(name.to_owned(), value.take());
    }
}

/// The answer to a message, or an event of a stream, as 0.3 has it.
pub(crate) fn from_event(mut event: Value) -> Value {
    let kinds = [
        ("task", from_task as fn(Value) -> Value),
        ("message", from_message),
        ("msg", from_message),
        ("statusUpdate", from_status_update),
        ("artifactUpdate", from_artifact_update),
    ];
    for (name, read) in kinds {
        if let Some(body) = event.get_mut(name) {
            return read(body.take());
        }
    }
    event
}

/// A task.
pub(crate) fn from_task(mut task: Value) -> Value {
    each(&mut task, "history", from_message);
    each(&mut task, "artifacts", from_artifact);
    within(&mut task, "status", from_status);
    of_kind(task, "task")
}

fn from_status_update(mut update: Value) -> Value {
    within(&mut update, "status", from_status);
    of_kind(update, "status-update")
}

fn from_artifact_update(mut update: Value) -> Value {
    within(&mut update, "artifact", from_artifact);
    of_kind(update, "artifact-update")
}

fn from_status(mut status: Value) -> Value {
    if let Some(word) = status["state"].as_str() {
        let known = STATES.iter().find(|(_, theirs)| *theirs == word);
        let state = known.map(|(ours, _)| (*ours).to_owned());
        let state = state.or_else(|| {
            let word = word.strip_prefix(STATE)?;
            Some(word.to_ascii_lowercase().replace('_', "-"))
        });
        if let Some(state) = state {
            status["state"] = state.into();
        }
    }
    if let Value::Object(status) = &mut status
        && let Some(update) = status.remove("update")
    {
        status.entry("message").or_insert(update);
    }
    within(&mut status, "message", from_message);
    status
}

fn from_message(mut message: Value) -> Value {
    let role = match message["role"].as_str() {
        Some("ROLE_USER") => Some("user"),
        Some("ROLE_AGENT") => Some("agent"),
        _ => None,
    };
    if let Some(role) = role {
        message["role"] = role.into();
    }
    if let Value::Object(message) = &mut message {
        let content = message.remove("content");
        message
            .entry("parts")
            .or_insert(content.unwrap_or_else(|| json!([])));
    }
    each(&mut message, "parts", from_part);
    of_kind(message, "message")
}

fn from_artifact(mut artifact: Value) -> Value {
    each(&mut artifact, "parts", from_part);
    artifact
}

fn from_part(mut part: Value) -> Value {
    if part.get("text").is_some() {
        return of_kind(part, "text");
    }
    if let Some(data) = part.get_mut("data") {
        *data = data.get_mut("data").map_or_else(|| json!({}), Value::take);
        return of_kind(part, "data");
    }
    let Some(file) = part.get_mut("file") else {
        return part;
    };
    if let Value::Object(file) = file {
        if let Some(uri) = file.remove("fileWithUri") {
            file.insert("uri".to_owned(), uri);
        }
        if let Some(bytes) = file.remove("fileWithBytes") {
            file.insert("bytes".to_owned(), from_bytes(bytes));
        }
    }
    of_kind(part, "file")
}

/// The base64 of a file: the field's bytes are those of that text, with most SDKs; else they are the file's own.
fn from_bytes(field: Value) -> Value {
    let inner = field
        .as_str()
        .and_then(|text| STANDARD.decode(text).ok())
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .filter(|text| STANDARD.decode(text).is_ok());
    inner.map_or(field, Value::from)
}

fn of_kind(mut value: Value, kind: &str) -> Value {
    if let Value::Object(fields) = &mut value {
        fields.insert("kind".to_owned(), kind.into());
    }
    value
}

fn within(value: &mut Value, name: &str, read: fn(Value) -> Value) {
    if let Some(inner) = value.get_mut(name).filter(|inner| inner.is_object()) {
        *inner = read(inner.take());
    }
}

fn each(value: &mut Value, name: &str, read: fn(Value) -> Value) {
    if let Some(Value::Array(items)) = value.get_mut(name) {
        for item in items.iter_mut().filter(|item| item.is_object()) {
            *item = read(item.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_message_is_written_as_the_protobuf_has_it() {
        let message = json!({"kind": "message", "messageId": "m", "role": "user", "contextId": "c", "later": 1, "parts": [
            {"kind": "text", "text": "hi", "metadata": {"k": 1}},
            {"kind": "file", "file": {"bytes": "AP8Q", "name": "a.bin", "mimeType": "x/y"}},
            {"kind": "file", "file": {"uri": "https://h/x"}},
            {"kind": "data", "data": {"a": [1]}},
        ]});
        let sent =
            to_send(json!({"message": message, "configuration": {"blocking": false}, "metadata": {"x": 1}}));
        assert_eq!(
            sent,
            json!({"configuration": {"blocking": false}, "metadata": {"x": 1}, "message": {
            "messageId": "m", "role": "ROLE_USER", "contextId": "c", "content": [
                {"text": "hi", "metadata": {"k": 1}},
                {"file": {"fileWithBytes": "QVA4UQ==", "name": "a.bin", "mimeType": "x/y"}},
                {"file": {"fileWithUri": "https://h/x"}},
                {"data": {"data": {"a": [1]}}},
            ]}})
        );
    }

    #[test]
    fn what_comes_is_0_3() {
        let message = json!({"messageId": "m", "role": "ROLE_AGENT", "content": [{"text": "hi"}]});
        let read = json!({"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": "hi"}]});
        for name in ["message", "msg"] {
            assert_eq!(from_event(json!({ name: message })), read);
        }
        for name in ["update", "message"] {
            let status = json!({"state": "TASK_STATE_INPUT_REQUIRED", name: message});
            let event = from_event(json!({"statusUpdate": {"taskId": "t", "status": status, "final": true}}));
            let status = json!({"state": "input-required", "message": read});
            assert_eq!(
                event,
                json!({"kind": "status-update", "taskId": "t", "status": status, "final": true})
            );
        }
        let artifact = json!({"artifactId": "a", "parts": [{"file": {"fileWithBytes": "QVA4UQ=="}}, {"data": {"data": {"a": 1}}}]});
        let event =
            from_event(json!({"artifactUpdate": {"taskId": "t", "artifact": artifact, "append": true}}));
        assert_eq!(event["kind"], "artifact-update");
        assert_eq!(
            event["artifact"]["parts"],
            json!([{"kind": "file", "file": {"bytes": "AP8Q"}}, {"kind": "data", "data": {"a": 1}}])
        );
        for (theirs, ours) in [
            ("TASK_STATE_CANCELLED", "canceled"),
            ("TASK_STATE_CANCELED", "canceled"),
            ("TASK_STATE_UNSPECIFIED", "unknown"),
            ("TASK_STATE_AUTH_REQUIRED", "auth-required"),
            ("later", "later"),
        ] {
            assert_eq!(
                from_task(json!({"status": {"state": theirs}}))["status"]["state"],
                ours
            );
        }
    }

    proptest! {
        /// A file comes back as it was sent, also from those who write its bytes as they are, unless these are base64
        /// themselves.
        #[test]
        fn files_come_back(bytes in proptest::collection::vec(any::<u8>(), 1..40)) {
            let base64 = STANDARD.encode(&bytes);
            let sent = to_part(json!({"kind": "file", "file": {"bytes": base64}}));
            prop_assert_eq!(&from_part(sent)["file"]["bytes"], &json!(base64));
            let is_base64 = std::str::from_utf8(&bytes).is_ok_and(|text| STANDARD.decode(text).is_ok());
            if !is_base64 {
                let plain = json!({"file": {"fileWithBytes": base64}});
                prop_assert_eq!(&from_part(plain)["file"]["bytes"], &json!(base64));
            }
        }

        /// Whatever somebody sends, it is read without a panic.
        #[test]
        fn odd_answers_are_no_harm(name in "(task|msg|message|statusUpdate|artifactUpdate|x)", inner in "(null|7|\"x\"|\\[1,null\\]|\\{\\})") {
            let inner: Value = serde_json::from_str(&inner).unwrap();
            let status = json!({"state": inner, "update": inner});
            for body in [
                inner.clone(),
                json!({"status": inner, "history": inner, "artifacts": [inner], "artifact": {"parts": [inner]}}),
                json!({"status": status, "parts": [{"file": inner}, {"data": inner}], "content": inner}),
            ] {
                let _ = from_event(json!({ name.as_str(): body }));
            }
        }
    }
}
