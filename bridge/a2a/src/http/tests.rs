//! The front before a node of tests: whatever comes in is answered in the words of its binding.

mod fuzz;

use std::{sync::Arc, time::Duration};

use agentanycast_front::auth::Authenticator;
use agentanycast_gateway::fake::{
    FakeGateway, TWO_AGENTS,
    changed_json::{change, other},
};
use agentanycast_gateways::{a2a::CardGrpc, front::CallerLimits};
use axum::body::Body;
use http::{Request, StatusCode};
use proptest::prelude::*;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;
use crate::handler::{HandlerConfig, MeshHandler};

fn front() -> Router {
    front_of(FakeGateway::default(), Authenticator::default())
}

fn front_of(node: FakeGateway, authenticator: Authenticator) -> Router {
    let rules = HandlerConfig {
        patience: Duration::from_secs(10),
        ..HandlerConfig::default()
    };
    let handler = Arc::new(MeshHandler::new(Arc::new(node), rules));
    let config = A2aFrontConfig {
        public_url: None,
        dual_cards: true,
        card_grpc: CardGrpc::Off,
        max_body: 1 << 20,
        body_timeout: Duration::from_secs(10),
        tls: false,
        authenticator,
        limits: CallerLimits {
            rate: 0,
            ..CallerLimits::default()
        },
        card_key: None,
        extended_card: false,
        extensions: vec![("urn:x".to_owned(), false)],
        cors_origins: vec!["https://ui.example".to_owned()],
    };
    router(handler, config, Arc::default(), CancellationToken::new())
}

/// A connection of a program of this host.
fn of_this_host() -> ClientConnection {
    let here = std::net::SocketAddr::from(([127, 0, 0, 1], 80));
    ClientConnection {
        network: here.ip().into(),
        certificate: None,
        local_addr: Some(here),
        slot: std::sync::Weak::new(),
    }
}

async fn ask(
    front: &Router,
    verb: &str,
    path: &str,
    version: &str,
    body: String,
) -> (StatusCode, String, String) {
    let request = Request::builder()
        .method(verb)
        .extension(of_this_host())
        .uri(path)
        .header("a2a-version", version)
        .header("content-type", "application/json")
        .header("host", "localhost")
        .body(Body::from(body))
        .unwrap();
    let response = front.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let media_type = response
        .headers()
        .get("content-type")
        .map(|value| value.to_str().unwrap().to_owned());
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX)
        .await
        .unwrap();
    (
        status,
        media_type.unwrap_or_default(),
        String::from_utf8(bytes.to_vec()).unwrap(),
    )
}

/// The JSON of an answer, or of each event of one.
fn documents(media_type: &str, body: &str) -> Vec<Value> {
    if media_type == "text/event-stream" {
        let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
        return data.map(|data| serde_json::from_str(data).unwrap()).collect();
    }
    vec![serde_json::from_str(body).unwrap()]
}

fn message(version: &str) -> Value {
    let part = json!({"kind": "text", "text": "hi", "metadata": {"k": 1}});
    let role = if version == "1.0" { "ROLE_USER" } else { "user" };
    json!({"messageId": "m", "role": role, "parts": [part], "contextId": "c", "metadata": {"x": [1]}})
}

