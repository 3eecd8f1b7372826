//! Agents that answer by messages where A2A has a task, or by several where it has one: what they say arrives, once and
//! in order, and `anycast trace` tells in what they differ from A2A.

use agentanycast::{Message, Task, TaskHandle};
use agentanycast_tests::{
    Daemon,
    cli::{anycast_at, anycast_json},
    task_assertions::{completed, not_completed},
};
use axum::{
    http::header,
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};

use crate::http_agent::{HttpAgent, daemon, ok, result, send};

/// A stream of these results.
fn stream(results: &[Value]) -> Response {
    let events = results.iter().map(|result| {
        let event = json!({"jsonrpc": "2.0", "id": 1, "result": result});
        format!("data: {event}\n\n")
    });
    (
        [(header::CONTENT_TYPE, "text/event-stream")],
        events.collect::<String>(),
    )
        .into_response()
}

fn message(id: &str, task: Option<&str>, text: &str) -> Value {
    let mut message = json!({"messageId": id, "role": "ROLE_AGENT", "parts": [{"text": text}]});
    if let Some(task) = task {
        message["taskId"] = task.into();
    }
    json!({ "message": message })
}

fn no_task() -> Response {
    ok(&json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": "no such task"}}))
}

/// What the agent said, oldest first.
fn said(task: &Task) -> Vec<String> {
    task.messages[1..].iter().map(Message::text_content).collect()
}

/// What `anycast trace` tells of the agent's breaches of A2A.
async fn breaches(daemon: &Daemon, handle: &TaskHandle) -> Vec<String> {
    let trace = anycast_json(daemon, &["trace", handle.id()]).await;
    let steps = trace["external"]["steps"].as_array().unwrap();
    let breaches = steps.iter().filter(|step| step["action"] == "protocol-breach");
    breaches
        .map(|step| step["detail"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_message_that_names_a_task_which_is_not_there_is_the_answer() {
    let (daemon, node) = daemon("allow_private = true\n").await;
    for streaming in [false, true] {
        let agent = HttpAgent::answering("1.0", streaming, |asked| {
            let answer = message("m1", Some("t1"), "forty-two");
            match asked.call()["method"].as_str().unwrap() {
                "SendMessage" => result(&answer),
                "SendStreamingMessage" => stream(&[answer]),
                _ => no_task(),
            }
        })
        .await;
        let handle = send(&node, &agent.url()).await;
        let task = completed(&handle).await;
        assert_eq!(said(&task), ["forty-two"]);
        assert_eq!(task.status_message.unwrap().text_content(), "forty-two");
        let breaches = breaches(&daemon, &handle).await;
        assert!(
            breaches.len() == 1 && breaches[0].contains("names the task t1, which it does not show"),
            "{breaches:?}"
        );
        assert_eq!(agent.calls("CancelTask"), 0);
    }
}

/// The same of 0.3, by an agent that answers in the form of 0.3.
#[tokio::test]
async fn an_agent_of_0_3_that_names_a_task_is_heard_too() {
    let (_daemon, node) = daemon("allow_private = true\n").await;
    let agent = HttpAgent::answering("0.3", true, |asked| {
        let mut answer = message("m1", Some("t1"), "forty-two")["message"].take();
        answer["kind"] = "message".into();
        answer["role"] = "agent".into();
        match asked.call()["method"].as_str().unwrap() {
            "message/stream" => stream(&[answer]),
            _ => no_task(),
        }
    })
    .await;
    let task = completed(&send(&node, &agent.url()).await).await;
    assert_eq!(said(&task), ["forty-two"]);
}

#[tokio::test]
async fn a_message_that_names_a_task_which_is_there_is_followed_by_its_end() {
    let (_daemon, node) = daemon("allow_private = true\n").await;
    let agent = HttpAgent::answering("1.0", false, |asked| {
        if asked.call()["method"] == "SendMessage" {
            return result(&message("m1", Some("t1"), "begun"));
        }
        let said = message("m2", None, "done")["message"].take();
        let status = json!({"state": "TASK_STATE_COMPLETED", "message": said});
        result(&json!({"id": "t1", "contextId": "c", "status": status}))
    })
    .await;
    let task = completed(&send(&node, &agent.url()).await).await;
    assert_eq!(said(&task), ["begun", "done"]);
}

#[tokio::test]
async fn each_message_of_a_stream_arrives_and_is_printed() {
    let (daemon, node) = daemon("allow_private = true\n").await;
    let agent = HttpAgent::answering("1.0", true, |_| {
        // Two have one id, and one comes twice.
        stream(&[
            message("m1", None, "one"),
            message("m2", None, "two"),
            message("m2", None, "two"),
            message("m2", None, "three"),
        ])
    })
    .await;
    let handle = send(&node, &agent.url()).await;
    let task = completed(&handle).await;
    assert_eq!(said(&task), ["one", "two", "three"]);
    let breaches = breaches(&daemon, &handle).await;
    assert_eq!(
        breaches,
        ["it said 3 messages without a task, and A2A has one; all are taken"]
    );
    let told = anycast_at(&daemon, &["send", "--url", &agent.url(), "hello"]).await;
    assert_eq!(told.status.code(), Some(0), "{}", told.all_output);
    assert_eq!(told.all_output, "one\ntwo\nthree\n");
}

#[tokio::test]
async fn a_task_after_messages_is_the_agents_task() {
    let (_daemon, node) = daemon("allow_private = true\n").await;
    let agent = HttpAgent::answering("1.0", true, |_| {
        let last = message("m4", None, "done")["message"].take();
        let task = json!({"id": "t2", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}});
        let end = json!({"state": "TASK_STATE_COMPLETED", "message": last});
        stream(&[
            message("m1", Some("t1"), "hold on"),
            json!({ "task": task }),
            message("m2", Some("t2"), "beside"),
            message("m3", Some("t9"), "of another task"),
            json!({"statusUpdate": {"taskId": "t2", "contextId": "c", "status": end}}),
        ])
    })
    .await;
    let task = completed(&send(&node, &agent.url()).await).await;
    assert_eq!(said(&task), ["hold on", "beside", "of another task", "done"]);
}

#[tokio::test]
async fn an_error_behind_a_message_fails_the_task_and_the_message_stays() {
    let (_daemon, node) = daemon("allow_private = true\n").await;
    let agent = HttpAgent::answering("1.0", true, |_| {
        let event = json!({"jsonrpc": "2.0", "id": 1, "result": message("m1", None, "so far")});
        let error = json!({"jsonrpc": "2.0", "error": {"code": -32603, "message": "it broke"}});
        let events = format!("data: {event}\n\ndata: {error}\n\n");
        ([(header::CONTENT_TYPE, "text/event-stream")], events).into_response()
    })
    .await;
    let error = not_completed(&send(&node, &agent.url()).await).await;
    let task = error.task().unwrap();
    assert_eq!(said(task)[0], "so far");
    assert!(task.reason().contains("it broke"), "{}", task.reason());
}
