//! Calls that are answered once: over JSON-RPC in both versions, and over REST.

use agentanycast_tests::{Bridge, eventually};
use http::StatusCode;
use serde_json::json;

use crate::setup::{
    BRIDGE_MODES, BridgeSetup, nonblocking_send_params, send_params, texts, user_message, v0_3_message,
};

#[tokio::test]
async fn a_message_is_answered_over_each_binding() {
    for carrier in BRIDGE_MODES {
        let scene = BridgeSetup::talking_by(carrier).await;
        let task = &scene
            .client()
            .call("SendMessage", send_params("echo hello"))
            .await["task"];
        assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED");
        assert_eq!(texts(task), ["echo hello", "hello"]);
        assert_eq!(task["history"][0]["messageId"], "m-echo hello");

        let params = json!({"message": v0_3_message("echo hello")});
        let task = scene.old_client().call("message/send", params).await;
        assert_eq!(
            (&task["kind"], &task["status"]["state"]),
            (&json!("task"), &json!("completed"))
        );
        assert_eq!(texts(&task), ["echo hello", "hello"]);

        let answer = scene
            .client()
            .post("/message:send", &send_params("echo hello"))
            .await;
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(texts(&answer.body["task"]), ["echo hello", "hello"]);
    }
}

/// Files, data of every kind, metadata, what nobody knows: there and back through two nodes and an agent.
#[tokio::test]
async fn everything_comes_back() {
    for carrier in BRIDGE_MODES {
        let scene = BridgeSetup::talking_by(carrier).await;
        let parts = json!([
            {"text": "echo", "mediaType": "text/markdown", "metadata": {"lang": "en", "n": 9_007_199_254_740_993_u64}},
            {"raw": "AP8Q", "filename": "a.bin", "mediaType": "application/octet-stream"},
            {"url": "https://example.org/a.png", "filename": "a.png", "mediaType": "image/png"},
            {"data": {"n": 42, "big": 9_007_199_254_740_993_u64, "f": 1.5, "list": [null, true]}, "later": {"x": [1]}},
            {"data": [1, "two", null]},
        ]);
        let params = json!({
            "message": {"messageId": "m", "role": "ROLE_USER", "parts": parts, "contextId": "my context",
                "metadata": {"trace": {"id": 7}}, "extensions": ["urn:x"], "referenceTaskIds": ["t0"], "later": true},
            "metadata": {"priority": 3, "label": "x", "task_id": "not yours"},
        });
        let task = &scene.client().call("SendMessage", params.clone()).await["task"];
        assert_eq!(task["artifacts"][0]["parts"], parts);
        assert_eq!(task["contextId"], "my context");
        let said = &task["history"][0];
        for field in [
            "messageId",
            "role",
            "parts",
            "contextId",
            "extensions",
            "referenceTaskIds",
            "later",
        ] {
            assert_eq!(said[field], params["message"][field], "{field}");
        }
        assert_eq!(said["metadata"]["trace"], json!({"id": 7}));
        assert_eq!(task["metadata"]["priority"], 3);
        assert_eq!(task["metadata"]["task_id"], "not yours");
    }
}

#[tokio::test]
async fn a_question_is_answered() {
    for carrier in BRIDGE_MODES {
        let scene = BridgeSetup::talking_by(carrier).await;
        let client = scene.client();
        let task = client.call("SendMessage", send_params("ask")).await["task"].take();
        assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
        assert_eq!(task["status"]["message"]["parts"][0]["text"], "Which one?");
        assert_eq!(task["status"]["message"]["taskId"], task["id"]);

        let mut message = user_message("the red one");
        message["taskId"] = task["id"].clone();
        // Clients choose it as they like.
        message["messageId"] = user_message("ask")["messageId"].clone();
        message["contextId"] = "another".into();
        assert_eq!(
            client.code("SendMessage", json!({ "message": message })).await,
            -32602
        );
        message["contextId"] = task["contextId"].clone();
        let ended = &client.call("SendMessage", json!({ "message": message })).await["task"];
        assert_eq!(ended["id"], task["id"]);
        assert_eq!(texts(ended), ["You said the red one"]);
        assert_eq!(
            client.code("SendMessage", json!({ "message": message })).await,
            -32004
        );
    }
}

#[tokio::test]
async fn a_task_is_read_and_cancelled() {
    for carrier in BRIDGE_MODES {
        let scene = BridgeSetup::talking_by(carrier).await;
        let client = scene.client();
        let task = client.call("SendMessage", nonblocking_send_params("wait")).await["task"].take();
        let id = json!({"id": task["id"]});
        eventually("the agent works", || async {
            let task = client.call("GetTask", id.clone()).await;
            (task["status"]["state"] == "TASK_STATE_WORKING").then_some(())
        })
        .await;
        let path = format!("/tasks/{}", task["id"].as_str().unwrap());
        let read = client.get(&format!("{path}?historyLength=0")).await;
        assert_eq!(read.body["status"]["message"]["parts"][0]["text"], "on my way");
        assert!(read.body.get("history").is_none(), "{}", read.body);

        let cancelled = client.post(&format!("{path}:cancel"), &json!({})).await;
        assert_eq!(cancelled.body["status"]["state"], "TASK_STATE_CANCELED");
        assert_eq!(client.code("CancelTask", id.clone()).await, -32002);
        let old = scene.old_client().call("tasks/get", id).await;
        assert_eq!(old["status"]["state"], "canceled");
    }
}

#[tokio::test]
async fn failures_are_told() {
    for carrier in BRIDGE_MODES {
        let scene = BridgeSetup::talking_by(carrier).await;
        let task = &scene
            .client()
            .call("SendMessage", send_params("fail no paper"))
            .await["task"];
        assert_eq!(task["status"]["state"], "TASK_STATE_FAILED");
        assert_eq!(task["status"]["message"]["parts"][0]["text"], "no paper");
    }
}

