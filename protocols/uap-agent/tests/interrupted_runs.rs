//! Runs that fail, are dropped or aborted: what is cancelled with them, what is not, and how they go on.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

#[path = "support/structure.rs"]
mod support;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use agentanycast_uap::{AgentEventType, AgentState, FileCheckpoints, agent, react, subagent_tool};
use agentanycast_upp::{
    CancellationToken, ErrorCode, Message, Scripted, ScriptedReply, Tool, ToolContext, UppError,
};
use futures::StreamExt as _;
use serde_json::json;
use support::{call, echo};

fn busy() -> ScriptedReply {
    ScriptedReply::Fail(UppError::new(ErrorCode::RateLimited, "busy"))
}

fn texts(state: &AgentState) -> Vec<String> {
    state.messages().iter().map(Message::text).collect()
}

/// A tool that keeps its context, and says so.
fn keeping(kept: &Arc<Mutex<Option<ToolContext>>>) -> Tool {
    let kept = Arc::clone(kept);
    Tool::new("keep", "", json!({"type": "object"}), move |_, context| {
        *kept.lock().unwrap() = Some(context);
        async { Ok("kept") }
    })
}

#[tokio::test]
async fn a_retry_has_the_input_of_a_run_whose_first_step_failed() {
    for reasons in [false, true] {
        let thought = || ScriptedReply::text("I think.");
        let first = if reasons { vec![thought()] } else { vec![] };
        let rest = [
            vec![ScriptedReply::text("Hello Ada."), busy(), busy()],
            first.clone(),
            vec![ScriptedReply::text("You are Ada.")],
        ];
        let script = Scripted::new(first.into_iter().chain(rest.concat()));
        let options = agent(script.model());
        let agent = if reasons {
            options.execution(react())
        } else {
            options
        };
        let agent = agent.build().unwrap();
        let known = agent.ask("I am Ada.", &AgentState::initial()).await.unwrap();
        let failed = agent.ask("Who am I?", &known.state).await.unwrap_err();
        assert_eq!(failed.state, known.state);
        assert_eq!(failed.input().len(), 1);
        let failed = agent.retry(&failed).await.unwrap_err();
        let result = agent.retry(&failed).await.unwrap();
        assert_eq!(
            texts(&result.state),
            ["I am Ada.", "Hello Ada.", "Who am I?", "You are Ada."]
        );
    }
}

#[tokio::test]
async fn a_retry_of_a_later_step_gives_no_input_twice_and_keeps_the_session() {
    let directory = tempfile::tempdir().unwrap();
    let script = Scripted::new([call(1), busy(), ScriptedReply::text("done")]);
    let agent = agent(script.model())
        .tool(echo())
        .checkpoints(FileCheckpoints::new(directory.path()))
        .build()
        .unwrap();
    let state = AgentState::initial();
    let begun = agent.call("go", &state).session_id("one");
    let failed = begun.generate().await.unwrap_err();
    assert!(failed.input().is_empty());
    let result = agent.retry(&failed).await.unwrap();
    assert_eq!((result.state.messages().len(), result.state.step()), (4, 2));
    assert_eq!(agent.restore("one").await.unwrap(), Some(result.state));
}

#[tokio::test]
async fn a_query_leaves_the_session_of_the_agent_alone() {
    let directory = tempfile::tempdir().unwrap();
    let script = Scripted::new(["Hello Ada.", "4"].map(ScriptedReply::text));
    let agent = agent(script.model())
        .checkpoints(FileCheckpoints::new(directory.path()))
        .session_id("job")
        .build()
        .unwrap();
    let known = agent.ask("I am Ada.", &AgentState::initial()).await.unwrap();
    assert_eq!(agent.query("2 + 2?").await.unwrap().text(), "4");
    assert_eq!(agent.restore("job").await.unwrap(), Some(known.state));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_tool_that_keeps_its_context_does_not_keep_the_stream_open() {
    let kept = Arc::default();
    let script = Scripted::new([
        ScriptedReply::call("t1", "keep", json!({})),
        ScriptedReply::text("done"),
    ]);
    let agent = agent(script.model()).tool(keeping(&kept)).build().unwrap();
    let stream = agent.stream("go", &AgentState::initial());
    let result = tokio::time::timeout(Duration::from_secs(10), stream.result()).await;
    assert_eq!(result.unwrap().unwrap().turn.text(), "done");
    let context = kept.lock().unwrap().take().unwrap();
    assert!(
        !context.cancellation().is_cancelled(),
        "what a tool began may outlive a run that has ended"
    );
}

#[tokio::test]
async fn dropping_a_run_cancels_what_its_tools_began() {
    let kept = Arc::default();
    let script = Scripted::new([ScriptedReply::call("t1", "keep", json!({})), ScriptedReply::Hang]);
    let agent = agent(script.model()).tool(keeping(&kept)).build().unwrap();
    let run = agent.query("go");
    assert!(
        tokio::time::timeout(Duration::from_millis(100), run)
            .await
            .is_err()
    );
    let context = kept.lock().unwrap().take().unwrap();
    assert!(context.cancellation().is_cancelled());
}

#[tokio::test]
async fn aborting_a_stream_leaves_the_token_of_the_caller_alone() {
    let agent = agent(Scripted::new([ScriptedReply::Hang]).model())
        .build()
        .unwrap();
    let stop = CancellationToken::new();
    let stream = agent
        .call("go", &AgentState::initial())
        .cancel(stop.clone())
        .stream();
    stream.abort();
    assert_eq!(stream.result().await.unwrap_err().code(), ErrorCode::Cancelled);
    assert!(!stop.is_cancelled());
}

#[tokio::test]
async fn a_sub_agent_whose_tool_times_out_ends_and_leaves_a_trace() {
    let inner = agent(Scripted::new([ScriptedReply::Hang]).model())
        .build()
        .unwrap();
    let tool = subagent_tool("explore", "", json!({"type": "object"}), inner, |_| {
        "where?".to_owned()
    });
    let script = Scripted::new([
        ScriptedReply::call("p1", "explore", json!({})),
        ScriptedReply::text("too late"),
    ]);
    let parent = agent(script.model())
        .tool(tool.timeout(Duration::from_millis(50)))
        .build()
        .unwrap();
    let mut stream = parent.stream("go", &AgentState::initial());
    let mut ended = Vec::new();
    while let Some(event) = stream.next().await {
        let event = event.unwrap();
        ended.extend(
            event
                .as_agent()
                .filter(|event| event.kind == AgentEventType::SubagentEnd)
                .cloned(),
        );
    }
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].data["success"], false);
    let state = stream.result().await.unwrap().state;
    let traces = state.subagent_traces();
    assert_eq!(traces.len(), 1);
    assert!(!traces[0].success && traces[0].parent_tool_call_id == "p1");
}
