//! What is refused, and in which words.

use agentanycast_proto::a2a::{self, a2a_service_client::A2aServiceClient};
use agentanycast_tests::{Bridge, cli::anycast_at};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tonic::Code;

use crate::setup::{BRIDGE_MODES, BridgeSetup, nonblocking_send_params, send_params, user_message};

#[tokio::test]
async fn errors_are_those_of_the_specification() {
    let scene = BridgeSetup::talking().await;
    let (client, old) = (scene.client(), scene.old_client());
    let mut strange = user_message("x");
    strange["taskId"] = "no-such-task".into();
    for (method, params, code) in [
        ("GetTask", json!({"id": "no-such-task"}), -32001),
        ("CancelTask", json!({"id": "no-such-task"}), -32001),
        ("SubscribeToTask", json!({"id": "no-such-task"}), -32001),
        ("SendMessage", json!({ "message": strange }), -32001),
        ("SendMessage", json!({}), -32602),
        (
            "SendMessage",
            json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}}),
            -32602,
        ),
        ("GetTask", json!([]), -32602),
        ("PaintTask", json!({}), -32601),
        ("GetExtendedAgentCard", json!({}), -32004),
        (
            "CreateTaskPushNotificationConfig",
            json!({"taskId": "t", "url": "https://example.org"}),
            -32001,
        ),
        ("tasks/get", json!({"id": "x"}), -32009),
    ] {
        assert_eq!(client.code(method, params).await, code, "{method}");
    }
    assert_eq!(old.code("GetTask", json!({"id": "x"})).await, -32009);
    assert_eq!(old.code("tasks/get", json!({"id": "x"})).await, -32001);
    let extended = old.code("agent/getAuthenticatedExtendedCard", json!({})).await;
    assert_eq!(extended, -32007);
    let future = scene.bridge.client().version("2.0");
    assert_eq!(future.code("GetTask", json!({"id": "x"})).await, -32009);

    let error = client.rpc("GetTask", json!({"id": "x"})).await;
    assert_eq!(error["error"]["data"][0]["reason"], "TASK_NOT_FOUND");
    let ended = client.call("SendMessage", send_params("echo")).await["task"]["id"].take();
    assert_eq!(
        client.code("SubscribeToTask", json!({ "id": ended })).await,
        -32004
    );
}

#[tokio::test]
async fn rest_says_it_by_statuses() {
    for carrier in BRIDGE_MODES {
        let scene = BridgeSetup::talking_by(carrier).await;
        let client = scene.client();
        let missing = client.get("/tasks/no-such-task").await;
        assert_eq!(missing.status, StatusCode::NOT_FOUND);
        assert_eq!(missing.body["error"]["details"][0]["reason"], "TASK_NOT_FOUND");
        let versionless = scene.old_client().get("/tasks").await;
        assert_eq!(versionless.status, StatusCode::BAD_REQUEST);
        assert_eq!(
            versionless.body["error"]["details"][0]["reason"],
            "VERSION_NOT_SUPPORTED"
        );
        assert_eq!(
            scene.old_client().get("/tasks?A2A-Version=1.0").await.status,
            StatusCode::OK
        );
        let verb = client.get("/message:send").await;
        assert_eq!(
            (verb.status, &verb.headers["allow"]),
            (StatusCode::METHOD_NOT_ALLOWED, &"POST".parse().unwrap())
        );
        assert_eq!(verb.body["error"]["code"], 405);
        assert!(
            verb.body["error"]["details"][0]["reason"].is_string(),
            "{}",
            verb.body
        );
        assert_eq!(client.get("/nothing/here").await.status, StatusCode::NOT_FOUND);
        let stream = client.post("/tasks/no-such-task:subscribe", &json!({})).await;
        assert_eq!(stream.status, StatusCode::NOT_FOUND);
    }
}

