//! Cards for those who are known, extensions, tenants, and what was before 0.3.

use std::fs;

use agentanycast_tests::{Bridge, http::HttpClient};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::setup::{BRIDGE_MODES, BridgeSetup, send_params, user_message};

#[tokio::test]
async fn who_is_known_sees_more_of_the_card() {
    let scene = BridgeSetup::talking().await;
    let _node = scene.pair.bob.node_named("Bob").await;
    let home = scene.pair.bob.home().path();
    let (card, tokens) = (home.join("card.json"), home.join("tokens"));
    let more = json!({"description": "All of it", "skills": [{"id": "secret", "name": "secret",
        "description": "For friends", "tags": []}]});
    fs::write(&card, more.to_string()).unwrap();
    fs::write(&tokens, "alice 0123456789abcdef\n").unwrap();
    let (card, tokens) = (
        format!("--extended-card={}", card.display()),
        format!("--tokens-file={}", tokens.display()),
    );
    let key = format!("--key={}", home.join("key").display());
    let bridge = Bridge::start_with(&scene.pair.bob, &[&card, &tokens, &key]).await;
    let stranger = bridge.client().version("1.0");
    let public = stranger.get("/.well-known/agent-card.json").await.body;
    assert_eq!(public["capabilities"]["extendedAgentCard"], true);
    assert_eq!(public["supportsAuthenticatedExtendedCard"], true);
    assert_ne!(public["description"], "All of it");
    let refused = stranger.get("/extendedAgentCard").await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);

    let alice = stranger.token("0123456789abcdef");
    let by_rest = alice.get("/extendedAgentCard").await.body;
    let by_rpc = alice.call("GetExtendedAgentCard", json!({})).await;
    let old = bridge.client().token("0123456789abcdef");
    let by_old = old.call("agent/getAuthenticatedExtendedCard", json!({})).await;
    for card in [by_rest, by_rpc, by_old] {
        assert_eq!(card["description"], "All of it", "{card}");
        let skills = card["skills"].as_array().unwrap();
        assert!(skills.iter().any(|skill| skill["id"] == "secret"), "{card}");
        assert!(card["signatures"][0]["signature"].is_string(), "{card}");
    }
    // Whoever asks in 0.3 reads its fields, also where the public card has none.
    let strict = Bridge::start_with(&scene.pair.bob, &[&card, &tokens, "--card=1.0"]).await;
    let old = strict.client().token("0123456789abcdef");
    let by_old = old.call("agent/getAuthenticatedExtendedCard", json!({})).await;
    assert_eq!(by_old["url"], strict.url(), "{by_old}");
    // Of others there is none, and their cards say so.
    let other = alice.at(&scene.path());
    assert_eq!(other.code("GetExtendedAgentCard", json!({})).await, -32004);
    let card = other.get("/.well-known/agent-card.json").await.body;
    assert_eq!(card["capabilities"]["extendedAgentCard"], false);
}

#[tokio::test]
async fn extensions_are_negotiated() {
    let scene = BridgeSetup::talking().await;
    let args = ["--extensions=urn:nice", "--required-extensions=urn:must"];
    let bridge = Bridge::start_with(&scene.pair.bob, &args).await;
    let client = HttpClient::new(bridge.url()).at(&scene.path()).version("1.0");
    let card = client.get("/.well-known/agent-card.json").await.body;
    let declared = card["capabilities"]["extensions"].as_array().unwrap();
    let required =
        |uri: &str| declared.iter().find(|extension| extension["uri"] == uri).unwrap()["required"] == true;
    assert!(required("urn:must") && !required("urn:nice"));

    assert_eq!(client.code("SendMessage", send_params("echo x")).await, -32008);
    let refused = client.post("/message:send", &send_params("echo x")).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert_eq!(
        refused.body["error"]["details"][0]["reason"],
        "EXTENSION_SUPPORT_REQUIRED"
    );
    let knowing = client.header("a2a-extensions", "urn:other, urn:must,urn:nice");
    let answer = knowing.post("/message:send", &send_params("echo x")).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    assert_eq!(answer.headers["a2a-extensions"], "urn:must, urn:nice");
}

#[tokio::test]
async fn tenants_are_apart() {
    let scene = BridgeSetup::talking().await;
    // Behind a peer the path names one of its agents, and behind that a tenant.
    let client = scene
        .bridge
        .client()
        .at(&format!("{}/alice", scene.path()))
        .version("1.0");
    let answer = client.post("/acme/message:send", &send_params("echo x")).await;
    let id = answer.body["task"]["id"].clone();
    let path = format!("/tasks/{}", id.as_str().unwrap());
    assert_eq!(client.get(&format!("/acme{path}")).await.status, StatusCode::OK);
    for nobody in [format!("/other{path}"), path] {
        assert_eq!(
            client.get(&nobody).await.status,
            StatusCode::NOT_FOUND,
            "{nobody}"
        );
    }
    let found = client.call("GetTask", json!({"tenant": "acme", "id": id})).await;
    assert_eq!(found["id"], id);
    let mut params = send_params("echo y");
    params["tenant"] = "acme".into();
    client.call("SendMessage", params).await;
    let list = client.call("ListTasks", json!({"tenant": "acme"})).await;
    assert_eq!(list["totalSize"], 2);
    assert_eq!(client.call("ListTasks", json!({})).await["totalSize"], 0);
    // A call names a tenant of the peer's agent without its name too.
    let mut params = send_params("echo z");
    params["tenant"] = "acme".into();
    scene.client().call("SendMessage", params).await;
    let list = scene.client().call("ListTasks", json!({"tenant": "acme"})).await;
    assert_eq!(list["totalSize"], 1);
}

