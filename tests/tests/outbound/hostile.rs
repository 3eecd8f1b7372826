//! Agents that mean harm, or are broken: the task fails with a reason in one line, in bounded time and memory, and the
//! daemon goes on.

use std::time::Duration;

use agentanycast_tests::{cli::anycast_at, task_assertions::completed};
use axum::{
    body::{Body, Bytes},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use futures::StreamExt as _;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::http_agent::{HttpAgent, ReceivedRequest, card, daemon, ok, reason, result, said, send, status};

fn endless(media_type: &'static str, first: &'static str) -> Response {
    let first = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(first.as_bytes()))]);
    let rest = futures::stream::repeat_with(|| Ok(Bytes::from(vec![b'x'; 64 << 10])));
    (
        [(header::CONTENT_TYPE, media_type)],
        Body::from_stream(first.chain(rest)),
    )
        .into_response()
}

fn sse(text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, "text/event-stream")], text).into_response()
}

#[tokio::test]
async fn what_has_no_end_is_given_up() {
    let (_daemon, node) = daemon("allow_private = true\n").await;
    let agent = HttpAgent::answering("1.0", false, |_| endless("application/json", "{\"x\": \"")).await;
    let why = reason(&node, &agent.url()).await;
    assert!(why.contains("its answer has more than 24 MiB"), "{why}");
    let agent = HttpAgent::answering("1.0", true, |_| endless("text/event-stream", "data: {\"x\": \"")).await;
    let why = reason(&node, &agent.url()).await;
    assert!(why.contains("an event of more than 24 MiB"), "{why}");
    let agent = HttpAgent::start(async |_, _| endless("application/json", "{\"name\": \"")).await;
    let why = reason(&node, &agent.url()).await;
    assert!(why.contains("its card: its answer has more than 1 MiB"), "{why}");
    let many = || format!("{{\"x\": [{}]}}", "0,".repeat(2 << 20));
    let agent = HttpAgent::answering("1.0", false, move |_| many().into_response()).await;
    let why = reason(&node, &agent.url()).await;
    assert!(why.contains("elements"), "{why}");
    // One that ends is read, by the same daemon.
    let agent = HttpAgent::answering("1.0", false, |_| said("hi")).await;
    completed(&send(&node, &agent.url()).await).await;
}

#[tokio::test]
async fn what_does_not_begin_is_given_up() {
    let (_daemon, node) = daemon("allow_private = true\n").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    // Headers, one byte at a time, without end.
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut asked = [0; 4096];
                let _ = stream.read(&mut asked).await;
                if asked.starts_with(b"GET /.well-known") {
                    let at = stream.local_addr().unwrap();
                    let interface = json!({"url": format!("http://{at}/"), "protocolBinding": "JSONRPC", "protocolVersion": "0.3"});
                    let card = json!({"supportedInterfaces": [interface]}).to_string();
                    let head = format!(
                        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                        card.len()
                    );
                    let _ = stream.write_all(format!("{head}{card}").as_bytes()).await;
                    return;
                }
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nx: ").await;
                while stream.write_all(b"x").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            });
        }
    });
    let why = reason(&node, &url).await;
    assert!(
        why.contains("it is not known whether it has the message"),
        "{why}"
    );
}

