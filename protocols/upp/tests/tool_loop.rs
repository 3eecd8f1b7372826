//! The tool loop: what the model learns of tools that are missing, denied, panic, hang or return too much.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use agentanycast_upp::{
    AssistantMessage, BeforeCall, Call, CancellationToken, ContentBlock, ErrorCode, Limit,
    MAX_ERROR_TEXT_BYTES, Message, Scripted, ScriptedReply, Tool, ToolCall, ToolHooks, ToolOrder,
    ToolUseStrategy, Turn, UserMessage, llm,
};
use serde_json::{Value, json};

fn tool(name: &str) -> Tool {
    let reply = format!("{name} ran");
    Tool::new(name, "A tool", json!({"type": "object"}), move |_, _| {
        let reply = reply.clone();
        async move { Ok(reply) }
    })
}

async fn run_one(tool: Tool, called: &str) -> Turn {
    let script = Scripted::new([
        ScriptedReply::call("t1", called, json!({"n": 1})),
        ScriptedReply::text("done"),
    ]);
    llm(script.model())
        .tool(tool)
        .build()
        .unwrap()
        .generate("go")
        .await
        .unwrap()
}

#[tokio::test]
async fn a_turn_holds_input_calls_results_and_answer_but_no_history() {
    let script = Scripted::new([
        ScriptedReply::call("t1", "a", json!({})),
        ScriptedReply::text("done"),
    ]);
    let model = llm(script.model())
        .system("be short")
        .tool(tool("a"))
        .build()
        .unwrap();
    let history = [Message::from(UserMessage::text("before"))];
    let turn = model.generate(Call::new("go").history(&history)).await.unwrap();

    let kinds: Vec<_> = turn
        .messages
        .iter()
        .map(|message| serde_json::to_value(message).unwrap()["type"].clone())
        .collect();
    assert_eq!(kinds, ["user", "assistant", "tool_result", "assistant"]);
    assert_eq!(turn.cycles, 2);
    assert_eq!(turn.usage.total_tokens, 22);
    assert_eq!(turn.usage.cycles.len(), 2);
    assert_eq!(turn.tool_executions[0].result, "a ran");
    let requests = script.requests();
    assert_eq!(requests[0].messages.len(), 2);
    assert_eq!(requests[1].messages.len(), 4);
    assert_eq!(requests[0].system.as_ref().unwrap().text(), "be short");
    assert_eq!(requests[0].tools[0].name, "a");
}

#[tokio::test]
async fn failures_of_tools_are_results_for_the_model() {
    let schema = json!({"type": "object"});
    let cases: Vec<(Tool, &str, &str)> = vec![
        (tool("a"), "b", "Tool 'b' not found"),
        (
            Tool::new("a", "", schema.clone(), |_, _| async {
                Err::<Value, _>("no such city".into())
            }),
            "a",
            "no such city",
        ),
        (
            Tool::new("a", "", schema.clone(), |_, _| async {
                if true { panic!("boom") } else { Ok("never") }
            }),
            "a",
            "Tool 'a' panicked",
        ),
        (
            Tool::new("a", "", schema.clone(), |arguments, _| {
                assert!(arguments.is_null(), "boom before the first await");
                async { Ok("never") }
            }),
            "a",
            "Tool 'a' panicked",
        ),
        (
            Tool::new("a", "", schema, |_, _| async { Ok("x".repeat(100 << 20)) }),
            "a",
            "Tool 'a' returned more than 8388608 bytes; return less, or raise its max_result_bytes",
        ),
        (
            tool("a").approval(|_| async { false }),
            "a",
            "Tool execution denied by approval handler",
        ),
    ];
    for (tool, called, expected) in cases {
        let turn = run_one(tool, called).await;
        assert!(turn.tool_executions[0].is_error, "{expected}");
        assert_eq!(turn.tool_executions[0].result, expected);
        assert_eq!(turn.text(), "done");
    }
}

#[tokio::test]
async fn a_long_error_text_is_cut_at_a_character() {
    let mark = " [the rest of the error text is cut off]";
    let failing = |text: String| {
        Tool::new("a", "", json!({}), move |_, _| {
            let text = text.clone();
            async move { Err::<Value, _>(text.into()) }
        })
    };
    // `ä` has two bytes; the `x` puts the bound between them.
    for begin in ["", "x"] {
        let text = format!("{begin}{}", "ä".repeat(50 << 20));
        let turn = run_one(failing(text.clone()), "a").await;
        let told = turn.tool_executions[0].result.as_str().unwrap();
        assert!(turn.tool_executions[0].is_error);
        assert!(told.len() <= MAX_ERROR_TEXT_BYTES && told.len() > MAX_ERROR_TEXT_BYTES - 2);
        assert!(text.starts_with(told.strip_suffix(mark).unwrap()));
        assert!(serde_json::to_string(&turn.messages).unwrap().len() < 2 * MAX_ERROR_TEXT_BYTES);
    }
    // A text that just fits stays whole.
    let fits = "x".repeat(MAX_ERROR_TEXT_BYTES);
    let turn = run_one(failing(fits.clone()), "a").await;
    assert_eq!(turn.tool_executions[0].result, fits);
    // The model's name of a tool that is missing is a part of the text.
    let turn = run_one(tool("a"), &"b".repeat(1 << 20)).await;
    let told = turn.tool_executions[0].result.as_str().unwrap();
    assert!(
        told.starts_with("Tool 'bbb") && told.ends_with(mark),
        "{}",
        told.len()
    );
}

