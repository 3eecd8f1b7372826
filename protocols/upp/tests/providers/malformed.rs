//! Answers with the status 200 that hold nothing to read, or hold it in another form than the provider's own:
//! the first are errors and not empty successes, the second are read, whole and streamed alike.

use agentanycast_upp::{
    ErrorCode, Inference, ModelReference, ProviderConfig, StreamEventType, Turn, UppError, llm,
    providers::{anthropic, gemini, ollama, openai, openai_responses, proxy},
};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::stub::{Answer, Stub};

async fn whole(model: ModelReference, body: &Value) -> Result<Inference, UppError> {
    let stub = Stub::new([Answer::json(body)]).await;
    let config = ProviderConfig::new().base_url(&stub.url).api_key("k");
    let model = llm(model).config(config).build().unwrap();
    // One inference only: the calls of the answer are looked at, not run.
    model.start("hi").infer().await
}

async fn streamed(
    model: ModelReference,
    answers: impl IntoIterator<Item = Answer>,
) -> Result<Turn, UppError> {
    let stub = Stub::new(answers).await;
    let config = ProviderConfig::new().base_url(&stub.url).api_key("k");
    let model = llm(model).config(config).build().unwrap();
    model.stream("hi").result().await
}

/// The answer of chat completions with this message or delta under `field`.
fn chat(field: &str, said: &Value, reason: &str) -> Value {
    json!({"choices": [{field: said, "finish_reason": reason}]})
}

#[tokio::test]
async fn chat_messages_without_anything_to_read_are_errors() {
    let call = |function: Value| json!({"content": null, "tool_calls": [{"id": "c", "function": function}]});
    let cases = [
        (json!({}), "stop", ErrorCode::InvalidResponse),
        (json!({"tool_calls": "x"}), "stop", ErrorCode::InvalidResponse),
        (
            json!({"content": "hi", "tool_calls": {}}),
            "stop",
            ErrorCode::InvalidResponse,
        ),
        (json!({"content": 5}), "stop", ErrorCode::InvalidResponse),
        (
            json!({"content": {"text": 5}}),
            "stop",
            ErrorCode::InvalidResponse,
        ),
        (json!({"content": [5]}), "stop", ErrorCode::InvalidResponse),
        (
            json!({"content": [{"type": "text", "text": 5}]}),
            "stop",
            ErrorCode::InvalidResponse,
        ),
        (
            json!({"content": [{"type": "image"}]}),
            "stop",
            ErrorCode::InvalidResponse,
        ),
        (json!({"content": null}), "tool_calls", ErrorCode::InvalidResponse),
        (
            json!({"content": ""}),
            "content_filter",
            ErrorCode::ContentFiltered,
        ),
        (
            call(json!({"arguments": "{}"})),
            "tool_calls",
            ErrorCode::InvalidResponse,
        ),
        (
            call(json!({"name": "a", "arguments": 5})),
            "tool_calls",
            ErrorCode::InvalidResponse,
        ),
    ];
    for (said, reason, code) in cases {
        let error = whole(openai("m"), &chat("message", &said, reason))
            .await
            .unwrap_err();
        assert_eq!(error.code(), code, "{said}: {error}");
        let events = Answer::events(&[chat("delta", &said, reason)], "data: [DONE]\n\n");
        let error = streamed(openai("m"), [events]).await.unwrap_err();
        assert_eq!(error.code(), code, "streamed {said}: {error}");
    }
}

#[tokio::test]
async fn chat_content_is_a_text_or_parts_and_may_be_empty() {
    let parts = json!([
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "It is "},
        {"type": "reference", "reference_ids": [1]},
        {"type": "text", "text": "warm."},
    ]);
    let cases = [
        (json!({"content": ""}), "", ""),
        (json!({"content": null}), "", ""),
        (json!({"content": "hi", "tool_calls": null}), "hi", ""),
        (json!({"content": null, "refusal": "no"}), "no", ""),
        (json!({"content": {"text": "hi"}}), "hi", ""),
        (json!({"content": ["h", "i"]}), "hi", ""),
        (json!({"content": parts}), "It is warm.", "hm"),
    ];
    for (said, text, reasoning) in cases {
        let message = whole(openai("m"), &chat("message", &said, "stop"))
            .await
            .unwrap()
            .message;
        let events = Answer::events(&[chat("delta", &said, "stop")], "data: [DONE]\n\n");
        let turn = streamed(openai("m"), [events]).await.unwrap();
        for read in [&*message, turn.response().unwrap()] {
            assert_eq!(
                (read.text().as_str(), read.reasoning().as_str()),
                (text, reasoning),
                "{said}"
            );
        }
    }
}

