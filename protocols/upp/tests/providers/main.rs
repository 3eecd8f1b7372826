//! The adapters against a stub server: what they send, what they read whole and streamed, and how they fail.

#![cfg(feature = "providers")]
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod failures;
mod malformed;
mod stub;

use agentanycast_upp::{
    AssistantMessage, Call, ContentBlock, DocumentSource, LlmOptions, Message, ModelReference,
    ProviderConfig, Tool, ToolCall, ToolResult, ToolResultMessage, Turn, UserMessage, llm,
    providers::{anthropic, gemini, ollama, openai, openai_responses},
};
use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::stub::{Answer, Seen, Stub};

/// A model at the stub, with a key, a system prompt and a tool.
fn options(model: ModelReference, stub: &Stub) -> LlmOptions {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let weather = Tool::new("weather", "The weather", schema, |_, _| async { Ok("sunny") });
    llm(model)
        .config(ProviderConfig::new().base_url(&stub.url).api_key("secret"))
        .system("be short")
        .tool(weather)
}

/// A conversation with every kind of message, and an image.
fn history() -> Vec<Message> {
    vec![
        UserMessage::new([
            ContentBlock::text("look"),
            ContentBlock::image(&b"png"[..], "image/png"),
        ])
        .into(),
        AssistantMessage::new([ContentBlock::text("I look.")])
            .with_tool_calls([ToolCall::new("t0", "weather", json!({"city": "Bern"}))])
            .into(),
        ToolResultMessage::new([ToolResult {
            tool_call_id: "t0".into(),
            result: json!({"celsius": 20}),
            is_error: false,
        }])
        .into(),
    ]
}

/// Asks once whole and once streamed; both have to agree. Returns the turn, the streamed text, and both
/// requests.
async fn ask(
    model: fn(&str) -> ModelReference,
    whole: Answer,
    streamed: Answer,
) -> (Turn, String, Vec<Seen>) {
    let stub = Stub::new([whole, streamed]).await;
    let model = options(model("model-1"), &stub).build().unwrap();
    // One inference only: the calls of the answers are looked at, not run.
    let call = || Call::new("and now?").history(&history());
    let mut run = model.start(call());
    run.infer().await.unwrap();
    let turn = run.finish().await.unwrap();

    let mut text = String::new();
    let mut stream = model.stream(call());
    let mut error = None;
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => text.push_str(&event.delta.text.unwrap_or_default()),
            Err(failed) => error = Some(failed),
        }
    }
    // The stream goes on with the tool, for which the stub has no answer.
    let error = error.unwrap();
    assert_eq!(error.status(), Some(500), "{error}");
    (turn, text, stub.seen())
}

fn image_base64() -> &'static str {
    "cG5n"
}

fn check_turn(turn: &Turn) {
    let answer = turn.response().unwrap();
    assert_eq!(answer.text(), "It is wärm.");
    assert_eq!(answer.reasoning(), "hm");
    assert_eq!(answer.tool_calls.len(), 1);
    assert_eq!(answer.tool_calls[0].tool_name, "weather");
    assert_eq!(answer.tool_calls[0].arguments, json!({"city": "Rome"}));
    assert_eq!((turn.usage.input_tokens, turn.usage.output_tokens), (11, 7));
}

