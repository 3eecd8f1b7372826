//! Executes a graph on devices. It keeps no state besides the graph and the tasks under way.

use std::{collections::BTreeSet, time::Duration};

use async_trait::async_trait;
use futures::{StreamExt as _, stream::FuturesUnordered};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{ConstellationState, TaskConstellation, TaskStar, TaskStarLine};
use crate::endpoints::{AgentProfile, AssignError, ConstellationClient, TaskReply, TaskRequest};

/// How often is looked whether a device has come, while nothing else happens.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Carries tasks out.
#[async_trait]
pub trait TaskAssigner: Send + Sync {
    /// The devices.
    fn devices(&self) -> Vec<AgentProfile>;

    /// Has a device carry a task out, and waits for its end.
    async fn carry_out(&self, device_id: &str, task: &TaskStar) -> Result<TaskReply, AssignError>;
}

#[async_trait]
impl TaskAssigner for ConstellationClient {
    fn devices(&self) -> Vec<AgentProfile> {
        self.profiles()
    }

    async fn carry_out(&self, device_id: &str, task: &TaskStar) -> Result<TaskReply, AssignError> {
        let mut request = TaskRequest::new(&task.task_id, &task.request());
        let limit = task
            .timeout
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        request.timeout = limit.unwrap_or(request.timeout);
        self.assign(device_id, request).await
    }
}

/// Decides what a graph cannot: devices, conditions, edits.
#[async_trait]
pub trait ConstellationAgent: Send {
    /// The device for a task among those that are connected and free; `None`: it waits. The default is the task's
    /// device, else the first one whose system is the task's device type.
    fn choose(&mut self, task: &TaskStar, free: &[AgentProfile]) -> Option<String> {
        let fits = |device: &&AgentProfile| match (&task.target_device_id, &task.device_type) {
            (Some(target), _) => device.device_id == *target,
            (None, Some(kind)) => device.os.eq_ignore_ascii_case(kind),
            (None, None) => true,
        };
        free.iter().find(fits).map(|device| device.device_id.clone())
    }

    /// Whether the condition of a dependency holds for the result of its first task. The default: there is a result
    /// that is not null and not false.
    async fn condition(&mut self, line: &TaskStarLine, result: Option<&Value>) -> bool {
        let _ = line;
        result.is_some_and(|result| !matches!(result, Value::Null | Value::Bool(false)))
    }

    /// The device of a running task is lost: another one that takes the task over, or `None`: the task fails.
    async fn device_lost(
        &mut self,
        graph: &TaskConstellation,
        task_id: &str,
        device_id: &str,
    ) -> Option<String> {
        let _ = (graph, task_id, device_id);
        None
    }

    /// A task has ended: the graph may be edited.
    async fn task_ended(&mut self, graph: &mut TaskConstellation, task_id: &str) {
        let _ = (graph, task_id);
    }
}

/// An agent with the defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultAgent;

impl ConstellationAgent for DefaultAgent {}

/// How a graph is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunnerSettings {
    /// How long tasks wait for a device while nothing runs, before they fail.
    pub device_wait: Duration,
}

impl Default for RunnerSettings {
    fn default() -> Self {
        Self {
            device_wait: Duration::from_mins(1),
        }
    }
}

/// Executes a graph until all its tasks have ended, or `stop`, which cancels it. Tasks that do not depend on each
/// other run at the same time on different devices; a device has one task at a time.
pub async fn run<T, A>(
    graph: &mut TaskConstellation,
    devices: &T,
    agent: &mut A,
    settings: RunnerSettings,
    stop: CancellationToken,
) -> ConstellationState
where
    T: TaskAssigner + ?Sized,
    A: ConstellationAgent + ?Sized,
{
    let mut running = FuturesUnordered::new();
    let mut busy = BTreeSet::new();
    let mut idle_since = Instant::now();
    loop {
        evaluate_conditions(graph, agent).await;
        for (task, device_id) in start_ready(graph, devices, agent, &mut busy) {
            running.push(async move {
                let ended = devices.carry_out(&device_id, &task).await;
                (task.task_id, device_id, ended)
            });
        }
        if graph.is_ended() {
            return graph.state();
        }
        if running.is_empty() {
            if idle_since.elapsed() >= settings.device_wait {
                fail_ready(graph, agent).await;
                continue;
            }
        } else {
            idle_since = Instant::now();
        }
        let ended = tokio::select! {
            biased;
            () = stop.cancelled() => {
                graph.cancel_all();
                return graph.state();
            }
            ended = running.next(), if !running.is_empty() => ended,
            () = tokio::time::sleep(LOOK_AGAIN) => None,
        };
        if let Some((task_id, device_id, ended)) = ended {
            busy.remove(&device_id);
            idle_since = Instant::now();
            apply(graph, agent, &task_id, &device_id, ended).await;
        }
    }
}

