//! Devices, constellations and daemons that are lost while tasks are under way.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use agentanycast_aip::{
    endpoints::TaskRequest,
    messages::{McpToolInfo, ToolCommand, ToolCommandType},
    protocol::{BatchContext, ToolExecutor, ToolFailure, ToolOutput},
};
use agentanycast_tests::{
    bystander::Bystander,
    cli::{anycast_at, anycast_json},
    eventually, within,
};
use async_trait::async_trait;
use serde_json::{Value, json};

use super::scene::AipScene;

/// A task that lasts longer than any test, and shows that it has begun by a file.
const LONG: &str = r#"{"actions": [
    {"tool_name": "execute_command", "parameters": {"command": "touch begun"}},
    {"tool_name": "execute_command", "parameters": {"command": "sleep 100"}}
]}"#;

/// What a lost device or constellation ends is ended within this.
const TWO_SECONDS: Duration = Duration::from_secs(2);

async fn post(scene: &AipScene) -> String {
    let _ = std::fs::remove_file(scene.folder().join("begun"));
    let sent = anycast_json(
        &scene.nodes.far,
        &["send", "--skill", "--no-wait", "aip:command", LONG],
    )
    .await;
    let id = sent["task_id"].as_str().unwrap().to_owned();
    eventually("the device has begun", || async {
        scene.folder().join("begun").exists().then_some(())
    })
    .await;
    id
}

async fn ended(scene: &AipScene, id: &str) -> Value {
    eventually("the task ends", || async {
        let task = anycast_json(&scene.nodes.far, &["task", id]).await;
        (!["submitted", "working"]
            .iter()
            .any(|status| task["status"] == *status))
        .then_some(task)
    })
    .await
}

#[tokio::test]
async fn a_device_that_is_lost_fails_its_task_at_once_and_its_agent_goes_later() {
    let scene = AipScene::with_args(&["--aip-device-grace=3s"]).await;
    let device = scene.device("desk").await;
    let task = post(&scene).await;
    device.cut();
    let cut = Instant::now();
    let task = ended(&scene, &task).await;
    assert!(cut.elapsed() < TWO_SECONDS, "{:?}", cut.elapsed());
    assert_eq!(
        (&task["status"], &task["reason"]),
        (&json!("failed"), &json!("device 'desk' disconnected"))
    );
    assert_eq!(scene.figure("clients", "role=\"device\"").await, 0);
    eventually("the agent is forgotten", || async {
        let agents = anycast_json(&scene.nodes.gateway, &["ps"]).await;
        (!agents.to_string().contains("aip.desk")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_device_gets_tasks_again_when_it_is_back() {
    let scene = AipScene::start().await;
    let device = scene.device("desk").await;
    device.cut();
    eventually("it is gone", || async {
        (scene.figure("clients", "role=\"device\"").await == 0).then_some(())
    })
    .await;
    // It waits for the device: its agent is kept for the grace.
    let waits = anycast_json(
        &scene.nodes.far,
        &[
            "send",
            "--skill",
            "--no-wait",
            "aip:desk:execute_command",
            "echo back",
        ],
    )
    .await;
    let _device = scene.device("desk").await;
    let task = ended(&scene, waits["task_id"].as_str().unwrap()).await;
    assert_eq!(task["status"], "completed", "{task:#}");
}

/// A device with one tool, which it lists after this time.
struct LateTools(Duration);

#[async_trait]
impl ToolExecutor for LateTools {
    async fn tools(&self, _: &BatchContext) -> Result<Vec<McpToolInfo>, ToolFailure> {
        tokio::time::sleep(self.0).await;
        let schema = json!({ "type": "object" });
        Ok(vec![McpToolInfo::new(
            ToolCommandType::Action,
            "Test",
            "hello",
            schema,
        )])
    }

    async fn execute(&self, _: &BatchContext, _: &ToolCommand) -> Result<ToolOutput, ToolFailure> {
        Ok(json!("hello from the device").into())
    }
}

/// The node's primary agent does not get a task for a tool while the device is away or has not listed its tools yet.
#[tokio::test]
async fn a_task_for_a_tool_waits_for_a_device_that_lists_its_tools_late() {
    let mut scene = AipScene::start().await;
    let other = Bystander::start(&scene.nodes.gateway).await;
    let device = scene.device_with("desk", Arc::new(LateTools(Duration::ZERO)));
    scene.until_found("aip:desk:hello").await;
    let clients = async |count: u64| {
        eventually("the device comes or goes", || async {
            (scene.figure("clients", "role=\"device\"").await == count).then_some(())
        })
        .await;
    };
    clients(1).await;
    device.cut();
    clients(0).await;
    let late = || Arc::new(LateTools(Duration::from_secs(3)));
    let device = scene.device_with("desk", late());
    clients(1).await;
    let args = ["send", "--skill", "--no-wait", "aip:desk:hello", "{}"];
    let send = async |scene: &AipScene| {
        let sent = anycast_json(&scene.nodes.far, &args).await;
        let task = ended(scene, sent["task_id"].as_str().unwrap()).await;
        assert_eq!(task["status"], "completed", "{task:#}");
        assert_eq!(task["artifacts"][0]["parts"][0]["text"], "hello from the device");
    };
    send(&scene).await;

    scene.nodes.gateway.kill().await;
    scene.nodes.gateway.restart().await;
    send(&scene).await;
    assert_eq!(other.tasks(), 0);
    device.cut();
}

#[tokio::test]
async fn a_daemon_that_is_killed_fails_what_was_under_way_and_devices_connect_again() {
    let mut scene = AipScene::start().await;
    let _device = scene.device("desk").await;
    let task = post(&scene).await;
    scene.nodes.gateway.kill().await;
    scene.nodes.gateway.restart().await;
    let task = ended(&scene, &task).await;
    assert_eq!(task["status"], "failed", "{task:#}");
    let reason = task["reason"].as_str().unwrap();
    assert!(reason.contains("agent disconnected"), "{reason}");
    eventually("the device works again", || async {
        let sent = scene.send("aip:desk:execute_command", "echo again").await;
        sent.status.success().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_canceled_task_frees_the_device() {
    let scene = AipScene::start().await;
    let _device = scene.device("desk").await;
    let task = post(&scene).await;
    let canceled = anycast_at(&scene.nodes.far, &["cancel", &task]).await;
    assert!(canceled.status.success(), "{}", canceled.all_output);
    assert_eq!(ended(&scene, &task).await["status"], "canceled");
}

#[tokio::test]
async fn a_constellation_that_is_lost_cancels_its_task_at_the_agent_of_another_node() {
    let scene = AipScene::start().await;
    let folder = scene.folder().display();
    let script = format!("trap 'touch {folder}/ended; exit' TERM; touch {folder}/begun; sleep 100 & wait");
    let _agent = scene.nodes.program("slow", &script).await;
    let constellation = scene.constellation("probe", "skill:slow").await;
    let assigned = constellation.assign("skill:slow", TaskRequest::new("t1", "go"));
    let begun = eventually("the agent has begun", || async {
        scene.folder().join("begun").exists().then_some(())
    });
    tokio::select! {
        reply = assigned => panic!("{reply:?}"),
        () = begun => {}
    }
    drop(constellation);
    let lost = Instant::now();
    let ended = eventually("the agent's program is ended", || async {
        scene.folder().join("ended").exists().then_some(())
    });
    within("the agent is told", ended).await;
    assert!(lost.elapsed() < TWO_SECONDS, "{:?}", lost.elapsed());
    assert_eq!(scene.figure("tasks_ended_total", "outcome=\"canceled\"").await, 1);
}