#[tokio::test]
async fn results_of_hooks_are_bounded_as_those_of_tools() {
    struct Long;
    #[async_trait::async_trait]
    impl ToolHooks for Long {
        async fn on_after_call(&self, _tool: &Tool, _arguments: &Value, _result: &Value) -> Option<Value> {
            Some("x".repeat(100).into())
        }
        async fn on_error(&self, _tool: &Tool, _arguments: &Value, error: &str) -> Option<Value> {
            assert!(error.len() <= MAX_ERROR_TEXT_BYTES);
            Some("x".repeat(100).into())
        }
    }
    let script = Scripted::new([
        ScriptedReply::calls(["short", "fails", "long"].map(|name| ToolCall::new(name, name, json!({})))),
        ScriptedReply::text("done"),
    ]);
    let fails = Tool::new("fails", "", json!({}), |_, _| async {
        Err::<Value, _>("x".repeat(1 << 20).into())
    });
    let turn = llm(script.model())
        .tools([
            tool("short").max_result_bytes(101),
            fails.max_result_bytes(101),
            // 100 characters and their two quotes.
            tool("long").max_result_bytes(102),
        ])
        .tool_strategy(ToolUseStrategy::new().hooks(Long))
        .build()
        .unwrap()
        .generate("go")
        .await
        .unwrap();
    let refused = |name: &str| {
        format!(
            "A hook of the tool '{name}' returned more than 101 bytes; \
             return less, or raise its max_result_bytes"
        )
    };
    let results = turn.tool_executions.iter();
    let results: Vec<_> = results.map(|one| (one.result.clone(), one.is_error)).collect();
    let expected = [
        (refused("short").into(), true),
        (refused("fails").into(), true),
        ("x".repeat(100).into(), false),
    ];
    assert_eq!(results, expected);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_hangs_ends_at_its_time_out() {
    let hang = Tool::new("a", "", json!({}), |_, _| async {
        std::future::pending::<()>().await;
        Ok("never")
    });
    let turn = run_one(hang.timeout(Duration::from_secs(5)), "a").await;
    assert_eq!(turn.tool_executions[0].result, "Tool 'a' did not end within 5s");
}

#[tokio::test]
async fn cancelling_ends_a_tool_that_hangs() {
    let stop = CancellationToken::new();
    let inside = stop.clone();
    let hang = Tool::new("a", "", json!({}), move |_, context| {
        inside.cancel();
        async move {
            context.cancellation().cancelled().await;
            std::future::pending::<()>().await;
            Ok("never")
        }
    });
    let script = Scripted::new([ScriptedReply::call("t1", "a", json!({}))]);
    let model = llm(script.model()).tool(hang).build().unwrap();
    let error = model.generate(Call::new("go").cancel(stop)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Cancelled);
}

#[tokio::test]
async fn ten_rounds_of_tools_by_default_and_no_more() {
    struct Reported(Arc<AtomicUsize>);
    #[async_trait::async_trait]
    impl ToolHooks for Reported {
        async fn on_max_iterations(&self, max: u64) {
            self.0.store(usize::try_from(max).unwrap(), Ordering::SeqCst);
        }
    }
    let endless = || Scripted::from_fn(|_| ScriptedReply::call("t", "a", json!({})));
    let reported = Arc::new(AtomicUsize::new(0));
    let script = endless();
    let strategy = ToolUseStrategy::new().hooks(Reported(reported.clone()));
    let model = llm(script.model())
        .tool(tool("a"))
        .tool_strategy(strategy)
        .build()
        .unwrap();
    let error = model.generate("go").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidRequest);
    assert_eq!(reported.load(Ordering::SeqCst), 10);
    assert_eq!(script.requests().len(), 11);

    let script = Scripted::from_fn({
        let mut rounds = 0;
        move |_| {
            rounds += 1;
            if rounds <= 60 {
                ScriptedReply::call("t", "a", json!({}))
            } else {
                ScriptedReply::text("done")
            }
        }
    });
    let strategy = ToolUseStrategy::new().max_iterations(Limit::Infinite);
    let model = llm(script.model())
        .tool(tool("a"))
        .tool_strategy(strategy)
        .build()
        .unwrap();
    assert_eq!(model.generate("go").await.unwrap().tool_executions.len(), 60);
}

