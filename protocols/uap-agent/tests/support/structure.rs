//! What several test files share: tools, scripts, and the structure of results without ids and times.

#![allow(dead_code, reason = "each test file uses a part of it")]

use agentanycast_uap::{AgentState, GenerateResult};
use agentanycast_upp::{Scripted, ScriptedReply, Tool, Turn};
use serde_json::{Value, json};

/// A tool that returns its arguments.
pub(crate) fn echo() -> Tool {
    Tool::new(
        "echo",
        "Returns its arguments",
        json!({"type": "object"}),
        |arguments, _| async { Ok(arguments) },
    )
}

/// A call of `echo`.
pub(crate) fn call(n: u64) -> ScriptedReply {
    ScriptedReply::call(format!("t{n}"), "echo", json!({"n": n}))
}

/// A model that calls `echo` so often, and then says `done`.
pub(crate) fn rounds(count: u64) -> Scripted {
    let calls = (0..count).map(call);
    Scripted::new(calls.chain([ScriptedReply::text("done")]))
}

/// A plan of the model.
pub(crate) fn plan_reply(steps: &Value) -> ScriptedReply {
    ScriptedReply::text(json!({"steps": steps}).to_string())
}

const VOLATILE: [&str; 9] = [
    "id",
    "timestamp",
    "duration",
    "agentId",
    "subagentId",
    "startTime",
    "endTime",
    "sessionId",
    "checkpointId",
];

/// Removes what two runs of one script do not have in common, except ids of plan steps.
pub(crate) fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let is_plan_step = fields.contains_key("dependsOn");
            fields.retain(|key, _| (is_plan_step && key == "id") || !VOLATILE.contains(&key.as_str()));
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

/// A state without ids and times.
pub(crate) fn state_structure(state: &AgentState) -> Value {
    let mut json = state.to_json();
    strip(&mut json);
    json
}

/// A turn without ids and times.
pub(crate) fn turn_structure(turn: &Turn) -> Value {
    let mut json = serde_json::to_value(turn).unwrap();
    strip(&mut json);
    json
}

/// A result without ids and times.
pub(crate) fn structure(result: &GenerateResult) -> Value {
    json!({"turn": turn_structure(&result.turn), "state": state_structure(&result.state)})
}
