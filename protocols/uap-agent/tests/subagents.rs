//! Sub-agents: their events in the parent's stream, their traces in its state, and the order of tools.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

#[path = "support/structure.rs"]
mod support;

use std::sync::{Arc, Mutex};

use agentanycast_uap::{
    Agent, AgentEventType, AgentState, AgentStreamEvent, AgentToolContext, agent, react, subagent_tool,
};
use agentanycast_upp::{CancellationToken, ErrorCode, Scripted, ScriptedReply, Tool, ToolCall, UppError};
use futures::StreamExt as _;
use serde_json::{Value, json};
use support::{echo, rounds};

fn parent(inner: Agent) -> Agent {
    let schema = json!({"type": "object", "properties": {"query": {"type": "string"}}});
    let tool = subagent_tool("explore", "Explores", schema, inner, |arguments| {
        arguments["query"].as_str().unwrap_or_default().to_owned()
    });
    let script = Scripted::new([
        ScriptedReply::call("p1", "explore", json!({"query": "where?"})),
        ScriptedReply::text("thanks"),
    ]);
    agent(script.model()).tool(tool).build().unwrap()
}

#[tokio::test]
async fn a_sub_agent_tells_its_parent_what_happens_and_leaves_a_trace() {
    let parent = parent(agent(rounds(1).model()).tool(echo()).build().unwrap());
    let mut stream = parent.stream("go", &AgentState::initial());
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.extend(
            event
                .unwrap()
                .as_agent()
                .filter(|event| event.data.contains_key("subagentId"))
                .cloned(),
        );
    }
    assert_eq!(events[0].kind, AgentEventType::SubagentStart);
    assert_eq!(events[0].data["prompt"], "where?");
    assert_eq!(events[0].data["parentToolCallId"], "p1");
    assert_eq!(events[0].data["subagentType"], "explore");
    let inner: Vec<AgentStreamEvent> = events[1..events.len() - 1]
        .iter()
        .map(|event| {
            assert_eq!((event.kind, event.step), (AgentEventType::SubagentEvent, 1));
            serde_json::from_value(event.data["innerEvent"].clone()).unwrap()
        })
        .collect();
    assert!(inner.iter().any(|event| {
        event
            .as_agent()
            .is_some_and(|event| event.kind == AgentEventType::Action)
    }));
    let text: String = inner
        .iter()
        .filter_map(|event| event.as_upp()?.delta.text.clone())
        .collect();
    assert_eq!(text, "done");
    let end = events.last().unwrap();
    assert_eq!(end.kind, AgentEventType::SubagentEnd);
    assert_eq!(
        (&end.data["success"], &end.data["result"]),
        (&json!(true), &json!("done"))
    );
    assert_eq!(end.data["toolExecutions"][0]["toolName"], "echo");

    let state = stream.result().await.unwrap().state;
    let trace = &state.subagent_traces()[0];
    assert_eq!((trace.prompt.as_str(), trace.success), ("where?", true));
    assert_eq!(trace.tool_executions.as_ref().unwrap()[0].result, "{\"n\":0}");
    assert_eq!(trace.usage.as_ref().unwrap().total_tokens, 22);
    assert!(trace.start_time <= trace.end_time);
    assert_eq!(AgentState::from_json(&state.to_json()).unwrap(), state);
}

#[tokio::test]
async fn a_sub_agent_that_fails_is_an_error_result_and_a_trace() {
    let down = Scripted::new([ScriptedReply::Fail(UppError::new(
        ErrorCode::ProviderError,
        "down",
    ))]);
    let result = parent(agent(down.model()).build().unwrap())
        .generate("go", &AgentState::initial())
        .await
        .unwrap();
    assert!(result.turn.tool_executions[0].is_error);
    let trace = &result.state.subagent_traces()[0];
    assert_eq!(
        (trace.success, trace.error.as_deref()),
        (false, Some("PROVIDER_ERROR: down"))
    );
}

#[tokio::test]
async fn cancelling_the_parent_cancels_the_sub_agent() {
    let stop = CancellationToken::new();
    let inside = stop.clone();
    let hang = Scripted::from_fn(move |_| {
        inside.cancel();
        ScriptedReply::Hang
    });
    let parent = parent(agent(hang.model()).build().unwrap());
    let error = parent
        .call("go", &AgentState::initial())
        .cancel(stop)
        .generate()
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::Cancelled);
}

#[tokio::test]
async fn traces_of_one_step_are_in_the_order_of_the_calls() {
    let sub = |name: &str, yields: usize| {
        let wait = Tool::new("wait", "", json!({}), move |_, _| async move {
            for _ in 0..yields {
                tokio::task::yield_now().await;
            }
            Ok("waited")
        });
        let script = Scripted::new([
            ScriptedReply::call("w", "wait", json!({})),
            ScriptedReply::text("done"),
        ]);
        let inner = agent(script.model()).tool(wait).build().unwrap();
        subagent_tool(name, "", json!({}), inner, |_| "go".to_owned())
    };
    let calls = [
        ToolCall::new("1", "slow", json!({})),
        ToolCall::new("2", "fast", json!({})),
    ];
    let script = Scripted::new([ScriptedReply::calls(calls), ScriptedReply::text("done")]);
    let parent = agent(script.model())
        .tools([sub("slow", 50), sub("fast", 0)])
        .build()
        .unwrap();
    let state = parent.generate("go", &AgentState::initial()).await.unwrap().state;
    let types: Vec<_> = state
        .subagent_traces()
        .iter()
        .map(|trace| trace.subagent_type.as_str())
        .collect();
    assert_eq!(types, ["slow", "fast"]);
}