#[tokio::test]
async fn hooks_replace_arguments_results_and_errors() {
    struct Hooks(Arc<Mutex<Vec<String>>>);
    #[async_trait::async_trait]
    impl ToolHooks for Hooks {
        async fn on_tool_call(&self, tool: &Tool, arguments: &Value) {
            self.0
                .lock()
                .unwrap()
                .push(format!("call {} {arguments}", tool.name()));
        }
        async fn on_before_call(&self, tool: &Tool, _arguments: &Value) -> BeforeCall {
            match tool.name() {
                "skipped" => BeforeCall::Skip,
                "echo" => BeforeCall::RunWith(json!({"n": 2})),
                _ => BeforeCall::Run,
            }
        }
        async fn on_after_call(&self, _tool: &Tool, _arguments: &Value, result: &Value) -> Option<Value> {
            Some(json!({"wrapped": result}))
        }
        async fn on_error(&self, _tool: &Tool, _arguments: &Value, error: &str) -> Option<Value> {
            Some(json!(format!("rescued: {error}")))
        }
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let script = Scripted::new([
        ScriptedReply::calls(
            ["echo", "skipped", "fails"].map(|name| ToolCall::new(name, name, json!({"n": 1}))),
        ),
        ScriptedReply::text("done"),
    ]);
    let echo = Tool::new("echo", "", json!({}), |arguments, _| async { Ok(arguments) });
    let fails = Tool::new("fails", "", json!({}), |_, _| async {
        Err::<Value, _>("broken".into())
    });
    let turn = llm(script.model())
        .tools([echo, tool("skipped"), fails])
        .tool_strategy(ToolUseStrategy::new().hooks(Hooks(seen.clone())))
        .build()
        .unwrap()
        .generate("go")
        .await
        .unwrap();
    let results: Vec<_> = turn
        .tool_executions
        .iter()
        .map(|execution| execution.result.clone())
        .collect();
    assert_eq!(
        results,
        [
            json!({"wrapped": {"n": 2}}),
            json!("Tool execution skipped"),
            json!("rescued: broken")
        ]
    );
    assert_eq!(
        turn.tool_executions
            .iter()
            .map(|one| one.is_error)
            .collect::<Vec<_>>(),
        [false, true, false]
    );
    assert_eq!(seen.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn calls_of_one_message_run_at_once_or_in_the_given_order() {
    struct OneByOne;
    impl ToolOrder for OneByOne {
        fn groups(&self, calls: &[ToolCall], _tools: &[Tool]) -> Vec<Vec<usize>> {
            // Names one call twice and one out of range, and leaves the last one out.
            (0..calls.len() - 1)
                .rev()
                .map(|index| vec![index, index, 99])
                .collect()
        }
    }
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (now, peak) = (running.clone(), most.clone());
    let slow = Tool::new("slow", "", json!({}), move |_, _| {
        let (now, peak) = (now.clone(), peak.clone());
        async move {
            peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok("ok")
        }
    });
    for (order, expected) in [(None, 3), (Some(Arc::new(OneByOne)), 1)] {
        most.store(0, Ordering::SeqCst);
        let script = Scripted::new([
            ScriptedReply::calls((0..3).map(|n| ToolCall::new(format!("t{n}"), "slow", json!({})))),
            ScriptedReply::text("done"),
        ]);
        let model = llm(script.model()).tool(slow.clone()).build().unwrap();
        let mut call = Call::new("go");
        if let Some(order) = order {
            call = call.tool_order(order);
        }
        let turn = model.generate(call).await.unwrap();
        assert_eq!(most.load(Ordering::SeqCst), expected);
        let ids: Vec<_> = turn
            .tool_executions
            .iter()
            .map(|one| one.tool_call_id.as_str())
            .collect();
        assert_eq!(ids, ["t0", "t1", "t2"]);
    }
}

#[tokio::test]
async fn a_structured_answer_ends_the_loop() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let script = Scripted::new([ScriptedReply::text(r#"{"n": 3}"#)]);
    let model = llm(script.model()).structure(schema.clone()).build().unwrap();
    assert_eq!(model.generate("go").await.unwrap().data, Some(json!({"n": 3})));
    assert_eq!(script.requests()[0].structure, Some(schema.clone()));

    let script = Scripted::new([ScriptedReply::text("three")]);
    let model = llm(script.model()).structure(schema).build().unwrap();
    assert_eq!(
        model.generate("go").await.unwrap_err().code(),
        ErrorCode::InvalidResponse
    );
}

#[tokio::test]
async fn an_approval_that_panics_is_an_error_of_its_tool() {
    let turn = run_one(tool("t").approval(|_| async { panic!("no rule") }), "t").await;
    assert_eq!(turn.text(), "done");
    assert_eq!(
        turn.tool_executions[0].result,
        "Tool 't': its approval or a hook panicked"
    );
    assert!(turn.tool_executions[0].is_error);
}

#[tokio::test]
async fn two_tools_of_one_name_are_refused() {
    let script = Scripted::new([]);
    let error = llm(script.model())
        .tools([tool("a"), tool("a")])
        .build()
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidRequest);
}

#[test]
fn the_text_of_a_message_joins_its_blocks_by_a_blank_line() {
    let blocks = [
        ContentBlock::text("a"),
        ContentBlock::reasoning("r"),
        ContentBlock::text("b"),
    ];
    let message = AssistantMessage::new(blocks);
    assert_eq!(message.text(), "a\n\nb");
    assert_eq!(message.reasoning(), "r");
}