#[tokio::test]
async fn what_is_no_a2a_is_refused_with_its_reason() {
    let (_daemon, node) = daemon("allow_private = true\n").await;
    let text = |text: &'static str| move |_: &ReceivedRequest| text.into_response();
    for (agent, expected) in [
        (
            HttpAgent::answering("1.0", false, text("{\"x\":")).await,
            "its answer is no JSON",
        ),
        (
            HttpAgent::answering("1.0", false, text("[]")).await,
            "neither result nor error",
        ),
        (
            HttpAgent::answering("1.0", false, text("\u{0}\u{1}")).await,
            "its answer is no JSON",
        ),
        (
            HttpAgent::answering("1.0", false, |_| result(&json!({"task": {"id": 7}}))).await,
            "its answer cannot be read",
        ),
        (
            HttpAgent::answering("1.0", false, |_| result(&json!({"later": 1}))).await,
            "neither task nor message",
        ),
        (
            HttpAgent::answering("1.0", true, |_| sse("data: {\n\n")).await,
            "its answer is no JSON",
        ),
        (
            HttpAgent::answering("1.0", false, |_| status(500)).await,
            "it answered HTTP 500",
        ),
        (
            HttpAgent::answering("1.0", false, |_| status(418)).await,
            "it answered HTTP 418",
        ),
        (
            HttpAgent::answering("1.0", false, |_| {
                (
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "<h1>out of\r\norder\u{1b}[2J</h1>",
                )
                    .into_response()
            })
            .await,
            "it answered HTTP 500: out of order [2J",
        ),
        (
            HttpAgent::answering("1.0", false, |_| {
                (StatusCode::INTERNAL_SERVER_ERROR, "x".repeat(1 << 20)).into_response()
            })
            .await,
            "xxxx…",
        ),
        (
            HttpAgent::start(async |_, _| (StatusCode::FORBIDDEN, "only\nfor members").into_response()).await,
            "its card: it answered HTTP 403 (what it wants of callers is set in [bridge.outbound.HOST]): only for members",
        ),
        (
            HttpAgent::start(async |_, _| card("ftp://agents.example/", "1.0", false)).await,
            "its card lists has a URL that can be called: JSONRPC 1.0 at \"ftp://agents.example/\": it is neither http nor https",
        ),
        (
            HttpAgent::answering("1.0", false, |_| {
                ok(&json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "a\nb"}}))
            })
            .await,
            "it answered -32603: a b",
        ),
        (
            HttpAgent::start(async |_, _| status(404)).await,
            "there is no agent card at",
        ),
        (
            HttpAgent::start(async |_, _| "no card".into_response()).await,
            "is no JSON",
        ),
        (
            HttpAgent::start(async |_, _| ok(&json!({}))).await,
            "what is there is no card: {}",
        ),
        (
            HttpAgent::start(async |_, _| ok(&json!({"name": "x", "skills": []}))).await,
            "lists no interface",
        ),
        (
            HttpAgent::start(async |_, _| status(503)).await,
            "it was not reached for 2s: its card: it answered HTTP 503",
        ),
    ] {
        let why = reason(&node, &agent.url()).await;
        assert!(why.contains(expected), "{why:?} is not {expected:?}");
    }
    // The daemon is as good as before.
    let agent = HttpAgent::answering("1.0", false, |_| said("hi")).await;
    completed(&send(&node, &agent.url()).await).await;
}

/// What an agent says stands on one line of the terminal of whoever sends to it, and does nothing there.
#[tokio::test]
async fn a_reason_does_not_drive_the_terminal() {
    let (daemon, _node) = daemon("allow_private = true\n").await;
    let said = "no\nanycast: all is well\r\u{1b}[2J\u{202e}";
    let state = json!({"state": "TASK_STATE_FAILED", "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": said}]}});
    let failed = json!({"task": {"id": "r1", "contextId": "c", "status": state}});
    let agent = HttpAgent::answering("1.0", false, move |_| result(&failed)).await;
    let told = anycast_at(&daemon, &["send", "--url", &agent.url(), "hello"]).await;
    assert!(!told.status.success());
    let lines: Vec<&str> = told.all_output.lines().collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains("no anycast: all is well") && !lines[0].contains(['\u{1b}', '\r', '\u{202e}']),
        "{lines:?}"
    );
}

#[tokio::test]
async fn redirects_stay_on_their_host() {
    let (_daemon, node) = daemon("allow_private = true\n").await;
    let elsewhere = HttpAgent::answering("1.0", false, |_| said("hi")).await;
    let target = elsewhere.url();
    let to =
        move |place: String| (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, place)]).into_response();
    let away = to;
    let agent = HttpAgent::start(move |asked: ReceivedRequest, _| {
        let answer = away(format!("{target}{}", asked.path));
        async { answer }
    })
    .await;
    let why = reason(&node, &agent.url()).await;
    assert!(why.contains("another host"), "{why}");
    assert_eq!(elsewhere.asked().len(), 0);
    // On the same host they are followed, with the message.
    let agent = HttpAgent::start(move |asked: ReceivedRequest, address| {
        let answer = match asked.path.as_str() {
            "/moved" => said(
                asked.call()["params"]["message"]["parts"][0]["text"]
                    .as_str()
                    .unwrap(),
            ),
            "/" => to("/moved".to_owned()),
            _ => card(&format!("http://{address}/"), "1.0", false),
        };
        async { answer }
    })
    .await;
    let task = completed(&send(&node, &agent.url()).await).await;
    assert_eq!(task.messages.last().unwrap().text_content(), "hello");
    let turning = HttpAgent::answering("1.0", false, |asked| {
        let place = asked.path.clone();
        (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, place)]).into_response()
    })
    .await;
    let why = reason(&node, &turning.url()).await;
    assert!(why.contains("redirects more than"), "{why}");
}
