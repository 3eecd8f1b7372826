//! Servers of streamable HTTP that do what servers of others do: sessions that are lost, streams that break
//! off, odd statuses.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by a panic")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use agentanycast_mcp_client::{CallEvent, ClientIdentity, FailureKind, McpClient, McpFailure, Tool};
use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{HeaderMap, Method, StatusCode},
    response::{IntoResponse as _, Response},
    routing::any,
};
use serde_json::{Map, Value, json};
use tokio::{net::TcpListener, time::timeout};
use tokio_util::task::AbortOnDropHandle;

/// How long a test waits for something that has to come.
const PATIENCE: Duration = Duration::from_mins(1);

const CLIENT: ClientIdentity = ClientIdentity {
    name: "test",
    version: "1",
    asks: false,
};

/// A request as a server of a test gets it.
struct Asked {
    method: Method,
    headers: HeaderMap,
    message: Value,
}

impl Asked {
    fn is(&self, method: &str) -> bool {
        self.message["method"] == method
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    fn answer(&self, result: &Value) -> Response {
        let answer = json!({"jsonrpc": "2.0", "id": self.message["id"], "result": result});
        ([("content-type", "application/json")], answer.to_string()).into_response()
    }

    /// The answer of any server, to what is no call.
    fn usual(&self, session: &str) -> Response {
        if self.method != Method::POST {
            return StatusCode::METHOD_NOT_ALLOWED.into_response();
        }
        if self.is("initialize") {
            let result =
                json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s"}});
            let mut response = self.answer(&result);
            if !session.is_empty() {
                response
                    .headers_mut()
                    .insert("mcp-session-id", session.parse().unwrap());
            }
            return response;
        }
        if self.is("tools/list") {
            return self.answer(&json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}));
        }
        if self.message.get("id").is_some() {
            return self.answer(&json!({}));
        }
        StatusCode::ACCEPTED.into_response()
    }
}

fn status(status: u16, body: &str) -> Response {
    (StatusCode::from_u16(status).unwrap(), body.to_owned()).into_response()
}

fn stream(text: String) -> Response {
    ([("content-type", "text/event-stream")], Body::from(text)).into_response()
}

fn event(message: &Value) -> String {
    format!("event: message\ndata: {message}\n\n")
}

/// Serves, and the URL.
async fn serve(
    answer: impl Fn(&Asked) -> Response + Clone + Send + Sync + 'static,
) -> (AbortOnDropHandle<()>, String) {
    let handle = move |request: Request| {
        let answer = answer.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
            answer(&Asked {
                method: parts.method,
                headers: parts.headers,
                message: serde_json::from_slice(&body).unwrap_or_default(),
            })
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let router = Router::new().route("/mcp", any(handle));
    let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (AbortOnDropHandle::new(serving), url)
}

async fn client(url: &str) -> Result<McpClient, McpFailure> {
    let http = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none());
    let starting = McpClient::over_http(http.build().unwrap(), url, None, CLIENT, 1 << 20, |_| false);
    timeout(PATIENCE, starting).await.unwrap()
}

async fn tool(client: &McpClient) -> Tool {
    let list = timeout(PATIENCE, client.list_tools()).await.unwrap();
    list.unwrap().tools.remove(0)
}

async fn call(client: &McpClient) -> Result<Value, McpFailure> {
    let mut call = client.call(&tool(client).await, Map::new());
    loop {
        if let CallEvent::Done(result) = timeout(PATIENCE, call.next()).await.expect("the call ends")? {
            return Ok(result.into());
        }
    }
}

#[tokio::test]
async fn a_call_whose_session_was_lost_is_done_once_in_a_new_one() {
    for lost in [404, 400, 401] {
        let (sessions, calls) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (began, called) = (Arc::clone(&sessions), Arc::clone(&calls));
        let (_serving, url) = serve(move |asked| {
            if asked.is("initialize") {
                let session = began.fetch_add(1, Ordering::SeqCst) + 1;
                return asked.usual(&session.to_string());
            }
            let session = asked.header("mcp-session-id").unwrap_or_default().to_owned();
            if asked.is("tools/call") {
                if session == "1" {
                    return status(lost, "no such session");
                }
                called.lock().unwrap().push(session);
                return asked.answer(&json!({"content": "done"}));
            }
            asked.usual("")
        })
        .await;
        let client = client(&url).await.unwrap();
        assert_eq!(call(&client).await.unwrap()["content"], "done");
        assert_eq!(*calls.lock().unwrap(), ["2"], "{lost}");
        // Two at once begin one session.
        assert_eq!(sessions.load(Ordering::SeqCst), 2);
        client.is_alive(PATIENCE).await.unwrap();
    }
}