/// As clients of before 0.3 say it; and to a node without an agent, where nothing is begun.
#[tokio::test]
async fn the_words_of_before_0_3_are_understood() {
    for carrier in BRIDGE_MODES {
        let scene = BridgeSetup::talking_by(carrier).await;
        let params = json!({"id": "mine", "sessionId": "s", "message": {"role": "user",
            "parts": [{"type": "text", "text": "echo hello"}]}});
        for path in ["/", "/a2a"] {
            let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/send", "params": params});
            let answer = scene.old_client().post(path, &call).await.body;
            let task = &answer["result"];
            assert_eq!(task["status"]["state"], "completed", "{answer}");
            assert_eq!(task["sessionId"], "s");
        }
        let own = HttpClient::new(scene.bridge.url());
        let refused = own.call("tasks/send", params.clone()).await;
        assert_eq!(refused["status"]["state"], "rejected", "{refused}");
        let own = own.version("1.0");
        assert_eq!(own.call("ListTasks", json!({})).await["totalSize"], 0);
    }
}

/// A daemon with a bridge in it answers what it was asked, and ends in time.
#[tokio::test]
async fn a_daemon_with_a_bridge_stops_in_good_order() {
    let mut scene = BridgeSetup::talking_by(crate::setup::BridgeMode::Inside).await;
    let mut stream = scene
        .client()
        .events(
            Method::POST,
            "/message:stream",
            &json!({"message": user_message("wait")}),
        )
        .await;
    assert!(stream.event().await.get("task").is_some());
    scene.pair.bob.stop().await;
    let mut last = Value::Null;
    while let Some(event) = stream.next().await {
        last = event;
    }
    assert_eq!(last["error"]["details"][0]["reason"], "UNAVAILABLE", "{last}");
}

#[tokio::test]
async fn health_is_that_of_the_daemon() {
    for carrier in BRIDGE_MODES {
        let scene = BridgeSetup::talking_by(carrier).await;
        let health = scene.bridge.client().get("/health").await;
        assert_eq!(
            (health.status, &health.body["status"]),
            (StatusCode::OK, &json!("ok"))
        );
    }
    let mut scene = BridgeSetup::talking().await;
    scene.pair.bob.kill().await;
    let health = scene.bridge.client().get("/health").await;
    assert_eq!(health.status, StatusCode::SERVICE_UNAVAILABLE, "{}", health.body);
    assert_eq!(health.headers["retry-after"], "5");
}

/// Whoever watches the bridge has its share, like everybody.
#[tokio::test]
async fn health_is_not_asked_without_bound() {
    let scene = BridgeSetup::talking().await;
    let bridge = Bridge::start_with(&scene.pair.bob, &["--rate=1", "--burst=3"]).await;
    let mut statuses = Vec::new();
    for _ in 0..20 {
        let health = bridge.client().get("/health").await;
        statuses.push(health.status);
        if health.status == StatusCode::TOO_MANY_REQUESTS {
            assert!(health.headers.contains_key("retry-after"));
        }
    }
    assert_eq!(statuses[0], StatusCode::OK);
    assert!(statuses.contains(&StatusCode::TOO_MANY_REQUESTS), "{statuses:?}");
}

/// A page ends before it becomes too much, and the next one goes on behind it.
#[tokio::test]
async fn pages_of_large_tasks_are_short() {
    const TASKS: usize = 8;
    let scene = BridgeSetup::talking().await;
    let client = scene.client();
    let text = format!("echo {}", "x".repeat(1 << 20));
    let large = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}});
    for _ in 0..TASKS {
        client.call("SendMessage", large.clone()).await;
    }
    let (mut seen, mut pages, mut token) = (Vec::new(), 0, String::new());
    loop {
        let params = json!({"includeArtifacts": true, "pageToken": token});
        let page = client.call("ListTasks", params).await;
        assert_eq!(
            (&page["totalSize"], &page["pageSize"]),
            (&json!(TASKS), &json!(50))
        );
        let tasks = page["tasks"].as_array().unwrap();
        assert!(!tasks.is_empty());
        for task in tasks {
            assert_eq!(task["artifacts"].as_array().unwrap().len(), 2, "whole tasks");
            seen.push(task["id"].as_str().unwrap().to_owned());
        }
        pages += 1;
        page["nextPageToken"].as_str().unwrap().clone_into(&mut token);
        if token.is_empty() {
            break;
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), TASKS);
    assert!(pages >= 3, "{TASKS} tasks of 3 MiB came on {pages} pages");
    // What is not asked for does not count.
    let page = client.call("ListTasks", json!({"historyLength": 0})).await;
    assert_eq!(page["tasks"].as_array().unwrap().len(), TASKS);
}
