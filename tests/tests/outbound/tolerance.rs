//! Agents that write A2A otherwise than the specification does, where it cannot be misunderstood: URLs, cards, states,
//! roles, kinds, codings and events. `docs/tolerance.md` lists what is taken.

use agentanycast::{Message, TaskStatus};
use agentanycast_tests::task_assertions::{completed, not_completed};
use async_compression::tokio::write::{BrotliEncoder, GzipEncoder, ZlibEncoder};
use axum::{
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::http_agent::{
    HttpAgent, ReceivedRequest, card, daemon, is_card, ok, reason, result, said, send, status,
};

fn sse(text: impl Into<String>) -> Response {
    ([(header::CONTENT_TYPE, "text/event-stream")], text.into()).into_response()
}

#[tokio::test]
async fn urls_are_asked_as_they_are_given() {
    let (_daemon, node) = daemon("allow_private = true\n").await;
    let agent = HttpAgent::start(
        async |asked: ReceivedRequest, address| match asked.path.as_str() {
            "/cards/7" => card(&format!("http://{address}/rpc/?key=a%2Fb"), "1.0", false),
            "/rpc/" => said("hi"),
            _ => status(404),
        },
    )
    .await;
    let url = format!("{}/cards/7?version=2&x=%20", agent.url());
    completed(&send(&node, &url).await).await;
    let asked = agent.asked();
    let queries = |path: &str| {
        let asked = asked.iter().filter(|asked| asked.path == path);
        asked.map(|asked| asked.query.clone()).collect::<Vec<_>>()
    };
    assert_eq!(queries("/cards/7"), ["version=2&x=%20"]);
    assert_eq!(queries("/rpc/"), ["key=a%2Fb"]);
    assert_eq!(
        queries("/cards/7/.well-known/agent-card.json"),
        ["version=2&x=%20"]
    );
}

#[tokio::test]
async fn what_is_no_card_is_passed_over() {
    let (_daemon, node) = daemon("allow_private = true\n").await;
    for other in [
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "no such method"}}),
        json!({"message": "hello"}),
        json!([]),
    ] {
        let agent = HttpAgent::start(move |asked: ReceivedRequest, address| {
            let answer = match asked.path.as_str() {
                "/.well-known/agent.json" => card(&format!("http://{address}/rpc"), "1.0", false),
                "/rpc" => said("hi"),
                _ => ok(&other),
            };
            async { answer }
        })
        .await;
        completed(&send(&node, &agent.url()).await).await;
    }
    let agent =
        HttpAgent::start(async |_, _| ok(&json!({"error": {"code": -32600}, "jsonrpc": "2.0"}))).await;
    let why = reason(&node, &agent.url()).await;
    assert!(
        why.contains("there is no agent card at") && why.contains("what is there is no card: {\"error\""),
        "{why}"
    );
}

#[tokio::test]
async fn a_card_with_a_url_alone_is_one_of_0_3_and_another_version_is_named() {
    let (_daemon, node) = daemon("allow_private = true\n").await;
    for version in [Value::Null, json!("0.2.6")] {
        let agent = HttpAgent::start(move |asked: ReceivedRequest, address| {
            let answer = if is_card(&asked) {
                ok(&json!({"name": "old", "url": format!("http://{address}/"), "protocolVersion": version}))
            } else {
                // As agents of before 0.2 wrote parts.
                let parts = json!([{"type": "text", "text": "hi"}]);
                result(&json!({"kind": "message", "messageId": "m", "role": "agent", "parts": parts}))
            };
            async { answer }
        })
        .await;
        let task = completed(&send(&node, &agent.url()).await).await;
        assert_eq!(task.messages[1].text_content(), "hi");
        assert_eq!(agent.calls("message/send"), 1);
    }
    let new = HttpAgent::start(async |_, address| card(&format!("http://{address}/"), "9.0", false)).await;
    let why = reason(&node, &new.url()).await;
    assert!(why.contains("\"JSONRPC\" of version \"9.0\""), "{why}");
}

