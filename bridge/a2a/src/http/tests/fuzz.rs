//! The front before a node of tests: queries, bodies of REST and messages of gRPC, changed at random. Whatever comes in is
//! answered, by a result or by an error in the words of its binding, and by none that means that something failed inside.

use agentanycast_front::path_segment::decode;
use agentanycast_gateway::fake::changed_json::{change as change_json, other};
use agentanycast_proto::{a2a, a2a_0_3};
use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use proptest::prelude::*;
use prost::Message;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::{Router, ask, documents, front};

thread_local! {
    static FRONT: (tokio::runtime::Runtime, Router) =
        (tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(), front());
}

/// Paths that are read, and such that take things back.
const PATHS: [(&str, &str); 16] = [
    ("GET", "/tasks"),
    ("GET", "/tasks/t0"),
    ("GET", "/acme/tasks/t0"),
    ("GET", "/tasks/t0:subscribe"),
    ("GET", "/tasks/t0/pushNotificationConfigs"),
    ("GET", "/tasks/t0/pushNotificationConfigs/p"),
    ("DELETE", "/tasks/t0/pushNotificationConfigs/p"),
    ("GET", "/extendedAgentCard"),
    ("GET", "/skills/echo/tasks"),
    ("GET", "/v1/tasks"),
    ("GET", "/v1/tasks/t0"),
    ("GET", "/acme/v1/tasks/t0:subscribe"),
    ("GET", "/v1/tasks/t0/pushNotificationConfigs"),
    ("GET", "/v1/tasks/t0/pushNotificationConfigs/p"),
    ("DELETE", "/v1/tasks/t0/pushNotificationConfigs/p"),
    ("GET", "/skills/echo/v1/card"),
];

/// What REST of 0.3 takes, all well-formed: the JSON of its protobuf.
fn old_bodies() -> Vec<(&'static str, Value)> {
    let content = json!([
        {"text": "hi", "metadata": {"k": 1}},
        {"file": {"fileWithBytes": "QVA4UQ==", "name": "a.bin", "mimeType": "x/y"}},
        {"data": {"data": {"n": 1}}},
    ]);
    let webhook = json!({"id": "p", "url": "https://example.org", "token": "x",
        "authentication": {"schemes": ["Bearer"], "credentials": "y"}});
    let configuration = json!({"blocking": true, "historyLength": 1, "acceptedOutputModes": ["text/plain"],
        "pushNotification": webhook});
    let message = json!({"messageId": "m", "role": "ROLE_USER", "content": content, "contextId": "c",
        "metadata": {"x": [1]}, "extensions": ["urn:x"]});
    let send = json!({"message": message, "configuration": configuration, "metadata": {"a": "b"}});
    let config = json!({"name": "tasks/t0/pushNotificationConfigs/p", "pushNotificationConfig": webhook});
    let set = json!({"parent": "tasks/t0", "configId": "p", "config": config});
    vec![
        ("/v1/message:send", send.clone()),
        ("/v1/message:stream", send),
        ("/v1/tasks/t0:cancel", json!({"name": "tasks/t0"})),
        ("/v1/tasks/t0:subscribe", json!({"name": "tasks/t0"})),
        ("/v1/tasks/t0/pushNotificationConfigs", set),
        ("/acme/v1/tasks/t0/pushNotificationConfigs", config),
    ]
}

/// Whether a status says that the request was wrong: 0.3 also says so of what the task does not allow.
fn is_refusal(status: StatusCode) -> bool {
    status.is_client_error() || status == StatusCode::NOT_IMPLEMENTED
}

fn parameter() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        8 => proptest::sample::select(vec![
            "pageSize", "pageToken", "status", "statusTimestampAfter", "contextId", "includeArtifacts",
            "historyLength", "tenant", "id", "A2A-Version", "page_size",
        ])
        .prop_map(str::to_owned),
        1 => "[ -~]{0,10}",
    ];
    let value = prop_oneof![
        proptest::sample::select(vec![
            "1",
            "0",
            "-1",
            "101",
            "1e2",
            "true",
            "TASK_STATE_COMPLETED",
            "completed",
            "2025-01-01T00:00:00Z",
            "5:t5",
            "9223372036854775808:x",
            ":",
            "%ff",
            "%zz",
            "%",
            "%00",
            "1.0",
            "0.3",
            "t0",
        ])
        .prop_map(str::to_owned),
        "[a-zA-Z0-9%+:_-]{0,20}",
        (500..700_usize).prop_map(|length| "x".repeat(length)),
    ];
    (name, value).prop_map(|(name, value)| {
        format!(
            "{}={value}",
            name.replace(['#', ' ', '&', '"', '<', '>', '`', '{', '}', '|', '\\', '^'], "")
        )
    })
}

