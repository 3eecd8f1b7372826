//! `anycast trace` of a task by URL: what was done to give it to its agent, and why it did not arrive.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use agentanycast::Target;
use agentanycast_tests::{
    cli::{anycast_at, anycast_json},
    eventually,
    task_assertions::{completed, not_completed},
};
use axum::{
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::http_agent::{HttpAgent, ReceivedRequest, card, daemon, is_card, ok, result};

fn kinds(trace: &Value) -> Vec<&str> {
    let steps = trace["steps"].as_array().unwrap();
    steps.iter().map(|step| step["kind"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn each_attempt_is_told_until_it_is_given_up() {
    // A port at which nobody is.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/agent?key=secret", listener.local_addr().unwrap());
    drop(listener);
    let (daemon, node) = daemon("allow_private = true\n").await;
    let handle = node.send_task(Target::url(url), "hello").await.unwrap();
    let going = eventually("it is tried again", || async {
        let trace = anycast_json(&daemon, &["trace", handle.id()]).await;
        trace["external"]["steps"][0]["next_at"]
            .is_string()
            .then_some(trace)
    })
    .await;
    assert_eq!(going["verdict"], "external");
    let why = going["why"].as_str().unwrap();
    assert!(
        why.contains("the last attempt failed: its card: 127.0.0.1:"),
        "{why}"
    );
    assert!(
        going["next"]
            .as_str()
            .unwrap()
            .contains("reachable from this host"),
        "{going}"
    );

    not_completed(&handle).await;
    let ended = anycast_json(&daemon, &["trace", handle.id()]).await;
    assert_eq!(kinds(&ended), ["sent", "attempt-failed", "ended"]);
    let step = &ended["external"]["steps"][0];
    assert_eq!(
        (&step["action"], &step["failure"]),
        (&json!("failed"), &json!("unreached"))
    );
    assert!(
        step["count"].as_u64().unwrap() > 1 && step["last_at"].is_string(),
        "{step}"
    );
    assert!(!ended.to_string().contains("secret"), "{ended}");
    assert!(
        ended["next"].as_str().unwrap().contains("then send it again"),
        "{ended}"
    );
    let said = anycast_at(&daemon, &["trace", handle.id()]).await.all_output;
    assert!(said.contains("cannot be reached"), "{said}");
}

#[tokio::test]
async fn what_the_agent_calls_it_is_told() {
    let tries = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&tries);
    let agent = HttpAgent::start(move |asked, address| {
        let count = Arc::clone(&count);
        async move {
            if is_card(&asked) {
                return card(&format!("http://{address}/rpc"), "1.0", false);
            }
            if count.fetch_add(1, Ordering::Relaxed) < 2 {
                return StatusCode::SERVICE_UNAVAILABLE.into_response();
            }
            result(
                &json!({"task": {"id": "r1", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}}),
            )
        }
    })
    .await;
    let (mut daemon, node) = daemon("allow_private = true\n").await;
    let handle = node.send_task(Target::url(agent.url()), "hello").await.unwrap();
    completed(&handle).await;
    let id = handle.id().to_owned();
    drop((handle, node));
    // It is in the store.
    daemon.kill().await;
    daemon.restart().await;
    let trace = anycast_json(&daemon, &["trace", &id]).await;
    assert_eq!(
        kinds(&trace),
        ["sent", "card", "attempt-failed", "taken", "ended"]
    );
    assert_eq!(trace["external"]["remote_task_id"], "r1");
    // By when each was so last: its card was read three times.
    let [busy, card, taken] = [0, 1, 2].map(|place| &trace["external"]["steps"][place]);
    assert!(
        card["detail"]
            .as_str()
            .unwrap()
            .ends_with("/.well-known/agent-card.json"),
        "{card}"
    );
    assert_eq!((&busy["failure"], &busy["count"]), (&json!("busy"), &json!(2)));
    let interface = format!("http://{}/rpc", agent.address);
    assert_eq!(
        (&taken["url"], &taken["binding"]),
        (&json!(interface), &json!("JSONRPC 1.0"))
    );
    let said = anycast_at(&daemon, &["trace", &id]).await.all_output;
    assert!(said.contains("took it, as its task r1"), "{said}");
}

/// An agent with a card, which answers calls by this.
async fn agent(answer: impl Fn(&ReceivedRequest) -> Response + Clone + Send + Sync + 'static) -> HttpAgent {
    HttpAgent::start(move |asked: ReceivedRequest, address| {
        let answer = if is_card(&asked) {
            card(&format!("http://{address}/rpc"), "1.0", false)
        } else {
            answer(&asked)
        };
        async { answer }
    })
    .await
}

#[tokio::test]
async fn a_cancel_that_the_agent_does_not_take_is_told() {
    cancel_is_not_taken(
        || (StatusCode::INTERNAL_SERVER_ERROR, "<h1>out of\norder</h1>").into_response(),
        "final",
        "may go on with it: it answered HTTP 500: out of order",
    )
    .await;
}

/// The answer is one of success, and says that the task goes on.
#[tokio::test]
async fn a_cancel_that_is_answered_by_a_task_that_goes_on_is_not_taken() {
    cancel_is_not_taken(
        || result(&json!({"id": "r1", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}})),
        "refused",
        "may go on with it: it answered that its task is TASK_STATE_WORKING",
    )
    .await;
}

async fn cancel_is_not_taken(answer: fn() -> Response, failure: &str, says: &str) {
    let working = json!({"task": {"id": "r1", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}});
    let agent = agent(move |asked| match asked.call()["method"].as_str() {
        Some("CancelTask") => answer(),
        Some("GetTask") => result(&working["task"]),
        _ => result(&working),
    })
    .await;
    let (daemon, node) = daemon("allow_private = true\n").await;
    let handle = node.send_task(Target::url(agent.url()), "hello").await.unwrap();
    eventually("the agent has it", || async {
        let trace = anycast_json(&daemon, &["trace", handle.id()]).await;
        (trace["external"]["remote_task_id"] == "r1").then_some(())
    })
    .await;
    handle.cancel().await.unwrap();
    let trace = eventually("it is told that the agent did not take it", || async {
        let trace = anycast_json(&daemon, &["trace", handle.id()]).await;
        kinds(&trace).contains(&"not-withdrawn").then_some(trace)
    })
    .await;
    assert_eq!(
        (&trace["verdict"], &trace["status"]),
        (&json!("canceled"), &json!("canceled"))
    );
    let step = trace["external"]["steps"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&step["action"], &step["failure"]),
        (&json!("not-withdrawn"), &json!(failure))
    );
    let why = trace["why"].as_str().unwrap();
    assert!(why.contains(says), "{why}");
    assert!(
        trace["next"].as_str().unwrap().contains("end its task r1 there"),
        "{trace}"
    );
}

#[tokio::test]
async fn what_the_agent_refuses_is_told_as_that() {
    let state = json!({"state": "TASK_STATE_REJECTED", "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "not me"}]}});
    let rejected = json!({"task": {"id": "r1", "contextId": "c", "status": state}});
    let error = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "not me"}});
    let (daemon, node) = daemon("allow_private = true\n").await;
    for agent in [
        agent(move |_| result(&rejected)).await,
        agent(move |_| ok(&error)).await,
        agent(|_| (StatusCode::BAD_REQUEST, "not me").into_response()).await,
    ] {
        let handle = node.send_task(Target::url(agent.url()), "hello").await.unwrap();
        not_completed(&handle).await;
        let trace = anycast_json(&daemon, &["trace", handle.id()]).await;
        assert_eq!(trace["verdict"], "refused", "{trace}");
        let why = trace["why"].as_str().unwrap();
        assert!(
            why.contains("and the external agent refused it: ") && why.ends_with("not me"),
            "{why}"
        );
        let said = anycast_at(&daemon, &["trace", handle.id()]).await.all_output;
        assert!(said.contains(why), "{said}");
    }
}
