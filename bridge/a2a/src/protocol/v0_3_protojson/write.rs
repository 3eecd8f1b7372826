//! What goes out: 0.3's own JSON as the protobuf's. PURE.

use agentanycast_proto::a2a_0_3::TaskState;
use serde_json::{Map, Value, json};

use super::{FileEncoding, STATE, STATES, each};
use crate::protocol::{
    encode::{self, A2aResponse, object},
    read_time,
    version::Version,
};

/// What a request is answered with.
pub(crate) fn answer(answer: A2aResponse, files: FileEncoding) -> Value {
    files.encode(write_answer(answer))
}

fn write_answer(answer: A2aResponse) -> Value {
    let rendered = |answer| encode::answer(Version::V03, answer);
    match answer {
        A2aResponse::Sent(..) => write_event(rendered(answer)),
        A2aResponse::Task(..) | A2aResponse::Legacy(..) => to_task(rendered(answer)),
        A2aResponse::Tasks(_) => {
            let mut page = rendered(answer);
            each(&mut page, "tasks", to_task);
            page
        }
        A2aResponse::Webhook(..) => to_webhook(rendered(answer)),
        A2aResponse::Webhooks(all, next) => {
            let all = all
                .into_iter()
                .map(|(task_id, webhook)| to_webhook(rendered(A2aResponse::Webhook(task_id, webhook))));
            object([("configs", all.collect()), ("nextPageToken", next.into())])
        }
        A2aResponse::Card(card) => card,
        A2aResponse::Done => json!({}),
    }
}

/// An event of a stream.
pub(crate) fn to_event(event: Value, files: FileEncoding) -> Value {
    files.encode(write_event(event))
}

fn write_event(mut event: Value) -> Value {
    let mut written = Map::new();
    let body = &mut event;
    match body["kind"].as_str() {
        Some("status-update") => {
            keep(&mut written, body, &["taskId", "contextId"], Value::is_string);
            keep(&mut written, body, &["final"], Value::is_boolean);
            keep(&mut written, body, &["metadata"], Value::is_object);
            written.insert("status".to_owned(), to_status(taken(body, "status")));
            object([("statusUpdate", Value::Object(written))])
        }
        Some("artifact-update") => {
            keep(&mut written, body, &["taskId", "contextId"], Value::is_string);
            keep(&mut written, body, &["append", "lastChunk"], Value::is_boolean);
            keep(&mut written, body, &["metadata"], Value::is_object);
            written.insert("artifact".to_owned(), to_artifact(taken(body, "artifact")));
            object([("artifactUpdate", Value::Object(written))])
        }
        Some("message") => object([("message", to_message(event))]),
        _ => object([("task", to_task(event))]),
    }
}

fn to_task(mut task: Value) -> Value {
    let mut written = Map::new();
    keep(&mut written, &mut task, &["id", "contextId"], Value::is_string);
    keep(&mut written, &mut task, &["metadata"], Value::is_object);
    written.insert("status".to_owned(), to_status(taken(&mut task, "status")));
    each(&mut task, "artifacts", to_artifact);
    each(&mut task, "history", to_message);
    keep(
        &mut written,
        &mut task,
        &["artifacts", "history"],
        Value::is_array,
    );
    Value::Object(written)
}

fn to_status(mut status: Value) -> Value {
    let mut written = Map::new();
    let state = status["state"].as_str().unwrap_or("unknown");
    let known = STATES.iter().find(|(ours, _)| *ours == state);
    let state = known.map_or_else(
        || format!("{STATE}{}", state.to_ascii_uppercase().replace('-', "_")),
        |(_, theirs)| (*theirs).to_owned(),
    );
    let state = TaskState::from_str_name(&state).unwrap_or_default();
    written.insert("state".to_owned(), state.as_str_name().into());
    keep(&mut written, &mut status, &["timestamp"], |time| {
        time.as_str().is_some_and(|text| read_time(text).is_some())
    });
    if status["message"].is_object() {
        written.insert("message".to_owned(), to_message(taken(&mut status, "message")));
    }
    Value::Object(written)
}

