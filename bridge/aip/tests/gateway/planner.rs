//! The planner, a program in Python, with the questions of the gateway.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, process::Command};

use crate::fixture::soon;

/// What the planner answers; `None`: there is no Python here.
async fn answer(question: &Value) -> Option<Value> {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/planner.py");
    let mut command = Command::new("python3");
    command.arg(program).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        eprintln!("no python3: not tried");
        return None;
    };
    let mut input = child.stdin.take().unwrap();
    soon(input.write_all(question.to_string().as_bytes()))
        .await
        .unwrap();
    drop(input);
    let output = soon(child.wait_with_output()).await.unwrap();
    assert!(output.status.success(), "it ended with {}", output.status);
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[tokio::test]
async fn the_planner_answers_for_every_device() {
    let question = |tools: Value, results: Value| json!({ "request": "which system?", "device": "d", "tools": tools, "results": results });
    let no_tools = question(json!([]), json!([]));
    let Some(said) = answer(&no_tools).await else {
        return;
    };
    assert_eq!(said["status"], "failed");
    assert_eq!(
        said["error"],
        "d has no tool that takes a command; its tools: none"
    );
    let schema = json!({ "properties": { "command": { "type": "string" } }, "required": ["command"] });
    let tools = json!([
        { "tool_name": "look", "agent_name": "A", "input_schema": null },
        { "tool_name": "run", "agent_name": "A", "input_schema": schema },
    ]);
    let said = answer(&question(tools.clone(), json!([]))).await.unwrap();
    assert_eq!(said["actions"][0]["tool_name"], "run");
    let done = json!([{ "status": "success", "result": "Linux" }]);
    let said = answer(&question(tools.clone(), done)).await.unwrap();
    assert_eq!(
        (&said["status"], &said["result"]),
        (&json!("completed"), &json!("Linux"))
    );
    let failed = json!([{ "status": "failure", "error": "no" }]);
    let said = answer(&question(tools, failed)).await.unwrap();
    assert_eq!(
        (&said["status"], &said["error"]),
        (&json!("failed"), &json!("no"))
    );
}
