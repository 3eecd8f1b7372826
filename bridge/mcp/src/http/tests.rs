//! The front before a node of tests: whatever comes in is answered in the words of MCP.

use agentanycast_gateway::fake::{
    FakeGateway,
    changed_json::{change, other},
};
use http::header::HeaderMap;
use proptest::prelude::*;

use super::*;
use crate::ToolCallCounts;

const MAX_BODY: usize = 1 << 20;

fn front_of(tally: Arc<ToolCallCounts>) -> Router {
    let tools = ToolHandler::new(Arc::new(FakeGateway::default()), tally);
    let config = McpFrontConfig {
        authenticator: Authenticator::default(),
        limits: CallerLimits {
            rate: 0,
            ..CallerLimits::default()
        },
        max_body: MAX_BODY,
        body_timeout: Duration::from_secs(10),
        cors_origins: vec!["https://ui.example".to_owned()],
    };
    router(Arc::new(tools), config, CancellationToken::new())
}

fn front() -> Router {
    front_of(Arc::default())
}

fn post(host: &str, body: impl Into<Body>) -> Request {
    Request::post(PATH)
        .header("host", host)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2025-06-18")
        .body(body.into())
        .unwrap()
}

async fn sent(front: &Router, request: Request) -> (StatusCode, HeaderMap, Vec<Value>) {
    let response = front.clone().oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let media_type = head
        .headers
        .get("content-type")
        .map(|value| value.to_str().unwrap());
    let documents = match media_type {
        Some("text/event-stream") => text
            .lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .map(|data| serde_json::from_str(data.trim()).unwrap())
            .collect(),
        Some("application/json") => vec![serde_json::from_str(&text).unwrap()],
        _ => Vec::new(),
    };
    (head.status, head.headers, documents)
}

fn call(tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

async fn answer_to(front: &Router, message: &Value) -> (StatusCode, Value) {
    let (status, _, mut documents) = sent(front, post("localhost", message.to_string())).await;
    (status, documents.pop().unwrap_or_default())
}

#[tokio::test]
async fn a_client_is_told_what_there_is() {
    let front = front();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}});
        let mut request = post("localhost", hello.to_string());
        request.headers_mut().remove("mcp-protocol-version");
        let (_, headers, documents) = sent(&front, request).await;
        assert_eq!(
            documents[0]["result"]["protocolVersion"], version,
            "{documents:?}"
        );
        assert!(!headers.contains_key("mcp-session-id"));
    }
    let list = json!({"jsonrpc": "2.0", "id": "a", "method": "tools/list"});
    let (status, listed) = answer_to(&front, &list).await;
    assert_eq!((status, &listed["id"]), (StatusCode::OK, &json!("a")));
    let names: Vec<&str> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ToolName::ALL.map(ToolName::name));
}