#[tokio::test]
async fn bodies_are_checked_before_they_are_read() {
    for carrier in BRIDGE_MODES {
        let scene = BridgeSetup::talking_by(carrier).await;
        let client = scene.client();
        for (media_type, body, code) in [
            ("text/plain", "{}".to_owned(), -32005),
            ("application/json", "{".to_owned(), -32700),
            ("application/json", String::new(), -32700),
            ("application/json", "[]".to_owned(), -32600),
            ("application/json", "7".to_owned(), -32600),
            (
                "application/json",
                r#"{"jsonrpc":"1.0","method":"GetTask"}"#.to_owned(),
                -32600,
            ),
            ("application/json", "[".repeat(5000), -32700),
            (
                "application/json",
                format!("\"{}\"", "x".repeat(25 << 20)),
                -32600,
            ),
        ] {
            let answer = client.request(Method::POST, "/", media_type, body).await;
            assert_eq!(answer.body["error"]["code"], code, "{}", answer.body);
            assert_eq!(answer.body["id"], json!(null));
        }
    }
}

#[tokio::test]
async fn a_query_that_cannot_be_read_is_refused_by_name() {
    let scene = BridgeSetup::talking().await;
    let client = scene.client();
    let long = format!("/tasks?contextId={}", "x".repeat(600));
    for (path, named) in [
        ("/tasks?contextId=%ff", "contextId"),
        ("/tasks?contextId=%zz", "contextId"),
        (long.as_str(), "contextId"),
        ("/tasks?pageSize=1&pageSize=2", "pageSize"),
        ("/tasks?pageSize=many", "pageSize"),
        ("/tasks?%ff=1", "%ff"),
    ] {
        let refused = client.get(path).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{path}");
        let said = refused.body["error"]["message"].as_str().unwrap();
        assert!(said.contains(named), "{path}: {said}");
    }
    assert_eq!(
        client.get("/tasks?contextId=%C3%BC+x").await.status,
        StatusCode::OK
    );
}

/// What waiting does not help is refused in a way that no client repeats, with the bound in one line.
#[tokio::test]
async fn what_never_fits_is_not_to_be_sent_again() {
    for carrier in BRIDGE_MODES {
        let scene = BridgeSetup::talking_by(carrier).await;
        let client = scene.client();
        let final_no = |answer: agentanycast_tests::http::HttpAnswer, bound: &str| {
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{:?}", answer.body);
            assert!(!answer.headers.contains_key("retry-after"));
            let error = &answer.body["error"];
            assert_eq!(error["details"][0]["reason"], "INVALID_PARAMS");
            let said = error["message"].as_str().unwrap();
            assert!(said.contains(bound) && said.len() < 300, "{said}");
        };
        let mut large = send_params("x");
        large["message"]["parts"][0]["text"] = "x".repeat(17 << 20).into();
        final_no(
            client.post("/message:send", &large).await,
            "the limit is 16776192",
        );
        assert_eq!(client.code("SendMessage", large).await, -32602);

        let task = client.call("SendMessage", nonblocking_send_params("wait")).await["task"]["id"].take();
        let path = format!("/tasks/{}/pushNotificationConfigs", task.as_str().unwrap());
        let webhook = |number: usize| json!({"id": format!("w{number}"), "url": "http://127.0.0.1:9/hook"});
        for number in 0..16 {
            assert_eq!(client.post(&path, &webhook(number)).await.status, StatusCode::OK);
        }
        final_no(client.post(&path, &webhook(16)).await, "has 16 notes");
        let mut set = webhook(16);
        set["taskId"] = task.clone();
        assert_eq!(client.code("CreateTaskPushNotificationConfig", set).await, -32602);
    }
}

/// gRPC carries what JSON cannot say, and states that there are not: neither becomes something else.
#[tokio::test]
async fn what_json_cannot_say_is_refused_over_grpc() {
    let scene = BridgeSetup::talking().await;
    let mut service = A2aServiceClient::connect(scene.bridge.url()).await.unwrap();
    fn call<T>(message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        request
            .metadata_mut()
            .insert("a2a-version", "1.0".parse().unwrap());
        request
    }
    let tenant = scene.path()[1..].to_owned();
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let data = prost_types::Value {
            kind: Some(prost_types::value::Kind::NumberValue(number)),
        };
        let part = |content| a2a::Part {
            content: Some(content),
            ..a2a::Part::default()
        };
        let message = a2a::Message {
            message_id: "m".to_owned(),
            role: a2a::Role::User.into(),
            parts: vec![
                part(a2a::part::Content::Text("echo".to_owned())),
                part(a2a::part::Content::Data(data)),
            ],
            ..a2a::Message::default()
        };
        let refused = service
            .send_message(call(a2a::SendMessageRequest {
                tenant: tenant.clone(),
                message: Some(message),
                ..a2a::SendMessageRequest::default()
            }))
            .await
            .unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert!(refused.message().contains("message.parts[1].data"), "{refused}");
    }
    let list = |status| {
        call(a2a::ListTasksRequest {
            tenant: tenant.clone(),
            status,
            ..a2a::ListTasksRequest::default()
        })
    };
    assert!(service.list_tasks(list(0)).await.is_ok());
    let refused = service.list_tasks(list(99)).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
}

