//! Requests that a client of UPP was recorded to send are answered, as JSON and as events.

use agentanycast_gateway::Target;
use agentanycast_upp::wire::sse::{Data, parse};
use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::{
    fixture::{MAX_BODY, TestGateway, answer, body, data, soon},
    scripted::text_of,
};

/// The requests of a client of UPP: each with its `Accept`, and its body.
const RECORDED: &str = include_str!("../fixtures/requests.jsonl");

fn recorded() -> Vec<(String, String)> {
    let read = |line: &str| -> (String, String) {
        let line: Value = serde_json::from_str(line).unwrap();
        (
            line["accept"].as_str().unwrap().to_owned(),
            line["body"].to_string(),
        )
    };
    RECORDED.lines().map(read).collect()
}

#[tokio::test]
async fn recorded_requests_are_answered() {
    let gateway = TestGateway::start().await;
    let mut statuses = Vec::new();
    for (accept, body) in recorded() {
        let sent = gateway.post("12D3%2Fcook", &accept).body(body.clone());
        // The fake's node knows no agent of this name; its own one it does.
        let own = gateway.post("self", &accept).body(body);
        let _ = soon(sent.send()).await.unwrap();
        let response = soon(own.send()).await.unwrap();
        statuses.push(response.status().as_u16());
        if accept == "text/event-stream" {
            let data = data(response).await;
            assert_eq!(data.last().unwrap(), "[DONE]");
            assert!(matches!(parse(&data[data.len() - 2]), Ok(Data::Turn(_))));
        } else if response.status() == 200 {
            let (_, turn) = answer(response).await;
            assert_eq!(turn["cycles"], 1);
            assert_eq!(turn["messages"][0]["type"], "assistant");
        }
    }
    // The last one names a model that its agent does not know.
    assert_eq!(statuses, [200, 200, 200, 200, 404]);
    let named = Target::Agent {
        peer: Some("12D3".to_owned()),
        agent: "cook".to_owned(),
    };
    let sent = gateway.node.sent.lock().unwrap();
    assert!(sent.iter().step_by(2).all(|(target, _)| *target == named));
    assert!(
        sent.iter()
            .skip(1)
            .step_by(2)
            .all(|(target, _)| *target == Target::Own)
    );
    // An agent without UPP reads the text of the user, also when the results of a tool are the last message.
    let texts: Vec<&str> = sent
        .iter()
        .step_by(2)
        .map(|(_, message)| text_of(message))
        .collect();
    assert_eq!(texts, ["hi", "hi", "weather?", "weather?", "x"]);
}

#[tokio::test]
async fn the_turn_of_an_agent_comes_back_unchanged() {
    let gateway = TestGateway::start().await;
    let (status, turn) = gateway.ask("weather?").await;
    assert_eq!(status, 200);
    let call = json!({"toolCallId": "t1", "toolName": "weather", "arguments": {"city": "Paris"}});
    assert_eq!(turn["messages"][0]["toolCalls"], json!([call]));
    assert_eq!(turn["messages"][0]["content"][0]["text"], "let me see");
}

#[tokio::test]
async fn a_question_is_an_answer_and_ends_the_task() {
    let gateway = TestGateway::start().await;
    let (status, turn) = gateway.ask("ask").await;
    assert_eq!(
        (status, &turn["messages"][0]["content"][0]["text"]),
        (200, &json!("which colour?"))
    );
    gateway.cancelled(1).await;
}

#[tokio::test]
async fn events_of_an_agent_come_before_its_answer() {
    let gateway = TestGateway::start().await;
    let data = gateway.events("stream").await;
    let texts: Vec<String> = data
        .iter()
        .filter_map(|data| match parse(data).unwrap() {
            Data::Event(event) => event.delta.text,
            _ => None,
        })
        .collect();
    assert_eq!(texts, ["one ", "two"]);
    let Ok(Data::Turn(turn)) = parse(&data[2]) else {
        panic!("{data:?}");
    };
    assert_eq!(turn.text(), "one two");
    assert_eq!(data[3..], ["[DONE]"]);
    assert_eq!(*gateway.node.cancelled.borrow(), 0);
}

#[tokio::test]
async fn a_result_that_is_streamed_is_read_for_the_answer() {
    let gateway = TestGateway::start().await;
    let (status, turn) = gateway.ask("large").await;
    let text = turn["messages"][0]["content"][0]["text"].as_str().unwrap();
    assert_eq!((status, text.len()), (200, 2 << 20));
    let (status, error) = gateway.ask("huge").await;
    assert_eq!(
        (status, &error["error"]["code"]),
        (502, &json!("INVALID_RESPONSE"))
    );
}

