//! Tasks of the mesh for a device: one after another, each claimed before the device executes anything.
//!
//! Invariant: every way out ends the task with a reason, or leaves one that was not begun.

use std::{sync::Arc, time::Duration};

use agentanycast_aip::{
    messages::{CommandStatus, JsonObject, ToolCommand},
    protocol::BatchContext,
};
use agentanycast_gateway::{
    GatewayError, Target,
    agents::{AgentPort, AgentTask},
    caller::CallerIdentity,
};
use agentanycast_proto::v1 as mesh;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{
    content::{object_of, text_of},
    counters::{Counters, Outcome},
    delivery,
    device_agent::{COMMAND_SKILL, DeviceAgent, TASK_SKILL, named, tool_skill},
    mesh::{Listener, MeshTasks},
    planner::{self, Plan},
};

/// Most commands of one task.
const MOST_ACTIONS: usize = 1000;

/// How long a device may take to tell its tools before a task that names none of them.
const TOLD_WITHIN: Duration = Duration::from_secs(5);

/// Results that are being handed over; a device takes no further task while there are more.
const MOST_DELIVERIES: usize = 16;

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
        // A sender that reads its result slowly does not keep the others from the device.
        let mut deliveries = JoinSet::new();
        while let Some(task) = device.port.next().await {
            let id = task.task().task_id.clone();
            match serve(&device, &mesh, planner.as_ref(), &*task, &stop).await {
                Ok(Some(ended)) => {
                    if deliveries.len() >= MOST_DELIVERIES {
                        deliveries.join_next().await;
                    }
                    deliveries.spawn(deliver(Arc::clone(&device.counters), task, ended));
                }
                Ok(None) => {}
                // Mostly a task that has ended meanwhile.
                Err(error) => {
                    tracing::debug!(task = id, %error, "a task of a device could not be reported on");
                }
            }
            while deliveries.try_join_next().is_some() {}
        }
        while deliveries.join_next().await.is_some() {}
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

/// Has the device do a task: how it ended, which is to be handed over. `None`: nothing is.
async fn serve(
    device: &DeviceAgent,
    mesh: &MeshTasks,
    planner: Option<&Target>,
    task: &dyn AgentTask,
    stop: &CancellationToken,
) -> Result<Option<Result<Value, String>>, GatewayError> {
    let cancelled = task.cancelled();
    // A device that has just connected is asked for its tools meanwhile.
    tokio::select! {
        biased;
        () = cancelled.cancelled() => return Ok(None),
        () = stop.cancelled() => {
            task.leave();
            return Ok(None);
        }
        () = device.gone.cancelled() => {}
        () = device.wait_for_tools() => {}
        // What names no tool goes on without the list of a device that does not answer.
        () = tokio::time::sleep(TOLD_WITHIN), if !is_tool_skill(&task.task().target_skill_id) => {}
    }
    let work = match work(device, planner, task.task()) {
        Ok(work) => work,
        Err(reason) => {
            return Ok(Some(Err(format!("rejected: {reason}"))));
        }
    };
    let turn = tokio::select! {
        biased;
        () = cancelled.cancelled() => return Ok(None),
        () = stop.cancelled() => {
            task.leave();
            return Ok(None);
        }
        () = device.gone.cancelled() => {
            return Ok(Some(Err(device.gone_reason())));
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
            return Ok(None);
        }
        () = device.gone.cancelled() => Err(device.gone_reason()),
        () = stop.cancelled() => Err("agent disconnected: the gateway stopped".to_owned()),
        ended = executed => ended,
    };
    drop(turn);
    Ok(Some(ended))
}

fn is_tool_skill(skill: &str) -> bool {
    !matches!(skill, "" | COMMAND_SKILL | TASK_SKILL)
}

/// Hands the end of a task to its sender.
async fn deliver(counters: Arc<Counters>, task: Box<dyn AgentTask>, ended: Result<Value, String>) {
    let is_completed = ended.is_ok();
    let delivered = match ended {
        Ok(value) => delivery::complete(&*task, &value).await,
        Err(reason) => delivery::fail(&*task, &reason).await,
    };
    counters.ended(match delivered {
        Ok(()) if is_completed => Outcome::Completed,
        _ => Outcome::Failed,
    });
    if let Err(error) = delivered {
        let id = &task.task().task_id;
        tracing::debug!(task = id, %error, "a task of a device could not be reported on");
    }
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
    let is_meant = |tool: &agentanycast_aip::endpoints::DeviceTool| {
        tool_skill(device.client_id(), &tool.tool.tool_name) == skill
    };
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
    let required: Vec<&str> = required.into_iter().flatten().filter_map(Value::as_str).collect();
    let is_text = |name: &str| schema.is_some_and(|schema| schema["properties"][name]["type"] == "string");
    if let [only] = required.as_slice()
        && is_text(only)
    {
        return Ok(JsonObject::from_iter([((*only).to_owned(), Value::String(text))]));
    }
    let how = "a tool takes its parameters as a JSON object, as data or as text";
    Err(if required.is_empty() {
        how.to_owned()
    } else {
        format!("{how}; it requires: {}", named(required.into_iter()))
    })
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
            let checked = device.check_tools(&context, &batch.actions).await;
            checked.map_err(|reason| format!("rejected: {reason}"))?;
            let results = device.command(context, batch.actions).await?;
            Ok(json!({ "results": results }))
        }
        Work::Plan(request, planner) => {
            let plan = Plan {
                request: &request,
                planner,
                // The task is the device's own: the node has let its sender in.
                caller: CallerIdentity::identified(device.client_id()),
                session_id,
                cancelled: task.cancelled(),
            };
            let listener = TaskListener(task);
            let planned = planner::carry_out(mesh, device, plan, &listener);
            let within = device.task_timeout;
            tokio::time::timeout(within, planned)
                .await
                .unwrap_or_else(|_| Err(format!("the task took more than {} s", within.as_secs())))
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