#[tokio::test]
async fn a_call_that_is_refused_in_a_new_session_too_has_the_servers_words() {
    let (_serving, url) = serve(|asked| {
        if asked.is("tools/call") {
            let error =
                json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32602, "message": "no such tool"}});
            return status(400, &error.to_string());
        }
        asked.usual("s")
    })
    .await;
    let failure = call(&client(&url).await.unwrap()).await.unwrap_err();
    assert_eq!(
        (failure.kind(), failure.code()),
        (FailureKind::Refused, Some(-32602))
    );
    assert_eq!(
        failure.to_string(),
        "the MCP server answered 400 Bad Request: no such tool"
    );
}

#[tokio::test]
async fn any_answer_is_a_sign_of_life() {
    for answer in [200, 400, 404, 500] {
        let (_serving, url) = serve(move |asked| {
            if !asked.is("ping") {
                return asked.usual("");
            }
            let error = json!({"code": -32601, "message": "Method not found"});
            let body = json!({"jsonrpc": "2.0", "id": asked.message["id"], "error": error});
            let mut response = status(answer, &body.to_string());
            let json = "application/json".parse().unwrap();
            response.headers_mut().insert("content-type", json);
            response
        })
        .await;
        client(&url).await.unwrap().is_alive(PATIENCE).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_is_gone_takes_no_call() {
    let (serving, url) = serve(|asked| asked.usual("s")).await;
    let client = client(&url).await.unwrap();
    let tool = tool(&client).await;
    serving.abort();
    // Connections that were open may serve still.
    let refused = async {
        loop {
            match client.call(&tool, Map::new()).next().await {
                Err(failure) if failure.kind() == FailureKind::NotDone => return failure,
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    };
    let failure = timeout(PATIENCE, refused).await.unwrap();
    assert!(failure.to_string().contains("cannot be reached"), "{failure}");
}

#[tokio::test]
async fn answers_come_as_events_after_all_else() {
    let (_serving, url) = serve(|asked| {
        if !asked.is("tools/call") {
            return asked.usual("");
        }
        let token = &asked.message["params"]["_meta"]["progressToken"];
        let progress = json!({"progressToken": token, "progress": 1, "message": "half"});
        let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress});
        let answer = json!({"jsonrpc": "2.0", "id": asked.message["id"], "result": {"content": "done"}});
        let text = format!(": ping\n\nid: 1\ndata: \n\n{}", event(&progress));
        // The last event has no empty line behind it.
        stream(format!("{text}data: {answer}"))
    })
    .await;
    let client = client(&url).await.unwrap();
    let mut call = client.call(&tool(&client).await, Map::new());
    let first = timeout(PATIENCE, call.next()).await.unwrap().unwrap();
    assert!(matches!(first, CallEvent::Progress(text) if text == "half"));
    let done = timeout(PATIENCE, call.next()).await.unwrap().unwrap();
    assert!(matches!(done, CallEvent::Done(result) if result["content"] == "done"));
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_gone_on_with_where_events_have_ids() {
    for has_ids in [true, false] {
        let id = Arc::new(Mutex::new(Value::Null));
        let (_serving, url) = serve(move |asked| {
            if asked.is("tools/call") {
                *id.lock().unwrap() = asked.message["id"].clone();
                let begun = if has_ids {
                    "id: e7\nretry: 10\ndata: \n\n"
                } else {
                    ": x\n\n"
                };
                return stream(begun.to_owned());
            }
            if asked.method == Method::GET && asked.header("last-event-id") == Some("e7") {
                let answer =
                    json!({"jsonrpc": "2.0", "id": *id.lock().unwrap(), "result": {"content": "done"}});
                return stream(event(&answer));
            }
            asked.usual("s")
        })
        .await;
        let result = call(&client(&url).await.unwrap()).await;
        if has_ids {
            assert_eq!(result.unwrap()["content"], "done");
        } else {
            assert_eq!(result.unwrap_err().kind(), FailureKind::Ended);
        }
    }
}

#[tokio::test]
async fn what_is_no_answer_ends_the_call_with_its_words() {
    type Case = (fn(&Asked) -> Response, FailureKind, &'static str);
    let cases: [Case; 8] = [
        (
            |_| ([("content-type", "text/html")], "<h1>Sign in</h1>").into_response(),
            FailureKind::Unreadable,
            "Sign in",
        ),
        (
            |_| ([("content-type", "application/json")], "{\"result\": NaN}").into_response(),
            FailureKind::Unreadable,
            "NaN",
        ),
        (
            |_| stream("data: {\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}\n\n".to_owned()),
            FailureKind::Unreadable,
            "no request has",
        ),
        (
            |_| stream("data: {\"jsonrpc\":\"2.0\",\"result\":NaN}\n\n".to_owned()),
            FailureKind::Unreadable,
            "NaN",
        ),
        (
            |_| stream(format!("data: {}\n\n", "x".repeat(2 << 20))),
            FailureKind::Unreadable,
            "too large",
        ),
        (
            |_| ([("content-type", "application/json")], "[".repeat(2 << 20)).into_response(),
            FailureKind::Unreadable,
            "dropped",
        ),
        (|_| status(503, "come later"), FailureKind::Refused, "come later"),
        (
            |_| (StatusCode::TEMPORARY_REDIRECT, [("location", "/other")]).into_response(),
            FailureKind::Refused,
            "/other",
        ),
    ];
    for (answer, kind, words) in cases {
        let (_serving, url) = serve(move |asked| {
            if asked.is("tools/call") {
                answer(asked)
            } else {
                asked.usual("")
            }
        })
        .await;
        let failure = call(&client(&url).await.unwrap()).await.unwrap_err();
        assert_eq!(failure.kind(), kind, "{failure}");
        assert!(failure.to_string().contains(words), "{failure}");
    }
}

#[tokio::test]
async fn a_server_of_the_revision_without_a_handshake_is_used() {
    let (_serving, url) = serve(|asked| {
        if asked.is("initialize") {
            let error = json!({"code": -32601, "message": "Method not found"});
            let body = json!({"jsonrpc": "2.0", "id": asked.message["id"], "error": error});
            return status(404, &body.to_string());
        }
        assert_eq!(asked.method, Method::POST);
        assert_eq!(asked.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(asked.header("mcp-method"), asked.message["method"].as_str());
        if asked.is("server/discover") {
            return asked.answer(&json!({"supportedVersions": ["2026-07-28"]}));
        }
        if asked.is("tools/list") {
            let schema =
                json!({"type": "object", "properties": {"r": {"type": "string", "x-mcp-header": "R"}}});
            let bad = json!({"type": "object", "x-mcp-header": "X"});
            return asked.answer(&json!({"tools": [
                {"name": "bad", "inputSchema": bad}, {"name": "tö", "inputSchema": schema}]}));
        }
        if asked.is("tools/call") {
            assert_eq!(asked.header("mcp-name"), Some("=?base64?dMO2?="));
            assert_eq!(asked.header("mcp-param-r"), Some("eu"));
            return asked.answer(&json!({"content": "done"}));
        }
        status(404, "")
    })
    .await;
    let client = client(&url).await.unwrap();
    let list = client.list_tools().await.unwrap();
    assert_eq!((list.tools.len(), list.faults.len()), (1, 1));
    let arguments = json!({"r": "eu"}).as_object().cloned().unwrap();
    let done = client.call(&list.tools[0], arguments).next().await.unwrap();
    assert!(matches!(done, CallEvent::Done(result) if result["content"] == "done"));
    client.is_alive(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn a_url_without_a_server_says_what_is_there() {
    let (_serving, url) = serve(|_| status(404, "nothing here")).await;
    let failure = client(&url).await.unwrap_err().to_string();
    assert!(
        failure.contains("404") && failure.contains("nothing here"),
        "{failure}"
    );
    let (_serving, url) = serve(|_| status(401, "")).await;
    let failure = client(&url).await.unwrap_err().to_string();
    assert!(failure.contains("wants a token"), "{failure}");
}
