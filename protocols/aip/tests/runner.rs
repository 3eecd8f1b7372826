//! Graphs on devices: order, devices that are lost in the middle, conditions, edits, cancellation.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by a panic")]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use agentanycast_aip::{
    dag::{
        ConstellationAgent, ConstellationState, DefaultAgent, DependencyType, RunnerSettings, TaskAssigner,
        TaskConstellation, TaskStar, TaskStarLine, TaskStarStatus, run,
    },
    endpoints::{
        AgentProfile, AssignError, ConstellationClient, ConstellationSettings, DeviceEntry, DeviceService,
        DeviceState, ServiceHooks, ServiceSettings, ServiceTask, TaskOutcome, TaskReply,
    },
    transport::{Connector, Transport, TransportError, memory_pair},
};
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Devices that take 1 s a task. A task named `fail…` fails; a device named in `lost` is lost with its next task.
#[derive(Default)]
struct TestDevices {
    lost: Mutex<Vec<String>>,
    devices: Mutex<BTreeMap<String, DeviceState>>,
    log: Mutex<Vec<String>>,
}

impl TestDevices {
    fn new(names: &[&str]) -> Self {
        let devices = names
            .iter()
            .map(|name| ((*name).to_owned(), DeviceState::Idle))
            .collect();
        Self {
            devices: Mutex::new(devices),
            ..Self::default()
        }
    }
}

#[async_trait]
impl TaskAssigner for TestDevices {
    fn devices(&self) -> Vec<AgentProfile> {
        let devices = self.devices.lock().unwrap();
        let profile = |(id, status): (&String, &DeviceState)| AgentProfile {
            device_id: id.clone(),
            server_url: String::new(),
            os: "linux".to_owned(),
            capabilities: Vec::new(),
            metadata: serde_json::Map::new(),
            status: *status,
            last_heartbeat: None,
            connection_attempts: 0,
            max_retries: 5,
            current_task_id: None,
        };
        devices.iter().map(profile).collect()
    }

    async fn carry_out(&self, device_id: &str, task: &TaskStar) -> Result<TaskReply, AssignError> {
        self.log
            .lock()
            .unwrap()
            .push(format!("{} on {device_id}", task.task_id));
        tokio::time::sleep(Duration::from_secs(1)).await;
        if self.lost.lock().unwrap().iter().any(|lost| lost == device_id) {
            self.devices
                .lock()
                .unwrap()
                .insert(device_id.to_owned(), DeviceState::Disconnected);
            return Err(AssignError::DeviceLost(device_id.to_owned()));
        }
        let completed = !task.task_id.starts_with("fail");
        Ok(TaskReply {
            completed,
            result: completed.then(|| json!(task.request())),
            error: (!completed).then(|| "no".to_owned()),
        })
    }
}

fn graph(tasks: &[&str], lines: &[(&str, &str, DependencyType)]) -> TaskConstellation {
    let mut graph = TaskConstellation::new("g", "graph");
    for task in tasks {
        graph.add_task(TaskStar::new(task, "x")).unwrap();
    }
    for (from, to, kind) in lines {
        graph.add_line(TaskStarLine::new(from, to, *kind)).unwrap();
    }
    graph
}

async fn execute(
    graph: &mut TaskConstellation,
    devices: &TestDevices,
    agent: &mut dyn ConstellationAgent,
) -> ConstellationState {
    run(
        graph,
        devices,
        agent,
        RunnerSettings::default(),
        CancellationToken::new(),
    )
    .await
}

#[tokio::test(start_paused = true)]
async fn tasks_run_side_by_side_and_in_their_order() {
    let success = DependencyType::SuccessOnly;
    let mut graph = graph(
        &["a", "b", "c", "d"],
        &[("a", "c", success), ("b", "c", success), ("c", "d", success)],
    );
    let devices = TestDevices::new(&["one", "two"]);
    let begun = tokio::time::Instant::now();
    let state = execute(&mut graph, &devices, &mut DefaultAgent).await;
    assert_eq!(state, ConstellationState::Completed);
    assert_eq!(begun.elapsed().as_secs(), 3);
    assert_eq!(
        *devices.log.lock().unwrap(),
        ["a on one", "b on two", "c on one", "d on one"]
    );
}

