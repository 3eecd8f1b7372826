//! What is refused, and in which words.

use agentanycast_tests::Bridge;
use http::{Method, StatusCode};
use serde_json::json;

use crate::scene::{CARRIERS, Scene, say, send, send_off};

#[tokio::test]
async fn errors_are_those_of_the_specification() {
    let scene = Scene::talking().await;
    let (client, old) = (scene.client(), scene.old_client());
    let mut strange = say("x");
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
        ("GetExtendedAgentCard", json!({}), -32007),
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
    let future = scene.bridge.client().version("2.0");
    assert_eq!(future.code("GetTask", json!({"id": "x"})).await, -32009);

    let error = client.rpc("GetTask", json!({"id": "x"})).await;
    assert_eq!(error["error"]["data"][0]["reason"], "TASK_NOT_FOUND");
    let ended = client.call("SendMessage", send("echo")).await["task"]["id"].take();
    assert_eq!(
        client.code("SubscribeToTask", json!({ "id": ended })).await,
        -32004
    );
}

#[tokio::test]
async fn rest_says_it_by_statuses() {
    for carrier in CARRIERS {
        let scene = Scene::talking_by(carrier).await;
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
        assert_eq!(client.get("/nothing/here").await.status, StatusCode::NOT_FOUND);
        let stream = client.post("/tasks/no-such-task:subscribe", &json!({})).await;
        assert_eq!(stream.status, StatusCode::NOT_FOUND);
    }
}

#[tokio::test]
async fn bodies_are_checked_before_they_are_read() {
    for carrier in CARRIERS {
        let scene = Scene::talking_by(carrier).await;
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
async fn callers_see_their_own_tasks_only() {
    let scene = Scene::talking().await;
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
    let id = alice.call("SendMessage", send_off("wait")).await["task"]["id"].take();
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
