//! Tasks of the mesh for a device: one after another, each claimed before the device executes anything.
//!
//! Invariant: every way out ends the task with a reason, or leaves one that was not begun.

use std::sync::Arc;

use agentanycast_gateway::{
    GatewayError, Target,
    agents::{AgentPort, AgentTask},
};
use agentanycast_proto::v1 as mesh;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    content::{object_of, text_of},
    delivery,
    device_agent::{COMMAND_SKILL, DeviceAgent, TASK_SKILL, tool_skill},
    mesh::{Listener, MeshTasks},
    metrics::Outcome,
    planner::{self, Plan},
};
use crate::{
    messages::{CommandStatus, JsonObject, ToolCommand},
    protocol::BatchContext,
};

/// Most commands of one task.
const MOST_ACTIONS: usize = 1000;

/// Why tasks of an earlier process end.
const STARTED_AGAIN: &str =
    "agent disconnected: the gateway was started again, or the device connected again";

/// What a task asks for.
enum Work {
    Tool {
        agent_name: String,
        command: ToolCommand,
    },
    Batch(BatchRequest),
    Plan(String, Target),
}

/// The data of a task for `aip:command`.
#[derive(Deserialize)]
struct BatchRequest {
    agent_name: Option<String>,
    process_name: Option<String>,
    root_name: Option<String>,
    actions: Vec<ToolCommand>,
}

/// Takes the tasks of a device's agent until it is gone or `stop`.
pub(super) async fn take_tasks(
    device: Arc<DeviceAgent>,
    mesh: Arc<MeshTasks>,
    planner: Option<Target>,
    stop: CancellationToken,
) {
    let taken = async {
        end_unfinished(&*device.port).await;
        while let Some(task) = device.port.next().await {
            let id = task.task().task_id.clone();
            let served = serve(&device, &mesh, planner.as_ref(), &*task, &stop);
            if let Err(error) = served.await {
                // Mostly a task that has ended meanwhile.
                tracing::debug!(task = id, %error, "a task of a device could not be reported on");
            }
        }
    };
    tokio::pin!(taken);
    tokio::select! {
        () = &mut taken => return,
        () = device.gone.cancelled() => {}
        () = stop.cancelled() => {}
    }
    // The task that it has ends by itself.
    device.port.detach();
    taken.await;
}

/// Ends the tasks that an earlier process or connection had begun: commands do not survive it.
async fn end_unfinished(port: &dyn AgentPort) {
    for id in port.unfinished().await.unwrap_or_default() {
        if let Ok(Some(task)) = port.resume(&id).await {
            let _ = task.fail(STARTED_AGAIN).await;
        }
    }
}

async fn serve(
    device: &DeviceAgent,
    mesh: &MeshTasks,
    planner: Option<&Target>,
    task: &dyn AgentTask,
    stop: &CancellationToken,
) -> Result<(), GatewayError> {
    let cancelled = task.cancelled();
    // A device that has just connected is asked for its tools meanwhile.
    if is_tool_skill(&task.task().target_skill_id) {
        tokio::select! {
            biased;
            () = cancelled.cancelled() => return Ok(()),
            () = stop.cancelled() => {
                task.leave();
                return Ok(());
            }
            () = device.gone.cancelled() => {}
            () = device.wait_for_tools() => {}
        }
    }
    let work = match work(device, planner, task.task()) {
        Ok(work) => work,
        Err(reason) => {
            device.counters.ended(Outcome::Failed);
            return delivery::fail(task, &format!("rejected: {reason}")).await;
        }
    };
    let turn = tokio::select! {
        biased;
        () = cancelled.cancelled() => return Ok(()),
        () = stop.cancelled() => {
            task.leave();
            return Ok(());
        }
        () = device.gone.cancelled() => {
            device.counters.ended(Outcome::Failed);
            return delivery::fail(task, &device.gone_reason()).await;
        }
        turn = device.turn.lock() => turn,
    };
    task.claim().await?;
    let mut files = device.files.of_task();
    let executed = async {
        let ended = tokio::select! {
            ended = execute(device, mesh, task, work) => ended,
            // The sender of the steps is kept.
            () = files.take(task) => Err(device.gone_reason()),
        };
        ended.and_then(|value| files.broken().map_or(Ok(value), Err))
    };
    let ended = tokio::select! {
        biased;
        () = cancelled.cancelled() => {
            device.counters.ended(Outcome::Canceled);
            return Ok(());
        }
        () = device.gone.cancelled() => Err(device.gone_reason()),
        () = stop.cancelled() => Err("agent disconnected: the gateway stopped".to_owned()),
        ended = executed => ended,
    };
    drop(turn);
    match ended {
        Ok(value) => {
            let delivered = delivery::complete(task, &value).await;
            device.counters.ended(match delivered {
                Ok(()) => Outcome::Completed,
                Err(_) => Outcome::Failed,
            });
            delivered
        }
        Err(reason) => {
            device.counters.ended(Outcome::Failed);
            delivery::fail(task, &reason).await
        }
    }
}

fn is_tool_skill(skill: &str) -> bool {
    !matches!(skill, "" | COMMAND_SKILL | TASK_SKILL)
}

