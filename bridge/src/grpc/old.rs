//! The messages of gRPC in 0.3 (package `a2a.v1`), and the JSON that they stand for: that of their protobuf, from which
//! `outbound::old` makes 0.3's own. PURE.

use agentanycast_proto::a2a_0_3::{
    Artifact, DataPart, FilePart, Message, Part, Role, SendMessageConfiguration, SendMessageRequest,
    SendMessageResponse, StreamResponse, Task, TaskStatus, file_part::File, part, send_message_response,
    stream_response::Payload,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::json::{list, object, put_list, put_struct, put_text, text, texts};
use crate::a2a::write_time;

/// A message to be sent.
pub(crate) fn to_send(json: &Value) -> SendMessageRequest {
    SendMessageRequest {
        request: json.get("message").map(to_message),
        configuration: json
            .get("configuration")
            .map(|configuration| SendMessageConfiguration {
                blocking: configuration["blocking"] == true,
                ..SendMessageConfiguration::default()
            }),
        metadata: object(json, "metadata"),
    }
}

fn to_message(json: &Value) -> Message {
    let role = Role::from_str_name(json["role"].as_str().unwrap_or_default());
    Message {
        message_id: text(json, "messageId"),
        context_id: text(json, "contextId"),
        task_id: text(json, "taskId"),
        role: role.unwrap_or_default().into(),
        content: list(json, "content", to_part),
        metadata: object(json, "metadata"),
        extensions: texts(json, "extensions"),
    }
}

fn to_part(json: &Value) -> Part {
    let content = if let Some(file) = json.get("file") {
        part::Part::File(to_file(file))
    } else if let Some(data) = json.get("data") {
        part::Part::Data(DataPart {
            data: object(data, "data"),
        })
    } else {
        part::Part::Text(text(json, "text"))
    };
    Part {
        part: Some(content),
        metadata: object(json, "metadata"),
    }
}

fn to_file(json: &Value) -> FilePart {
    let file = if let Some(uri) = json["fileWithUri"].as_str() {
        Some(File::FileWithUri(uri.to_owned()))
    } else {
        let bytes = STANDARD.decode(text(json, "fileWithBytes"));
        bytes.ok().map(File::FileWithBytes)
    };
    FilePart {
        file,
        mime_type: text(json, "mimeType"),
        name: text(json, "name"),
    }
}

/// What a message is answered with.
pub(crate) fn of_answer(answer: SendMessageResponse) -> Value {
    match answer.payload {
        Some(send_message_response::Payload::Task(task)) => json!({"task": of_task(task)}),
        Some(send_message_response::Payload::Msg(message)) => json!({"message": of_message(message)}),
        None => json!({}),
    }
}

/// An event of a stream.
pub(crate) fn of_event(event: StreamResponse) -> Value {
    match event.payload {
        Some(Payload::Task(task)) => json!({"task": of_task(task)}),
        Some(Payload::Msg(message)) => json!({"message": of_message(message)}),
        Some(Payload::StatusUpdate(update)) => {
            let mut json =
                json!({"taskId": update.task_id, "contextId": update.context_id, "final": update.r#final});
            if let Value::Object(json) = &mut json {
                if let Some(status) = update.status {
                    json.insert("status".to_owned(), of_status(status));
                }
                put_struct(json, "metadata", update.metadata.as_ref());
            }
            json!({ "statusUpdate": json })
        }
        Some(Payload::ArtifactUpdate(update)) => {
            let mut json = json!({
                "taskId": update.task_id,
                "contextId": update.context_id,
                "append": update.append,
                "lastChunk": update.last_chunk,
            });
            if let Value::Object(json) = &mut json {
                if let Some(artifact) = update.artifact {
                    json.insert("artifact".to_owned(), of_artifact(artifact));
                }
                put_struct(json, "metadata", update.metadata.as_ref());
            }
            json!({ "artifactUpdate": json })
        }
        None => json!({}),
    }
}

/// A task.
pub(crate) fn of_task(task: Task) -> Value {
    let mut json = json!({
        "id": task.id,
        "contextId": task.context_id,
        "artifacts": task.artifacts.into_iter().map(of_artifact).collect::<Vec<_>>(),
        "history": task.history.into_iter().map(of_message).collect::<Vec<_>>(),
    });
    if let Value::Object(json) = &mut json {
        if let Some(status) = task.status {
            json.insert("status".to_owned(), of_status(status));
        }
        put_struct(json, "metadata", task.metadata.as_ref());
    }
    json
}

fn of_status(status: TaskStatus) -> Value {
    let mut json = json!({"state": status.state().as_str_name()});
    if let Value::Object(json) = &mut json {
        // Some write an empty message where there is none.
        if let Some(message) = status.update.filter(|message| *message != Message::default()) {
            json.insert("message".to_owned(), of_message(message));
        }
        if let Some(time) = status.timestamp.as_ref().and_then(write_time) {
            json.insert("timestamp".to_owned(), time.into());
        }
    }
    json
}

fn of_message(message: Message) -> Value {
    let mut json = json!({
        "messageId": message.message_id,
        "role": Role::try_from(message.role).unwrap_or_default().as_str_name(),
        "content": message.content.into_iter().map(of_part).collect::<Vec<_>>(),
    });
    if let Value::Object(json) = &mut json {
        put_text(json, "contextId", message.context_id);
        put_text(json, "taskId", message.task_id);
        put_struct(json, "metadata", message.metadata.as_ref());
        put_list(json, "extensions", message.extensions);
    }
    json
}

fn of_artifact(artifact: Artifact) -> Value {
    let mut json = json!({
        "artifactId": artifact.artifact_id,
        "parts": artifact.parts.into_iter().map(of_part).collect::<Vec<_>>(),
    });
    if let Value::Object(json) = &mut json {
        put_text(json, "name", artifact.name);
        put_text(json, "description", artifact.description);
        put_struct(json, "metadata", artifact.metadata.as_ref());
        put_list(json, "extensions", artifact.extensions);
    }
    json
}

fn of_part(part: Part) -> Value {
    let mut json = match part.part {
        Some(part::Part::Text(text)) => json!({ "text": text }),
        Some(part::Part::File(file)) => json!({"file": of_file(file)}),
        Some(part::Part::Data(data)) => {
            let data = data.data.as_ref().map(crate::a2a::from_struct);
            json!({"data": {"data": data.unwrap_or_default()}})
        }
        None => json!({}),
    };
    if let Value::Object(json) = &mut json {
        put_struct(json, "metadata", part.metadata.as_ref());
    }
    json
}

fn of_file(file: FilePart) -> Value {
    let mut json = match file.file {
        Some(File::FileWithUri(uri)) => json!({ "fileWithUri": uri }),
        Some(File::FileWithBytes(bytes)) => json!({"fileWithBytes": STANDARD.encode(bytes)}),
        None => json!({}),
    };
    if let Value::Object(json) = &mut json {
        put_text(json, "mimeType", file.mime_type);
        put_text(json, "name", file.name);
    }
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_the_json_that_it_stands_for() {
        let message = json!({
            "messageId": "m", "contextId": "c", "taskId": "t", "role": "ROLE_USER",
            "content": [
                {"text": "hi", "metadata": {"n": 1}},
                {"file": {"fileWithBytes": "AP8Q", "name": "a.bin", "mimeType": "x/y"}},
                {"file": {"fileWithUri": "https://h/x"}},
                {"data": {"data": {"x": [true, null]}}},
            ],
            "metadata": {"k": ["v"]}, "extensions": ["urn:x"],
        });
        assert_eq!(of_message(to_message(&message)), message);
        let sent = to_send(&json!({"message": message, "configuration": {"blocking": true}}));
        assert_eq!(sent.request.map(of_message), Some(message));
        assert!(sent.configuration.unwrap().blocking);
    }
}