#[tokio::test]
async fn tools_learn_of_the_agent_that_runs_them() {
    let seen = Arc::new(Mutex::new(None));
    let slot = seen.clone();
    let tool = Tool::new("look", "", json!({}), move |_, context| {
        let found = AgentToolContext::of(&context)
            .map(|agent| (agent.agent_id().to_owned(), agent.state_id().to_owned()));
        *slot.lock().unwrap() = found;
        async { Ok("ok") }
    });
    let script = Scripted::new([
        ScriptedReply::call("1", "look", json!({})),
        ScriptedReply::text("done"),
    ]);
    let looking = agent(script.model()).tool(tool).build().unwrap();
    let state = AgentState::initial();
    looking.generate("go", &state).await.unwrap();
    assert_eq!(
        *seen.lock().unwrap(),
        Some((looking.id().to_owned(), state.id().to_owned()))
    );
}

/// What makes a tool a barrier, or dependent.
type Change = fn(Tool) -> Tool;

/// Runs these calls in an agent, and returns in which order the tools began and ended.
async fn order_of(tools: Vec<(&'static str, Change)>, calls: Vec<ToolCall>, reacting: bool) -> String {
    let log = Arc::new(Mutex::new(Vec::new()));
    let tools = tools.into_iter().map(|(name, change)| {
        let log = log.clone();
        change(Tool::new(name, "", json!({}), move |_, context| {
            let (log, id) = (log.clone(), context.tool_call_id().to_owned());
            async move {
                log.lock().unwrap().push(format!("+{id}"));
                tokio::task::yield_now().await;
                log.lock().unwrap().push(format!("-{id}"));
                Ok("ok")
            }
        }))
    });
    let think = reacting.then(|| ScriptedReply::text("think"));
    let script = Scripted::new(
        think
            .clone()
            .into_iter()
            .chain([ScriptedReply::calls(calls)])
            .chain(think)
            .chain([ScriptedReply::text("done")]),
    );
    let options = agent(script.model()).tools(tools.collect::<Vec<_>>());
    let agent = if reacting {
        options.execution(react())
    } else {
        options
    }
    .build()
    .unwrap();
    agent.query("go").await.unwrap();
    std::mem::take(&mut *log.lock().unwrap()).join(" ")
}

#[tokio::test]
async fn the_order_matrix_of_tools() {
    let calls = |names: &[(&str, &[&str])]| -> Vec<ToolCall> {
        let make = |(name, after): &(&str, &[&str])| {
            let mut call = ToolCall::new(*name, *name, Value::Null);
            call.after = after.iter().map(|id| (*id).to_owned()).collect();
            call
        };
        names.iter().map(make).collect()
    };
    fn plain(tool: Tool) -> Tool {
        tool
    }
    fn barrier(tool: Tool) -> Tool {
        tool.sequential()
    }
    fn on_a(tool: Tool) -> Tool {
        tool.depends_on(["a"])
    }
    fn on_b(tool: Tool) -> Tool {
        tool.depends_on(["b"])
    }
    let plain_calls = || calls(&[("a", &[]), ("b", &[]), ("c", &[])]);
    let matrix: Vec<([Change; 3], Vec<ToolCall>, &str)> = vec![
        ([plain, plain, plain], plain_calls(), "+a +b +c -a -b -c"),
        ([plain, barrier, plain], plain_calls(), "+a -a +b -b +c -c"),
        ([barrier, barrier, plain], plain_calls(), "+a -a +b -b +c -c"),
        ([on_b, plain, plain], plain_calls(), "+b +c -b -c +a -a"),
        ([on_b, plain, on_a], plain_calls(), "+b -b +a -a +c -c"),
        // A barrier that depends on a later call lets that one through.
        (
            [plain, plain, plain],
            calls(&[("a", &["c"]), ("b", &[]), ("c", &[])]),
            "+b +c -b -c +a -a",
        ),
        ([on_b, barrier, plain], plain_calls(), "+b -b +a +c -a -c"),
        // A circle, by names and by ids: nothing waits.
        ([on_b, on_a, plain], plain_calls(), "+c -c +a +b -a -b"),
        (
            [plain, plain, plain],
            calls(&[("a", &["b"]), ("b", &["a"])]),
            "+a +b -a -b",
        ),
        ([on_a, plain, plain], calls(&[("a", &["a", "nothing"])]), "+a -a"),
    ];
    for (changes, calls, expected) in matrix {
        for reacting in [false, true] {
            let tools = ["a", "b", "c"].into_iter().zip(changes).collect();
            assert_eq!(order_of(tools, calls.clone(), reacting).await, expected);
        }
    }
}
