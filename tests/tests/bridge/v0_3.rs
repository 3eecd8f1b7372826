//! REST and gRPC of 0.3: paths, the JSON of the protobuf, errors, and how gRPC finds an agent.

use agentanycast_proto::a2a_0_3::{
    CreateTaskPushNotificationConfigRequest, DeleteTaskPushNotificationConfigRequest, FilePart,
    GetAgentCardRequest, GetTaskPushNotificationConfigRequest, GetTaskRequest,
    ListTaskPushNotificationConfigRequest, Message, Part, PushNotificationConfig, Role,
    SendMessageConfiguration, SendMessageRequest, TaskPushNotificationConfig, TaskState,
    a2a_service_client::A2aServiceClient, file_part::File, part, send_message_response::Payload,
};
use agentanycast_tests::{Bridge, bridge::collect_events, webhook_receiver::WebhookReceiver};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::setup::{BRIDGE_MODES, BridgeSetup, texts};

/// What sends a message, and waits.
fn send(text: &str) -> Value {
    json!({"message": said(text), "configuration": {"blocking": true}})
}

fn said(text: &str) -> Value {
    json!({"messageId": format!("m-{text}"), "role": "ROLE_USER", "content": [{"text": text}]})
}

#[tokio::test]
async fn a_task_is_sent_read_listed_and_ended() {
    for carrier in BRIDGE_MODES {
        let scene = BridgeSetup::talking_by(carrier).await;
        let client = scene.old_client();
        let file = json!({"file": {"fileWithBytes": "QVA4UQ==", "name": "a.bin", "mimeType": "x/y"}});
        let mut message = said("echo hello");
        message["content"] =
            json!([{"text": "echo hello", "metadata": {"k": "v"}}, file, {"data": {"data": {"n": 1}}}]);
        let sent = json!({"message": message, "configuration": {"blocking": true}});
        let answer = client.post("/v1/message:send", &sent).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        assert_eq!(answer.headers["content-type"], "application/json");
        let task = &answer.body["task"];
        assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED");
        assert_eq!(texts(task), ["echo hello", "hello"]);
        assert_eq!(task["history"][0]["content"], message["content"]);
        assert_eq!(task["artifacts"][0]["parts"], message["content"]);

        let path = format!("/v1/tasks/{}", task["id"].as_str().unwrap());
        assert_eq!(client.get(&path).await.body, *task);
        let short = client.get(&format!("{path}?historyLength=0")).await.body;
        assert!(
            short.get("history").is_none_or(|history| *history == json!([])),
            "{short}"
        );
        let page = client.get("/v1/tasks?pageSize=1").await.body;
        assert_eq!(page["tasks"][0]["id"], task["id"]);
        assert_eq!(
            (&page["totalSize"], &page["nextPageToken"]),
            (&json!(1), &json!(""))
        );

        // It does not wait unless it is told to.
        let slow = client
            .post("/v1/message:send", &json!({"message": said("wait")}))
            .await
            .body;
        let path = format!("/v1/tasks/{}:cancel", slow["task"]["id"].as_str().unwrap());
        let ended = client.post(&path, &json!({})).await;
        assert_eq!(
            ended.body["status"]["state"], "TASK_STATE_CANCELLED",
            "{}",
            ended.body
        );
        let again = client.post(&path, &json!({})).await;
        assert_eq!(
            (again.status, &again.body["code"]),
            (StatusCode::CONFLICT, &json!(-32002))
        );
    }
}

