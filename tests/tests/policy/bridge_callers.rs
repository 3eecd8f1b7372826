//! Callers of a bridge are sources of their own, and nobody else can pass for one.

use agentanycast::Target;
use agentanycast_tests::{Bridge, daemon::Home, http::HttpClient};
use http::StatusCode;
use serde_json::{Value, json};

use crate::setup::{PolicySetup, audited, lines, refusals, rejected, wait_ended};

const ALICE: &str = "0123456789abcdef-alice";
const BOB: &str = "0123456789abcdef-bob";

fn settings(home: &Home) -> String {
    format!(
        "[policy]\n{}[[policy.acl]]\nsource = \"http:alice\"\nallow = true\n\
         [[policy.rate_limit.overrides]]\nsource = \"http:alice\"\nrps = 0.001\n",
        audited(home)
    )
}

/// A bridge beside the guarded node, with two callers.
async fn bridge(scene: &PolicySetup) -> Bridge {
    let tokens = scene.guarded.home().path().join("tokens");
    std::fs::write(&tokens, format!("alice {ALICE}\nbob {BOB}\n")).unwrap();
    let flag = format!("--tokens-file={}", tokens.display());
    Bridge::start_with(&scene.guarded, &[&flag]).await
}

/// Who has this token, before the asker's agent.
fn caller(bridge: &Bridge, scene: &PolicySetup, token: &str) -> HttpClient {
    let path = format!("/agents/{}", scene.asker.peer_id());
    bridge.client().at(&path).version("1.0").token(token)
}

/// A message whose metadata says that it is alice's, which nobody believes.
fn message() -> Value {
    json!({
        "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}],
            "metadata": {"a2a.caller": "alice"}},
        "metadata": {"a2a.caller": "alice"},
        "configuration": {"returnImmediately": true},
    })
}

#[tokio::test]
async fn a_caller_is_known_by_its_name() {
    let scene = PolicySetup::new(|_, home| settings(home)).await;
    let bridge = bridge(&scene).await;
    let client = |token: &str| caller(&bridge, &scene, token);
    let message = message();
    let sent = client(ALICE).post("/message:send", &message).await;
    assert_eq!(sent.status, StatusCode::OK, "{:?}", sent.body);
    let denied = client(BOB).post("/message:send", &message).await;
    assert_eq!(denied.status, StatusCode::FORBIDDEN, "{:?}", denied.body);
    let limited = client(ALICE).post("/message:send", &message).await;
    assert_eq!(
        limited.status,
        StatusCode::TOO_MANY_REQUESTS,
        "{:?}",
        limited.body
    );

    // Also what came to nothing before there was a task is counted.
    for (reason, count) in [("denied", 1), ("limited", 1), ("refused", 0)] {
        assert_eq!(refusals(&scene.guarded, reason).await, count, "{reason}");
    }
    let lines = lines(&scene.guarded, 3).await;
    let said: Vec<(&str, &str)> = lines
        .iter()
        .map(|line| {
            (
                line["source"].as_str().unwrap(),
                line["decision"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            ("http:alice", "allow"),
            ("http:bob", "deny"),
            ("http:alice", "rate_limit")
        ]
    );
    assert!(lines.iter().all(|line| line["transport"] == "bridge"));
}

/// A label is believed of a bridge beside the node, and of no peer.
#[tokio::test]
async fn a_peer_that_calls_itself_a_caller_is_a_peer() {
    let scene = PolicySetup::new(|_, home| settings(home)).await;
    let target = Target::Peer(scene.guarded.peer_id().clone());
    let forged = scene
        .node
        .task(target, "hello")
        .metadata_from([("a2a.caller".to_owned(), "alice".to_owned())].into())
        .send()
        .await
        .unwrap();
    rejected(wait_ended(&forged).await);
    let line = &lines(&scene.guarded, 1).await[0];
    assert_eq!(line["source"], scene.asker.peer_id().to_string());

    let bridge = bridge(&scene).await;
    let sent = caller(&bridge, &scene, ALICE)
        .post("/message:send", &message())
        .await;
    assert_eq!(sent.status, StatusCode::OK, "{:?}", sent.body);
    assert_eq!(lines(&scene.guarded, 2).await[1]["source"], "http:alice");
}