/// Calls of every method, all well-formed.
fn calls() -> Vec<(&'static str, Value)> {
    let send = |version| {
        let configuration = json!({"historyLength": 1, "returnImmediately": true, "blocking": true,
            "taskPushNotificationConfig": {"url": "https://example.org"},
            "pushNotificationConfig": {"url": "https://example.org"}});
        json!({"message": message(version), "configuration": configuration, "metadata": {"a": "b"}})
    };
    let id = || json!({"id": "t0", "historyLength": 2, "tenant": ""});
    let push = || {
        json!({"taskId": "t0", "id": "p", "url": "https://example.org", "token": "x",
            "authentication": {"scheme": "Bearer", "credentials": "y"}})
    };
    let old_push = || {
        json!({"taskId": "t0", "id": "t0", "pushNotificationConfigId": "p", "pushNotificationConfig":
            {"id": "p", "url": "https://example.org", "authentication": {"schemes": ["Bearer"], "credentials": "y"}}})
    };
    let calls = [
        ("1.0", "SendMessage", send("1.0")),
        ("1.0", "SendStreamingMessage", send("1.0")),
        ("1.0", "GetTask", id()),
        (
            "1.0",
            "ListTasks",
            json!({"pageSize": 3, "pageToken": "5:t5", "status": "TASK_STATE_COMPLETED",
            "statusTimestampAfter": "1970-01-01T00:00:00Z", "includeArtifacts": true, "contextId": "c"}),
        ),
        ("1.0", "CancelTask", id()),
        ("1.0", "SubscribeToTask", id()),
        ("1.0", "GetExtendedAgentCard", json!({})),
        ("1.0", "CreateTaskPushNotificationConfig", push()),
        ("1.0", "GetTaskPushNotificationConfig", push()),
        ("1.0", "ListTaskPushNotificationConfigs", push()),
        ("1.0", "DeleteTaskPushNotificationConfig", push()),
        ("0.3", "message/send", send("0.3")),
        ("0.3", "message/stream", send("0.3")),
        ("0.3", "tasks/get", id()),
        ("0.3", "tasks/cancel", id()),
        ("0.3", "tasks/resubscribe", id()),
        ("0.3", "tasks/pushNotificationConfig/set", old_push()),
        ("0.3", "tasks/pushNotificationConfig/get", old_push()),
        ("0.3", "tasks/pushNotificationConfig/list", old_push()),
        ("0.3", "tasks/pushNotificationConfig/delete", old_push()),
        (
            "0.3",
            "tasks/send",
            json!({"id": "c", "sessionId": "s", "message": {"role": "user",
            "parts": [{"type": "text", "text": "hi"}]}}),
        ),
        ("0.3", "agent/getAuthenticatedExtendedCard", json!({})),
    ];
    let call = |(version, method, params)| {
        (
            version,
            json!({"jsonrpc": "2.0", "id": "i", "method": method, "params": params}),
        )
    };
    calls.into_iter().map(call).collect()
}

#[tokio::test]
async fn what_clients_write_otherwise_is_taken() {
    let front = front();
    let v10 = json!({"messageId": "m", "role": "User", "parts": [{"text": "hi"},
        {"raw": "aGVs\r\nbG8", "filename": "a"}, {"kind": "file", "file": {"bytes": "aGVsbG8="}}]});
    let v03 = json!({"messageId": "m", "role": "human", "parts": [{"text": "hi"}, {"type": "text", "text": "hi"},
        {"kind": "Data", "data": {"a": 1}}, {"file": {"bytes": "aGVs bG8"}}, {"raw": "aGVsbG8"}]});
    for (version, method, message) in [("1.0", "SendMessage", v10), ("0.3", "message/send", v03)] {
        let configuration = json!({"returnImmediately": true, "blocking": false});
        let params = json!({"message": message, "configuration": configuration});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let (status, _, answer) = ask(&front, "POST", "/", version, format!("\u{feff}{call}")).await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert!(
            status == StatusCode::OK && answer["result"].is_object(),
            "{answer}"
        );
    }
}

/// Before 0.2 `kind` was called `type`. What neither names is refused by its name, whatever fields are beside it.
#[tokio::test]
async fn parts_of_unknown_kinds_are_refused_by_name() {
    let front = front();
    for name in ["kind", "type"] {
        for good in [None, Some(json!({"text": "hi"}))] {
            let at = usize::from(good.is_some());
            let mut bad = json!({"text": "hi"});
            bad[name] = "video".into();
            let parts: Vec<Value> = good.into_iter().chain([bad]).collect();
            let message = json!({"messageId": "m", "role": "user", "parts": parts});
            let params = json!({"message": message, "id": "t"});
            let old = json!({"message": {"messageId": "m", "role": "ROLE_USER", "content": parts}});
            let call = |method: &str| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
            for (path, body) in [
                ("/", call("message/send")),
                ("/", call("message/stream")),
                ("/", call("tasks/send")),
                ("/v1/message:send", old.clone()),
                ("/v1/message:stream", old),
            ] {
                // `tasks/send` has no other name than `type`, and reads it as `kind`.
                let name = if body["method"] == "tasks/send" {
                    "kind"
                } else {
                    name
                };
                let (_, _, answer) = ask(&front, "POST", path, "0.3", body.to_string()).await;
                let said =
                    format!("message.parts[{at}].{name} is \\\"video\\\"; a part is text, file or data");
                assert!(
                    answer.contains(&said) && answer.contains("-32602"),
                    "{path} {body}: {answer}"
                );
            }
        }
    }
}

