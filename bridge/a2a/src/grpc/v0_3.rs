//! The messages of gRPC in 0.3 (package `a2a.v1`), and the JSON that they stand for: that of their protobuf, from which
//! `a2a::old` makes 0.3's own. PURE, but for `service`, the binding.

mod card;
mod service;

use agentanycast_proto::{
    a2a_0_3::{
        Artifact, AuthenticationInfo, DataPart, FilePart, ListTaskPushNotificationConfigResponse, Message,
        Part, PushNotificationConfig, Role, SendMessageConfiguration, SendMessageRequest,
        SendMessageResponse, StreamResponse, Task, TaskArtifactUpdateEvent, TaskPushNotificationConfig,
        TaskState, TaskStatus, TaskStatusUpdateEvent, file_part::File, part, send_message_response,
        stream_response::Payload,
    },
    json::{NotJson, try_from_struct},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::json::{each, in_field, list, object, put_list, put_struct, put_text, text, texts};
use crate::protocol::{read_time, write_time};

/// What sends a message.
fn from_send(request: SendMessageRequest) -> Result<Value, NotJson> {
    let mut json = Map::new();
    if let Some(message) = request.request {
        json.insert("message".to_owned(), in_field("message", from_message(message))?);
    }
    put_struct(&mut json, "metadata", request.metadata.as_ref())?;
    if let Some(given) = request.configuration {
        let mut configuration = Map::new();
        put_list(
            &mut configuration,
            "acceptedOutputModes",
            given.accepted_output_modes,
        );
        configuration.insert("blocking".to_owned(), given.blocking.into());
        // The protobuf cannot tell none from all.
        if given.history_length != 0 {
            configuration.insert("historyLength".to_owned(), given.history_length.into());
        }
        if let Some(webhook) = given.push_notification {
            configuration.insert("pushNotification".to_owned(), from_webhook(webhook));
        }
        json.insert("configuration".to_owned(), Value::Object(configuration));
    }
    Ok(Value::Object(json))
}

/// Where somebody wants to be told of a task.
fn from_webhook(webhook: PushNotificationConfig) -> Value {
    let mut json = json!({"id": webhook.id, "url": webhook.url, "token": webhook.token});
    if let Some(AuthenticationInfo { schemes, credentials }) = webhook.authentication {
        json["authentication"] = json!({ "schemes": schemes, "credentials": credentials });
    }
    json
}

fn to_webhook(json: &Value) -> TaskPushNotificationConfig {
    let webhook = json
        .get("pushNotificationConfig")
        .map(|webhook| PushNotificationConfig {
            id: text(webhook, "id"),
            url: text(webhook, "url"),
            token: text(webhook, "token"),
            authentication: webhook.get("authentication").map(|given| AuthenticationInfo {
                schemes: texts(given, "schemes"),
                credentials: text(given, "credentials"),
            }),
        });
    TaskPushNotificationConfig {
        name: text(json, "name"),
        push_notification_config: webhook,
    }
}

fn to_webhooks(json: &Value) -> ListTaskPushNotificationConfigResponse {
    ListTaskPushNotificationConfigResponse {
        configs: list(json, "configs", to_webhook),
        next_page_token: text(json, "nextPageToken"),
    }
}

/// What a message is answered with.
fn to_answer(json: &Value) -> SendMessageResponse {
    use send_message_response::Payload as Sent;
    let task = json.get("task").map(|task| Sent::Task(to_task(task)));
    let message = || json.get("message").map(|message| Sent::Msg(to_message(message)));
    SendMessageResponse {
        payload: task.or_else(message),
    }
}

fn to_event(json: &Value) -> StreamResponse {
    let payload = if let Some(task) = json.get("task") {
        Some(Payload::Task(to_task(task)))
    } else if let Some(message) = json.get("message") {
        Some(Payload::Msg(to_message(message)))
    } else if let Some(update) = json.get("statusUpdate") {
        Some(Payload::StatusUpdate(TaskStatusUpdateEvent {
            task_id: text(update, "taskId"),
            context_id: text(update, "contextId"),
            status: update.get("status").map(to_status),
            r#final: update["final"] == true,
            metadata: object(update, "metadata"),
        }))
    } else {
        json.get("artifactUpdate").map(|update| {
            Payload::ArtifactUpdate(TaskArtifactUpdateEvent {
                task_id: text(update, "taskId"),
                context_id: text(update, "contextId"),
                artifact: update.get("artifact").map(to_artifact),
                append: update["append"] == true,
                last_chunk: update["lastChunk"] == true,
                metadata: object(update, "metadata"),
            })
        })
    };
    StreamResponse { payload }
}

fn to_task(json: &Value) -> Task {
    Task {
        id: text(json, "id"),
        context_id: text(json, "contextId"),
        status: json.get("status").map(to_status),
        artifacts: list(json, "artifacts", to_artifact),
        history: list(json, "history", to_message),
        metadata: object(json, "metadata"),
    }
}

fn to_status(json: &Value) -> TaskStatus {
    let state = TaskState::from_str_name(json["state"].as_str().unwrap_or_default());
    TaskStatus {
        state: state.unwrap_or_default().into(),
        update: json.get("message").map(to_message),
        timestamp: json["timestamp"].as_str().and_then(read_time),
    }
}

fn to_artifact(json: &Value) -> Artifact {
    Artifact {
        artifact_id: text(json, "artifactId"),
        name: text(json, "name"),
        description: text(json, "description"),
        parts: list(json, "parts", to_part),
        metadata: object(json, "metadata"),
        extensions: texts(json, "extensions"),
    }
}

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
pub(crate) fn from_answer(answer: SendMessageResponse) -> Result<Value, NotJson> {
    Ok(match answer.payload {
        Some(send_message_response::Payload::Task(task)) => {
            json!({"task": in_field("task", from_task(task))?})
        }
        Some(send_message_response::Payload::Msg(message)) => {
            json!({"message": in_field("message", from_message(message))?})
        }
        None => json!({}),
    })
}

/// An event of a stream.
pub(crate) fn from_event(event: StreamResponse) -> Result<Value, NotJson> {
    Ok(match event.payload {
        Some(Payload::Task(task)) => json!({"task": in_field("task", from_task(task))?}),
        Some(Payload::Msg(message)) => json!({"message": in_field("message", from_message(message))?}),
        Some(Payload::StatusUpdate(update)) => {
            let mut json =
                json!({"taskId": update.task_id, "contextId": update.context_id, "final": update.r#final});
            if let Value::Object(json) = &mut json {
                if let Some(status) = update.status {
                    json.insert("status".to_owned(), in_field("status", from_status(status))?);
                }
                put_struct(json, "metadata", update.metadata.as_ref())?;
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
                    json.insert(
                        "artifact".to_owned(),
                        in_field("artifact", from_artifact(artifact))?,
                    );
                }
                put_struct(json, "metadata", update.metadata.as_ref())?;
            }
            json!({ "artifactUpdate": json })
        }
        None => json!({}),
    })
}

/// A task.
pub(crate) fn from_task(task: Task) -> Result<Value, NotJson> {
    let mut json = json!({
        "id": task.id,
        "contextId": task.context_id,
        "artifacts": each("artifacts", task.artifacts, from_artifact)?,
        "history": each("history", task.history, from_message)?,
    });
    if let Value::Object(json) = &mut json {
        if let Some(status) = task.status {
            json.insert("status".to_owned(), in_field("status", from_status(status))?);
        }
        put_struct(json, "metadata", task.metadata.as_ref())?;
    }
    Ok(json)
}

fn from_status(status: TaskStatus) -> Result<Value, NotJson> {
    // The number of a state that there is not is told as it is.
    let state = TaskState::try_from(status.state);
    let state = state.map_or_else(|_| status.state.into(), |state| Value::from(state.as_str_name()));
    let mut json = json!({ "state": state });
    if let Value::Object(json) = &mut json {
        // Some write an empty message where there is none.
        if let Some(message) = status.update.filter(|message| *message != Message::default()) {
            json.insert("message".to_owned(), in_field("message", from_message(message))?);
        }
        if let Some(time) = status.timestamp.as_ref().and_then(write_time) {
            json.insert("timestamp".to_owned(), time.into());
        }
    }
    Ok(json)
}

/// A role by its name; the number of one that there is not is told as it is.
fn role(number: i32) -> Value {
    let role = Role::try_from(number);
    role.map_or_else(|_| number.into(), |role| role.as_str_name().into())
}

fn from_message(message: Message) -> Result<Value, NotJson> {
    let mut json = json!({
        "messageId": message.message_id,
        "role": role(message.role),
        "content": each("content", message.content, from_part)?,
    });
    if let Value::Object(json) = &mut json {
        put_text(json, "contextId", message.context_id);
        put_text(json, "taskId", message.task_id);
        put_struct(json, "metadata", message.metadata.as_ref())?;
        put_list(json, "extensions", message.extensions);
    }
    Ok(json)
}

fn from_artifact(artifact: Artifact) -> Result<Value, NotJson> {
    let mut json = json!({
        "artifactId": artifact.artifact_id,
        "parts": each("parts", artifact.parts, from_part)?,
    });
    if let Value::Object(json) = &mut json {
        put_text(json, "name", artifact.name);
        put_text(json, "description", artifact.description);
        put_struct(json, "metadata", artifact.metadata.as_ref())?;
        put_list(json, "extensions", artifact.extensions);
    }
    Ok(json)
}

fn from_part(part: Part) -> Result<Value, NotJson> {
    let mut json = match part.part {
        Some(part::Part::Text(text)) => json!({ "text": text }),
        Some(part::Part::File(file)) => json!({"file": from_file(file)}),
        Some(part::Part::Data(data)) => {
            let data = try_from_struct(&data.data.unwrap_or_default());
            json!({"data": {"data": in_field("data.data", data)?}})
        }
        None => json!({}),
    };
    if let Value::Object(json) = &mut json {
        put_struct(json, "metadata", part.metadata.as_ref())?;
    }
    Ok(json)
}

fn from_file(file: FilePart) -> Value {
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
        assert_eq!(from_message(to_message(&message)).unwrap(), message);
        let sent = to_send(&json!({"message": message, "configuration": {"blocking": true}}));
        assert!(sent.configuration.clone().unwrap().blocking);
        assert_eq!(from_send(sent).unwrap()["message"], message);
        let mut odd = to_message(&message);
        let not_a_number = prost_types::value::Kind::NumberValue(f64::NAN);
        odd.content[3].part = Some(part::Part::Data(DataPart {
            data: Some(prost_types::Struct {
                fields: [(
                    "x".to_owned(),
                    prost_types::Value {
                        kind: Some(not_a_number),
                    },
                )]
                .into(),
            }),
        }));
        let said = from_message(odd).unwrap_err().to_string();
        assert!(said.starts_with("content[3].data.data.x is NaN, "), "{said}");
    }

    #[test]
    fn what_a_message_comes_with_is_there() {
        let webhook = json!({"id": "w", "url": "https://h", "token": "t",
            "authentication": {"schemes": ["Bearer"], "credentials": "x"}});
        let request = SendMessageRequest {
            configuration: Some(SendMessageConfiguration {
                accepted_output_modes: vec!["text/plain".to_owned()],
                history_length: 2,
                push_notification: to_webhook(&json!({ "pushNotificationConfig": webhook }))
                    .push_notification_config,
                ..SendMessageConfiguration::default()
            }),
            ..SendMessageRequest::default()
        };
        let configuration = json!({"acceptedOutputModes": ["text/plain"], "blocking": false, "historyLength": 2,
            "pushNotification": webhook});
        assert_eq!(
            from_send(request).unwrap(),
            json!({ "configuration": configuration })
        );
        let nothing = SendMessageRequest {
            configuration: Some(SendMessageConfiguration::default()),
            ..SendMessageRequest::default()
        };
        assert_eq!(
            from_send(nothing).unwrap(),
            json!({"configuration": {"blocking": false}})
        );
    }

    #[test]
    fn what_is_told_is_the_json_that_it_stands_for() {
        let message = json!({"messageId": "m", "role": "ROLE_AGENT", "content": [{"text": "hi"}]});
        let status = json!({"state": "TASK_STATE_CANCELLED", "message": message, "timestamp": "2025-01-02T03:04:05.678Z"});
        let artifact = json!({"artifactId": "a", "name": "n", "parts": [{"file": {"fileWithUri": "https://h/x"}}],
            "metadata": {"k": 1}});
        let task = json!({"id": "t", "contextId": "c", "status": status, "artifacts": [artifact], "history": [message],
            "metadata": {"k": [true]}});
        for event in [
            json!({ "task": task }),
            json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": status, "final": true}}),
            json!({"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": artifact, "append": true,
                "lastChunk": false}}),
        ] {
            assert_eq!(from_event(to_event(&event)).unwrap(), event);
        }
        let sent = json!({ "task": task });
        assert_eq!(from_answer(to_answer(&sent)).unwrap(), sent);
    }
}