#[tokio::test]
async fn tasks_are_listed_page_by_page() {
    let scene = BridgeSetup::talking().await;
    let client = scene.client();
    for n in 0..5 {
        let mut params = send_params(&format!("echo {n}"));
        params["message"]["contextId"] = format!("c{}", n % 2).into();
        client.call("SendMessage", params).await;
    }
    // Not by this gateway, and so not to be seen.
    let target = agentanycast::Target::Peer(scene.pair.alice.peer_id().clone());
    let other = scene
        .pair
        .bob
        .node()
        .await
        .send_task(target, "echo x")
        .await
        .unwrap();
    other.wait().await.unwrap();

    let mut token = json!("");
    let mut seen = Vec::new();
    for (page, more) in [(2, true), (2, true), (1, false)] {
        let list = client
            .call("ListTasks", json!({"pageSize": 2, "pageToken": token}))
            .await;
        assert_eq!((&list["totalSize"], &list["pageSize"]), (&json!(5), &json!(2)));
        let tasks = list["tasks"].as_array().unwrap();
        assert_eq!(tasks.len(), page);
        seen.extend(tasks.iter().map(|task| {
            task["history"][0]["parts"][0]["text"]
                .as_str()
                .unwrap()
                .to_owned()
        }));
        assert!(tasks.iter().all(|task| task.get("artifacts").is_none()));
        token = list["nextPageToken"].clone();
        assert_eq!(token != "", more);
    }
    assert_eq!(seen, ["echo 4", "echo 3", "echo 2", "echo 1", "echo 0"]);

    let answer = client
        .get("/tasks?contextId=c1&includeArtifacts=true&historyLength=0")
        .await;
    let tasks = answer.body["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 2);
    assert!(
        tasks
            .iter()
            .all(|task| !texts(task).is_empty() && task.get("history").is_none())
    );
    let none = client
        .call("ListTasks", json!({"status": "TASK_STATE_WORKING"}))
        .await;
    assert_eq!(none["totalSize"], 0);
}

/// A client that lost the answer asks again with the same key: nothing is done twice, and nothing else is
/// taken for it.
#[tokio::test]
async fn the_same_idempotency_key_is_the_same_task() {
    for carrier in BRIDGE_MODES {
        let scene = BridgeSetup::talking_by(carrier).await;
        let keyed = |key: &str| scene.client().header("idempotency-key", key);
        let first = keyed("k-1").call("SendMessage", send_params("ask")).await["task"].take();
        let mut again = user_message("ask");
        again["messageId"] = "another".into();
        let again = json!({ "message": again });
        assert_eq!(
            keyed("\"k-1\"").call("SendMessage", again).await["task"]["id"],
            first["id"]
        );
        let by_rest = keyed("k-1").post("/message:send", &send_params("ask")).await;
        assert_eq!(by_rest.body["task"]["id"], first["id"]);
        let mut stream = keyed("k-1")
            .stream("SendStreamingMessage", send_params("ask"))
            .await;
        assert_eq!(stream.event().await["result"]["task"]["id"], first["id"]);

        let refused = keyed("k-1")
            .post("/message:send", &send_params("echo other"))
            .await;
        assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.body);
        assert_eq!(refused.body["error"]["status"], "ABORTED");
        let refused = keyed("k-1").rpc("SendMessage", send_params("echo other")).await;
        assert_eq!(
            refused["error"]["data"][0]["reason"], "IDEMPOTENCY_KEY_REUSED",
            "{refused}"
        );
        assert_eq!(keyed("").code("SendMessage", send_params("ask")).await, -32602);

        // A further message too, also when the task has ended meanwhile.
        let mut blue = user_message("blue");
        blue["taskId"] = first["id"].clone();
        let blue = json!({ "message": blue });
        for _ in 0..2 {
            let task = keyed("k-2").call("SendMessage", blue.clone()).await["task"].take();
            assert_eq!(
                (&task["id"], texts(&task)),
                (&first["id"], vec!["You said blue".to_owned()])
            );
        }
        let mut red = user_message("red");
        red["taskId"] = first["id"].clone();
        let refused = keyed("k-1").rpc("SendMessage", json!({ "message": red })).await;
        assert_eq!(
            refused["error"]["data"][0]["reason"], "IDEMPOTENCY_KEY_REUSED",
            "{refused}"
        );
        assert_eq!(scene.client().code("SendMessage", blue).await, -32004);
    }
}

#[tokio::test]
async fn two_callers_have_the_same_idempotency_key() {
    let scene = BridgeSetup::talking().await;
    let tokens = scene.pair.bob.home().path().join("tokens");
    std::fs::write(&tokens, "alice aaaaaaaaaaaaaaaa\nbob bbbbbbbbbbbbbbbb\n").unwrap();
    let bridge = Bridge::start_with(&scene.pair.bob, &[&format!("--tokens-file={}", tokens.display())]).await;
    let client = |token: &str| {
        let client = bridge.client().at(&scene.path()).version("1.0").token(token);
        client.header("idempotency-key", "k")
    };
    let (alice, bob) = (client("aaaaaaaaaaaaaaaa"), client("bbbbbbbbbbbbbbbb"));
    let first = alice.call("SendMessage", send_params("echo x")).await["task"]["id"].take();
    let other = bob.call("SendMessage", send_params("echo y")).await["task"].take();
    assert_ne!(other["id"], first);
    assert_eq!(texts(&other), ["echo y", "y"]);
    assert_eq!(
        alice.call("SendMessage", send_params("echo x")).await["task"]["id"],
        first
    );
}