#[tokio::test]
async fn bodies_in_a_coding_and_unknown_roles_are_refused_by_name() {
    let front = front();
    for (path, coding, expected) in [
        ("/", "gzip", StatusCode::UNSUPPORTED_MEDIA_TYPE),
        ("/message:send", "br", StatusCode::UNSUPPORTED_MEDIA_TYPE),
        ("/", "identity", StatusCode::OK),
    ] {
        let request = Request::post(path)
            .header("a2a-version", "1.0")
            .header("content-type", "application/json")
            .header("content-encoding", coding)
            .header("host", "localhost")
            .body(Body::from("{}"))
            .unwrap();
        let response = front.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), expected, "{path}");
        let body = axum::body::to_bytes(response.into_body(), usize::MAX)
            .await
            .unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        assert!(coding == "identity" || body.contains(coding), "{body}");
    }
    for role in [json!("robot"), json!(42)] {
        let message = json!({"messageId": "m", "role": role, "parts": [{"text": "hi"}]});
        let call =
            json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}});
        let (_, _, answer) = ask(&front, "POST", "/", "1.0", call.to_string()).await;
        assert!(
            answer.contains(&format!(
                "must be a role, not {}",
                role.to_string().replace('"', "\\\"")
            )),
            "{answer}"
        );
    }
    let (_, _, answer) = ask(&front, "POST", "/", "1.0", "{".to_owned()).await;
    assert!(answer.contains("\"id\":null"), "{answer}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn every_body_is_answered(
        call in proptest::sample::select(calls()),
        changes in proptest::collection::vec((0..40_usize, other()), 0..3),
        cut in proptest::option::weighted(0.05, 0..200_usize),
    ) {
        thread_local! {
            static FRONT: (tokio::runtime::Runtime, Router) =
                (tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(), front());
        }
        let (version, mut body) = call;
        for (mut at, to) in changes {
            change(&mut body, &mut at, &to);
        }
        let mut text = body.to_string();
        if let Some(cut) = cut {
            text = text.chars().take(cut).collect();
        }
        FRONT.with(|(runtime, front)| {
            let (status, media_type, answer) = runtime.block_on(ask(front, "POST", "/", version, text.clone()));
            prop_assert_eq!(status, StatusCode::OK, "{}", text);
            let documents = documents(&media_type, &answer);
            prop_assert!(!documents.is_empty(), "{}", text);
            for document in documents {
                prop_assert_eq!(&document["jsonrpc"], &json!("2.0"));
                let (result, error) = (document.get("result"), document.get("error"));
                prop_assert!(result.is_some() != error.is_some(), "{} {}", text, document);
                if let Some(error) = error {
                    prop_assert!(error["code"].is_i64() && error["message"].is_string());
                    prop_assert_ne!(&error["code"], &json!(-32603), "{} {}", text, document);
                }
            }
            // The same parameters by REST, with whatever path they go to.
            let path = match body["method"].as_str() {
                Some("SendStreamingMessage") => "/message:stream",
                Some("CancelTask") => "/tasks/t0:cancel",
                _ => "/message:send",
            };
            let params = body.get("params").unwrap_or(&body).to_string();
            let (status, _, answer) = runtime.block_on(ask(front, "POST", path, "1.0", params));
            prop_assert!(status.is_success() || status.is_client_error(), "{} {}", status, answer);
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn a_skill_has_a_card_and_takes_messages() {
    let front = front();
    let (status, _, card) = ask(
        &front,
        "GET",
        "/skills/echo/.well-known/agent-card.json",
        "",
        String::new(),
    )
    .await;
    let card: Value = serde_json::from_str(&card).unwrap();
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        (&card["name"], &card["url"]),
        (&json!("echo"), &json!("http://localhost/skills/echo"))
    );
    assert_eq!(card["skills"][0]["description"], "Says it again");
    let body = json!({"message": message("1.0")}).to_string();
    let (status, _, _) = ask(&front, "POST", "/skills/echo/message:send", "1.0", body).await;
    assert_eq!(status, StatusCode::OK);
    // It is that skill's task and no other agent's.
    for (path, status) in [
        ("/skills/echo/tasks/t0", StatusCode::OK),
        ("/tasks/t0", StatusCode::NOT_FOUND),
    ] {
        assert_eq!(
            ask(&front, "GET", path, "1.0", String::new()).await.0,
            status,
            "{path}"
        );
    }
    let (status, _, _) = ask(
        &front,
        "GET",
        "/skills/fly/.well-known/agent.json",
        "",
        String::new(),
    )
    .await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn each_agent_of_a_peer_has_a_card_and_takes_messages() {
    let front = front();
    let get = async |path: &str| {
        let (status, _, body) = ask(&front, "GET", path, "1.0", String::new()).await;
        (status, serde_json::from_str::<Value>(&body).unwrap())
    };
    let base = format!("/agents/{TWO_AGENTS}/two");
    let (status, card) = get(&format!("{base}/.well-known/agent-card.json")).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(card["name"], "Agent two");
    assert_eq!(card["url"], format!("http://localhost{base}"));
    let (status, unknown) = get(&format!("/agents/{TWO_AGENTS}/three/.well-known/agent-card.json")).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let said = unknown["error"]["message"].as_str().unwrap();
    assert!(
        said.contains("no agent \"three\"") && said.ends_with("there are: one, two"),
        "{said}"
    );
    // The only agent of a node is called as its card says.
    let (status, own) = get("/agents/self/fake/.well-known/agent-card.json").await;
    assert_eq!((status, &own["name"]), (StatusCode::OK, &json!("Fake")));
    assert_eq!(own["url"], "http://localhost/agents/self/fake");

    let body = json!({"message": message("1.0")}).to_string();
    let (status, _, sent) = ask(&front, "POST", &format!("{base}/message:send"), "1.0", body).await;
    assert_eq!(status, StatusCode::OK, "{sent}");
    // The path and the tenant mean the same agent; the task is no other agent's.
    for (path, status) in [
        (format!("{base}/tasks/t0"), StatusCode::OK),
        (
            format!("/tasks/t0?tenant=agents%2F{TWO_AGENTS}%2Ftwo"),
            StatusCode::OK,
        ),
        (
            format!("/agents/{TWO_AGENTS}/one/tasks/t0"),
            StatusCode::NOT_FOUND,
        ),
        (format!("/agents/{TWO_AGENTS}/tasks/t0"), StatusCode::NOT_FOUND),
    ] {
        assert_eq!(get(&path).await.0, status, "{path}");
    }
}

#[tokio::test]
async fn pages_of_other_origins_are_let_in_as_configured() {
    for (origin, allowed) in [("https://ui.example", true), ("https://evil.example", false)] {
        let request = Request::builder()
            .method("OPTIONS")
            .uri("/message:send")
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "a2a-version,content-type")
            .body(Body::empty())
            .unwrap();
        let response = front().oneshot(request).await.unwrap();
        let told = response.headers().get("access-control-allow-origin");
        assert_eq!(told.is_some_and(|told| told == origin), allowed, "{origin}");
    }
}

/// A browser keeps headers from a page unless it is told otherwise: those that a client reads are named.
#[tokio::test]
async fn pages_may_read_what_a_client_needs() {
    let request = Request::builder()
        .uri("/tasks/none")
        .header("host", "localhost")
        .header("origin", "https://ui.example")
        .header("a2a-version", "1.0")
        .body(Body::empty())
        .unwrap();
    let response = front().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::NOT_FOUND, "failures are read too");
    let told = response.headers()["access-control-expose-headers"]
        .to_str()
        .unwrap();
    for name in [
        "a2a-version",
        "a2a-extensions",
        "www-authenticate",
        "retry-after",
        "etag",
        "location",
    ] {
        assert!(told.split(',').any(|told| told.trim() == name), "{name}: {told}");
    }
}

#[tokio::test]
async fn pages_of_other_origins_cannot_make_others_call() {
    let body = json!({"message": message("1.0")}).to_string();
    for (host, origin, allowed) in [
        ("127.0.0.1:8090", None, true),
        ("127.0.0.1:8090", Some("http://127.0.0.1:8090"), true),
        ("localhost", Some("http://localhost"), true),
        ("[::1]:80", Some("http://[::1]:80"), true),
        ("127.0.0.1:8090", Some("https://ui.example"), true),
        ("127.0.0.1:8090", Some("https://evil.example"), false),
        ("127.0.0.1:8090", Some("http://127.0.0.1:9000"), false),
        ("127.0.0.1:8090", Some("null"), false),
        // A name that its owner has lead here.
        ("evil.example", Some("http://evil.example"), false),
    ] {
        let mut request = Request::builder()
            .method("POST")
            .uri("/message:send")
            .header("host", host)
            .header("a2a-version", "1.0");
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        let request = request.body(Body::from(body.clone())).unwrap();
        let status = front().oneshot(request).await.unwrap().status();
        let expected = if allowed {
            StatusCode::OK
        } else {
            StatusCode::FORBIDDEN
        };
        assert_eq!(status, expected, "{host} {origin:?}");
    }
}

/// A page whose name its owner has lead here reads from its own origin: browsers name none then.
#[tokio::test]
async fn pages_of_other_names_read_nothing() {
    for (host, path, allowed) in [
        ("127.0.0.1:8090", "/tasks", true),
        ("localhost:8090", "/tasks", true),
        ("bridge:8090", "/tasks", true),
        ("evil.example:8090", "/tasks", false),
        ("evil.example:8090", "/v1/tasks", false),
        ("evil.example:8090", "/tasks/t:subscribe", false),
        ("evil.example:8090", "/tasks/t/pushNotificationConfigs", false),
        ("evil.example:8090", "/health", true),
        ("evil.example:8090", "/.well-known/agent-card.json", true),
    ] {
        let request = Request::get(path)
            .header("host", host)
            .header("a2a-version", "1.0");
        let request = request.body(Body::empty()).unwrap();
        let status = front().oneshot(request).await.unwrap().status();
        assert_eq!(status != StatusCode::FORBIDDEN, allowed, "{host} {path}");
    }
}

#[tokio::test]
async fn what_may_be_over_soon_says_when_to_ask_again() {
    for version in [Version::V03, Version::V10] {
        let away = failed(version, &A2aError::new(Reason::Unavailable, "the daemon is away"));
        assert_eq!(away.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(away.headers()[header::RETRY_AFTER], "5");
        let other = failed(version, &A2aError::new(Reason::TaskNotFound, "no such task"));
        assert!(!other.headers().contains_key(header::RETRY_AFTER));
    }
}

/// A hundred thousand parts take two bytes each on the wire.
#[tokio::test]
async fn a_message_of_grpc_is_counted_before_it_is_decoded() {
    use agentanycast_proto::a2a_0_3;
    use prost::Message as _;
    let front = front();
    let send = |parts| {
        let message = a2a_0_3::Message {
            content: vec![a2a_0_3::Part::default(); parts],
            ..a2a_0_3::Message::default()
        };
        let request = a2a_0_3::SendMessageRequest {
            request: Some(message),
            ..a2a_0_3::SendMessageRequest::default()
        };
        request.encode_to_vec()
    };
    let service = "a2a.v1.A2AService";
    for (method, message, said) in [
        ("SendMessage", send(100_000), "more than 100000 parts"),
        ("SendStreamingMessage", send(600_000), "larger than 1048576 bytes"),
        (
            "SendMessage",
            send(1),
            "message.content[0] has neither text nor a file nor data",
        ),
    ] {
        let (status, text) = fuzz::make(&front, service, method, &message, None).await.unwrap();
        assert!(status == 3 && text.contains(said), "{status} {text}");
    }
}

#[tokio::test]
async fn agents_and_skills_are_listed_for_programs_and_people() {
    let front = front();
    let get = async |path: &str| ask(&front, "GET", path, "1.0", String::new()).await;
    let (status, media_type, body) = get("/agents").await;
    assert_eq!((status, media_type.as_str()), (StatusCode::OK, JSON));
    let agents: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(agents["agents"][0]["peerId"], "me");
    assert_eq!(agents["agents"][0]["url"], "/agents/me");
    let (_, _, body) = get("/skills").await;
    let skills: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(skills["skills"][0]["url"], "/skills/echo%2Fall");
    let (status, media_type, body) = get("/").await;
    assert_eq!(
        (status, media_type.as_str()),
        (StatusCode::OK, "text/html; charset=utf-8")
    );
    assert!(body.contains("Fake &lt;b&gt;") && !body.contains("<b>"), "{body}");
    assert!(body.contains("Says it &quot;again&quot;"), "{body}");
    let (status, ..) = ask(&front, "POST", "/agents", "1.0", "{}".to_owned()).await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
}

/// A GET by a client that is connected so, with this token.
async fn read(
    front: &Router,
    connection: Option<&ClientConnection>,
    token: Option<&str>,
    path: &str,
) -> (StatusCode, Value, String) {
    let mut request = Request::get(path).header("host", "localhost");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let mut request = request.body(Body::empty()).unwrap();
    if let Some(connection) = connection {
        request.extensions_mut().insert(connection.clone());
    }
    let response = front.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let cache = response.headers().get("cache-control").cloned();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX)
        .await
        .unwrap();
    let cache = cache.map(|cache| cache.to_str().unwrap().to_owned());
    (
        status,
        serde_json::from_slice(&body).unwrap_or_default(),
        cache.unwrap_or_default(),
    )
}

#[tokio::test]
async fn a_stranger_is_shown_no_private_agent() {
    let here = of_this_host();
    let elsewhere = ClientConnection {
        network: std::net::IpAddr::from([192, 0, 2, 1]).into(),
        local_addr: Some(([192, 0, 2, 2], 80).into()),
        ..of_this_host()
    };
    let front = front_of(
        FakeGateway::default().with_private_agent(),
        Authenticator::default(),
    );
    let cards = [
        "/.well-known/agent-card.json",
        "/agents/me/.well-known/agent-card.json",
        "/agents/me/fake/.well-known/agent-card.json",
    ];
    for path in cards {
        let (status, card, _) = read(&front, Some(&here), None, path).await;
        assert_eq!(
            (status, &card["name"]),
            (StatusCode::OK, &json!("Fake")),
            "{path}"
        );
        for stranger in [Some(&elsewhere), None] {
            let (status, refusal, _) = read(&front, stranger, None, path).await;
            assert_eq!(status, StatusCode::NOT_FOUND, "{path}: {refusal}");
            assert!(!refusal.to_string().contains("Fake"), "{refusal}");
        }
    }
    for (list, found) in [("/agents", "agents"), ("/skills", "skills")] {
        let (_, own, _) = read(&front, Some(&here), None, list).await;
        let (_, shown, _) = read(&front, Some(&elsewhere), None, list).await;
        assert_eq!(own[found].as_array().unwrap().len(), 1, "{own}");
        assert_eq!(shown[found], json!([]), "{shown}");
    }

    let directory = tempfile::tempdir().unwrap();
    let tokens = directory.path().join("tokens");
    std::fs::write(&tokens, "alice 0123456789abcdef").unwrap();
    let auth = agentanycast_gateways::front::Auth {
        tokens_file: Some(tokens),
        ..Default::default()
    };
    let callers = Authenticator::read(&auth).unwrap();
    let front = front_of(FakeGateway::default().with_private_agent(), callers);
    // How to say who one is stands on a card.
    let (status, card, cache) = read(&front, Some(&elsewhere), None, cards[0]).await;
    assert_eq!(status, StatusCode::OK);
    assert!(
        card["securitySchemes"].is_object() && card["skills"] == json!([]),
        "{card}"
    );
    assert_eq!(cache, "public, max-age=60");
    assert!(!card.to_string().contains("Fake"), "{card}");
    let (_, wrong, _) = read(&front, Some(&elsewhere), Some("fedcba9876543210"), cards[0]).await;
    assert_eq!(wrong, card);
    let (status, refusal, _) = read(&front, Some(&elsewhere), None, cards[2]).await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{refusal}");
    for path in cards {
        let (_, card, cache) = read(&front, Some(&elsewhere), Some("0123456789abcdef"), path).await;
        assert_eq!(
            (&card["name"], cache.as_str()),
            (&json!("Fake"), "private, max-age=60")
        );
    }
}