#[tokio::test]
async fn openai_chat_completions() {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Rome\"}"}});
    let usage =
        json!({"prompt_tokens": 11, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 5}});
    let whole = json!({"choices": [{"finish_reason": "tool_calls", "message": {
        "role": "assistant", "content": "It is wärm.", "reasoning_content": "hm", "tool_calls": [call]}}], "usage": usage});
    let delta = |delta: Value| json!({"choices": [{"delta": delta}]});
    let piece =
        |arguments: &str| delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]}));
    let streamed = [
        delta(json!({"role": "assistant", "reasoning_content": "hm"})),
        delta(json!({"content": "It is "})),
        delta(json!({"content": "wärm."})),
        delta(
            json!({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "weather", "arguments": ""}}]}),
        ),
        piece("{\"city\": "),
        piece("\"Rome\"}"),
        json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
        json!({"choices": [], "usage": usage}),
    ];
    let streamed = Answer::events(&streamed, "data: [DONE]\n\n");
    let (turn, text, seen) = ask(|id| openai(id), Answer::json(&whole), streamed).await;
    check_turn(&turn);
    assert_eq!(turn.usage.cache_read_tokens, 5);
    assert_eq!(text, "hmIt is wärm.");
    assert_eq!(seen[0].path, "/chat/completions");
    assert_eq!(seen[0].headers["authorization"], "Bearer secret");
    let messages = &seen[0].body["messages"];
    assert_eq!(messages[0], json!({"role": "system", "content": "be short"}));
    let url = format!("data:image/png;base64,{}", image_base64());
    assert_eq!(messages[1]["content"][1]["image_url"]["url"], url);
    assert_eq!(
        messages[2]["tool_calls"][0]["function"]["arguments"],
        "{\"city\":\"Bern\"}"
    );
    assert_eq!(
        messages[3],
        json!({"role": "tool", "tool_call_id": "t0", "content": "{\"celsius\":20}"})
    );
    assert_eq!(messages[4]["content"], "and now?");
    assert_eq!(seen[0].body["tools"][0]["function"]["name"], "weather");
    assert_eq!(seen[1].body["stream"], true);
    assert_eq!(seen[1].headers["accept"], "text/event-stream");
    // The streamed message went back with the result of its tool.
    assert_eq!(seen[2].body["messages"][5]["content"], "It is wärm.");
    assert_eq!(seen[2].body["messages"][6]["content"], "sunny");
}

#[tokio::test]
async fn openai_responses_api() {
    let whole = json!({"status": "completed", "output": [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It is wärm."}]},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{\"city\": \"Rome\"}"},
    ], "usage": {"input_tokens": 11, "output_tokens": 7}});
    let streamed = [
        json!({"type": "response.created", "response": {}}),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "hm"}),
        json!({"type": "response.output_text.delta", "output_index": 1, "delta": "It is wärm."}),
        json!({"type": "response.output_item.added", "output_index": 2,
            "item": {"type": "function_call", "call_id": "c1", "name": "weather"}}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{}"}),
        json!({"type": "response.completed", "response": whole}),
    ];
    let (turn, text, seen) = ask(
        |id| openai_responses(id),
        Answer::json(&whole),
        Answer::events(&streamed, ""),
    )
    .await;
    check_turn(&turn);
    assert_eq!(text, "hmIt is wärm.");
    assert_eq!(seen[0].path, "/responses");
    let input = &seen[0].body["input"];
    assert_eq!(seen[0].body["instructions"], "be short");
    assert_eq!(
        input[0]["content"][0],
        json!({"type": "input_text", "text": "look"})
    );
    assert_eq!(input[2]["call_id"], "t0");
    assert_eq!(input[3]["output"], "{\"celsius\":20}");
    assert_eq!(seen[0].body["tools"][0]["name"], "weather");
}

