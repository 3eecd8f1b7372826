//! What a step costs without a model: an agent beside a loop that is written by hand over the same provider.
//!
//! `cargo bench -p agentanycast-uap --bench step_overhead` prints a table. The model is scripted and the tool
//! returns at once, so that the time is that of the library.

#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use std::time::{Duration, Instant};

use agentanycast_uap::{AgentState, FileCheckpoints, agent};
use agentanycast_upp::{
    Message, ModelReference, Request, Scripted, ScriptedReply, Tool, ToolResult, ToolResultMessage, UppError,
    UserMessage, llm,
};
use serde_json::json;

/// Rounds of tools in a run.
const ROUNDS: usize = 60;

/// Runs of each kind; the table shows the median.
const RUNS: usize = 200;

/// A model that calls the tool so often. It looks at the request only, as a real one does.
fn model() -> ModelReference {
    let script = Scripted::from_fn(|request| {
        if request.messages.len() > 2 * ROUNDS {
            ScriptedReply::text("done")
        } else {
            ScriptedReply::call("t", "echo", json!({"n": 1}))
        }
    });
    script.unrecorded().model()
}

fn echo() -> Tool {
    Tool::new("echo", "", json!({"type": "object"}), |arguments, _| async {
        Ok(arguments)
    })
}

/// The loop by hand: a provider, a list of messages, a match on the calls.
async fn by_hand(model: &ModelReference) -> Result<usize, UppError> {
    let mut messages: Vec<Message> = vec![UserMessage::text("go").into()];
    loop {
        let request = Request {
            model: model.id().to_owned(),
            messages: messages.clone(),
            ..Request::default()
        };
        let response = model.provider().complete(request).await?;
        let calls = response.message.tool_calls.clone();
        messages.push(response.message.into());
        if calls.is_empty() {
            return Ok(messages.len());
        }
        let result = |call: agentanycast_upp::ToolCall| ToolResult {
            tool_call_id: call.tool_call_id,
            result: call.arguments,
            is_error: false,
        };
        let results: Vec<_> = calls.into_iter().map(result).collect();
        messages.push(ToolResultMessage::new(results).into());
    }
}

async fn measure<F, Fut>(name: &str, mut run: F) -> Result<(), Box<dyn std::error::Error>>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<usize, Box<dyn std::error::Error>>>,
{
    let mut times = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let begun = Instant::now();
        let messages = run().await?;
        times.push(begun.elapsed());
        if messages != 2 * ROUNDS + 2 {
            return Err(format!("{name}: {messages} messages").into());
        }
    }
    times.sort_unstable();
    let per_step = |time: Duration| time.as_secs_f64() * 1e6 / (ROUNDS + 1) as f64;
    println!(
        "| {name} | {:.1} | {:.1} |",
        per_step(times[RUNS / 2]),
        per_step(times[RUNS * 9 / 10])
    );
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{RUNS} runs of {ROUNDS} rounds of tools, microseconds a step\n");
    println!("| loop | median | 90 % |\n|---|---|---|");
    let hand = model();
    measure("by hand, over the provider", || async {
        Ok(by_hand(&hand).await?)
    })
    .await?;

    let bare = llm(model())
        .tool(echo())
        .map_tool_strategy(|strategy| strategy.max_iterations(1000))
        .build()?;
    measure("`llm()`", || async {
        Ok(bare.generate("go").await?.messages.len())
    })
    .await?;
    measure("`llm()`, streamed", || async {
        Ok(bare.stream("go").result().await?.messages.len())
    })
    .await?;

    let state = AgentState::initial();
    let plain = agent(model()).tool(echo()).build()?;
    measure("`agent()`", || async {
        Ok(plain.generate("go", &state).await?.turn.messages.len())
    })
    .await?;
    measure("`agent()`, streamed", || async {
        Ok(plain.stream("go", &state).result().await?.turn.messages.len())
    })
    .await?;

    let dir = tempfile::tempdir()?;
    let store = FileCheckpoints::new(dir.path());
    let saving = agent(model())
        .tool(echo())
        .checkpoints(store)
        .session_id("bench")
        .build()?;
    measure("`agent()`, checkpoints in files", || async {
        Ok(saving.generate("go", &state).await?.turn.messages.len())
    })
    .await
}
