//! A process that is killed in any phase of a step: another process restores the checkpoint, goes on, and
//! ends alike.
//!
//! The test runs its own program again as the process to be killed ([`child`]), with the phase in its
//! environment.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
#![allow(clippy::print_stdout, reason = "the child tells its parent so where it is")]

#[path = "support/structure.rs"]
mod support;

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use agentanycast_uap::{
    Agent, AgentState, Checkpoint, CheckpointError, CheckpointMetadata, CheckpointStore, FileCheckpoints,
    GenerateResult, agent, plan, react,
};
use agentanycast_upp::{Message, Request, Scripted, ScriptedReply, Tool};
use serde_json::{Value, json};
use support::{plan_reply, state_structure};

const STRATEGY: &str = "AGENT_KILL_STRATEGY";
const PHASE: &str = "AGENT_KILL_PHASE";
const DIR: &str = "AGENT_KILL_DIR";
const SESSION: &str = "session";

/// How many tools a run calls.
const ROUNDS: usize = 3;

/// Says that the process is in this phase, and stays there if it is the one to be killed in.
async fn pass(phase: &str, wanted: &str) {
    if phase == wanted {
        println!("reached {phase}");
        std::future::pending::<()>().await;
    }
}

/// Files that stop before or after a save.
struct Stopping {
    files: FileCheckpoints,
    wanted: Arc<str>,
}

#[async_trait::async_trait]
impl CheckpointStore for Stopping {
    async fn save(&self, session_id: &str, checkpoint: Checkpoint) -> Result<(), CheckpointError> {
        let step = checkpoint.metadata.step;
        pass(&format!("before-save-{step}"), &self.wanted).await;
        self.files.save(session_id, checkpoint).await?;
        pass(&format!("after-save-{step}"), &self.wanted).await;
        Ok(())
    }
    async fn load(&self, session_id: &str) -> Result<Option<Value>, CheckpointError> {
        self.files.load(session_id).await
    }
    async fn load_metadata(&self, session_id: &str) -> Result<Option<CheckpointMetadata>, CheckpointError> {
        self.files.load_metadata(session_id).await
    }
    async fn delete(&self, session_id: &str) -> Result<(), CheckpointError> {
        self.files.delete(session_id).await
    }
    async fn list(&self) -> Result<Vec<String>, CheckpointError> {
        self.files.list().await
    }
}

fn results_in(request: &Request) -> usize {
    request
        .messages
        .iter()
        .filter(|message| matches!(message, Message::ToolResult(_)))
        .count()
}

/// A model without memory: what it says follows from the request, as with a real one.
fn model(strategy: &str, wanted: Arc<str>) -> Scripted {
    let planning = strategy == "plan";
    Scripted::from_fn(move |request| {
        let results = results_in(request);
        let thinks = request.tools.is_empty();
        let phase = format!("{}-{results}", if thinks { "reason" } else { "infer" });
        if phase == *wanted {
            println!("reached {phase}");
            return ScriptedReply::Hang;
        }
        let last = request.messages.last().unwrap();
        match (planning, thinks) {
            (true, true) => {
                let step = |n: usize| json!({"id": n.to_string(), "description": format!("step {n}"), "dependsOn": []});
                plan_reply(&(0..ROUNDS).map(step).collect())
            }
            (true, false) if matches!(last, Message::ToolResult(_)) => {
                ScriptedReply::text(format!("did {results}"))
            }
            (false, true) => ScriptedReply::text(format!("thought {results}")),
            (false, false) if results == ROUNDS => ScriptedReply::text("done"),
            _ => ScriptedReply::call(format!("t{results}"), "count", json!({"n": results})),
        }
    })
}

fn build(strategy: &str, dir: &Path, wanted: &str) -> Agent {
    let wanted: Arc<str> = wanted.into();
    let phase = wanted.clone();
    let count = Tool::new(
        "count",
        "Counts",
        json!({"type": "object"}),
        move |arguments, _| {
            let phase = phase.clone();
            async move {
                pass(&format!("tool-{}", arguments["n"]), &phase).await;
                Ok(arguments)
            }
        },
    );
    let store = Stopping {
        files: FileCheckpoints::new(dir),
        wanted: wanted.clone(),
    };
    let options = agent(model(strategy, wanted).model())
        .tool(count)
        .checkpoints(store)
        .session_id(SESSION);
    match strategy {
        "react" => options.execution(react()),
        "plan" => options.execution(plan()),
        _ => options,
    }
    .build()
    .unwrap()
}

/// What a program does when it starts: go on from the checkpoint, or begin.
async fn run(agent: &Agent) -> GenerateResult {
    match agent.restore(SESSION).await.unwrap() {
        Some(state) => agent.resume(&state).await.unwrap(),
        None => agent.generate("count", &AgentState::initial()).await.unwrap(),
    }
}

/// The process that is killed. Without its environment, which the other test sets, it does nothing.
#[test]
fn child() {
    let (Ok(strategy), Ok(phase), Ok(dir)) =
        (std::env::var(STRATEGY), std::env::var(PHASE), std::env::var(DIR))
    else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(run(&build(&strategy, Path::new(&dir), &phase)));
    // The run behind the phase may end first; the kill comes while the save still waits.
    runtime.block_on(std::future::pending::<()>());
}

/// Runs the child until it is in the phase, and kills it with signal 9.
fn kill_in(strategy: &str, phase: &str, dir: &Path) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(STRATEGY, strategy)
        .env(PHASE, phase)
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let marker = format!("reached {phase}");
    let reached = output
        .lines()
        .map_while(Result::ok)
        .any(|line| line.contains(&marker));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(reached, "{strategy} never was in {phase}");
}

async fn check(strategy: &str, phases: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let whole = run(&build(strategy, &dir.path().join("whole"), "none")).await;
    assert!(!whole.turn.text().is_empty());
    for phase in phases {
        let dir = dir.path().join(phase);
        kill_in(strategy, phase, &dir);
        let resumed = run(&build(strategy, &dir, "none")).await;
        assert_eq!(resumed.turn.text(), whole.turn.text(), "{phase}");
        assert_eq!(
            state_structure(&resumed.state),
            state_structure(&whole.state),
            "{phase}"
        );
        let kept = FileCheckpoints::new(&dir).load_state(SESSION).await.unwrap();
        assert_eq!(
            state_structure(&kept.unwrap()),
            state_structure(&whole.state),
            "{phase}"
        );
    }
}

#[tokio::test]
async fn a_loop_that_is_killed_goes_on_and_ends_alike() {
    let phases = [
        "infer-0",
        "tool-0",
        "before-save-1",
        "after-save-1",
        "infer-1",
        "tool-2",
        "infer-3",
        "before-save-4",
    ];
    check("loop", &phases).await;
}

#[tokio::test]
async fn a_react_that_is_killed_goes_on_and_ends_alike() {
    check(
        "react",
        &[
            "reason-0",
            "reason-1",
            "infer-1",
            "tool-1",
            "after-save-2",
            "infer-3",
        ],
    )
    .await;
}

#[tokio::test]
async fn a_plan_that_is_killed_goes_on_and_ends_alike() {
    check(
        "plan",
        &[
            "reason-0",
            "before-save-1",
            "after-save-1",
            "infer-0",
            "tool-1",
            "infer-2",
            "after-save-4",
        ],
    )
    .await;
}