#[tokio::test]
async fn anthropic_messages() {
    let whole = json!({"type": "message", "stop_reason": "tool_use", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "text", "text": "It is wärm."},
        {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Rome"}},
    ], "usage": {"input_tokens": 11, "output_tokens": 7}});
    let start = |index: u8, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let delta =
        |index: u8, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let streamed = [
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 11, "output_tokens": 1}}}),
        json!({"type": "ping"}),
        start(0, json!({"type": "thinking", "thinking": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "hm"})),
        delta(0, json!({"type": "signature_delta", "signature": "sig"})),
        start(1, json!({"type": "text", "text": ""})),
        delta(1, json!({"type": "text_delta", "text": "It is wärm."})),
        json!({"type": "content_block_stop", "index": 1}),
        start(
            2,
            json!({"type": "tool_use", "id": "c1", "name": "weather", "input": {}}),
        ),
        delta(
            2,
            json!({"type": "input_json_delta", "partial_json": "{\"city\": "}),
        ),
        delta(
            2,
            json!({"type": "input_json_delta", "partial_json": "\"Rome\"}"}),
        ),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 7}}),
        json!({"type": "message_stop"}),
    ];
    let (turn, text, seen) = ask(
        |id| anthropic(id),
        Answer::json(&whole),
        Answer::events(&streamed, ""),
    )
    .await;
    check_turn(&turn);
    assert_eq!(text, "hmIt is wärm.");
    assert_eq!(seen[0].path, "/v1/messages");
    assert_eq!(seen[0].headers["x-api-key"], "secret");
    assert_eq!(seen[0].headers["anthropic-version"], "2023-06-01");
    let body = &seen[0].body;
    assert_eq!(
        (&body["system"], &body["max_tokens"]),
        (&json!("be short"), &json!(4096))
    );
    assert_eq!(
        body["messages"][0]["content"][1]["source"]["data"],
        image_base64()
    );
    assert_eq!(body["messages"][1]["content"][1]["type"], "tool_use");
    assert_eq!(body["messages"][2]["content"][0]["tool_use_id"], "t0");
    assert_eq!(body["tools"][0]["input_schema"]["type"], "object");
    // The signature of the thinking goes back.
    let back = json!({"type": "thinking", "thinking": "hm", "signature": "sig"});
    assert_eq!(seen[2].body["messages"][4]["content"][0], back);
}

#[tokio::test]
async fn anthropic_gets_the_tools_of_a_conversation_when_none_may_be_called() {
    let answer =
        json!({"type": "message", "stop_reason": "end_turn", "content": [{"type": "text", "text": "ok"}]});
    let stub = Stub::new([Answer::json(&answer), Answer::json(&answer)]).await;
    let model = options(anthropic("model-1"), &stub)
        .without_tools()
        .build()
        .unwrap();
    model
        .generate(Call::new("and now?").history(&history()))
        .await
        .unwrap();
    model.generate("and now?").await.unwrap();
    let seen = stub.seen();
    let called = json!([{"name": "weather", "input_schema": {"type": "object"}}]);
    assert_eq!(seen[0].body["tools"], called);
    assert_eq!(seen[0].body["tool_choice"], json!({"type": "none"}));
    assert!(seen[1].body.get("tools").is_none() && seen[1].body.get("tool_choice").is_none());
}

#[tokio::test]
async fn google_gemini() {
    let call =
        json!({"functionCall": {"name": "weather", "args": {"city": "Rome"}}, "thoughtSignature": "sig"});
    let usage = json!({"promptTokenCount": 11, "candidatesTokenCount": 5, "thoughtsTokenCount": 2});
    let chunk = |parts: Value| json!({"candidates": [{"content": {"role": "model", "parts": parts}}]});
    let mut whole = chunk(json!([{"text": "hm", "thought": true}, {"text": "It is wärm."}, call]));
    whole["candidates"][0]["finishReason"] = "STOP".into();
    whole["usageMetadata"] = usage.clone();
    let mut last = chunk(json!([call]));
    last["candidates"][0]["finishReason"] = "STOP".into();
    last["usageMetadata"] = usage;
    let streamed = [
        chunk(json!([{"text": "hm", "thought": true}])),
        chunk(json!([{"text": "It is "}])),
        chunk(json!([{"text": "wärm."}])),
        last,
    ];
    let (turn, text, seen) = ask(
        |id| gemini(id),
        Answer::json(&whole),
        Answer::events(&streamed, ""),
    )
    .await;
    check_turn(&turn);
    assert_eq!(text, "hmIt is wärm.");
    assert_eq!(seen[0].path, "/v1beta/models/model-1:generateContent");
    assert_eq!(
        seen[1].path,
        "/v1beta/models/model-1:streamGenerateContent?alt=sse"
    );
    assert_eq!(seen[0].headers["x-goog-api-key"], "secret");
    let contents = &seen[0].body["contents"];
    assert_eq!(contents[0]["parts"][1]["inlineData"]["data"], image_base64());
    assert_eq!(contents[1]["role"], "model");
    assert_eq!(contents[2]["parts"][0]["functionResponse"]["name"], "weather");
    assert_eq!(seen[2].body["contents"][4]["parts"][1]["thoughtSignature"], "sig");
}

