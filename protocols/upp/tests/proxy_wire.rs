//! The proxy wire: recorded requests of a UPP client are answered, and the crate's client and server agree.

#![cfg(feature = "providers")]
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::sync::{Arc, Mutex};

use agentanycast_upp::{
    ErrorCode, ModelReference, ProviderEvent, Request, Scripted, ScriptedReply, Tool, Turn, UppError, llm,
    providers::proxy,
    wire::{self, AnswerForm, WireError, parse_request, sse},
};
use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use futures::StreamExt as _;
use proptest::prelude::*;
use serde_json::{Value, json};

const RECORDED: &str = include_str!("fixtures/proxy_requests.jsonl");

/// A server of the wire in a few lines: what a gateway does with the pure functions.
async fn serve(
    State((model, seen)): State<(ModelReference, Arc<Mutex<Vec<Value>>>)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    seen.lock()
        .unwrap()
        .push(serde_json::from_slice(&body).unwrap_or_default());
    let accept = headers
        .get("accept")
        .and_then(|accept| accept.to_str().ok())
        .unwrap_or_default();
    match answer(&model, accept, &body).await {
        Ok(answer) => answer.into_response(),
        Err(error) => {
            let answer = wire::error_answer(&error);
            (StatusCode::from_u16(answer.status).unwrap(), answer.body).into_response()
        }
    }
}

async fn answer(model: &ModelReference, accept: &str, body: &[u8]) -> Result<String, UppError> {
    let request = Request::from(parse_request(body)?);
    if AnswerForm::from_accept(accept) == AnswerForm::Json {
        let response = model.provider().complete(request).await?;
        return Ok(wire::turn_json(&wire::turn_of(response)));
    }
    let mut pieces = model.provider().stream(request).await?;
    let mut out = String::new();
    while let Some(piece) = pieces.next().await {
        match piece {
            Ok(ProviderEvent::Event(event)) => out += &sse::event(&event),
            Ok(ProviderEvent::Done(response)) => out += &sse::turn(&wire::turn_of(*response)),
            Err(error) => return Ok(out + &sse::error(&error)),
        }
    }
    Ok(out + sse::DONE)
}

async fn server(model: ModelReference) -> (String, Arc<Mutex<Vec<Value>>>) {
    let seen = Arc::default();
    let app = Router::new()
        .fallback(serve)
        .with_state((model, Arc::clone(&seen)));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/upp/agent", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, seen)
}

#[tokio::test]
async fn recorded_requests_of_a_upp_client_are_answered() {
    let script = Scripted::from_fn(|request| {
        if request.model == "boom" {
            return ScriptedReply::Fail(UppError::new(ErrorCode::ModelNotFound, "no model `boom`"));
        }
        match request.messages.last() {
            Some(last) if last.text().is_empty() => ScriptedReply::text("20 degrees"),
            _ if !request.tools.is_empty() => ScriptedReply::call("t1", "weather", json!({"city": "Paris"})),
            _ => ScriptedReply::text("hello"),
        }
    });
    let mut answers = Vec::new();
    for line in RECORDED.lines() {
        let recorded: Value = serde_json::from_str(line).unwrap();
        let body = recorded["body"].to_string();
        let request = parse_request(body.as_bytes()).unwrap();
        // Ids and timestamps come back as they were sent.
        assert_eq!(
            serde_json::to_value(&request).unwrap()["messages"][0],
            recorded["body"]["messages"][0]
        );
        answers.push(
            answer(
                &script.model(),
                recorded["accept"].as_str().unwrap(),
                body.as_bytes(),
            )
            .await,
        );
    }
    assert_eq!(answers.len(), 5);
    let turn = |index: usize| serde_json::from_str::<Turn>(answers[index].as_ref().unwrap()).unwrap();
    assert_eq!(turn(0).text(), "hello");
    let frames = answers[1].as_ref().unwrap();
    assert!(frames.starts_with("data: {\"type\":\"message_start\""));
    assert!(frames.ends_with("data: [DONE]\n\n"));
    assert_eq!(turn(2).response().unwrap().tool_calls[0].tool_name, "weather");
    assert_eq!(turn(3).text(), "20 degrees");
    assert_eq!(wire::error_answer(answers[4].as_ref().unwrap_err()).status, 404);
    let results = serde_json::to_value(&script.requests()[3].messages[2]).unwrap();
    assert_eq!(
        results["results"][0]["result"],
        json!({"temp": 20, "city": "Paris"})
    );
}

