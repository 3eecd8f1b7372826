//! The result of `stream` is structurally that of `generate`, for every strategy and any script.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

#[path = "support/structure.rs"]
mod support;

use agentanycast_uap::{Agent, AgentState, agent, loop_, plan, react, subagent_tool};
use agentanycast_upp::{
    AssistantMessage, ContentBlock, ErrorCode, Scripted, ScriptedReply, Tool, ToolCall, UppError,
};
use futures::StreamExt as _;
use proptest::prelude::*;
use serde_json::{Value, json};
use support::{echo, plan_reply, state_structure, structure};

fn reply() -> impl Strategy<Value = ScriptedReply> {
    let call = (
        "[a-c]{1,2}",
        prop_oneof!["echo", "fails", "missing", "sub"],
        0_i64..9,
    )
        .prop_map(|(id, name, n)| ToolCall::new(id, name, json!({"n": n})));
    let message = ("[ -~é]{0,12}", prop::collection::vec(call, 0..3)).prop_map(|(text, calls)| {
        ScriptedReply::message(AssistantMessage::new([ContentBlock::text(text)]).with_tool_calls(calls))
    });
    let failure = prop_oneof![Just(ErrorCode::ProviderError), Just(ErrorCode::ContentFiltered)];
    prop_oneof![
        20 => message,
        1 => failure.prop_map(|code| ScriptedReply::Fail(UppError::new(code, "no"))),
        2 => Just(plan_reply(&json!([{"id": "x", "description": "x", "dependsOn": []}]))),
    ]
}

fn build(strategy: usize, script: Vec<ScriptedReply>) -> Agent {
    let fails = Tool::new("fails", "", json!({}), |_, _| async {
        Err::<Value, _>("broken".into())
    });
    let inner = Scripted::from_fn(|_| ScriptedReply::text("from below"));
    let inner = agent(inner.model()).build().unwrap();
    let sub = subagent_tool("sub", "", json!({"type": "object"}), inner, |arguments| {
        arguments.to_string()
    });
    let first = plan_reply(&json!([
        {"id": "1", "description": "one", "dependsOn": ["2"]}, {"id": "2", "description": "two", "dependsOn": []},
    ]));
    let script: Vec<_> = if strategy == 2 {
        std::iter::once(first).chain(script).collect()
    } else {
        script
    };
    let options = agent(Scripted::new(script).model()).tools([echo(), fails, sub]);
    match strategy {
        0 => options.execution(loop_()),
        1 => options.execution(react()),
        _ => options.execution(plan()),
    }
    .build()
    .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn generate_and_stream_agree(strategy in 0_usize..3, script in prop::collection::vec(reply(), 0..9)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let state = AgentState::initial().with_metadata("mine", 1);
            let whole = build(strategy, script.clone()).generate("go", &state).await;
            let mut stream = build(strategy, script).stream("go", &state);
            let mut failures = 0;
            while let Some(event) = stream.next().await {
                failures += usize::from(event.is_err());
            }
            match (whole, stream.result().await) {
                (Ok(whole), Ok(streamed)) => {
                    prop_assert_eq!(failures, 0);
                    prop_assert_eq!(structure(&whole), structure(&streamed));
                }
                (whole, streamed) => {
                    let (whole, streamed) = (whole.unwrap_err(), streamed.unwrap_err());
                    prop_assert_eq!(failures, 1);
                    prop_assert_eq!(&whole.error, &streamed.error);
                    prop_assert_eq!(state_structure(&whole.state), state_structure(&streamed.state));
                }
            }
            Ok(())
        })?;
    }
}