#[tokio::test]
async fn a_stream_ends_with_what_is_final() {
    for carrier in BRIDGE_MODES {
        let scene = BridgeSetup::talking_by(carrier).await;
        let client = scene.old_client();
        let events = client
            .events(
                Method::POST,
                "/v1/message:stream",
                &json!({"message": said("steps")}),
            )
            .await;
        let events = collect_events(events).await;
        assert_eq!(events[0]["task"]["history"][0]["role"], "ROLE_USER", "{events:?}");
        let last = &events.last().unwrap()["statusUpdate"];
        assert_eq!(
            (&last["status"]["state"], &last["final"]),
            (&json!("TASK_STATE_COMPLETED"), &json!(true))
        );
        assert!(
            events
                .iter()
                .any(|event| event["artifactUpdate"]["artifact"]["parts"][0]["text"] == "done")
        );

        let asked = client.post("/v1/message:send", &send("ask")).await.body;
        assert_eq!(
            asked["task"]["status"]["message"]["content"][0]["text"], "Which one?",
            "{asked}"
        );
        let id = asked["task"]["id"].as_str().unwrap();
        let path = format!("/v1/tasks/{id}:subscribe");
        for method in [Method::GET, Method::POST] {
            let mut stream = client.events(method, &path, &Value::Null).await;
            assert_eq!(stream.event().await["task"]["id"], id);
        }
        let stream = client.events(Method::GET, &path, &Value::Null).await;
        let mut answer = said("red");
        answer["taskId"] = id.into();
        let done = client
            .post(
                "/v1/message:send",
                &json!({"message": answer, "configuration": {"blocking": true}}),
            )
            .await;
        assert_eq!(texts(&done.body["task"]), ["You said red"], "{}", done.body);
        let events = collect_events(stream).await;
        assert_eq!(
            events.last().unwrap()["statusUpdate"]["final"],
            true,
            "{events:?}"
        );
        let over = client.get(&path).await;
        assert_eq!(
            (over.status, &over.body["code"]),
            (StatusCode::NOT_IMPLEMENTED, &json!(-32004))
        );
    }
}

#[tokio::test]
async fn webhooks_are_set_read_listed_and_deleted() {
    let scene = BridgeSetup::by(crate::setup::BridgeMode::Grpc, crate::setup::talk).await;
    let client = scene.old_client();
    let mut webhook = WebhookReceiver::start().await;
    let asked = client.post("/v1/message:send", &send("ask")).await.body;
    let id = asked["task"]["id"].as_str().unwrap();
    let path = format!("/v1/tasks/{id}/pushNotificationConfigs");
    let config = json!({"id": "mine", "url": webhook.url(), "token": "t-1",
        "authentication": {"schemes": ["Bearer"], "credentials": "c-1"}});
    let named =
        json!({"name": format!("tasks/{id}/pushNotificationConfigs/mine"), "pushNotificationConfig": config});
    let set = json!({"parent": format!("tasks/{id}"), "configId": "mine", "config": named});
    assert_eq!(client.post(&path, &set).await.body, named);
    let other = json!({"pushNotificationConfig": {"id": "other", "url": "https://hooks.example.org/"}});
    assert_eq!(client.post(&path, &other).await.status, StatusCode::OK);
    assert_eq!(client.get(&format!("{path}/mine")).await.body, named);
    let first = client.get(&format!("{path}?pageSize=1")).await.body;
    assert_eq!(first["configs"], json!([named]));
    let token = first["nextPageToken"].as_str().unwrap();
    let next = client.get(&format!("{path}?pageToken={token}")).await.body;
    assert_eq!(
        next["configs"][0]["pushNotificationConfig"]["id"], "other",
        "{next}"
    );
    let delete = client
        .request(
            Method::DELETE,
            &format!("{path}/other"),
            "application/json",
            String::new(),
        )
        .await;
    assert_eq!((delete.status, &delete.body), (StatusCode::OK, &json!({})));
    assert_eq!(client.get(&path).await.body["configs"], json!([named]));

    // Told in 0.3's own words, as over JSON-RPC.
    let told = webhook.next().await;
    assert!(told.head.contains("authorization: bearer c-1"), "{}", told.head);
    assert_eq!(
        (&told.body["kind"], &told.body["id"]),
        (&json!("task"), &json!(id))
    );
}

