//! A stream and `generate` agree; a stream that breaks off, hangs or is dropped ends with its code.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use agentanycast_upp::{
    AssistantMessage, Call, CancellationToken, ContentBlock, ErrorCode, LlmContext, LlmMiddleware, Message,
    ProviderConfig, Response, Scripted, ScriptedReply, StreamEvent, StreamEventType, Tool, ToolCall, Turn,
    llm,
};
use futures::StreamExt as _;
use proptest::prelude::*;
use serde_json::{Value, json};

/// What two runs of one script have in common: all but ids, times and durations.
fn structure(turn: &Turn) -> Value {
    let mut value = serde_json::to_value(turn).unwrap();
    for message in value["messages"].as_array_mut().unwrap() {
        let message = message.as_object_mut().unwrap();
        message.remove("id");
        message.remove("timestamp");
    }
    for execution in value["toolExecutions"].as_array_mut().unwrap() {
        execution.as_object_mut().unwrap().remove("duration");
    }
    value
}

fn tools() -> Vec<Tool> {
    let echo = Tool::new("echo", "", json!({}), |arguments, _| async { Ok(arguments) });
    let fails = Tool::new("fails", "", json!({}), |_, _| async {
        Err::<Value, _>("broken".into())
    });
    vec![echo, fails]
}

fn reply() -> impl Strategy<Value = ScriptedReply> {
    let block = prop_oneof![
        "[ -~é]{1,20}".prop_map(ContentBlock::text),
        "[ -~]{1,20}".prop_map(ContentBlock::reasoning),
    ];
    let call = ("[a-c]{1,3}", prop_oneof!["echo", "fails", "missing"], 0_i64..9)
        .prop_map(|(id, name, n)| ToolCall::new(id, name, json!({"n": n})));
    (
        prop::collection::vec(block, 0..3),
        prop::collection::vec(call, 0..3),
    )
        .prop_map(|(blocks, calls)| {
            ScriptedReply::message(AssistantMessage::new(blocks).with_tool_calls(calls))
        })
}