#[tokio::test]
async fn chat_calls_without_id_and_index_stay_apart() {
    let call = |name: &str, arguments: &str| json!({"function": {"name": name, "arguments": arguments}});
    let piece = |arguments: &str| json!({"function": {"arguments": arguments}});
    let calls = [call("a", "{\"n\": 1}"), call("b", "{\"n\": 2}")];
    let said = json!({"content": null, "tool_calls": calls});
    let inference = whole(openai("m"), &chat("message", &said, "tool_calls"))
        .await
        .unwrap();

    let delta = |calls: &[Value]| json!({"choices": [{"delta": {"tool_calls": calls}}]});
    let end = json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]});
    let last = Answer::events(&[chat("delta", &json!({"content": "done"}), "stop")], "");
    let streams = [
        // Both calls in one delta.
        vec![delta(&calls), end.clone()],
        // One call a delta, and arguments in pieces.
        vec![
            delta(&[call("a", "{\"n\"")]),
            delta(&[piece(": 1}")]),
            delta(&[call("b", "{\"n\"")]),
            delta(&[piece(": 2}")]),
            end.clone(),
        ],
    ];
    let mut answers = vec![(*inference.message).clone()];
    for events in streams {
        let turn = streamed(openai("m"), [Answer::events(&events, ""), last.clone()])
            .await
            .unwrap();
        assert_eq!(turn.text(), "done");
        answers.push(turn.messages[1].as_assistant().unwrap().clone());
    }
    for answer in answers {
        let [first, second] = answer.tool_calls.as_slice() else {
            panic!("{:?}", answer.tool_calls);
        };
        assert_eq!(
            (first.tool_name.as_str(), &first.arguments),
            ("a", &json!({"n": 1}))
        );
        assert_eq!(
            (second.tool_name.as_str(), &second.arguments),
            ("b", &json!({"n": 2}))
        );
        assert!(!first.tool_call_id.is_empty() && !second.tool_call_id.is_empty());
        assert_ne!(first.tool_call_id, second.tool_call_id);
    }
}

#[tokio::test]
async fn chat_calls_with_the_index_of_another_stay_apart_from_those_without() {
    let delta = |call: Value| json!({"choices": [{"delta": {"tool_calls": [call]}}]});
    let events = [
        delta(json!({"index": 3, "id": "c3", "function": {"name": "a", "arguments": "{\"n\""}})),
        delta(json!({"id": "c4", "function": {"name": "b", "arguments": {"n": 2}}})),
        delta(json!({"index": 3, "function": {"arguments": ": 1}"}})),
        json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
    ];
    let stub = Stub::new([Answer::events(&events, "")]).await;
    let config = ProviderConfig::new().base_url(&stub.url).api_key("k");
    let model = llm(openai("m")).config(config).build().unwrap();
    let mut stream = model.stream("hi");
    let mut begun = Vec::new();
    while let Some(Ok(event)) = stream.next().await {
        match event.kind {
            StreamEventType::ToolCallDelta => begun.push(event.index),
            StreamEventType::ToolExecutionStart => break,
            _ => {}
        }
    }
    assert_eq!(begun, [3, 4, 3]);
}

