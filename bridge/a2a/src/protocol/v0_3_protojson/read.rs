//! What comes: the protobuf's JSON as 0.3's own. PURE.

use serde_json::{Map, Value, json};

use super::{FileEncoding, STATE, STATES, each};
use crate::protocol::error::A2aError;

/// The parameters that send a message, as JSON-RPC has them.
///
/// # Errors
/// When the message says nothing, in the names that whoever wrote it knows.
pub(crate) fn from_send(mut body: Value, files: FileEncoding) -> Result<Value, A2aError> {
    files.normalize(&mut body);
    // What is no object is refused by whoever reads it.
    let Value::Object(fields) = &mut body else {
        return Ok(body);
    };
    if let Some(message) = take(fields, ["message", "request"]) {
        check_content(&message)?;
        fields.insert("message".to_owned(), from_message(message));
    }
    let configuration = fields.remove("configuration").filter(|given| !given.is_null());
    let mut configuration = configuration.unwrap_or_else(|| json!({}));
    if let Value::Object(given) = &mut configuration {
        // What a protobuf leaves out is false.
        if given.get("blocking").is_none_or(Value::is_null) {
            given.insert("blocking".to_owned(), false.into());
        }
        if let Some(webhook) = take(given, ["pushNotification", "push_notification"]) {
            given.insert("pushNotificationConfig".to_owned(), webhook);
        }
    }
    fields.insert("configuration".to_owned(), configuration);
    Ok(body)
}

/// Checks that there is something in each part of a message.
fn check_content(message: &Value) -> Result<(), A2aError> {
    let Value::Object(fields) = message else {
        return Ok(());
    };
    let is_there = |value: &&Value| !value.is_null();
    let content = ["content", "parts"].map(|name| fields.get(name).filter(is_there));
    let Some(content) = content.into_iter().flatten().next() else {
        return Err(A2aError::params("message.content is missing"));
    };
    let Value::Array(parts) = content else {
        return Err(A2aError::params("message.content must be a list"));
    };
    let says = |part: &Value| {
        ["text", "file", "data"]
            .iter()
            .any(|name| part.get(name).is_some_and(|value| !value.is_null()))
    };
    match parts.iter().position(|part| !says(part)) {
        Some(at) => Err(A2aError::params(format!(
            "message.content[{at}] has neither text nor a file nor data"
        ))),
        None if parts.is_empty() => Err(A2aError::params("message.content is empty")),
        None => Ok(()),
    }
}

/// The parameters that set a webhook, as JSON-RPC has them; the task is in the path. Some write the request of gRPC,
/// some its field `config`, some what is in that.
pub(crate) fn from_webhook(mut body: Value) -> Value {
    let Value::Object(fields) = &mut body else {
        return body;
    };
    let id = take(fields, ["configId", "config_id"]);
    if let Some(config) = fields.remove("config").filter(Value::is_object) {
        body = config;
    }
    let inner = body
        .as_object_mut()
        .and_then(|config| take(config, ["pushNotificationConfig", "push_notification_config"]));
    let mut webhook = inner.unwrap_or(body);
    if let (Value::Object(webhook), Some(id)) = (&mut webhook, id)
        && webhook.get("id").is_none_or(|own| own.is_null() || own == "")
    {
        webhook.insert("id".to_owned(), id);
    }
    json!({ "pushNotificationConfig": webhook })
}

/// Takes the field out that has one of these names: protobuf's JSON has two for many.
fn take(fields: &mut Map<String, Value>, names: [&str; 2]) -> Option<Value> {
    let mut found = names.into_iter().filter_map(|name| fields.remove(name));
    found.find(|value| !value.is_null())
}

/// The answer to a message, or an event of a stream, as 0.3 has it.
pub(crate) fn from_event(mut event: Value, files: FileEncoding) -> Value {
    files.normalize(&mut event);
    let kinds = [
        ("task", read_task as fn(Value) -> Value),
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
pub(crate) fn from_task(mut task: Value, files: FileEncoding) -> Value {
    files.normalize(&mut task);
    read_task(task)
}

fn read_task(mut task: Value) -> Value {
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
    let names_kind = |name: &str| part.get(name).is_some_and(|kind| !kind.is_null());
    if names_kind("kind") || names_kind("type") {
        // In the words of 0.3's own JSON, or of before: some write those over REST too.
        return part;
    }
    if part.get("text").is_some() {
        return of_kind(part, "text");
    }
    if let Some(data) = part.get_mut("data") {
        if let Some(inner) = data.get_mut("data") {
            *data = inner.take();
        }
        return of_kind(part, "data");
    }
    let Some(file) = part.get_mut("file") else {
        return part;
    };
    if let Value::Object(file) = file {
        if let Some(uri) = take(file, ["fileWithUri", "file_with_uri"]) {
            file.insert("uri".to_owned(), uri);
        }
        if let Some(bytes) = take(file, ["fileWithBytes", "file_with_bytes"]) {
            file.insert("bytes".to_owned(), bytes);
        }
    }
    of_kind(part, "file")
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