fn to_artifact(mut artifact: Value) -> Value {
    let mut written = Map::new();
    let texts = ["artifactId", "name", "description"];
    keep(&mut written, &mut artifact, &texts, Value::is_string);
    keep(&mut written, &mut artifact, &["metadata"], Value::is_object);
    keep(&mut written, &mut artifact, &["extensions"], is_texts);
    written.insert("parts".to_owned(), to_parts(taken(&mut artifact, "parts")));
    Value::Object(written)
}

fn to_webhook(mut webhook: Value) -> Value {
    let config = taken(&mut webhook, "pushNotificationConfig");
    let task_id = webhook["taskId"].as_str().unwrap_or_default();
    let id = config["id"].as_str().unwrap_or_default();
    let name = format!("tasks/{task_id}/pushNotificationConfigs/{id}");
    object([("name", name.into()), ("pushNotificationConfig", config)])
}

/// The parameters that send a message, from those of JSON-RPC.
pub(crate) fn to_send(mut params: Value, files: FileEncoding) -> Value {
    let message = taken(&mut params, "message");
    let mut sent = Map::from_iter([("message".to_owned(), to_message(message))]);
    for name in ["configuration", "metadata"] {
        if let Some(value) = params.get_mut(name) {
            sent.insert(name.to_owned(), value.take());
        }
    }
    files.encode(Value::Object(sent))
}

fn to_message(mut message: Value) -> Value {
    let mut written = Map::new();
    let texts = ["messageId", "contextId", "taskId"];
    keep(&mut written, &mut message, &texts, Value::is_string);
    keep(&mut written, &mut message, &["metadata"], Value::is_object);
    keep(&mut written, &mut message, &["extensions"], is_texts);
    let role = if message["role"] == "user" {
        "ROLE_USER"
    } else {
        "ROLE_AGENT"
    };
    written.insert("role".to_owned(), role.into());
    written.insert("content".to_owned(), to_parts(taken(&mut message, "parts")));
    Value::Object(written)
}

fn to_part(mut part: Value) -> Value {
    let mut written = Map::new();
    keep(&mut written, &mut part, &["metadata"], Value::is_object);
    match part["kind"].as_str() {
        Some("file") => {
            let mut file = taken(&mut part, "file");
            let mut of_file = Map::new();
            for (from, to) in [
                ("uri", "fileWithUri"),
                ("bytes", "fileWithBytes"),
                ("mimeType", "mimeType"),
                ("name", "name"),
            ] {
                if let Some(value) = file.get_mut(from) {
                    of_file.insert(to.to_owned(), value.take());
                }
            }
            written.insert("file".to_owned(), Value::Object(of_file));
        }
        Some("data") => {
            written.insert("data".to_owned(), object([("data", taken(&mut part, "data"))]));
        }
        _ => keep(&mut written, &mut part, &["text"], Value::is_string),
    }
    Value::Object(written)
}

fn to_parts(parts: Value) -> Value {
    match parts {
        Value::Array(parts) => parts.into_iter().map(to_part).collect(),
        _ => json!([]),
    }
}

/// The field; `Null` if there is none.
fn taken(from: &mut Value, name: &str) -> Value {
    from.get_mut(name).map(Value::take).unwrap_or_default()
}

/// Keeps fields that are as the protobuf has them.
fn keep(written: &mut Map<String, Value>, from: &mut Value, names: &[&str], fits: fn(&Value) -> bool) {
    for name in names {
        if let Some(value) = from.get_mut(name).filter(|value| fits(value)) {
            written.insert((*name).to_owned(), value.take());
        }
    }
}

fn is_texts(value: &Value) -> bool {
    value
        .as_array()
        .is_some_and(|items| items.iter().all(Value::is_string))
}