proptest! {
    #[test]
    fn generate_and_stream_give_structurally_equal_turns(
        mut script in prop::collection::vec(reply(), 0..8),
        failing in prop::bool::weighted(0.2),
    ) {
        script.push(if failing {
            ScriptedReply::Fail(agentanycast_upp::UppError::new(ErrorCode::ProviderError, "down"))
        } else {
            ScriptedReply::text("end")
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let of = |script: Vec<_>| llm(Scripted::new(script).model()).tools(tools()).build().unwrap();
            let whole = of(script.clone()).generate("go").await;
            let streamed = of(script.clone()).stream("go").result().await;
            match (whole, streamed) {
                (Ok(whole), Ok(streamed)) => prop_assert_eq!(structure(&whole), structure(&streamed)),
                (whole, streamed) => prop_assert_eq!(whole.unwrap_err(), streamed.unwrap_err()),
            }
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn events_tell_the_text_the_calls_and_the_tools() {
    let script = Scripted::new([
        ScriptedReply::call("t1", "echo", json!({"n": 1})),
        ScriptedReply::text("hello world"),
    ]);
    let model = llm(script.model()).tools(tools()).build().unwrap();
    let mut stream = model.stream("go");
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event.unwrap());
    }
    let text: String = events
        .iter()
        .filter_map(|event| event.delta.text.as_deref())
        .collect();
    assert_eq!(text, "hello world");
    let position = |kind| events.iter().position(|event| event.kind == kind).unwrap();
    let order = [
        StreamEventType::MessageStart,
        StreamEventType::ToolCallDelta,
        StreamEventType::MessageStop,
        StreamEventType::ToolExecutionStart,
        StreamEventType::ToolExecutionEnd,
        StreamEventType::TextDelta,
    ];
    assert!(order.map(position).is_sorted());
    let end = &events[position(StreamEventType::ToolExecutionEnd)];
    assert_eq!(end.delta.result, Some(json!({"n": 1})));
    assert_eq!(stream.result().await.unwrap().text(), "hello world");
}

#[tokio::test]
async fn half_a_stream_is_an_invalid_response() {
    let half = Response::new(AssistantMessage::new([ContentBlock::text("half of it")]));
    let script = Scripted::new([ScriptedReply::BreakOff(Box::new(half))]);
    let model = llm(script.model()).build().unwrap();
    let mut stream = model.stream("go");
    let mut last = None;
    let mut events = 0;
    while let Some(event) = stream.next().await {
        events += 1;
        last = Some(event);
    }
    assert!(events > 2);
    assert_eq!(last.unwrap().unwrap_err().code(), ErrorCode::InvalidResponse);
    assert_eq!(
        stream.result().await.unwrap_err().code(),
        ErrorCode::InvalidResponse
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_provider_times_out_after_120_s() {
    let begun = tokio::time::Instant::now();
    let hang = || llm(Scripted::new([ScriptedReply::Hang]).model());
    let error = hang().build().unwrap().generate("go").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Timeout);
    assert_eq!(begun.elapsed().as_secs(), 120);
    let config = ProviderConfig::new().timeout(Duration::from_secs(3));
    let error = hang()
        .config(config)
        .build()
        .unwrap()
        .stream("go")
        .result()
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::Timeout);
    assert_eq!(begun.elapsed().as_secs(), 123);
}

#[tokio::test]
async fn aborting_ends_the_stream_and_tells_the_middleware() {
    struct Watch(Arc<AtomicBool>);
    #[async_trait::async_trait]
    impl LlmMiddleware for Watch {
        fn name(&self) -> &'static str {
            "watch"
        }
        async fn on_abort(&self, _context: &mut LlmContext) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let seen = Arc::new(AtomicBool::new(false));
    let script = Scripted::new([ScriptedReply::Hang]);
    let model = llm(script.model())
        .middleware(Watch(seen.clone()))
        .build()
        .unwrap();
    let stop = CancellationToken::new();
    let stream = model.stream(Call::new("go").cancel(stop.clone()));
    stop.cancel();
    assert_eq!(stream.result().await.unwrap_err().code(), ErrorCode::Cancelled);
    assert!(seen.load(Ordering::SeqCst));
}

#[tokio::test]
async fn dropping_a_stream_drops_the_running_tool() {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicBool::new(false));
    let guard = dropped.clone();
    let hang = Tool::new("hang", "", json!({}), move |_, _| {
        let guard = Dropped(guard.clone());
        async move {
            std::future::pending::<()>().await;
            drop(guard);
            Ok("never")
        }
    });
    let script = Scripted::new([ScriptedReply::call("t1", "hang", json!({}))]);
    let mut stream = llm(script.model()).tool(hang).build().unwrap().stream("go");
    while stream.next().await.unwrap().unwrap().kind != StreamEventType::ToolExecutionStart {}
    // The tool begins when the stream is polled again.
    assert!(futures::poll!(stream.next()).is_pending());
    assert!(!dropped.load(Ordering::SeqCst));
    drop(stream);
    assert!(dropped.load(Ordering::SeqCst));
}

#[tokio::test]
async fn middleware_replaces_expands_and_drops_events_but_not_the_turn() {
    struct Rewrite;
    #[async_trait::async_trait]
    impl LlmMiddleware for Rewrite {
        fn name(&self) -> &'static str {
            "rewrite"
        }
        fn on_stream_event(&self, _context: &LlmContext, event: StreamEvent) -> Vec<StreamEvent> {
            match event.kind {
                StreamEventType::TextDelta => vec![StreamEvent::text(0, "x"), StreamEvent::text(0, "y")],
                _ => Vec::new(),
            }
        }
    }
    let script = Scripted::new([ScriptedReply::text("hello")]);
    let mut stream = llm(script.model())
        .middleware(Rewrite)
        .build()
        .unwrap()
        .stream("go");
    let mut texts = Vec::new();
    while let Some(event) = stream.next().await {
        texts.push(event.unwrap().delta.text.unwrap());
    }
    assert_eq!(texts, ["x", "y"]);
    let turn = stream.result().await.unwrap();
    assert_eq!(turn.text(), "hello");
    assert!(matches!(turn.messages[0], Message::User(_)));
}

#[tokio::test]
async fn aborting_a_stream_leaves_the_token_of_the_caller_alone() {
    let shared = CancellationToken::new();
    let hang = || llm(Scripted::new([ScriptedReply::Hang]).model()).build().unwrap();
    let call = || Call::new("go").cancel(shared.clone());
    let (one, other) = (hang().stream(call()), hang().stream(call()));
    one.abort();
    assert_eq!(one.result().await.unwrap_err().code(), ErrorCode::Cancelled);
    assert!(!shared.is_cancelled());
    // The caller's token still ends what it was given to.
    shared.cancel();
    assert_eq!(other.result().await.unwrap_err().code(), ErrorCode::Cancelled);
}