/// A call of gRPC.
#[derive(Clone, Debug)]
struct GrpcCall {
    service: &'static str,
    method: &'static str,
    message: Vec<u8>,
    /// Whether bytes are a message of the method at all.
    is_one: fn(&[u8]) -> bool,
}

fn call_of<M: Message + Default>(method: &'static str, message: &M) -> GrpcCall {
    GrpcCall {
        service: "lf.a2a.v1.A2AService",
        method,
        message: message.encode_to_vec(),
        is_one: |bytes| M::decode(bytes).is_ok(),
    }
}

/// The same in 0.3.
fn old_calls() -> Vec<GrpcCall> {
    let part = |part| a2a_0_3::Part {
        part: Some(part),
        ..a2a_0_3::Part::default()
    };
    let file = a2a_0_3::FilePart {
        file: Some(a2a_0_3::file_part::File::FileWithBytes(b"AP8Q".to_vec())),
        ..a2a_0_3::FilePart::default()
    };
    let message = a2a_0_3::Message {
        message_id: "m".to_owned(),
        role: a2a_0_3::Role::User.into(),
        content: vec![
            part(a2a_0_3::part::Part::Text("hi".to_owned())),
            part(a2a_0_3::part::Part::File(file)),
        ],
        ..a2a_0_3::Message::default()
    };
    let webhook = a2a_0_3::PushNotificationConfig {
        id: "p".to_owned(),
        url: "https://example.org".to_owned(),
        ..a2a_0_3::PushNotificationConfig::default()
    };
    let send = a2a_0_3::SendMessageRequest {
        request: Some(message),
        configuration: Some(a2a_0_3::SendMessageConfiguration {
            push_notification: Some(webhook.clone()),
            history_length: 1,
            blocking: true,
            ..a2a_0_3::SendMessageConfiguration::default()
        }),
        ..a2a_0_3::SendMessageRequest::default()
    };
    let (task, config) = (
        "tasks/t0".to_owned(),
        "tasks/t0/pushNotificationConfigs/p".to_owned(),
    );
    let set = a2a_0_3::CreateTaskPushNotificationConfigRequest {
        parent: task.clone(),
        config_id: "p".to_owned(),
        config: Some(a2a_0_3::TaskPushNotificationConfig {
            name: config.clone(),
            push_notification_config: Some(webhook),
        }),
    };
    let get = a2a_0_3::GetTaskRequest {
        name: task.clone(),
        history_length: 1,
    };
    let list = a2a_0_3::ListTaskPushNotificationConfigRequest {
        parent: task.clone(),
        page_size: 2,
        page_token: String::new(),
    };
    let calls = [
        call_of("SendMessage", &send),
        call_of("SendStreamingMessage", &send),
        call_of("GetTask", &get),
        call_of("CancelTask", &a2a_0_3::CancelTaskRequest { name: task.clone() }),
        call_of(
            "TaskSubscription",
            &a2a_0_3::TaskSubscriptionRequest { name: task },
        ),
        call_of("CreateTaskPushNotificationConfig", &set),
        call_of(
            "GetTaskPushNotificationConfig",
            &a2a_0_3::GetTaskPushNotificationConfigRequest { name: config.clone() },
        ),
        call_of("ListTaskPushNotificationConfig", &list),
        call_of(
            "DeleteTaskPushNotificationConfig",
            &a2a_0_3::DeleteTaskPushNotificationConfigRequest { name: config },
        ),
        call_of("GetAgentCard", &a2a_0_3::GetAgentCardRequest {}),
    ];
    let of_0_3 = |call| GrpcCall {
        service: "a2a.v1.A2AService",
        ..call
    };
    calls.into_iter().map(of_0_3).collect()
}

