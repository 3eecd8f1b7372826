//! Tasks in words for devices: an agent of the mesh plans, the device executes, until the agent says that it is done.

use agentanycast_aip::{
    endpoints::DeviceTool,
    messages::{CommandResult, CommandStatus, ToolCommand},
    protocol::{BatchContext, SKIPPED},
};
use agentanycast_gateway::{Target, caller::CallerIdentity};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    content::{data_part, object_of, text_part},
    device_agent::DeviceAgent,
    mesh::{Listener, MeshRequest, MeshTasks},
};

/// Questions to the planner for one task.
const MOST_ROUNDS: usize = 50;

/// Results that the planner is shown, in bytes; the oldest give way. A question has them twice, and agents over gRPC take
/// 3.5 MiB.
const MOST_SHOWN: usize = 1 << 20;

/// A task in words.
pub(super) struct Plan<'a> {
    /// What is asked for.
    pub(super) request: &'a str,
    /// Who plans.
    pub(super) planner: Target,
    /// Who asks, to the node's policy.
    pub(super) caller: CallerIdentity,
    /// The session.
    pub(super) session_id: &'a str,
    pub(super) cancelled: CancellationToken,
}

/// What the planner answers.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PlannerAnswer {
    actions: Option<Vec<ToolCommand>>,
    status: Option<String>,
    result: Option<Value>,
    error: Option<String>,
    agent_name: Option<String>,
    process_name: Option<String>,
    root_name: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PlanStatus {
    Continue,
    Completed,
    Failed,
}

impl PlannerAnswer {
    fn status(&self) -> Result<PlanStatus, String> {
        match self.status.as_deref().unwrap_or("continue") {
            "continue" => Ok(PlanStatus::Continue),
            "completed" => Ok(PlanStatus::Completed),
            "failed" => Ok(PlanStatus::Failed),
            other => Err(format!(
                "the planner answered the status '{}'; it has to be continue, completed or failed",
                other.chars().take(40).collect::<String>()
            )),
        }
    }
}

/// Carries a task out on a device.
///
/// # Errors
/// Why it failed.
pub(super) async fn carry_out(
    mesh: &MeshTasks,
    device: &DeviceAgent,
    plan: Plan<'_>,
    listener: &impl Listener,
) -> Result<Value, String> {
    let mut results: Vec<Value> = Vec::new();
    for round in 1..=MOST_ROUNDS {
        let tools = device.tools();
        let question = json!({
            "request": plan.request,
            "device": device.client_id(),
            "round": round,
            "tools": tools.iter().map(tool_json).collect::<Vec<_>>(),
            "results": results,
        });
        let request = MeshRequest {
            target: plan.planner.clone(),
            // As text, too: a program may read that alone.
            parts: vec![data_part(&question), text_part(question.to_string())],
            caller: plan.caller.clone(),
            context: plan.session_id,
            cancelled: plan.cancelled.clone(),
        };
        let answered = mesh.run(request, &()).await;
        let answered = answered.map_err(|error| format!("the planner has no answer: {error}"))?;
        let parts: Vec<_> = answered
            .artifacts
            .into_iter()
            .flat_map(|artifact| artifact.parts)
            .collect();
        let answer = object_of(&parts).ok_or("the planner answered no object with actions and status")?;
        let answer: PlannerAnswer = serde_json::from_value(Value::Object(answer))
            .map_err(|error| format!("the planner's answer is not valid: {error}"))?;
        let status = answer.status()?;
        let actions = answer.actions.clone().unwrap_or_default();
        if status == PlanStatus::Failed {
            let reason = answer
                .error
                .or_else(|| answer.result.map(|value| value.to_string()));
            return Err(reason.unwrap_or_else(|| "the planner says that it failed, and not why".to_owned()));
        }
        if actions.is_empty() {
            if status == PlanStatus::Completed {
                return Ok(answer.result.unwrap_or_default());
            }
            return Err("the planner answered neither actions nor that it is done".to_owned());
        }
        let names: Vec<&str> = actions.iter().map(|action| action.tool_name.as_str()).collect();
        listener
            .said(format!("round {round}: {}", names.join(", ")))
            .await;
        let executed = execute(device, &tools, &answer, numbered(actions, round), plan.session_id).await?;
        let succeeded = executed
            .iter()
            .all(|(_, result)| result.status == CommandStatus::Success);
        if status == PlanStatus::Completed && succeeded {
            let results = executed.into_iter().map(|(_, result)| result);
            return Ok(answer
                .result
                .unwrap_or_else(|| json!(results.collect::<Vec<_>>())));
        }
        let shown = |(tool, result): (String, CommandResult)| {
            let mut shown = json!(result);
            shown["tool_name"] = tool.into();
            shown
        };
        results.extend(executed.into_iter().map(shown));
        forget_oldest(&mut results);
    }
    Err(format!(
        "the planner was not done after {MOST_ROUNDS} rounds; split the task"
    ))
}