#[tokio::test]
async fn states_are_known_in_their_usual_spellings() {
    let (_daemon, node) = daemon("allow_private = true\n").await;
    for (state, expected) in [
        (json!("Completed"), TaskStatus::Completed),
        (json!("done"), TaskStatus::Completed),
        (json!(3), TaskStatus::Completed),
        (json!("cancelled"), TaskStatus::Canceled),
        (json!("TASK_STATE_CANCELLED"), TaskStatus::Canceled),
        (json!("task_state_failed"), TaskStatus::Failed),
        (json!("error"), TaskStatus::Failed),
        (json!("declined"), TaskStatus::Rejected),
    ] {
        let task = json!({"task": {"id": "r1", "contextId": "c", "status": {"state": state}}});
        let agent = HttpAgent::answering("1.0", false, move |_| result(&task)).await;
        let handle = send(&node, &agent.url()).await;
        let status = match expected {
            TaskStatus::Completed => completed(&handle).await.status,
            _ => not_completed(&handle).await.task().unwrap().status,
        };
        assert_eq!(status, expected, "{state}");
    }
}

#[tokio::test]
async fn a_state_that_is_not_known_fails_the_task_after_a_few_looks() {
    let (_daemon, node) = daemon("allow_private = true\n").await;
    let odd = [
        (json!("finito"), "the state \"finito\""),
        (Value::Null, "the state null"),
        (json!(42), "the state \"42\""),
        (json!({"x": 1}), "the state \"{\\\"x\\\":1}\""),
        (
            json!("TASK_STATE_UNSPECIFIED"),
            "the state \"TASK_STATE_UNSPECIFIED\"",
        ),
    ];
    let failed = odd.map(|(state, told)| {
        let node = node.clone();
        async move {
            let task = json!({"id": "r1", "contextId": "c", "status": {"state": state}});
            let agent = HttpAgent::answering("1.0", false, move |asked| {
                match asked.call()["method"].as_str().unwrap() {
                    "SendMessage" => result(&json!({ "task": task })),
                    _ => result(&task),
                }
            })
            .await;
            let why = reason(&node, &agent.url()).await;
            assert!(why.contains(told), "{why}");
            let looks = agent.calls("GetTask");
            assert!((2..10).contains(&looks), "{looks}");
        }
    });
    futures::future::join_all(failed).await;
}

#[tokio::test]
async fn roles_and_shapes_are_known_and_others_are_named() {
    let (_daemon, node) = daemon("allow_private = true\n").await;
    for role in [json!("agent"), json!("ASSISTANT"), json!("Role_Agent"), json!(2)] {
        // In the form of 0.3, without its kinds.
        let parts = json!([{"text": "hi"}, {"kind": "File", "file": {"bytes": "aGVs\r\nbG8", "name": "a"}}]);
        let message = json!({"messageId": "m", "role": role, "parts": parts});
        let agent = HttpAgent::answering("1.0", false, move |_| result(&message)).await;
        let task = completed(&send(&node, &agent.url()).await).await;
        let said: &Message = &task.messages[1];
        assert_eq!(said.parts[0].as_text(), Some("hi"), "{role}");
        assert_eq!(said.parts[1].as_raw(), Some(&b"hello"[..]), "{role}");
    }
    for (said, told) in [
        (
            json!({"message": {"messageId": "m", "role": "robot", "parts": []}}),
            "role, not \"robot\"",
        ),
        (
            json!({"message": {"messageId": "m", "role": 42, "parts": []}}),
            "role, not 42",
        ),
        (json!({"kind": "poem", "x": 1}), "something of the kind \"poem\""),
        (json!({"later": 1}), "an object with later"),
    ] {
        let agent = HttpAgent::answering("1.0", false, move |_| result(&said)).await;
        let why = reason(&node, &agent.url()).await;
        assert!(why.contains(told), "{why}");
    }
}

#[tokio::test]
async fn events_of_no_kind_that_is_known_do_not_end_a_task() {
    let (_daemon, node) = daemon("allow_private = true\n").await;
    let agent = HttpAgent::answering("1.0", true, |_| {
        let event = |result: Value| {
            format!(
                "data: {}\n\n",
                json!({"jsonrpc": "2.0", "id": 1, "result": result})
            )
        };
        let status = |state: &str| json!({"taskId": "r1", "contextId": "c", "status": {"state": state}});
        sse([
            "\u{feff}event: ping\ndata: now\n\n".to_owned(),
            event(json!({"task": {"id": "r1", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}})),
            "event: heartbeat\ndata: {}\n\n".to_owned(),
            "data: {\"jsonrpc\": \"2.0\", \"method\": \"notifications/later\"}\n\n".to_owned(),
            event(json!({"later": {"taskId": "r1"}})),
            event(json!({"statusUpdate": status("TASK_STATE_COMPLETED")})),
            "data: [DONE]\n\n".to_owned(),
        ]
        .concat())
    })
    .await;
    completed(&send(&node, &agent.url()).await).await;
    assert_eq!(agent.calls("CancelTask"), 0);
}