async fn evaluate_conditions<A: ConstellationAgent + ?Sized>(graph: &mut TaskConstellation, agent: &mut A) {
    let open: Vec<TaskStarLine> = graph.open_conditions().into_iter().cloned().collect();
    for line in open {
        let result = graph
            .task(&line.from_task_id)
            .and_then(|task| task.result.as_ref());
        let holds = agent.condition(&line, result).await;
        // It was open just now.
        let _ = graph.set_condition(&line.line_id, holds);
    }
}

/// Starts what can start; gives the tasks with their devices.
fn start_ready<T, A>(
    graph: &mut TaskConstellation,
    devices: &T,
    agent: &mut A,
    busy: &mut BTreeSet<String>,
) -> Vec<(TaskStar, String)>
where
    T: TaskAssigner + ?Sized,
    A: ConstellationAgent + ?Sized,
{
    let ready: Vec<TaskStar> = graph.ready().into_iter().cloned().collect();
    if ready.is_empty() {
        return Vec::new();
    }
    let mut free = devices.devices();
    free.retain(|device| device.status.is_connected() && !busy.contains(&device.device_id));
    let mut started = Vec::new();
    for task in ready {
        let Some(device_id) = agent.choose(&task, &free) else {
            continue;
        };
        let known = free.iter().any(|device| device.device_id == device_id);
        if !known || graph.start(&task.task_id, &device_id).is_err() {
            continue;
        }
        free.retain(|device| device.device_id != device_id);
        busy.insert(device_id.clone());
        started.push((task, device_id));
    }
    started
}

/// No device has come for tasks that could start.
async fn fail_ready<A: ConstellationAgent + ?Sized>(graph: &mut TaskConstellation, agent: &mut A) {
    let ready: Vec<String> = graph.ready().iter().map(|task| task.task_id.clone()).collect();
    for task_id in ready {
        let target = graph
            .task(&task_id)
            .and_then(|task| task.target_device_id.clone());
        let why = match &target {
            Some(device_id) => format!("device '{device_id}' is not connected"),
            None => "no device is connected for the task".to_owned(),
        };
        if graph
            .start(&task_id, target.as_deref().unwrap_or_default())
            .is_ok()
        {
            let _ = graph.fail(&task_id, &why);
            agent.task_ended(graph, &task_id).await;
        }
    }
}

async fn apply<A: ConstellationAgent + ?Sized>(
    graph: &mut TaskConstellation,
    agent: &mut A,
    task_id: &str,
    device_id: &str,
    ended: Result<TaskReply, AssignError>,
) {
    let applied = match ended {
        Ok(reply) if reply.completed => graph.complete(task_id, reply.result),
        Ok(reply) => {
            let error = reply.error.unwrap_or_else(|| "it does not say why".to_owned());
            graph.fail(task_id, &error).map(drop)
        }
        Err(error) if error.is_device_lost() => {
            if let Some(other) = agent.device_lost(graph, task_id, device_id).await {
                graph.reassign(task_id, &other)
            } else {
                graph.device_lost(device_id);
                Ok(())
            }
        }
        Err(error) => graph.fail(task_id, &error.to_string()).map(drop),
    };
    if let Err(error) = applied {
        // The agent has cancelled it meanwhile.
        tracing::debug!(task_id, %error, "the end of a task is not taken over");
    }
    agent.task_ended(graph, task_id).await;
}