#[tokio::test]
async fn gemini_reasons_without_content_are_errors() {
    let candidate =
        |content: Value, reason: &str| json!({"candidates": [{"content": content, "finishReason": reason}]});
    let parts = |parts: Value| json!({"role": "model", "parts": parts});
    let thought = parts(json!([{"text": "hm", "thought": true}]));
    let cases = [
        (json!(null), "MALFORMED_FUNCTION_CALL", ErrorCode::InvalidResponse),
        (thought, "UNEXPECTED_TOOL_CALL", ErrorCode::InvalidResponse),
        (parts(json!([])), "OTHER", ErrorCode::InvalidResponse),
        (json!({}), "RECITATION", ErrorCode::ContentFiltered),
        (json!(null), "SPII", ErrorCode::ContentFiltered),
        (json!("hi"), "STOP", ErrorCode::InvalidResponse),
        (parts(json!("hi")), "STOP", ErrorCode::InvalidResponse),
        (parts(json!(["hi"])), "STOP", ErrorCode::InvalidResponse),
        (parts(json!([{"text": 5}])), "STOP", ErrorCode::InvalidResponse),
    ];
    for (content, reason, code) in cases {
        let body = candidate(content, reason);
        let error = whole(gemini("m"), &body).await.unwrap_err();
        assert_eq!(error.code(), code, "{body}: {error}");
        let error = streamed(gemini("m"), [Answer::events(&[body], "")])
            .await
            .unwrap_err();
        assert_eq!(error.code(), code, "streamed: {error}");
    }
    // Text that a reason cuts is no answer, and an empty answer that ends well is one.
    for (reason, code) in [
        ("RECITATION", ErrorCode::ContentFiltered),
        ("OTHER", ErrorCode::InvalidResponse),
        ("FINISH_REASON_UNSPECIFIED", ErrorCode::InvalidResponse),
        ("A_NEW_REASON", ErrorCode::InvalidResponse),
    ] {
        let cut = candidate(parts(json!([{"text": "half"}])), reason);
        let error = whole(gemini("m"), &cut).await.unwrap_err();
        assert_eq!(error.code(), code, "{reason}");
        assert!(error.message().contains(reason), "{error}");
    }
    for reason in ["STOP", "MAX_TOKENS"] {
        let empty = candidate(json!({"role": "model"}), reason);
        assert_eq!(whole(gemini("m"), &empty).await.unwrap().message.text(), "");
    }
}

#[tokio::test]
async fn responses_that_failed_are_errors() {
    let call = json!({"type": "function_call", "call_id": "c", "arguments": "{}"});
    let odd = json!({"type": "function_call", "name": "a", "arguments": 5});
    let filtered = json!({"reason": "content_filter"});
    let cases = [
        (
            json!({"status": "failed", "error": null, "output": []}),
            ErrorCode::ProviderError,
        ),
        (json!({"error": "down", "output": []}), ErrorCode::ProviderError),
        (
            json!({"status": "cancelled", "output": []}),
            ErrorCode::InvalidResponse,
        ),
        (
            json!({"status": "completed", "output": [call]}),
            ErrorCode::InvalidResponse,
        ),
        (
            json!({"status": "completed", "output": [odd]}),
            ErrorCode::InvalidResponse,
        ),
        (
            json!({"output": [{"type": "message", "content": 5}]}),
            ErrorCode::InvalidResponse,
        ),
        (
            json!({"status": "incomplete", "incomplete_details": filtered, "output": []}),
            ErrorCode::ContentFiltered,
        ),
    ];
    for (body, code) in cases {
        let error = whole(openai_responses("m"), &body).await.unwrap_err();
        assert_eq!(error.code(), code, "{body}: {error}");
        let event = json!({"type": "response.completed", "response": body});
        let error = streamed(openai_responses("m"), [Answer::events(&[event], "")])
            .await
            .unwrap_err();
        assert_eq!(error.code(), code, "streamed {body}: {error}");
    }
    let nameless = json!({"output": [{"type": "function_call", "name": "a", "arguments": "{}"}]});
    let message = whole(openai_responses("m"), &nameless).await.unwrap().message;
    assert!(!message.tool_calls[0].tool_call_id.is_empty());
}