/// The same actions, each with an id.
fn numbered(actions: Vec<ToolCommand>, round: usize) -> Vec<ToolCommand> {
    let numbered = actions.into_iter().enumerate().map(|(at, mut action)| {
        action
            .call_id
            .get_or_insert_with(|| format!("{round}.{}", at + 1));
        action
    });
    numbered.collect()
}

async fn execute(
    device: &DeviceAgent,
    tools: &[DeviceTool],
    answer: &PlannerAnswer,
    actions: Vec<ToolCommand>,
    session_id: &str,
) -> Result<Vec<(String, CommandResult)>, String> {
    let first = actions.first().map(|action| action.tool_name.as_str());
    let of_tool = tools
        .iter()
        .find(|tool| Some(tool.tool.tool_name.as_str()) == first)
        .map(|tool| tool.agent_name.clone());
    let context = BatchContext {
        session_id: Some(session_id.to_owned()),
        agent_name: answer.agent_name.clone().or(of_tool),
        process_name: answer.process_name.clone(),
        root_name: answer.root_name.clone(),
    };
    let names: Vec<String> = actions.iter().map(|action| action.tool_name.clone()).collect();
    let results = match device.check_tools(&context, &actions).await {
        Ok(()) => device.command(context, actions).await?,
        // The planner sees it as it sees what a device says, and may plan otherwise.
        Err(refused) => {
            let mut errors = std::iter::once((CommandStatus::Failure, refused));
            let mut result = |action: &ToolCommand| {
                let skipped = || (CommandStatus::Skipped, SKIPPED.to_owned());
                let (status, error) = errors.next().unwrap_or_else(skipped);
                CommandResult {
                    error: Some(error),
                    ..CommandResult::of(action, status)
                }
            };
            actions.iter().map(&mut result).collect()
        }
    };
    Ok(names.into_iter().zip(results).collect())
}

fn tool_json(tool: &DeviceTool) -> Value {
    json!({
        "tool_name": tool.tool.tool_name,
        "agent_name": tool.agent_name,
        "tool_type": tool.tool.tool_type,
        "description": tool.tool.description,
        "input_schema": tool.tool.input_schema,
    })
}

/// Keeps the newest results that fit.
fn forget_oldest(results: &mut Vec<Value>) {
    let mut room = MOST_SHOWN;
    let mut kept = 0;
    for result in results.iter().rev() {
        let size = result.to_string().len();
        if size > room && kept > 0 {
            break;
        }
        room = room.saturating_sub(size);
        kept += 1;
    }
    results.drain(..results.len() - kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_results_that_fit_are_kept() {
        let large = Value::String("x".repeat(MOST_SHOWN / 2 + 1));
        let mut results = vec![json!(1), large.clone(), large.clone()];
        forget_oldest(&mut results);
        assert_eq!(results, [large]);
        let mut few = vec![json!(1), json!(2)];
        forget_oldest(&mut few);
        assert_eq!(few.len(), 2);
    }
}