/// What a task asks for.
fn work(device: &DeviceAgent, planner: Option<&Target>, task: &mesh::Task) -> Result<Work, String> {
    let said = task.messages.iter().rev();
    let message = said
        .clone()
        .find(|message| message.role() != mesh::MessageRole::Agent);
    let parts = message
        .map(|message| message.parts.as_slice())
        .unwrap_or_default();
    let skill = match task.target_skill_id.as_str() {
        // A task for the agent, not for a skill of it, says by its content what it is.
        "" if object_of(parts).is_some_and(|object| object.contains_key("actions")) => COMMAND_SKILL,
        "" if planner.is_some() => TASK_SKILL,
        skill => skill,
    };
    if skill == COMMAND_SKILL {
        let object = object_of(parts).ok_or("aip:command takes data: an object with actions[]")?;
        let batch: BatchRequest = serde_json::from_value(Value::Object(object))
            .map_err(|error| format!("the data of aip:command is not valid: {error}"))?;
        if batch.actions.is_empty() || batch.actions.len() > MOST_ACTIONS {
            return Err(format!("aip:command takes 1 to {MOST_ACTIONS} actions"));
        }
        return Ok(Work::Batch(batch));
    }
    if skill == TASK_SKILL {
        let planner = planner.ok_or("no planner is set here, so a device takes commands only")?;
        let text = text_of(parts);
        if text.trim().is_empty() {
            return Err("aip:task takes a text".to_owned());
        }
        return Ok(Work::Plan(text, planner.clone()));
    }
    if skill.is_empty() {
        let example = tool_skill(device.client_id(), "TOOL");
        return Err(format!(
            "no planner is set here, so a task for device '{}' names a skill: {example} or {COMMAND_SKILL}",
            device.client_id()
        ));
    }
    let tools = device.tools();
    let is_meant =
        |tool: &crate::endpoints::DeviceTool| tool_skill(device.client_id(), &tool.tool.tool_name) == skill;
    let Some(found) = tools.into_iter().find(is_meant) else {
        return Err(format!(
            "device '{}' has no skill '{}'; its card lists its skills",
            device.client_id(),
            skill.chars().take(200).collect::<String>()
        ));
    };
    let parameters = tool_parameters(parts, found.tool.input_schema.as_ref())?;
    let mut command = ToolCommand::new(found.tool.tool_name, parameters).with_call_id("1");
    command.tool_type = found.tool.tool_type;
    Ok(Work::Tool {
        agent_name: found.agent_name,
        command,
    })
}

/// The parameters that a message means for a tool with this schema: an object, nothing, or a text for the only parameter
/// that is required, if that is a string.
fn tool_parameters(parts: &[mesh::Part], schema: Option<&Value>) -> Result<JsonObject, String> {
    if let Some(object) = object_of(parts) {
        return Ok(object);
    }
    let text = text_of(parts);
    if text.trim().is_empty() {
        return Ok(JsonObject::new());
    }
    let required = schema.and_then(|schema| schema.get("required")?.as_array());
    let only = required.filter(|names| names.len() == 1);
    let is_text = |name: &&str| schema.is_some_and(|schema| schema["properties"][*name]["type"] == "string");
    match only.and_then(|names| names[0].as_str()).filter(is_text) {
        Some(name) => Ok(JsonObject::from_iter([(name.to_owned(), Value::String(text))])),
        None => Err("a tool takes its parameters as a JSON object, as data or as text".to_owned()),
    }
}

async fn execute(
    device: &DeviceAgent,
    mesh: &MeshTasks,
    task: &dyn AgentTask,
    work: Work,
) -> Result<Value, String> {
    let session_id = task.task().task_id.as_str();
    match work {
        Work::Tool { agent_name, command } => {
            let context = BatchContext {
                session_id: Some(session_id.to_owned()),
                agent_name: Some(agent_name),
                ..BatchContext::default()
            };
            let mut results = device.command(context, vec![command]).await?;
            let result = results.pop().ok_or("the device answered nothing")?;
            if result.status == CommandStatus::Success {
                return Ok(result.result.unwrap_or_default());
            }
            let status = result.status;
            Err(result
                .error
                .unwrap_or_else(|| format!("the device says '{status}', and not why")))
        }
        Work::Batch(batch) => {
            let context = BatchContext {
                session_id: Some(session_id.to_owned()),
                agent_name: batch.agent_name,
                process_name: batch.process_name,
                root_name: batch.root_name,
            };
            let results = device.command(context, batch.actions).await?;
            Ok(json!({ "results": results }))
        }
        Work::Plan(request, planner) => {
            let plan = Plan {
                request: &request,
                planner,
                caller: device.client_id(),
                session_id,
                cancelled: task.cancelled(),
            };
            planner::carry_out(mesh, device, plan, &TaskListener(task)).await
        }
    }
}

/// Tells the sender of a task how far it is.
struct TaskListener<'a>(&'a dyn AgentTask);

impl Listener for TaskListener<'_> {
    async fn said(&self, text: String) {
        let message = mesh::Message {
            role: mesh::MessageRole::Agent.into(),
            parts: vec![super::content::text_part(text)],
            ..mesh::Message::default()
        };
        // A task that has ended is seen by its token.
        let _ = self.0.working(message).await;
    }
}
