//! A connection that breaks off while a message is sent: it is found out whether it has arrived, and it is never said
//! twice.

use std::sync::{Arc, Mutex};

use agentanycast_tests::task_assertions::completed;
use axum::response::Response;
use serde_json::{Value, json};

use crate::http_agent::{HttpAgent, ReceivedRequest, card, daemon, is_card, reason, result, send, status};

/// An agent that takes a message and breaks off; asked for its tasks, it shows what it has.
async fn agent_that_drops_connections(version: &'static str, lists: bool) -> HttpAgent {
    let taken: Arc<Mutex<Option<Value>>> = Arc::default();
    HttpAgent::start(move |asked: ReceivedRequest, address| {
        let taken = Arc::clone(&taken);
        async move {
            if is_card(&asked) {
                return card(&format!("http://{address}/"), version, false);
            }
            let call = asked.call();
            let task = || {
                let message = taken.lock().unwrap().clone();
                let shown = json!({"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"},
                    "history": [message]});
                shown
            };
            match call["method"].as_str().unwrap_or_default() {
                "SendMessage" | "message/send" => {
                    *taken.lock().unwrap() = Some(call["params"]["message"].clone());
                    broken()
                }
                "ListTasks" if lists => result(&json!({"tasks": [task()], "nextPageToken": ""})),
                "ListTasks" => result(&json!({"tasks": [], "nextPageToken": ""})),
                "GetTask" => result(&task()),
                _ => status(500),
            }
        }
    })
    .await
}

/// An answer that breaks off.
fn broken() -> Response {
    let piece = futures::stream::iter([Err::<axum::body::Bytes, _>(std::io::Error::other("broken"))]);
    Response::new(axum::body::Body::from_stream(piece))
}

#[tokio::test]
async fn a_message_that_has_arrived_is_found() {
    let agent = agent_that_drops_connections("1.0", true).await;
    let (_daemon, node) = daemon("allow_private = true\n").await;
    completed(&send(&node, &agent.url()).await).await;
    assert_eq!(agent.calls("SendMessage"), 1);
    assert!(agent.calls("ListTasks") >= 1);
}

#[tokio::test]
async fn one_that_is_not_found_is_not_sent_again() {
    let agent = agent_that_drops_connections("1.0", false).await;
    let (_daemon, node) = daemon("allow_private = true\n").await;
    let reason = reason(&node, &agent.url()).await;
    assert!(
        reason.contains("it is not known whether it has the message"),
        "{reason}"
    );
    assert_eq!(agent.calls("SendMessage"), 1);
    assert!(agent.calls("ListTasks") > 1);
}

#[tokio::test]
async fn an_agent_of_0_3_cannot_be_asked() {
    let agent = agent_that_drops_connections("0.3", false).await;
    let (_daemon, node) = daemon("allow_private = true\n").await;
    let reason = reason(&node, &agent.url()).await;
    assert!(
        reason.contains("it is not known whether it has the message"),
        "{reason}"
    );
    assert_eq!(agent.calls("message/send"), 1);
}

/// The daemon is killed while the message is on its way: the agent has it, and is not given it again.
#[tokio::test]
async fn a_message_on_its_way_when_the_daemon_falls_is_found() {
    let (seen, mut arrived) = tokio::sync::mpsc::unbounded_channel();
    let taken: Arc<Mutex<Option<Value>>> = Arc::default();
    let agent = HttpAgent::start(move |asked: ReceivedRequest, address| {
        let (seen, taken) = (seen.clone(), Arc::clone(&taken));
        async move {
            if is_card(&asked) {
                return card(&format!("http://{address}/"), "1.0", true);
            }
            let call = asked.call();
            let task = |message: Option<Value>| {
                json!({"id": "t", "contextId": "c",
                "status": {"state": "TASK_STATE_COMPLETED"}, "history": [message]})
            };
            match call["method"].as_str().unwrap_or_default() {
                "SendStreamingMessage" => {
                    *taken.lock().unwrap() = Some(call["params"]["message"].clone());
                    seen.send(()).unwrap();
                    std::future::pending().await
                }
                "ListTasks" => {
                    result(&json!({"tasks": [task(taken.lock().unwrap().clone())], "nextPageToken": ""}))
                }
                "GetTask" => result(&task(taken.lock().unwrap().clone())),
                _ => crate::http_agent::ok(
                    &json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32004, "message": "over"}}),
                ),
            }
        }
    })
    .await;
    let config = "[bridge.outbound]\nallow_private = true\n";
    let mut daemon = agentanycast_tests::Daemon::builder().config(config).start().await;
    let id = send(&daemon.node().await, &agent.url()).await.id().to_owned();
    agentanycast_tests::within("the message arrives", arrived.recv())
        .await
        .unwrap();
    daemon.kill().await;
    daemon.restart().await;
    completed(&daemon.node().await.task_handle(&id)).await;
    assert_eq!(agent.calls("SendStreamingMessage"), 1);
}