/// Calls of every method of gRPC, all well-formed.
fn calls() -> Vec<GrpcCall> {
    let part = |content| a2a::Part {
        content: Some(content),
        ..a2a::Part::default()
    };
    let message = a2a::Message {
        message_id: "m".to_owned(),
        role: a2a::Role::User.into(),
        parts: vec![
            part(a2a::part::Content::Text("hi".to_owned())),
            part(a2a::part::Content::Raw(vec![0, 255])),
        ],
        ..a2a::Message::default()
    };
    let send = a2a::SendMessageRequest {
        message: Some(message),
        ..a2a::SendMessageRequest::default()
    };
    let (id, task_id) = ("t0".to_owned(), "t0".to_owned());
    let get = a2a::GetTaskRequest {
        id: id.clone(),
        history_length: Some(1),
        ..a2a::GetTaskRequest::default()
    };
    let list = a2a::ListTasksRequest {
        page_size: Some(3),
        page_token: "5:t5".to_owned(),
        ..a2a::ListTasksRequest::default()
    };
    let cancel = a2a::CancelTaskRequest {
        id: id.clone(),
        ..a2a::CancelTaskRequest::default()
    };
    let subscribe = a2a::SubscribeToTaskRequest {
        id,
        ..a2a::SubscribeToTaskRequest::default()
    };
    let webhook = a2a::TaskPushNotificationConfig {
        task_id: task_id.clone(),
        url: "https://example.org".to_owned(),
        ..a2a::TaskPushNotificationConfig::default()
    };
    let get_webhook = a2a::GetTaskPushNotificationConfigRequest {
        task_id: task_id.clone(),
        id: "p".to_owned(),
        ..a2a::GetTaskPushNotificationConfigRequest::default()
    };
    let list_webhooks = a2a::ListTaskPushNotificationConfigsRequest {
        task_id: task_id.clone(),
        page_size: 2,
        ..a2a::ListTaskPushNotificationConfigsRequest::default()
    };
    let delete_webhook = a2a::DeleteTaskPushNotificationConfigRequest {
        task_id,
        id: "p".to_owned(),
        ..a2a::DeleteTaskPushNotificationConfigRequest::default()
    };
    vec![
        call_of("SendMessage", &send),
        call_of("SendStreamingMessage", &send),
        call_of("GetTask", &get),
        call_of("ListTasks", &list),
        call_of("CancelTask", &cancel),
        call_of("SubscribeToTask", &subscribe),
        call_of("CreateTaskPushNotificationConfig", &webhook),
        call_of("GetTaskPushNotificationConfig", &get_webhook),
        call_of("ListTaskPushNotificationConfigs", &list_webhooks),
        call_of("DeleteTaskPushNotificationConfig", &delete_webhook),
        call_of(
            "GetExtendedAgentCard",
            &a2a::GetExtendedAgentCardRequest::default(),
        ),
    ]
}

/// What is done to the bytes of a message.
#[derive(Clone, Debug)]
enum ByteMutation {
    Set(usize, u8),
    Insert(usize, Vec<u8>),
    Cut(usize, usize),
}