#[tokio::test]
async fn the_newest_revision_needs_no_handshake() {
    let front = front();
    let mut message = call("ask_agent", &json!({"message": "hi", "skill": "echo"}));
    message["params"]["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let mut request = post("localhost", message.to_string());
    let headers = request.headers_mut();
    headers.insert("mcp-protocol-version", HeaderValue::from_static("2026-07-28"));
    headers.insert("mcp-method", HeaderValue::from_static("tools/call"));
    headers.insert("mcp-name", HeaderValue::from_static("ask_agent"));
    let (status, _, documents) = sent(&front, request).await;
    assert_eq!(status, StatusCode::OK, "{documents:?}");
    let result = &documents.last().unwrap()["result"];
    assert_eq!(result["structuredContent"]["state"], "completed", "{documents:?}");
}

#[tokio::test]
async fn calls_are_answered_and_counted() {
    let tally = Arc::<ToolCallCounts>::default();
    let front = front_of(Arc::clone(&tally));
    let ask = call("ask_agent", &json!({"message": "hi", "skill": "echo"}));
    let (_, asked) = answer_to(&front, &ask).await;
    assert_eq!(
        asked["result"]["structuredContent"]["results"][0]["parts"][0]["text"],
        "hi"
    );
    assert_eq!(asked["result"]["isError"], false);
    let (_, refused) = answer_to(&front, &call("ask_agent", &json!({"message": "hi"}))).await;
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    let (_, refused) = answer_to(&front, &call("ask_agent", &json!([1]))).await;
    assert_eq!(
        refused["result"]["content"][0]["text"],
        "arguments must be an object"
    );
    let (_, unknown) = answer_to(&front, &call("rm", &json!({"rf": "/"}))).await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    assert_eq!(
        tally.counts(),
        [
            ("ask_agent", "ok", 1),
            ("ask_agent", "refused", 2),
            ("unknown", "refused", 1)
        ]
    );
}

#[tokio::test]
async fn bodies_have_bounds() {
    let front = front();
    let large = "x".repeat(CONTROL + 1);
    for (tool, arguments, expected) in [
        (
            "ask_agent",
            json!({"message": large, "skill": "echo"}),
            StatusCode::OK,
        ),
        (
            "get_task",
            json!({"task_id": large}),
            StatusCode::PAYLOAD_TOO_LARGE,
        ),
        ("paint", json!({"message": large}), StatusCode::PAYLOAD_TOO_LARGE),
        (
            "ask_agent",
            json!({"message": "x".repeat(MAX_BODY), "skill": "echo"}),
            StatusCode::BAD_REQUEST,
        ),
    ] {
        let (status, answer) = answer_to(&front, &call(tool, &arguments)).await;
        assert_eq!(status, expected, "{tool}");
        assert!(status == StatusCode::OK || answer["error"]["message"].is_string());
    }
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{}1{}}}"#,
        "[".repeat(101),
        "]".repeat(101)
    );
    let many = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":[{}1]}}"#,
        "1,".repeat(100_001)
    );
    for body in [
        deep,
        many,
        "{".to_owned(),
        "[]".to_owned(),
        String::new(),
        "7".to_owned(),
    ] {
        let (status, _, documents) = sent(&front, post("localhost", body)).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(documents[0]["error"]["code"].as_i64().unwrap() <= -32600);
    }
}

#[tokio::test]
async fn pages_of_other_origins_cannot_make_others_call() {
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    for (host, origin, allowed) in [
        ("127.0.0.1:8091", None, true),
        ("127.0.0.1:8091", Some("http://127.0.0.1:8091"), true),
        ("localhost:8091", Some("https://ui.example"), true),
        ("127.0.0.1:8091", Some("https://evil.example"), false),
        ("127.0.0.1:8091", Some("null"), false),
        // A name that its owner has lead here.
        ("evil.example", Some("http://evil.example"), false),
    ] {
        let mut request = post(host, ping.clone());
        if let Some(origin) = origin {
            request.headers_mut().insert("origin", origin.parse().unwrap());
        }
        let (status, headers, _) = sent(&front(), request).await;
        let expected = if allowed {
            StatusCode::OK
        } else {
            StatusCode::FORBIDDEN
        };
        assert_eq!(status, expected, "{host} {origin:?}");
        let told = headers.get("access-control-allow-origin");
        assert_eq!(told.is_some(), origin == Some("https://ui.example"));
    }
}