/// What is said twice, and not the same, is refused by name.
#[tokio::test]
async fn a_request_contradicts_itself_in_nothing() {
    let scene = BridgeSetup::talking().await;
    let client = scene.client();
    for (path, status) in [
        ("/tasks?page_size=7&pageSize=7", StatusCode::OK),
        ("/tasks?page_size=7&pageSize=8", StatusCode::BAD_REQUEST),
        ("/tasks/%+1", StatusCode::NOT_FOUND),
    ] {
        assert_eq!(client.get(path).await.status, status, "{path}");
    }
    let broken = client.get("/tasks/%+1").await.body;
    assert_eq!(
        broken["error"]["details"][0]["reason"], "METHOD_NOT_FOUND",
        "{broken}"
    );
    let versions = |more: &'static str| scene.client().header("a2a-version", more);
    assert_eq!(versions("1.0").get("/tasks").await.status, StatusCode::OK);
    let two = versions("0.3").get("/tasks").await;
    assert_eq!(two.body["error"]["details"][0]["reason"], "VERSION_NOT_SUPPORTED");
    let mut by_the_agent = send_params("echo");
    by_the_agent["message"]["role"] = "ROLE_AGENT".into();
    assert_eq!(client.code("SendMessage", by_the_agent).await, -32602);
}

/// What the bridge says of a task in its metadata is the bridge's word.
#[tokio::test]
async fn nobody_speaks_for_the_bridge() {
    let scene = BridgeSetup::talking().await;
    let mut forged = send_params("echo hi");
    forged["metadata"] = json!({"agentanycast": {"originator": "somebody", "skill": "root"}, "mine": 1});
    let task = scene.client().call("SendMessage", forged).await["task"].take();
    let note = &task["metadata"]["agentanycast"];
    assert_eq!(note["originator"], scene.pair.bob.peer_id().to_string(), "{note}");
    assert!(note.get("skill").is_none(), "{note}");
    assert_eq!(task["metadata"]["mine"], 1);
}

/// A tenant names an agent in each binding as it does over gRPC, where the path names none.
#[tokio::test]
async fn a_tenant_names_an_agent_everywhere() {
    let scene = BridgeSetup::talking().await;
    let root = scene.bridge.client().version("1.0");
    let tenant = scene.path()[1..].to_owned();
    let mut params = send_params("echo hi");
    params["tenant"] = tenant.clone().into();
    let task = root.call("SendMessage", params.clone()).await["task"].take();
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    let sent = root.post("/message:send", &params).await;
    assert_eq!(
        sent.body["task"]["status"]["state"], "TASK_STATE_COMPLETED",
        "{}",
        sent.body
    );
    // The same tasks as by the path.
    let read = scene.client().call("GetTask", json!({"id": task["id"]})).await;
    assert_eq!(read["id"], task["id"]);
    let coded = tenant.replace('/', "%2F");
    let read = root
        .get(&format!("/{coded}/tasks/{}", task["id"].as_str().unwrap()))
        .await;
    assert_eq!(read.status, StatusCode::OK, "{}", read.body);
}