#[tokio::test]
async fn events_need_no_empty_line() {
    let (_daemon, node) = daemon("allow_private = true\n").await;
    let message = json!({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]});
    let event = json!({"jsonrpc": "2.0", "id": 1, "result": {"message": message}});
    let ping = json!({"jsonrpc": "2.0", "method": "ping"});
    for stream in [
        format!("data: {event}\n"),
        format!("data: {event}"),
        format!("data: {ping}\ndata: {event}\ndata: {ping}\n\n"),
        format!("data: {event}\n\ndata: {{\"half"),
    ] {
        let agent = HttpAgent::answering("1.0", true, move |_| sse(stream.clone())).await;
        completed(&send(&node, &agent.url()).await).await;
    }
}

#[tokio::test]
async fn the_body_of_an_error_is_read_in_its_own_encoding() {
    let (_daemon, node) = daemon("allow_private = true\n").await;
    for streams in [false, true] {
        let agent = HttpAgent::answering("1.0", streams, |_| {
            let head = [(header::CONTENT_TYPE, "text/html; charset=ISO-8859-1")];
            let body = &b"<h1>caf\xe9 &amp; I can&#39;t</h1>"[..];
            (StatusCode::BAD_REQUEST, head, body).into_response()
        })
        .await;
        let why = reason(&node, &agent.url()).await;
        assert!(why.contains("café & I can't"), "{why}");
    }
}

/// A text as this coding has it.
async fn coded(coding: &str, text: &[u8]) -> Vec<u8> {
    macro_rules! coded {
        ($encoder:ident) => {{
            let mut encoder = $encoder::new(Vec::new());
            encoder.write_all(text).await.unwrap();
            encoder.shutdown().await.unwrap();
            encoder.into_inner()
        }};
    }
    match coding {
        "gzip" => coded!(GzipEncoder),
        "deflate" => coded!(ZlibEncoder),
        "br" => coded!(BrotliEncoder),
        _ => text.to_vec(),
    }
}

/// An agent whose answers are in this coding, whatever is asked for.
async fn coding_agent(coding: &'static str, media_type: &'static str, answer: String) -> HttpAgent {
    let body = coded(coding, answer.as_bytes()).await;
    HttpAgent::answering("1.0", media_type == "text/event-stream", move |asked| {
        assert_eq!(asked.header("accept-encoding"), Some("identity"));
        let head = [
            (header::CONTENT_TYPE, media_type),
            (header::CONTENT_ENCODING, coding),
        ];
        (head, body.clone()).into_response()
    })
    .await
}

#[tokio::test]
async fn answers_that_come_compressed_are_read_within_their_bounds() {
    let (_daemon, node) = daemon("allow_private = true\n").await;
    let message = json!({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]});
    let whole = json!({"jsonrpc": "2.0", "id": 1, "result": {"message": message}}).to_string();
    let stream = format!("data: {whole}\n\n");
    for coding in ["gzip", "deflate", "br"] {
        let agent = coding_agent(coding, "application/json", format!("\u{feff}{whole}")).await;
        completed(&send(&node, &agent.url()).await).await;
        let agent = coding_agent(coding, "text/event-stream", stream.clone()).await;
        completed(&send(&node, &agent.url()).await).await;
    }
    let bomb = format!("{{\"x\": \"{}\"}}", "x".repeat(26 << 20));
    let agent = coding_agent("gzip", "application/json", bomb).await;
    let why = reason(&node, &agent.url()).await;
    assert!(why.contains("its answer has more than 24 MiB"), "{why}");
    let agent = coding_agent("compress", "application/json", whole).await;
    let why = reason(&node, &agent.url()).await;
    assert!(why.contains("the Content-Encoding \"compress\""), "{why}");
}