#[tokio::test]
async fn errors_are_those_of_0_3() {
    for carrier in BRIDGE_MODES {
        let scene = BridgeSetup::talking_by(carrier).await;
        let client = scene.old_client();
        let empty = json!({"message": {"messageId": "m", "role": "ROLE_USER", "content": [{}]}});
        let mut strange = said("x");
        strange["taskId"] = "no-such-task".into();
        for (path, body, status, code) in [
            ("/v1/message:send", json!({}), 422, -32602),
            ("/v1/message:send", empty, 422, -32602),
            ("/v1/message:send", json!({ "message": strange }), 404, -32001),
            ("/v1/message:stream", json!({ "message": strange }), 404, -32001),
            ("/v1/tasks/none:cancel", json!({}), 404, -32001),
            ("/v1/tasks/none:subscribe", json!({}), 404, -32001),
            ("/v1/message:paint", json!({}), 404, -32601),
            ("/v1/tasks", json!({}), 405, -32601),
        ] {
            let answer = client.post(path, &body).await;
            assert_eq!(answer.status.as_u16(), status, "{path} {}", answer.body);
            assert_eq!(answer.body["code"], code, "{path} {}", answer.body);
            assert!(answer.body["message"].is_string(), "{}", answer.body);
        }
        // A stream that does not begin is an answer, also for who reads events.
        for client in [&client, &scene.old_client().header("accept", "text/event-stream")] {
            let gone = client.get("/v1/tasks/none:subscribe").await;
            assert_eq!(
                (gone.status.as_u16(), &gone.body["code"]),
                (404, &json!(-32001)),
                "{}",
                gone.body
            );
        }
        let unknown = client.get("/v1/nothing").await.body;
        assert!(
            unknown["message"].as_str().unwrap().contains("/v1/message:send"),
            "{unknown}"
        );
        let text = client
            .request(Method::POST, "/v1/message:send", "text/plain", "hi".to_owned())
            .await;
        assert_eq!((text.status.as_u16(), &text.body["code"]), (415, &json!(-32005)));

        // The version is what the path is of.
        let newer = scene.client().get("/v1/tasks").await;
        assert_eq!(
            (newer.status.as_u16(), &newer.body["code"]),
            (400, &json!(-32009))
        );
        assert_eq!(
            client.clone().version("0.3.0").get("/v1/tasks").await.status,
            StatusCode::OK
        );
    }
}

#[tokio::test]
async fn the_card_is_there_for_those_who_begin_with_it() {
    let scene = BridgeSetup::talking().await;
    let client = scene.old_client();
    let card = client.get("/v1/card").await.body;
    assert_eq!(card, client.get("/.well-known/agent-card.json").await.body);
    let transports = |card: &Value| -> Vec<String> {
        let listed = card["additionalInterfaces"].as_array().unwrap().iter();
        listed
            .map(|interface| interface["transport"].as_str().unwrap().to_owned())
            .collect()
    };
    // gRPC has no path by which it could find that agent.
    assert_eq!(transports(&card), ["JSONRPC", "HTTP+JSON"]);
    let _node = scene.pair.bob.node_named("Bob").await;
    let own = scene.bridge.client().get("/v1/card").await.body;
    assert_eq!(transports(&own), ["JSONRPC", "HTTP+JSON"]);
    let listing = Bridge::start_with(&scene.pair.bob, &["--card-grpc=authority"]).await;
    let own = listing.client().get("/v1/card").await.body;
    assert_eq!(transports(&own), ["JSONRPC", "HTTP+JSON", "GRPC"]);
    let other = listing.client().at(&scene.path()).get("/v1/card").await.body;
    assert_eq!(transports(&other), ["JSONRPC", "HTTP+JSON"]);

    // A card of 1.0 alone has no fields of 0.3; one that is asked for in 0.3 has.
    let strict = Bridge::start_with(&scene.pair.bob, &["--card=1.0"]).await;
    let public = strict.client().get("/.well-known/agent-card.json").await.body;
    assert!(public.get("url").is_none(), "{public}");
    let asked = strict.client().get("/v1/card").await.body;
    assert_eq!(asked["url"], strict.url(), "{asked}");
}