#[tokio::test]
async fn failures_have_a_status_and_a_code() {
    let gateway = TestGateway::start().await;
    for (text, status, code, message) in [
        ("fail out of paper", 502, "PROVIDER_ERROR", "out of paper"),
        ("fail RATE_LIMITED: slow down", 429, "RATE_LIMITED", "slow down"),
        ("fail CONTENT_FILTERED: no", 451, "CONTENT_FILTERED", "no"),
        ("fail QUOTA_EXCEEDED: empty", 402, "QUOTA_EXCEEDED", "empty"),
        ("denied", 403, "AUTHENTICATION_FAILED", "the policy forbids it"),
        ("busy", 429, "RATE_LIMITED", "the node is full"),
        ("x", 404, "MODEL_NOT_FOUND", "no agent is there"),
    ] {
        let told = json!({"error": {"code": code, "message": message}});
        assert_eq!(gateway.ask(text).await, (status, told), "{text}");
    }
    // A stream that fails before its first event is no stream.
    for (text, status, code) in [
        ("fail TIMEOUT: too slow", 408, "TIMEOUT"),
        ("fail RATE_LIMITED: slow down", 429, "RATE_LIMITED"),
        ("garbage", 502, "INVALID_RESPONSE"),
    ] {
        let request = gateway.post("self", "text/event-stream").body(body(text));
        let (told, error) = answer(soon(request.send()).await.unwrap()).await;
        assert_eq!((told, &error["error"]["code"]), (status, &json!(code)), "{error}");
    }
}

#[tokio::test]
async fn a_structured_answer_is_data() {
    let gateway = TestGateway::start().await;
    let ask = async |text: &str| {
        let user = json!({"type": "user", "id": "1", "timestamp": "2026-01-01T00:00:00Z", "content": [{"type": "text", "text": text}]});
        let body = json!({"model": "m", "messages": [user], "structure": {"type": "object"}});
        let request = gateway.post("self", "application/json").body(body.to_string());
        answer(soon(request.send()).await.unwrap()).await
    };
    for text in ["say {\"n\": 1}", "say ```json\n{\"n\": 1}\n```"] {
        let (status, turn) = ask(text).await;
        assert_eq!((status, &turn["data"]), (200, &json!({"n": 1})), "{turn}");
    }
    let (status, error) = ask("say hello").await;
    assert_eq!(
        (status, &error["error"]["code"]),
        (502, &json!("INVALID_RESPONSE"))
    );
    assert!(error.to_string().contains("hello"), "{error}");
}

/// A body above the limit, of which the client still writes when it is refused.
#[tokio::test]
async fn a_body_that_is_too_large_is_refused_so_that_its_client_reads_why() {
    let gateway = TestGateway::start().await;
    for _ in 0..5 {
        let body = vec![b' '; 16 * MAX_BODY];
        let request = gateway.post("self", "application/json").body(body);
        let (status, error) = answer(soon(request.send()).await.unwrap()).await;
        assert_eq!(
            (status, &error["error"]["code"]),
            (413, &json!("CONTEXT_LENGTH_EXCEEDED"))
        );
    }
}

#[tokio::test]
async fn a_client_that_goes_away_cancels_its_task() {
    let gateway = TestGateway::start().await;
    let request = gateway.post("self", "application/json").body(body("wait"));
    let waiting = tokio::spawn(request.send());
    soon(async {
        while gateway.node.sent.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    waiting.abort();
    gateway.cancelled(1).await;

    let request = gateway.post("self", "text/event-stream").body(body("open"));
    let mut bytes = soon(request.send()).await.unwrap().bytes_stream();
    let first = soon(bytes.next()).await.unwrap().unwrap();
    assert!(first.starts_with(b"data: "));
    drop(bytes);
    gateway.cancelled(2).await;
}

#[tokio::test]
async fn the_end_of_the_gateway_cancels_what_it_waits_for() {
    let gateway = TestGateway::start().await;
    let request = gateway.post("self", "application/json").body(body("wait"));
    let waiting = tokio::spawn(request.send());
    soon(async {
        while gateway.node.sent.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let TestGateway { node, running, .. } = gateway;
    running.stop().await;
    let (status, error) = answer(soon(waiting).await.unwrap().unwrap()).await;
    assert_eq!((status, &error["error"]["code"]), (503, &json!("NETWORK_ERROR")));
    let mut cancelled = node.cancelled.subscribe();
    soon(cancelled.wait_for(|now| *now == 1)).await.unwrap();
}