#[tokio::test]
async fn there_is_nothing_else() {
    let front = front();
    for (verb, path, expected) in [
        ("GET", "/mcp", StatusCode::METHOD_NOT_ALLOWED),
        ("DELETE", "/mcp", StatusCode::METHOD_NOT_ALLOWED),
        ("POST", "/", StatusCode::NOT_FOUND),
        ("POST", "/mcp//", StatusCode::NOT_FOUND),
        ("POST", "/mcp/x", StatusCode::NOT_FOUND),
    ] {
        let mut request = post("localhost", "{}");
        *request.method_mut() = verb.parse().unwrap();
        *request.uri_mut() = path.parse().unwrap();
        let (status, ..) = sent(&front, request).await;
        assert_eq!(status, expected, "{verb} {path}");
    }
    let mut request = post("localhost", "{}");
    request
        .headers_mut()
        .insert("content-type", HeaderValue::from_static("text/plain"));
    assert_eq!(sent(&front, request).await.0, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

#[tokio::test]
async fn what_clients_write_otherwise_is_taken() {
    let front = front();
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    for (path, accept, mark) in [
        ("/mcp/", Some("application/json, text/event-stream"), ""),
        ("/mcp", Some("*/*"), ""),
        ("/mcp", Some("text/html, */*;q=0.8"), ""),
        ("/mcp", None, ""),
        ("/mcp", Some("*/*"), "\u{feff}"),
    ] {
        let mut request = post("localhost", format!("{mark}{list}"));
        *request.uri_mut() = path.parse().unwrap();
        request.headers_mut().remove("accept");
        if let Some(accept) = accept {
            request
                .headers_mut()
                .insert("accept", HeaderValue::from_static(accept));
        }
        let (status, _, documents) = sent(&front, request).await;
        assert_eq!(status, StatusCode::OK, "{path} {accept:?}");
        assert!(documents[0]["result"]["tools"].is_array(), "{documents:?}");
    }
    let mut packed = post("localhost", list);
    packed
        .headers_mut()
        .insert("content-encoding", HeaderValue::from_static("gzip"));
    assert_eq!(sent(&front, packed).await.0, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

/// Messages of every kind, all well-formed.
fn messages() -> Vec<Value> {
    let message =
        |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let file = json!({"name": "n", "media_type": "text/plain", "text": "x"});
    vec![
        message(
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"}}),
        ),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "reason": "r"}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
        message("ping", json!({})),
        message("tools/list", json!({"cursor": "x"})),
        message("prompts/list", json!({})),
        message("logging/setLevel", json!({"level": "debug"})),
        message("server/discover", json!({})),
        message(
            "subscriptions/listen",
            json!({"notifications": {"toolsListChanged": true}}),
        ),
        message(
            "tools/call",
            json!({"name": "ask_agent", "_meta": {"progressToken": "p"}, "arguments":
            {"message": "hi", "skill": "echo", "data": {"k": [1]}, "files": [file], "wait_seconds": 1}}),
        ),
        call("get_task", &json!({"task_id": "t0", "wait_seconds": 0})),
        call("reply_to_task", &json!({"task_id": "t0", "message": "x"})),
        call("cancel_task", &json!({"task_id": "t0"})),
        call(
            "list_tasks",
            &json!({"limit": 1, "status": "completed", "after": "1:t0"}),
        ),
        call(
            "discover_agents",
            &json!({"skill": "echo", "tags": {"a": "b"}, "limit": 1}),
        ),
        call("get_agent_card", &json!({"agent": "me"})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, ..ProptestConfig::default() })]

    /// Whatever a body is changed into is answered, and by nothing that means that something failed inside.
    #[test]
    fn every_body_is_answered(
        message in proptest::sample::select(messages()),
        changes in proptest::collection::vec((0..40_usize, other()), 0..3),
        cut in proptest::option::weighted(0.05, 0..200_usize),
    ) {
        thread_local! {
            static FRONT: (tokio::runtime::Runtime, Router) =
                (tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(), front());
        }
        let mut body = message;
        for (mut at, to) in changes {
            change(&mut body, &mut at, &to);
        }
        let mut text = body.to_string();
        if let Some(cut) = cut {
            text = text.chars().take(cut).collect();
        }
        FRONT.with(|(runtime, front)| {
            let (status, _, documents) = runtime.block_on(sent(front, post("localhost", text.clone())));
            prop_assert!(status.is_success() || status.is_client_error(), "{} {}", status, text);
            for document in documents {
                prop_assert_eq!(&document["jsonrpc"], &json!("2.0"));
                prop_assert_ne!(&document["error"]["code"], &json!(-32603), "{} {}", text, document);
            }
            Ok(())
        })?;
    }
}