#[tokio::test]
async fn a_json_error_instead_of_a_stream_is_that_error() {
    let error = json!({"error": {"message": "slow down", "type": "rate_limit_error"}});
    let exhausted = json!([{"error": {"message": "slow down", "status": "RESOURCE_EXHAUSTED"}}]);
    let claude = json!({"type": "error", "error": {"message": "slow down", "type": "rate_limit_error"}});
    let cases = [
        (openai("m"), error.clone()),
        (openai_responses("m"), error),
        (anthropic("m"), claude),
        (gemini("m"), exhausted),
        (
            proxy("http://unused.invalid", "m"),
            json!({"error": {"message": "slow down", "code": "RATE_LIMITED"}}),
        ),
    ];
    for (model, body) in cases {
        let name = model.provider().name().to_owned();
        // Blank lines and line ends inside of the JSON are usual.
        let answer = Answer::new(200, format!("\r\n\n{body:#}\n"));
        let error = streamed(model, [answer]).await.unwrap_err();
        assert_eq!(
            (error.code(), error.message()),
            (ErrorCode::RateLimited, "slow down"),
            "{name}"
        );
        assert_eq!(error.provider(), Some(name.as_str()));
    }
    // Half of an answer is none.
    let body = chat("message", &json!({"content": "hi"}), "stop").to_string();
    let error = streamed(openai("m"), [Answer::new(200, &body[..20])])
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidResponse);
}

/// Content is a text, a part or a list of both, whatever the dialect.
#[tokio::test]
async fn content_in_another_form_is_read() {
    let part = |kind: &str| json!({"type": kind, "text": "hi"});
    for (claude, thinking) in [
        (json!("hi"), ""),
        (part("text"), ""),
        (json!(["h", part("text")]), ""),
        (
            json!([{"type": "thinking", "thinking": ["h", {"text": "m"}]}, "hi"]),
            "hm",
        ),
    ] {
        let body = json!({"type": "message", "stop_reason": "end_turn", "content": claude});
        let message = whole(anthropic("m"), &body).await.unwrap().message;
        assert!(message.text().ends_with("hi"), "{body}");
        assert_eq!(message.reasoning(), thinking, "{body}");
    }
    for content in [json!("hi"), part("output_text"), json!(["hi"])] {
        let output = json!([{"type": "message", "content": content}, {"type": "reasoning", "summary": "hm"}]);
        let body = json!({"status": "completed", "output": output});
        let message = whole(openai_responses("m"), &body).await.unwrap().message;
        assert_eq!(
            (message.text().as_str(), message.reasoning().as_str()),
            ("hi", "hm"),
            "{body}"
        );
        let body =
            json!({"message": {"content": content, "thinking": ["hm"]}, "done": true, "done_reason": "stop"});
        let message = whole(ollama("m"), &body).await.unwrap().message;
        assert_eq!(
            (message.text().as_str(), message.reasoning().as_str()),
            ("hi", "hm"),
            "{body}"
        );
    }
}