#[tokio::test]
async fn tenants_and_callers_are_kept_apart() {
    let scene = BridgeSetup::talking().await;
    let tokens = scene.pair.bob.home().path().join("tokens");
    std::fs::write(&tokens, "alice aaaaaaaaaaaaaaaa\nbob bbbbbbbbbbbbbbbb\n").unwrap();
    let bridge = Bridge::start_with(&scene.pair.bob, &[&format!("--tokens-file={}", tokens.display())]).await;
    let client = bridge.client().at(&scene.path());
    let refused = client.post("/v1/message:send", &send("echo")).await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    assert_eq!(refused.headers["www-authenticate"], "Bearer");
    assert!(
        refused.body["message"].is_string() && refused.body.get("error").is_none(),
        "{}",
        refused.body
    );

    let (alice, bob) = (
        client.clone().token("aaaaaaaaaaaaaaaa"),
        client.token("bbbbbbbbbbbbbbbb"),
    );
    let task = alice
        .post("/alice/acme/v1/message:send", &send("echo hi"))
        .await
        .body;
    let id = task["task"]["id"].as_str().unwrap();
    let status = async |client: &agentanycast_tests::http::HttpClient, path: &str| {
        client.get(&format!("{path}/v1/tasks/{id}")).await.status.as_u16()
    };
    assert_eq!(status(&alice, "/alice/acme").await, 200);
    assert_eq!(status(&alice, "/alice").await, 404);
    assert_eq!(status(&bob, "/alice/acme").await, 404);
}

/// A call that names its agent.
fn tenant_request<T>(tenant: &str, message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request
        .metadata_mut()
        .insert("a2a-tenant", tenant.parse().unwrap());
    request
}

/// What sends a message over gRPC, and waits.
fn echo() -> SendMessageRequest {
    let text = Part {
        part: Some(part::Part::Text("echo hi".to_owned())),
        ..Part::default()
    };
    SendMessageRequest {
        request: Some(Message {
            message_id: "m".to_owned(),
            role: Role::User.into(),
            content: vec![text],
            ..Message::default()
        }),
        configuration: Some(SendMessageConfiguration {
            blocking: true,
            ..SendMessageConfiguration::default()
        }),
        ..SendMessageRequest::default()
    }
}

#[tokio::test]
async fn grpc_names_an_agent_in_its_metadata() {
    let scene = BridgeSetup::talking().await;
    let mut service = A2aServiceClient::connect(scene.bridge.url()).await.unwrap();
    let path = scene.path();
    let tenant = path.trim_start_matches('/');
    let answer = service
        .send_message(tenant_request(tenant, echo()))
        .await
        .unwrap()
        .into_inner();
    let Some(Payload::Task(task)) = answer.payload else {
        panic!("{answer:?} has no task")
    };
    assert_eq!(task.status.as_ref().unwrap().state(), TaskState::Completed);
    assert_eq!(task.artifacts.len(), 2);
    let card = service
        .get_agent_card(tenant_request(tenant, GetAgentCardRequest {}))
        .await;
    assert_eq!(card.unwrap().into_inner().name, "Alice");

    let name = format!("tasks/{}", task.id);
    let get = || GetTaskRequest {
        name: name.clone(),
        history_length: 0,
    };
    assert_eq!(
        service
            .get_task(tenant_request(tenant, get()))
            .await
            .unwrap()
            .into_inner(),
        task
    );
    for other in ["", "agents/nobody", &format!("{tenant}/acme"), "skills/%C3%BC"] {
        let status = service.get_task(tenant_request(other, get())).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::NotFound, "{other} {status}");
        assert!(status.message().starts_with("TaskNotFoundError: "), "{status}");
    }
    let status = service.get_task(tenant_request("%zz", get())).await.unwrap_err();
    assert!(status.message().contains("a2a-tenant"), "{status}");
}

/// gRPC has the key in its metadata.
#[tokio::test]
async fn grpc_sends_nothing_twice_with_one_idempotency_key() {
    let scene = BridgeSetup::talking().await;
    let mut service = A2aServiceClient::connect(scene.bridge.url()).await.unwrap();
    let path = scene.path();
    let keyed = |request: SendMessageRequest| {
        let mut request = tenant_request(path.trim_start_matches('/'), request);
        request
            .metadata_mut()
            .insert("idempotency-key", "k".parse().unwrap());
        request
    };
    let mut ids = Vec::new();
    for _ in 0..2 {
        let answer = service.send_message(keyed(echo())).await.unwrap().into_inner();
        let Some(Payload::Task(task)) = answer.payload else {
            panic!("{answer:?} has no task")
        };
        ids.push(task.id);
    }
    assert_eq!(ids[0], ids[1]);
    let mut other = echo();
    other.request.as_mut().unwrap().content.truncate(1);
    other.request.as_mut().unwrap().content[0].part = Some(part::Part::Text("echo other".to_owned()));
    let refused = service.send_message(keyed(other)).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Aborted, "{refused}");
}