#[tokio::test(start_paused = true)]
async fn one_device_has_one_task_at_a_time() {
    let mut graph = graph(&["a", "b", "c"], &[]);
    let begun = tokio::time::Instant::now();
    execute(&mut graph, &TestDevices::new(&["one"]), &mut DefaultAgent).await;
    assert_eq!(begun.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_failure_takes_what_needs_its_success_along_only() {
    let lines = [
        ("fail", "needs", DependencyType::SuccessOnly),
        ("fail", "anyway", DependencyType::CompletionOnly),
        ("needs", "always", DependencyType::Unconditional),
        ("needs", "never", DependencyType::CompletionOnly),
    ];
    let mut graph = graph(&["fail", "needs", "anyway", "always", "never"], &lines);
    let state = execute(&mut graph, &TestDevices::new(&["one", "two"]), &mut DefaultAgent).await;
    assert_eq!(state, ConstellationState::PartiallyFailed);
    let status = |task_id: &str| graph.task(task_id).unwrap().status;
    assert_eq!(status("needs"), TaskStarStatus::Cancelled);
    assert_eq!(status("anyway"), TaskStarStatus::Completed);
    assert_eq!(status("always"), TaskStarStatus::Completed);
    assert_eq!(status("never"), TaskStarStatus::Cancelled);
}

/// Takes tasks of lost devices over to `other`, decides conditions by their words, and adds a task after `plan`.
struct Planner {
    other: Option<String>,
}

#[async_trait]
impl ConstellationAgent for Planner {
    async fn condition(&mut self, line: &TaskStarLine, result: Option<&Value>) -> bool {
        assert_eq!(result, Some(&json!("x")));
        line.condition_description == "true"
    }

    async fn device_lost(&mut self, _: &TaskConstellation, _: &str, _: &str) -> Option<String> {
        self.other.take()
    }

    async fn task_ended(&mut self, graph: &mut TaskConstellation, task_id: &str) {
        if task_id == "plan" {
            graph.add_task(TaskStar::new("added", "x")).unwrap();
            graph
                .add_line(TaskStarLine::new("plan", "added", DependencyType::SuccessOnly))
                .unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_device_that_is_lost_fails_its_task_or_another_one_takes_it_over() {
    for (other, state) in [
        (Some("two".to_owned()), ConstellationState::Completed),
        (None, ConstellationState::Failed),
    ] {
        let mut graph = graph(&["a", "b"], &[("a", "b", DependencyType::SuccessOnly)]);
        let devices = TestDevices::new(&["one", "two"]);
        devices.lost.lock().unwrap().push("one".to_owned());
        let takes_over = other.is_some();
        assert_eq!(execute(&mut graph, &devices, &mut Planner { other }).await, state);
        let log = devices.log.lock().unwrap().clone();
        if takes_over {
            assert_eq!(log, ["a on one", "a on two", "b on two"]);
        } else {
            assert_eq!(log, ["a on one"]);
            assert_eq!(
                graph.task("a").unwrap().error.as_deref(),
                Some("device 'one' was lost")
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn conditions_and_edits_come_from_the_agent() {
    let mut graph = graph(&["plan", "yes", "no"], &[]);
    for (to, words) in [("yes", "true"), ("no", "false")] {
        let mut line = TaskStarLine::new("plan", to, DependencyType::Conditional);
        line.condition_description = words.to_owned();
        graph.add_line(line).unwrap();
    }
    let state = execute(
        &mut graph,
        &TestDevices::new(&["one"]),
        &mut Planner { other: None },
    )
    .await;
    assert_eq!(state, ConstellationState::Completed);
    let status = |task_id: &str| graph.task(task_id).unwrap().status;
    assert_eq!(status("yes"), TaskStarStatus::Completed);
    assert_eq!(status("no"), TaskStarStatus::Cancelled);
    assert_eq!(status("added"), TaskStarStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn tasks_without_a_device_fail_after_a_time() {
    let mut graph = graph(&["a"], &[]);
    graph.add_task(TaskStar::new("b", "x").on("missing")).unwrap();
    let begun = tokio::time::Instant::now();
    let state = execute(&mut graph, &TestDevices::new(&["one"]), &mut DefaultAgent).await;
    assert_eq!(state, ConstellationState::PartiallyFailed);
    assert_eq!(
        graph.task("b").unwrap().error.as_deref(),
        Some("device 'missing' is not connected")
    );
    assert!((60..63).contains(&begun.elapsed().as_secs()));
}

#[tokio::test(start_paused = true)]
async fn stopping_cancels_what_has_not_ended() {
    let mut graph = graph(&["a", "b"], &[("a", "b", DependencyType::SuccessOnly)]);
    let stop = CancellationToken::new();
    let devices = TestDevices::new(&["one"]);
    let stopping = async {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        stop.cancel();
    };
    let mut agent = DefaultAgent;
    let running = run(
        &mut graph,
        &devices,
        &mut agent,
        RunnerSettings::default(),
        stop.clone(),
    );
    let (state, ()) = tokio::join!(running, stopping);
    assert_eq!(state, ConstellationState::Cancelled);
    assert_eq!(graph.task("a").unwrap().status, TaskStarStatus::Completed);
    assert_eq!(graph.task("b").unwrap().status, TaskStarStatus::Cancelled);
}

struct Echo;

#[async_trait]
impl ServiceHooks for Echo {
    async fn has_target(&self, _: &str) -> bool {
        true
    }

    async fn run_task(&self, task: ServiceTask) -> TaskOutcome {
        TaskOutcome::completed(json!({ "target": task.target_id, "request": task.request }))
    }
}

struct Local(DeviceService);

#[async_trait]
impl Connector for Local {
    async fn connect(&self) -> Result<Transport, TransportError> {
        let (near, far) = memory_pair();
        let service = self.0.clone();
        tokio::spawn(async move { service.serve(far).await });
        Ok(near)
    }

    fn address(&self) -> String {
        "memory".to_owned()
    }
}

#[tokio::test]
async fn a_graph_runs_by_a_constellation_on_a_service() {
    let service = DeviceService::new(ServiceSettings::default(), Arc::new(Echo));
    let constellation = ConstellationClient::new(ConstellationSettings::new("day"));
    for device in ["one", "two"] {
        constellation.add_device(DeviceEntry::new(device), Local(service.clone()));
        constellation
            .wait_connected(device, Duration::from_secs(10))
            .await
            .unwrap();
    }
    let mut graph = TaskConstellation::new("g", "graph");
    graph.add_task(TaskStar::new("a", "first").on("one")).unwrap();
    graph.add_task(TaskStar::new("b", "second").on("two")).unwrap();
    graph
        .add_line(TaskStarLine::new("a", "b", DependencyType::SuccessOnly))
        .unwrap();
    let mut agent = DefaultAgent;
    let running = run(
        &mut graph,
        &constellation,
        &mut agent,
        RunnerSettings::default(),
        CancellationToken::new(),
    );
    let state = tokio::time::timeout(Duration::from_secs(20), running)
        .await
        .unwrap();
    assert_eq!(state, ConstellationState::Completed);
    let result = graph.task("b").unwrap().result.clone().unwrap();
    assert_eq!(result, json!({ "target": "two", "request": "second" }));
}