#[tokio::test]
async fn ollama_chat() {
    let call = json!({"function": {"name": "weather", "arguments": {"city": "Rome"}}});
    let end = json!({"done": true, "done_reason": "stop", "prompt_eval_count": 11, "eval_count": 7});
    let mut whole = json!({"message": {"role": "assistant", "thinking": "hm", "content": "It is wärm.", "tool_calls": [call]}});
    whole
        .as_object_mut()
        .unwrap()
        .extend(end.as_object().unwrap().clone());
    let mut last = json!({"message": {"content": ""}});
    last.as_object_mut()
        .unwrap()
        .extend(end.as_object().unwrap().clone());
    let lines = [
        json!({"message": {"thinking": "hm"}, "done": false}),
        json!({"message": {"content": "It is "}, "done": false}),
        json!({"message": {"content": "wärm."}, "done": false}),
        json!({"message": {"content": "", "tool_calls": [call]}, "done": false}),
        last,
    ];
    let streamed: Vec<_> = lines.iter().map(|line| format!("{line}\n")).collect();
    let streamed = streamed.concat();
    let (turn, text, seen) = ask(|id| ollama(id), Answer::json(&whole), Answer::new(200, streamed)).await;
    check_turn(&turn);
    assert_eq!(text, "hmIt is wärm.");
    assert_eq!(seen[0].path, "/api/chat");
    assert_eq!(seen[0].body["messages"][1]["images"][0], image_base64());
    assert_eq!(
        (&seen[0].body["stream"], &seen[1].body["stream"]),
        (&json!(false), &json!(true))
    );
}

#[tokio::test]
async fn structured_answers_are_asked_for_in_each_providers_way() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let text = "{\"n\": 3}";
    let chat = json!({"choices": [{"finish_reason": "stop", "message": {"content": text}}]});
    let responses =
        json!({"output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}]});
    let message =
        json!({"content": [{"type": "tool_use", "id": "c", "name": "json_response", "input": {"n": 3}}]});
    let google = json!({"candidates": [{"finishReason": "STOP", "content": {"parts": [{"text": text}]}}]});
    let local = json!({"message": {"content": text}, "done": true});
    let cases: [(ModelReference, Value, &str); 5] = [
        (openai("m"), chat, "/response_format/json_schema/schema"),
        (openai_responses("m"), responses, "/text/format/schema"),
        (anthropic("m"), message, "/tools/0/input_schema"),
        (gemini("m"), google, "/generationConfig/responseJsonSchema"),
        (ollama("m"), local, "/format"),
    ];
    for (model, answer, place) in cases {
        let stub = Stub::new([Answer::json(&answer)]).await;
        let model = llm(model)
            .config(ProviderConfig::new().base_url(&stub.url).api_key("k"))
            .structure(schema.clone())
            .param("temperature", 0.5)
            .build()
            .unwrap();
        let turn = model.generate("three").await.unwrap();
        assert_eq!(turn.data, Some(json!({"n": 3})), "{place}");
        let body = &stub.seen()[0].body;
        assert_eq!(body.pointer(place), Some(&schema));
        assert!(body.to_string().contains("\"temperature\":0.5"));
    }
}

#[tokio::test]
async fn blocks_that_a_provider_does_not_take_are_refused_before_sending() {
    let document = ContentBlock::Document {
        source: DocumentSource::Url {
            url: "https://example.com/a.pdf".into(),
        },
        mime_type: "application/pdf".into(),
        title: None,
    };
    let stub = Stub::new([]).await;
    for model in [openai("m"), ollama("m")] {
        let model = llm(model)
            .config(ProviderConfig::new().base_url(&stub.url))
            .build()
            .unwrap();
        let error = model.generate(document.clone()).await.unwrap_err();
        assert_eq!(error.code().as_str(), "INVALID_REQUEST");
    }
    assert!(stub.seen().is_empty());
}