#[tokio::test]
async fn grpc_keeps_webhooks() {
    let scene = BridgeSetup::talking().await;
    let mut service = A2aServiceClient::connect(scene.bridge.url()).await.unwrap();
    let path = scene.path();
    let tenant = path.trim_start_matches('/');
    let answer = service
        .send_message(tenant_request(tenant, echo()))
        .await
        .unwrap()
        .into_inner();
    let Some(Payload::Task(task)) = answer.payload else {
        panic!("{answer:?} has no task")
    };
    let name = format!("tasks/{}", task.id);
    let webhook = |id: &str| CreateTaskPushNotificationConfigRequest {
        parent: name.clone(),
        config_id: id.to_owned(),
        config: Some(TaskPushNotificationConfig {
            push_notification_config: Some(PushNotificationConfig {
                url: "https://hooks.example.org/".to_owned(),
                ..PushNotificationConfig::default()
            }),
            ..TaskPushNotificationConfig::default()
        }),
    };
    let mut set = Vec::new();
    for id in ["one", "two"] {
        let answer = service
            .create_task_push_notification_config(tenant_request(tenant, webhook(id)))
            .await;
        set.push(answer.unwrap().into_inner());
    }
    assert_eq!(set[1].name, format!("{name}/pushNotificationConfigs/two"));
    let list = |page_size| ListTaskPushNotificationConfigRequest {
        parent: name.clone(),
        page_size,
        page_token: String::new(),
    };
    let all = service
        .list_task_push_notification_config(tenant_request(tenant, list(0)))
        .await;
    assert_eq!(all.unwrap().into_inner().configs, set);
    let first = service
        .list_task_push_notification_config(tenant_request(tenant, list(1)))
        .await;
    let first = first.unwrap().into_inner();
    assert!(
        first.configs == set[..1] && !first.next_page_token.is_empty(),
        "{first:?}"
    );
    let delete = DeleteTaskPushNotificationConfigRequest {
        name: set[0].name.clone(),
    };
    service
        .delete_task_push_notification_config(tenant_request(tenant, delete))
        .await
        .unwrap();
    let gone = GetTaskPushNotificationConfigRequest {
        name: set[0].name.clone(),
    };
    let status = service
        .get_task_push_notification_config(tenant_request(tenant, gone))
        .await
        .unwrap_err();
    assert_eq!(status.code(), tonic::Code::NotFound, "{status}");
}

/// Clients of 0.3 read the answer to a method that streams as events only, also an error (7.2 of its
/// specification).
#[tokio::test]
async fn an_error_before_a_stream_is_an_event_for_those_who_read_events() {
    let scene = BridgeSetup::talking().await;
    let reader = scene.old_client().header("accept", "text/event-stream");
    for (method, params, code) in [
        ("message/stream", json!({}), -32602),
        ("tasks/resubscribe", json!({"id": "nothing"}), -32001),
    ] {
        let events = collect_events(reader.stream(method, params.clone()).await).await;
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(
            (&events[0]["id"], &events[0]["error"]["code"]),
            (&json!(1), &json!(code))
        );
        // Others, and 1.0, are answered by JSON.
        assert_eq!(scene.old_client().code(method, params).await, code);
    }
    let new = scene.client().header("accept", "text/event-stream");
    assert_eq!(
        new.code("SubscribeToTask", json!({"id": "nothing"})).await,
        -32001
    );
}