/// Servers answer whole where a stream is asked for, and stream where an answer is asked for.
#[tokio::test]
async fn an_answer_in_the_other_form_is_read() {
    let candidate = json!({"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}]});
    let message = json!([{"type": "text", "text": "hi"}]);
    let claude = json!({"type": "message", "stop_reason": "end_turn", "content": message});
    let output = json!([{"type": "message", "content": [{"type": "output_text", "text": "hi"}]}]);
    let llama = json!({"message": {"content": "hi"}, "done": true, "done_reason": "stop"});
    type Case = (fn(&str) -> ModelReference, Value);
    let cases: [Case; 5] = [
        (
            |id| openai(id),
            chat("message", &json!({"content": "hi"}), "stop"),
        ),
        (
            |id| openai_responses(id),
            json!({"status": "completed", "output": output}),
        ),
        (|id| anthropic(id), claude),
        (|id| gemini(id), candidate),
        (|id| ollama(id), llama),
    ];
    for (model, body) in cases {
        // Laid out over lines, behind a byte order mark.
        let answer = Answer::new(200, format!("\u{feff}{body:#}"));
        assert_eq!(
            streamed(model("m"), [answer]).await.unwrap().text(),
            "hi",
            "{body}"
        );
    }
    let events = Answer::events(
        &[chat("delta", &json!({"content": "hi"}), "stop")],
        "data: [DONE]\n\n",
    );
    let stub = Stub::new([events]).await;
    let config = ProviderConfig::new().base_url(&stub.url).api_key("k");
    let model = llm(openai("m")).config(config).build().unwrap();
    assert_eq!(model.generate("hi").await.unwrap().text(), "hi");
}

#[tokio::test]
async fn an_end_that_is_not_known_is_an_error() {
    let text = json!([{"type": "text", "text": "half"}]);
    let claude = |reason: &str| json!({"type": "message", "stop_reason": reason, "content": text});
    let claude_events = |reason: &str| {
        [
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "half"}}),
            json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 1}}),
            json!({"type": "message_stop"}),
        ]
    };
    for (reason, code) in [
        ("end_turn", None),
        ("max_tokens", None),
        ("refusal", Some(ErrorCode::ContentFiltered)),
        ("pause_turn", Some(ErrorCode::InvalidResponse)),
        ("tool_use", Some(ErrorCode::InvalidResponse)),
        ("a_new_reason", Some(ErrorCode::InvalidResponse)),
    ] {
        let at_once = whole(anthropic("m"), &claude(reason)).await;
        assert_eq!(at_once.err().map(|error| error.code()), code, "{reason}");
        let events = Answer::events(&claude_events(reason), "");
        let turn = streamed(anthropic("m"), [events]).await;
        assert_eq!(turn.err().map(|error| error.code()), code, "streamed {reason}");
    }
    for (reason, is_good) in [
        ("stop", true),
        ("length", true),
        ("load", false),
        ("a_new_reason", false),
    ] {
        let line = json!({"message": {"content": "half"}, "done": true, "done_reason": reason});
        assert_eq!(whole(ollama("m"), &line).await.is_ok(), is_good, "{reason}");
        let answer = Answer::new(200, format!("{line}\n"));
        assert_eq!(
            streamed(ollama("m"), [answer]).await.is_ok(),
            is_good,
            "streamed {reason}"
        );
    }
    let output = json!([{"type": "message", "content": [{"type": "output_text", "text": "half"}]}]);
    for (status, details, is_good) in [
        ("completed", json!(null), true),
        ("incomplete", json!({"reason": "max_output_tokens"}), true),
        ("incomplete", json!({"reason": "content_filter"}), false),
        ("incomplete", json!({"reason": "a_new_reason"}), false),
        ("incomplete", json!(null), false),
        ("a_new_status", json!(null), false),
    ] {
        let body = json!({"status": status, "incomplete_details": details, "output": output});
        assert_eq!(
            whole(openai_responses("m"), &body).await.is_ok(),
            is_good,
            "{body}"
        );
    }
}

/// A server that answers one request with this chunk, and closes the connection without the last one.
async fn broken_chunks(body: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        // The body of the request ends with the object that it is.
        while !request.ends_with(b"}") {
            connection.read_buf(&mut request).await.unwrap();
        }
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let answer = format!("{head}{:x}\r\n{body}\r\n", body.len());
        connection.write_all(answer.as_bytes()).await.unwrap();
    });
    url
}

/// The connection breaks behind an answer that has its end.
#[tokio::test]
async fn an_answer_that_has_its_end_is_not_lost_by_what_follows() {
    let event = chat("delta", &json!({"content": "hi"}), "stop");
    let config = ProviderConfig::new().base_url(broken_chunks(format!("data: {event}\n\n")).await);
    let model = llm(openai("m")).config(config).build().unwrap();
    assert_eq!(model.stream("hi").result().await.unwrap().text(), "hi");
    // Text that the last event leaves out was sent before.
    let events = [
        json!({"type": "response.output_text.delta", "delta": "hi"}),
        json!({"type": "response.completed", "response": {"status": "completed", "output": []}}),
    ];
    let turn = streamed(openai_responses("m"), [Answer::events(&events, "")]).await;
    assert_eq!(turn.unwrap().text(), "hi");
}