#[tokio::test]
async fn the_client_runs_its_own_tools_over_the_wire() {
    for streamed in [false, true] {
        let script = Scripted::new([
            ScriptedReply::call("t1", "weather", json!({"city": "Paris"})),
            ScriptedReply::text("20 degrees"),
        ]);
        let (url, seen) = server(script.model()).await;
        let tool = Tool::new("weather", "w", json!({"type": "object"}), |_, _| async {
            Ok(json!({"temp": 20}))
        });
        let model = llm(proxy(url, "default"))
            .tool(tool)
            .system("sys")
            .build()
            .unwrap();
        let turn = if streamed {
            model.stream("weather?").result().await
        } else {
            model.generate("weather?").await
        };
        let turn = turn.unwrap();
        assert_eq!(turn.text(), "20 degrees");
        assert_eq!(turn.tool_executions[0].result, json!({"temp": 20}));
        assert_eq!(turn.usage.total_tokens, 22);
        let seen = seen.lock().unwrap();
        assert_eq!(seen[1]["messages"][2]["type"], "tool_result");
        assert_eq!(seen[0]["system"], "sys");
    }
}

#[tokio::test]
async fn errors_cross_the_wire() {
    for streamed in [false, true] {
        let fail = ScriptedReply::Fail(UppError::new(ErrorCode::ContentFiltered, "not this"));
        let (url, _) = server(Scripted::new([fail]).model()).await;
        let model = llm(proxy(url, "default")).build().unwrap();
        let outcome = if streamed {
            model.stream("x").result().await
        } else {
            model.generate("x").await
        };
        let error = outcome.unwrap_err();
        assert_eq!(
            (error.code(), error.message()),
            (ErrorCode::ContentFiltered, "not this")
        );
    }
}

#[test]
fn malformed_requests_are_refused_with_the_field() {
    let message = json!({"id": "1", "type": "user", "timestamp": "2026-11-20T22:41:54.035Z", "content": []});
    let with = |key: &str, value: Value| {
        let mut changed = message.clone();
        changed[key] = value;
        json!({"model": "m", "messages": [message, changed]})
    };
    let cases = [
        (json!([]), "request"),
        (json!({"messages": []}), "model"),
        (json!({"model": "m"}), "messages"),
        (json!({"model": "m", "messages": {}}), "messages"),
        (json!({"model": 3, "messages": []}), "model"),
        (
            json!({"model": "m", "messages": [], "tools": [{"name": 1}]}),
            "tools[0].name",
        ),
        (json!({"model": "m", "messages": [], "system": 3}), "system"),
        (json!({"model": "m", "messages": [], "structure": 3}), "structure"),
        (
            json!({"model": "m", "messages": [], "structure": []}),
            "structure",
        ),
        (json!({"model": "m", "messages": [3]}), "messages[0]"),
        (json!({"model": "m", "messages": [{"id": "1"}]}), "messages[0]"),
        (with("id", json!(3)), "messages[1].id"),
        (with("type", json!("robot")), "messages[1].type"),
        (with("type", json!(3)), "messages[1].type"),
        (with("timestamp", json!("yesterday")), "messages[1].timestamp"),
        (with("content", json!("text")), "messages[1].content"),
        (with("metadata", json!([])), "messages[1].metadata"),
        (
            with(
                "content",
                json!([{"type": "image", "source": {"type": "base64", "data": "###"}, "mimeType": "x"}]),
            ),
            "messages[1].content[0]",
        ),
    ];
    for (body, expected) in cases {
        match parse_request(body.to_string().as_bytes()) {
            Err(WireError::Field { field, .. }) => assert_eq!(field, expected, "{body}"),
            other => panic!("{body}: {other:?}"),
        }
    }
    assert!(matches!(parse_request(b"{"), Err(WireError::NotJson(_))));
}

#[test]
fn bytes_as_an_index_map_are_read_and_written_as_base64() {
    let body = json!({"model": "m", "messages": [{"id": "1", "type": "user", "timestamp": "2026-11-20T22:41:54.035Z",
        "content": [{"type": "image", "mimeType": "image/png", "source": {"type": "bytes", "data": {"0": 104, "1": 105}}}]}]});
    let request = parse_request(body.to_string().as_bytes()).unwrap();
    let source = &serde_json::to_value(&request).unwrap()["messages"][0]["content"][0]["source"];
    assert_eq!(*source, json!({"type": "base64", "data": "aGk="}));
}

proptest! {
    #[test]
    fn hostile_bodies_do_no_harm(body in prop::collection::vec(any::<u8>(), 0..200), text in "[\\[\\]{}\":,a-z0-9]{0,80}") {
        let _ = parse_request(&body);
        let _ = parse_request(text.as_bytes());
        let _ = sse::parse(&text);
    }

    #[test]
    fn written_frames_are_read_back(texts in prop::collection::vec(".{0,20}", 1..5)) {
        for text in texts {
            let event = agentanycast_upp::StreamEvent::text(3, text);
            let frame = sse::event(&event);
            let data = frame.strip_prefix("data: ").unwrap().strip_suffix("\n\n").unwrap();
            prop_assert!(!data.contains('\n'));
            prop_assert_eq!(sse::parse(data), Ok(sse::Data::Event(event)));
        }
    }
}