/// A text of base64 is a file too, and the media type of a text is no sign that it is encoded twice.
#[tokio::test]
async fn a_file_is_what_its_client_means_by_it() {
    let scene = BridgeSetup::talking().await;
    let once = "dGVzdA==";
    let twice = "ZEdWemRBPT0=";
    for (agent, base64) in [("node", once), ("python-httpx/0.28.1", twice)] {
        let client = scene.old_client().header("user-agent", agent);
        let file = json!({"file": {"fileWithBytes": base64, "name": "a.txt", "mimeType": "text/plain"}});
        let message = json!({"messageId": "m", "role": "ROLE_USER", "content": [{"text": "echo"}, file]});
        let sent = json!({"message": message, "configuration": {"blocking": true}});
        let sent = client.post("/v1/message:send", &sent).await;
        let task = &sent.body["task"];
        assert_eq!(
            task["artifacts"][0]["parts"][1]["file"]["fileWithBytes"], base64,
            "{}",
            sent.body
        );
        let whole = scene.client().call("GetTask", json!({"id": task["id"]})).await;
        assert_eq!(whole["artifacts"][0]["parts"][1]["raw"], once, "{agent}: {whole}");
    }
}

/// The Go SDK of 0.3 puts the text of base64 into the bytes of a file, over gRPC, and reads it there. An image tells
/// that its client does so; its other files, and what it reads over REST too, are as its first file was.
#[tokio::test]
async fn a_client_is_known_by_the_files_that_it_sends() {
    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    let scene = BridgeSetup::talking().await;
    let mut service = A2aServiceClient::connect(scene.bridge.url()).await.unwrap();
    let path = scene.path();
    let tenant = path.trim_start_matches('/');
    let encoded = |bytes: &[u8]| STANDARD.encode(bytes).into_bytes();
    for (is_known, bytes, media_type) in [
        (false, &b"text"[..], "text/plain"),
        (true, PNG, "image/png"),
        (true, b"text", "text/plain"),
    ] {
        let file = Part {
            part: Some(part::Part::File(FilePart {
                mime_type: media_type.to_owned(),
                file: Some(File::FileWithBytes(encoded(bytes))),
                ..FilePart::default()
            })),
            ..Part::default()
        };
        let mut request = echo();
        request.request.as_mut().unwrap().content.push(file.clone());
        let answer = service
            .send_message(tenant_request(tenant, request))
            .await
            .unwrap();
        let Some(Payload::Task(task)) = answer.into_inner().payload else {
            panic!("the answer has no task")
        };
        let name = format!("tasks/{}", task.id);
        let get = GetTaskRequest {
            name: name.clone(),
            ..GetTaskRequest::default()
        };
        let again = service.get_task(tenant_request(tenant, get)).await.unwrap();
        for task in [&task, again.get_ref()] {
            assert_eq!(task.artifacts[0].parts[1], file);
        }
        let whole = scene.client().call("GetTask", json!({"id": task.id})).await;
        let reached = if is_known { bytes.to_vec() } else { encoded(bytes) };
        let raw = &whole["artifacts"][0]["parts"][1]["raw"];
        assert_eq!(*raw, STANDARD.encode(reached), "{whole}");
    }
    // The same over REST, by a program of another name: it is not known yet, and then it is.
    let client = scene.old_client().header("user-agent", "my-app/1.0");
    for (media_type, is_known) in [("text/plain", false), ("image/png", true), ("text/plain", true)] {
        let file = json!({"fileWithBytes": STANDARD.encode(encoded(PNG)), "mimeType": media_type});
        let message =
            json!({"messageId": "m", "role": "ROLE_USER", "content": [{"text": "echo"}, {"file": file}]});
        let sent = json!({"message": message, "configuration": {"blocking": true}});
        let sent = client.post("/v1/message:send", &sent).await;
        let task = &sent.body["task"];
        let path = format!("/v1/tasks/{}", task["id"].as_str().unwrap());
        for task in [task, &client.get(&path).await.body] {
            assert_eq!(task["artifacts"][0]["parts"][1]["file"], file, "{task}");
        }
        let whole = scene.client().call("GetTask", json!({"id": task["id"]})).await;
        let reached = if is_known { PNG.to_vec() } else { encoded(PNG) };
        let raw = &whole["artifacts"][0]["parts"][1]["raw"];
        assert_eq!(*raw, STANDARD.encode(reached), "{whole}");
    }
}