#[tokio::test]
async fn a_part_is_one_thing() {
    let scene = BridgeSetup::talking().await;
    let with =
        |role: &str, part: &Value| json!({"message": {"messageId": "m", "role": role, "parts": [part]}});
    for part in [
        json!({"text": "x", "url": "https://example.org"}),
        json!({"raw": "AA==", "data": {}}),
        json!({"text": "x", "data": [1]}),
    ] {
        let params = with("ROLE_USER", &part);
        assert_eq!(scene.client().code("SendMessage", params).await, -32602, "{part}");
    }
    for part in [
        json!({"kind": "text", "text": "x", "data": {}}),
        json!({"kind": "data", "data": {}, "file": {"uri": "https://example.org"}}),
        json!({"kind": "file", "file": {"bytes": "AA==", "uri": "https://example.org"}}),
    ] {
        let params = with("user", &part);
        assert_eq!(
            scene.old_client().code("message/send", params).await,
            -32602,
            "{part}"
        );
    }
}

/// What would come back as another number is refused by its name; all others come back.
#[tokio::test]
async fn numbers_are_kept_or_refused() {
    let scene = BridgeSetup::talking().await;
    let call = |data: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{{"message":{{"messageId":"m","role":
            "ROLE_USER","parts":[{{"text":"echo"}},{{"data":{data}}}]}}}}}}"#
        )
    };
    let ask = async |data: &str| {
        let client = scene.client();
        client
            .request(Method::POST, "/", "application/json", call(data))
            .await
            .body
    };
    for number in [
        "18446744073709551616",
        "-9223372036854775809",
        "1e400",
        "1234567890123456789012345",
    ] {
        let refused = ask(&format!("{{\"n\":[{number}]}}")).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        assert!(
            refused["error"]["message"].as_str().unwrap().contains(number),
            "{refused}"
        );
    }
    for data in [
        r#"{"n":[18446744073709551615,-9223372036854775808,0.1,42.0,1e308,"18446744073709551616"]}"#,
        "[9007199254740993]",
    ] {
        let answer = ask(data).await;
        let task = &answer["result"]["task"];
        let sent: Value = serde_json::from_str(data).unwrap();
        let shown = &task["artifacts"][0]["parts"][1]["data"];
        assert_eq!(shown.to_string(), sent.to_string(), "{answer}");
        // The command line says the same, on either side.
        for daemon in [&scene.pair.alice, &scene.pair.bob] {
            let told = anycast_at(daemon, &["--json", "task", task["id"].as_str().unwrap()]).await;
            let document: Value = serde_json::from_str(&told.stdout).unwrap();
            let shown = &document["artifacts"][0]["parts"][1]["data"];
            assert_eq!(shown.to_string(), sent.to_string(), "{}", told.all_output);
        }
    }
}

#[tokio::test]
async fn callers_see_their_own_tasks_only() {
    let scene = BridgeSetup::talking().await;
    let tokens = scene.pair.bob.home().path().join("tokens");
    std::fs::write(&tokens, "alice aaaaaaaaaaaaaaaa\nbob bbbbbbbbbbbbbbbb\n").unwrap();
    let bridge = Bridge::start_with(&scene.pair.bob, &[&format!("--tokens-file={}", tokens.display())]).await;
    let client = bridge.client().at(&scene.path()).version("1.0");
    let refused = client.post("/", &json!({})).await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    assert_eq!(refused.headers["www-authenticate"], "Bearer");
    assert_eq!(
        client.get("/.well-known/agent-card.json").await.status,
        StatusCode::OK
    );

    let (alice, bob) = (
        client.clone().token("aaaaaaaaaaaaaaaa"),
        client.token("bbbbbbbbbbbbbbbb"),
    );
    let id = alice.call("SendMessage", nonblocking_send_params("wait")).await["task"]["id"].take();
    assert_eq!(alice.call("GetTask", json!({ "id": id })).await["id"], id);
    for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
        assert_eq!(bob.code(method, json!({ "id": id })).await, -32001, "{method}");
    }
    assert_eq!(bob.call("ListTasks", json!({})).await["totalSize"], 0);
    // Another agent's path, another tenant: another world.
    let elsewhere = bridge.client().version("1.0").token("aaaaaaaaaaaaaaaa");
    assert_eq!(elsewhere.code("GetTask", json!({ "id": id })).await, -32001);
    assert_eq!(
        alice.code("GetTask", json!({"id": id, "tenant": "acme"})).await,
        -32001
    );
    alice.call("CancelTask", json!({ "id": id })).await;
}