fn change() -> impl Strategy<Value = ByteMutation> {
    prop_oneof![
        (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| ByteMutation::Set(at, byte)),
        (any::<usize>(), proptest::collection::vec(any::<u8>(), 1..6))
            .prop_map(|(at, bytes)| ByteMutation::Insert(at, bytes)),
        (any::<usize>(), 1..8_usize).prop_map(|(at, length)| ByteMutation::Cut(at, length)),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: &ByteMutation) {
    let place = |at: usize| at % (bytes.len() + 1);
    match change {
        ByteMutation::Set(at, byte) => {
            let at = place(*at);
            if let Some(old) = bytes.get_mut(at) {
                *old = *byte;
            }
        }
        ByteMutation::Insert(at, new) => {
            let at = place(*at);
            bytes.splice(at..at, new.iter().copied());
        }
        ByteMutation::Cut(at, length) => {
            let at = place(*at);
            let end = (at + length).min(bytes.len());
            bytes.drain(at..end);
        }
    }
}

/// Makes a call of gRPC; the status of its end, and its text.
pub(super) async fn make(
    front: &Router,
    service: &str,
    method: &str,
    message: &[u8],
    version: Option<&str>,
) -> Option<(i32, String)> {
    let mut frame = vec![0];
    frame.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.extend(message);
    let mut request = Request::post(format!("http://localhost/{service}/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    if let Some(version) = version {
        request = request.header("a2a-version", version);
    }
    let response = front
        .clone()
        .oneshot(request.body(Body::from(frame)).unwrap())
        .await
        .unwrap();
    assert_eq!(response.status(), http::StatusCode::OK);
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap();
    let said = |name: &str| {
        let value = head.headers.get(name).or_else(|| body.trailers()?.get(name));
        value?.to_str().ok()
    };
    let text = said("grpc-message").and_then(decode).unwrap_or_default();
    Some((said("grpc-status")?.parse().ok()?, text))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn every_query_is_answered(
        (verb, path) in proptest::sample::select(PATHS.to_vec()),
        parameters in proptest::collection::vec(parameter(), 0..4),
        odd in "[!-~]{0,6}",
    ) {
        let tail = odd.replace(['#', '"', '<', '>', '`', '{', '}', '|', '\\', '^'], "");
        let path = format!("{path}?{}{tail}", parameters.join("&"));
        let is_old = path.contains("/v1/");
        let version = if is_old { "" } else { "1.0" };
        FRONT.with(|(runtime, front)| {
            let (status, media_type, answer) =
                runtime.block_on(ask(front, verb, &path, version, String::new()));
            let is_fine = status.is_success() || status.is_client_error() || (is_old && is_refusal(status));
            prop_assert!(is_fine, "{verb} {path}: {status} {answer}");
            if !status.is_success() {
                let error: Value = serde_json::from_str(&answer).unwrap();
                if is_old {
                    prop_assert!(error["code"].is_i64() && error["message"].is_string(), "{error}");
                } else {
                    prop_assert_eq!(&error["error"]["code"], status.as_u16());
                    prop_assert!(error["error"]["details"][0]["reason"].is_string(), "{error}");
                }
                prop_assert_eq!(media_type, "application/json");
            }
            Ok(())
        })?;
    }

    #[test]
    fn every_body_of_old_rest_is_answered(
        (path, mut body) in proptest::sample::select(old_bodies()),
        changes in proptest::collection::vec((0..40_usize, other()), 0..3),
        cut in proptest::option::weighted(0.05, 0..200_usize),
        version in proptest::sample::select(vec!["", "0.3", "0.3.0"]),
    ) {
        for (mut at, to) in changes {
            change_json(&mut body, &mut at, &to);
        }
        let mut text = body.to_string();
        if let Some(cut) = cut {
            text = text.chars().take(cut).collect();
        }
        FRONT.with(|(runtime, front)| {
            let (status, media_type, answer) = runtime.block_on(ask(front, "POST", path, version, text.clone()));
            prop_assert!(status.is_success() || is_refusal(status), "{path} {text}: {status} {answer}");
            for document in documents(&media_type, &answer) {
                let is_error = document["code"].is_i64() && document["message"].is_string();
                prop_assert_eq!(is_error, !status.is_success(), "{} {}: {}", path, text, document);
                prop_assert!(document.get("kind").is_none(), "{document}");
            }
            Ok(())
        })?;
    }

    #[test]
    fn every_message_of_grpc_is_answered(
        call in proptest::sample::select([calls(), old_calls()].concat()),
        changes in proptest::collection::vec(change(), 0..4),
        odd_version in proptest::option::weighted(0.2, proptest::sample::select(vec!["1.0", "0.3", "", "x"])),
    ) {
        let GrpcCall { service, method, mut message, is_one } = call;
        let is_old = service == "a2a.v1.A2AService";
        let version = odd_version.or((!is_old).then_some("1.0"));
        for change in &changes {
            apply(&mut message, change);
        }
        FRONT.with(|(runtime, front)| {
            let status = runtime.block_on(make(front, service, method, &message, version));
            let (status, _) = status.unwrap_or_else(|| panic!("{method} has no end"));
            // OK, INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, in 0.3 UNIMPLEMENTED; and INTERNAL,
            // by which gRPC says that bytes are no message.
            let is_fine = [0, 3, 5, 8, 9].contains(&status)
                || (status == 12 && is_old)
                || (status == 13 && !is_one(&message));
            prop_assert!(is_fine, "{method} {message:?}: {status}");
            Ok(())
        })?;
    }
}
