//! The messages of A2A's gRPC binding as the JSON that they stand for, and back. PURE.
//!
//! So all bindings go through the same code: what a request means, and what an answer looks like, is decided in JSON.
//! The one rule: what JSON cannot write (NaN, infinities) is an error that names it, never something else.

use agentanycast_proto::{
    a2a::{
        Artifact, AuthenticationInfo, ListTaskPushNotificationConfigsResponse, ListTasksRequest,
        ListTasksResponse, Message, Part, Role, SendMessageConfiguration, SendMessageRequest, StreamResponse,
        Task, TaskArtifactUpdateEvent, TaskPushNotificationConfig, TaskState, TaskStatus,
        TaskStatusUpdateEvent, part::Content, stream_response::Payload,
    },
    json::{NotJson, try_from_proto, try_from_struct},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use prost_types::Struct;
use serde_json::{Map, Value, json};

use crate::protocol::{error::A2aError, read_time, to_proto, to_struct, write_time};

/// The parameters that send a message.
pub(super) fn from_send(request: SendMessageRequest) -> Result<Value, NotJson> {
    let mut params = Map::new();
    params.insert("tenant".to_owned(), request.tenant.into());
    if let Some(message) = request.message {
        params.insert("message".to_owned(), in_field("message", from_message(message))?);
    }
    put_struct(&mut params, "metadata", request.metadata.as_ref())?;
    if let Some(configuration) = request.configuration {
        let mut json = json!({
            "acceptedOutputModes": configuration.accepted_output_modes,
            "historyLength": configuration.history_length,
            "returnImmediately": configuration.return_immediately,
        });
        if let Some(webhook) = configuration.task_push_notification_config {
            json["taskPushNotificationConfig"] = from_webhook(webhook);
        }
        params.insert("configuration".to_owned(), json);
    }
    Ok(Value::Object(params))
}

/// The parameters that set a webhook.
pub(super) fn from_webhook(webhook: TaskPushNotificationConfig) -> Value {
    let mut json = json!({
        "tenant": webhook.tenant,
        "id": webhook.id,
        "taskId": webhook.task_id,
        "url": webhook.url,
        "token": webhook.token,
    });
    if let Some(AuthenticationInfo { scheme, credentials }) = webhook.authentication {
        json["authentication"] = json!({ "scheme": scheme, "credentials": credentials });
    }
    json
}

/// A webhook that was rendered; its tenant is that of the request, which may name an agent.
pub(super) fn to_webhook(json: &Value, tenant: &str) -> TaskPushNotificationConfig {
    TaskPushNotificationConfig {
        tenant: tenant.to_owned(),
        id: text(json, "id"),
        task_id: text(json, "taskId"),
        url: text(json, "url"),
        token: text(json, "token"),
        authentication: json
            .get("authentication")
            .map(|authentication| AuthenticationInfo {
                scheme: text(authentication, "scheme"),
                credentials: text(authentication, "credentials"),
            }),
    }
}

/// Webhooks that were rendered.
pub(super) fn to_webhooks(json: &Value, tenant: &str) -> ListTaskPushNotificationConfigsResponse {
    ListTaskPushNotificationConfigsResponse {
        configs: list(json, "configs", |webhook| to_webhook(webhook, tenant)),
        next_page_token: text(json, "nextPageToken"),
    }
}

/// The parameters that list tasks.
pub(super) fn from_list(request: &ListTasksRequest) -> Result<Value, A2aError> {
    let state = TaskState::try_from(request.status).map_err(|_| {
        A2aError::params(format!(
            "status {} is no state that a task can have",
            request.status
        ))
    })?;
    Ok(json!({
        "tenant": request.tenant,
        "contextId": request.context_id,
        "status": state.as_str_name(),
        "pageSize": request.page_size,
        "pageToken": request.page_token,
        "historyLength": request.history_length,
        "statusTimestampAfter": request.status_timestamp_after.as_ref().and_then(write_time),
        "includeArtifacts": request.include_artifacts,
    }))
}

/// The parameters that send a message, as a message.
pub(crate) fn to_send(params: &Value) -> SendMessageRequest {
    let configuration = params.get("configuration").map(|given| SendMessageConfiguration {
        return_immediately: given["returnImmediately"] == true,
        ..SendMessageConfiguration::default()
    });
    SendMessageRequest {
        tenant: text(params, "tenant"),
        message: params.get("message").map(to_message),
        configuration,
        metadata: object(params, "metadata"),
    }
}

/// A task as JSON.
pub(crate) fn from_task(task: Task) -> Result<Value, NotJson> {
    let mut json = json!({"id": task.id, "contextId": task.context_id});
    if let Value::Object(json) = &mut json {
        if let Some(status) = task.status {
            json.insert("status".to_owned(), in_field("status", from_status(status))?);
        }
        if !task.artifacts.is_empty() {
            json.insert(
                "artifacts".to_owned(),
                each("artifacts", task.artifacts, from_artifact)?,
            );
        }
        if !task.history.is_empty() {
            json.insert("history".to_owned(), each("history", task.history, from_message)?);
        }
        put_struct(json, "metadata", task.metadata.as_ref())?;
    }
    Ok(json)
}

/// An event of a stream as JSON.
pub(crate) fn from_event(event: StreamResponse) -> Result<Value, NotJson> {
    Ok(match event.payload {
        Some(Payload::Task(task)) => json!({"task": in_field("task", from_task(task))?}),
        Some(Payload::Message(message)) => json!({"message": in_field("message", from_message(message))?}),
        Some(Payload::StatusUpdate(update)) => {
            let mut json = json!({"taskId": update.task_id, "contextId": update.context_id});
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

fn from_status(status: TaskStatus) -> Result<Value, NotJson> {
    // The number of a state that there is not is told as it is.
    let state = TaskState::try_from(status.state);
    let state = state.map_or_else(|_| status.state.into(), |state| Value::from(state.as_str_name()));
    let mut json = json!({ "state": state });
    if let Value::Object(json) = &mut json {
        if let Some(message) = status.message {
            json.insert("message".to_owned(), in_field("message", from_message(message))?);
        }
        if let Some(time) = status.timestamp.as_ref().and_then(write_time) {
            json.insert("timestamp".to_owned(), time.into());
        }
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

/// A role by its name; the number of one that there is not is told as it is.
fn role(number: i32) -> Value {
    let role = Role::try_from(number);
    role.map_or_else(|_| number.into(), |role| role.as_str_name().into())
}

/// A message as JSON.
pub(crate) fn from_message(message: Message) -> Result<Value, NotJson> {
    let mut json = json!({
        "messageId": message.message_id,
        "contextId": message.context_id,
        "taskId": message.task_id,
        "role": role(message.role),
        "parts": each("parts", message.parts, from_part)?,
    });
    if let Value::Object(json) = &mut json {
        put_struct(json, "metadata", message.metadata.as_ref())?;
        put_list(json, "extensions", message.extensions);
        put_list(json, "referenceTaskIds", message.reference_task_ids);
    }
    Ok(json)
}

fn from_part(part: Part) -> Result<Value, NotJson> {
    let mut json = Map::new();
    match part.content {
        Some(Content::Text(text)) => json.insert("text".to_owned(), text.into()),
        Some(Content::Raw(raw)) => json.insert("raw".to_owned(), STANDARD.encode(raw).into()),
        Some(Content::Url(url)) => json.insert("url".to_owned(), url.into()),
        Some(Content::Data(data)) => {
            let data = in_field("data", try_from_proto(&data))?;
            json.insert("data".to_owned(), data)
        }
        None => None,
    };
    put_struct(&mut json, "metadata", part.metadata.as_ref())?;
    put_text(&mut json, "filename", part.filename);
    put_text(&mut json, "mediaType", part.media_type);
    Ok(Value::Object(json))
}

pub(super) fn put_text(json: &mut Map<String, Value>, name: &str, text: String) {
    if !text.is_empty() {
        json.insert(name.to_owned(), text.into());
    }
}

pub(super) fn put_list(json: &mut Map<String, Value>, name: &str, list: Vec<String>) {
    if !list.is_empty() {
        json.insert(name.to_owned(), list.into());
    }
}

pub(super) fn put_struct(
    json: &mut Map<String, Value>,
    name: &str,
    data: Option<&Struct>,
) -> Result<(), NotJson> {
    if let Some(data) = data {
        json.insert(
            name.to_owned(),
            Value::Object(in_field(name, try_from_struct(data))?),
        );
    }
    Ok(())
}

/// What is the content of a field: what is wrong with it is in that.
pub(super) fn in_field<T>(name: &str, made: Result<T, NotJson>) -> Result<T, NotJson> {
    made.map_err(|wrong| wrong.within(name))
}

/// A list, in a field of this name.
pub(super) fn each<T>(
    name: &str,
    items: Vec<T>,
    of: impl Fn(T) -> Result<Value, NotJson>,
) -> Result<Value, NotJson> {
    let items = items.into_iter().enumerate();
    items
        .map(|(at, item)| of(item).map_err(|wrong| wrong.within(&format!("{name}[{at}]"))))
        .collect()
}

/// A task that was rendered.
pub(super) fn to_task(json: &Value) -> Task {
    Task {
        id: text(json, "id"),
        context_id: text(json, "contextId"),
        status: json.get("status").map(to_status),
        artifacts: list(json, "artifacts", to_artifact),
        history: list(json, "history", to_message),
        metadata: object(json, "metadata"),
    }
}

/// A page of tasks that was rendered.
pub(super) fn to_page(json: &Value) -> ListTasksResponse {
    let number = |name: &str| json[name].as_i64().and_then(|number| i32::try_from(number).ok());
    ListTasksResponse {
        tasks: list(json, "tasks", to_task),
        next_page_token: text(json, "nextPageToken"),
        page_size: number("pageSize").unwrap_or_default(),
        total_size: number("totalSize").unwrap_or(i32::MAX),
    }
}

/// An event that was rendered.
pub(super) fn to_event(json: &Value) -> StreamResponse {
    let payload = if let Some(task) = json.get("task") {
        Some(Payload::Task(to_task(task)))
    } else if let Some(message) = json.get("message") {
        Some(Payload::Message(to_message(message)))
    } else if let Some(update) = json.get("statusUpdate") {
        Some(Payload::StatusUpdate(TaskStatusUpdateEvent {
            task_id: text(update, "taskId"),
            context_id: text(update, "contextId"),
            status: update.get("status").map(to_status),
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

fn to_status(json: &Value) -> TaskStatus {
    let state = TaskState::from_str_name(json["state"].as_str().unwrap_or_default());
    let time = json["timestamp"].as_str().and_then(read_time);
    TaskStatus {
        state: state.unwrap_or_default().into(),
        message: json.get("message").map(to_message),
        timestamp: time,
    }
}

pub(super) fn to_message(json: &Value) -> Message {
    let role = Role::from_str_name(json["role"].as_str().unwrap_or_default());
    Message {
        message_id: text(json, "messageId"),
        context_id: text(json, "contextId"),
        task_id: text(json, "taskId"),
        role: role.unwrap_or_default().into(),
        parts: list(json, "parts", to_part),
        metadata: object(json, "metadata"),
        extensions: texts(json, "extensions"),
        reference_task_ids: texts(json, "referenceTaskIds"),
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

fn to_part(json: &Value) -> Part {
    let content = if let Some(text) = json["text"].as_str() {
        Some(Content::Text(text.to_owned()))
    } else if let Some(raw) = json["raw"].as_str() {
        STANDARD.decode(raw).ok().map(Content::Raw)
    } else if let Some(url) = json["url"].as_str() {
        Some(Content::Url(url.to_owned()))
    } else {
        json.get("data").map(|data| Content::Data(to_proto(data.clone())))
    };
    Part {
        content,
        metadata: object(json, "metadata"),
        filename: text(json, "filename"),
        media_type: text(json, "mediaType"),
    }
}

pub(super) fn text(json: &Value, name: &str) -> String {
    json[name].as_str().unwrap_or_default().to_owned()
}

pub(super) fn texts(json: &Value, name: &str) -> Vec<String> {
    list(json, name, |value| value.as_str().unwrap_or_default().to_owned())
}

pub(super) fn list<T>(json: &Value, name: &str, read: impl Fn(&Value) -> T) -> Vec<T> {
    json[name].as_array().into_iter().flatten().map(read).collect()
}

pub(super) fn object(json: &Value, name: &str) -> Option<Struct> {
    json[name].as_object().cloned().map(to_struct)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_the_json_that_it_stands_for() {
        let json = json!({
            "messageId": "m", "contextId": "c", "taskId": "t", "role": "ROLE_USER",
            "parts": [
                {"text": "hi", "mediaType": "text/plain", "metadata": {"n": 1}},
                {"raw": "AP8Q", "filename": "a.bin"},
                {"url": "https://example.org"},
                {"data": [1, null, {"x": true}]},
            ],
            "metadata": {"k": ["v"]}, "extensions": ["urn:x"], "referenceTaskIds": ["t0"],
        });
        assert_eq!(from_message(to_message(&json)).unwrap(), json);
        let request = SendMessageRequest {
            message: Some(to_message(&json)),
            ..SendMessageRequest::default()
        };
        assert_eq!(
            from_send(request).unwrap(),
            json!({"tenant": "", "message": json})
        );
    }

    #[test]
    fn a_state_that_there_is_not_lists_nothing() {
        let of = |status| {
            from_list(&ListTasksRequest {
                status,
                ..ListTasksRequest::default()
            })
        };
        assert_eq!(of(0).unwrap()["status"], "TASK_STATE_UNSPECIFIED");
        assert_eq!(
            of(TaskState::Working.into()).unwrap()["status"],
            "TASK_STATE_WORKING"
        );
        let error = of(99).unwrap_err().to_string();
        assert!(error.contains("99"), "{error}");
    }

    #[test]
    fn a_number_that_json_cannot_write_is_named() {
        let bad = prost_types::Value {
            kind: Some(prost_types::value::Kind::NumberValue(f64::NAN)),
        };
        let part = Part {
            content: Some(Content::Data(bad.clone())),
            ..Part::default()
        };
        let message = Message {
            parts: vec![Part::default(), part],
            ..Message::default()
        };
        let task = Task {
            status: Some(TaskStatus {
                message: Some(message.clone()),
                ..TaskStatus::default()
            }),
            ..Task::default()
        };
        let send = SendMessageRequest {
            message: Some(message),
            ..SendMessageRequest::default()
        };
        let labels = SendMessageRequest {
            metadata: Some(Struct {
                fields: [("n".to_owned(), bad)].into(),
            }),
            ..SendMessageRequest::default()
        };
        let event = StreamResponse {
            payload: Some(Payload::Task(task)),
        };
        for (made, named) in [
            (from_send(send), "message.parts[1].data"),
            (from_send(labels), "metadata.n"),
            (from_event(event), "task.status.message.parts[1].data"),
        ] {
            let said = made.unwrap_err().to_string();
            assert!(said.starts_with(&format!("{named} is NaN, ")), "{said}");
        }
    }

    #[test]
    fn what_agents_outside_say_is_the_json_that_it_stands_for() {
        let status = json!({"state": "TASK_STATE_WORKING", "timestamp": "2025-01-02T03:04:05.678Z"});
        let artifact = json!({"artifactId": "a", "name": "n", "description": "d", "parts": [{"text": "x"}],
            "metadata": {"k": 1}, "extensions": ["urn:x"]});
        let task = json!({"id": "t", "contextId": "c", "status": status, "artifacts": [artifact]});
        for event in [
            json!({ "task": task }),
            json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": status, "metadata": {"k": [1]}}}),
            json!({"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": artifact, "append": true,
                "lastChunk": false}}),
        ] {
            assert_eq!(from_event(to_event(&event)).unwrap(), event);
        }
        let message =
            json!({"messageId": "m", "contextId": "", "taskId": "", "role": "ROLE_USER", "parts": []});
        let send = json!({"tenant": "t", "message": message, "metadata": {"k": 1},
            "configuration": {"returnImmediately": true}});
        let request = to_send(&send);
        assert!(
            request
                .configuration
                .as_ref()
                .is_some_and(|given| given.return_immediately)
        );
        let mut back = from_send(request).unwrap();
        back["configuration"] = json!({"returnImmediately": back["configuration"]["returnImmediately"]});
        assert_eq!(back, send);
    }

    #[test]
    fn numbers_that_stand_for_nothing_are_told() {
        let message = Message {
            role: 42,
            ..Message::default()
        };
        assert_eq!(from_message(message).unwrap()["role"], 42);
        let task = Task {
            status: Some(TaskStatus {
                state: 42,
                ..TaskStatus::default()
            }),
            ..Task::default()
        };
        assert_eq!(from_task(task).unwrap()["status"]["state"], 42);
    }

    #[test]
    fn answers_are_whole() {
        let status = json!({"state": "TASK_STATE_WORKING", "timestamp": "2025-01-02T03:04:05.678Z"});
        let artifact = json!({"artifactId": "a", "name": "n", "parts": [{"text": "x"}]});
        let task = to_task(
            &json!({"id": "t", "contextId": "c", "status": status, "artifacts": [artifact],
            "metadata": {"k": 1}}),
        );
        assert_eq!(task.status.as_ref().unwrap().state(), TaskState::Working);
        assert_eq!(task.status.unwrap().timestamp.unwrap().nanos, 678_000_000);
        assert_eq!(
            task.artifacts[0].parts[0].content,
            Some(Content::Text("x".to_owned()))
        );
        let event =
            to_event(&json!({"artifactUpdate": {"taskId": "t", "artifact": artifact, "append": true}}));
        let Some(Payload::ArtifactUpdate(update)) = event.payload else {
            panic!("{event:?}")
        };
        assert!(update.append && !update.last_chunk && update.artifact.is_some());
    }
}
