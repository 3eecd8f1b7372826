//! Devices and constellations of the Agent Interaction Protocol at the gateway of one daemon, and agents at others, which find
//! each other by a relay's registry. `scene` is the scene, `outages` what is lost and killed, `foreign_service` a
//! service that another node joins.

mod foreign_service;
mod outages;
mod scene;

use std::sync::{Arc, Mutex};

use agentanycast::TaskFilter;
use agentanycast_aip::{
    endpoints::{ClosureTools, ConstellationEvent, TaskRequest},
    messages::{McpToolInfo, ToolCommandType},
};
use agentanycast_tests::{Daemon, cli::anycast_json, eventually, within};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use scene::{AipScene, data_of, reason_of};

#[tokio::test]
async fn a_tool_of_a_device_is_called_by_its_skill() {
    let scene = AipScene::start().await;
    let _device = scene.device("desk-1").await;
    // A text for the one parameter that is required, or the parameters as JSON.
    for parameters in ["echo a b", r#"{"command": "echo a b", "timeout": 5}"#] {
        let sent = scene.send("aip:desk-1:execute_command", parameters).await;
        assert!(sent.status.success(), "{}", sent.all_output);
        let result = data_of(&sent);
        assert_eq!(
            (&result["success"], &result["stdout"]),
            (&json!(true), &json!("a b\n"))
        );
    }
    let sent = scene.send("aip:desk-1:execute_command", "rm -rf x").await;
    assert_eq!(sent.status.code(), Some(1), "{}", sent.all_output);
    assert!(
        reason_of(&sent).contains("'rm' is not allowed"),
        "{}",
        sent.all_output
    );
    // It is an agent of its node like any other.
    let agents = anycast_json(&scene.nodes.gateway, &["ps"]).await.to_string();
    assert!(
        agents.contains("aip.desk-1") && agents.contains("Agent Interaction Protocol"),
        "{agents}"
    );
    assert_eq!(scene.figure("clients", "role=\"device\"").await, 1);
    assert_eq!(
        scene.figure("tasks_ended_total", "outcome=\"completed\"").await,
        2
    );
}

/// What a device with one tool, `note`, was told to note. Each call lasts until a permit is given.
#[derive(Clone)]
struct Notes {
    noted: Arc<Mutex<Vec<String>>>,
    permits: Arc<Semaphore>,
}

impl Notes {
    fn noted(&self) -> Vec<String> {
        self.noted.lock().unwrap().clone()
    }

    async fn until(&self, count: usize) {
        eventually("the device is called", || async {
            (self.noted().len() >= count).then_some(())
        })
        .await;
    }

    fn tools(&self) -> ClosureTools {
        let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
        let notes = self.clone();
        let tool = McpToolInfo::new(ToolCommandType::Action, "Test", "note", schema);
        ClosureTools::new().with_tool(tool, move |parameters| {
            let notes = notes.clone();
            async move {
                let text = parameters["text"].as_str().unwrap_or_default().to_owned();
                notes.noted.lock().unwrap().push(text);
                notes.permits.acquire().await.unwrap().forget();
                Ok(json!("noted").into())
            }
        })
    }
}

#[tokio::test]
async fn a_sender_with_many_tasks_keeps_no_other_one_from_a_device() {
    let scene = AipScene::start().await;
    let notes = Notes {
        noted: Arc::default(),
        permits: Arc::new(Semaphore::new(0)),
    };
    let _device = scene.device_with("desk", Arc::new(notes.tools()));
    scene.until_found("aip:desk:note").await;
    let post = async |daemon: &Daemon, text: &str| {
        let data = json!({ "text": text }).to_string();
        anycast_json(daemon, &["send", "--skill", "--no-wait", "aip:desk:note", &data]).await;
    };
    let far = &scene.nodes.far;
    post(far, "far 0").await;
    notes.until(1).await;
    for number in 1..5 {
        post(far, &format!("far {number}")).await;
    }
    let node = scene.nodes.gateway.node().await;
    eventually("the tasks wait at the node of the device", || async {
        let tasks = node.tasks(&TaskFilter::default()).await.ok()?;
        (tasks.len() == 5).then_some(())
    })
    .await;
    // A program beside the gateway sends one, behind all of these.
    post(&scene.nodes.gateway, "near").await;
    notes.permits.add_permits(1);
    notes.until(2).await;
    notes.permits.add_permits(10);
    notes.until(6).await;
    assert_eq!(
        notes.noted(),
        ["far 0", "far 1", "near", "far 2", "far 3", "far 4"]
    );
}

#[tokio::test]
async fn a_batch_of_five_commands_runs_in_order_and_stops_at_a_failure() {
    let scene = AipScene::start().await;
    let _device = scene.device("desk").await;
    let batch = |commands: [&str; 5]| {
        let actions: Vec<Value> = commands
            .iter()
            .enumerate()
            .map(|(at, command)| {
                json!({
                    "tool_name": "execute_command", "call_id": format!("call-{at}"),
                    "parameters": { "command": command },
                })
            })
            .collect();
        json!({ "agent_name": "LinuxAgent", "actions": actions }).to_string()
    };
    let all_well = [
        "mkdir made",
        "touch made/a",
        "touch made/b",
        "ls made",
        "echo done",
    ];
    let sent = scene.send("aip:command", &batch(all_well)).await;
    assert!(sent.status.success(), "{}", sent.all_output);
    let results = data_of(&sent)["results"].as_array().unwrap().clone();
    let ids: Vec<_> = results
        .iter()
        .map(|result| result["call_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["call-0", "call-1", "call-2", "call-3", "call-4"]);
    // Each sees what the ones before it have made.
    assert_eq!(results[3]["result"]["stdout"], "a\nb\n");
    assert_eq!(results[4]["result"]["stdout"], "done\n");

    let one_fails = ["echo 1", "echo 2", "unlisted", "echo 4", "echo 5"];
    let sent = scene.send("aip:command", &batch(one_fails)).await;
    let results = data_of(&sent)["results"].clone();
    let said: Vec<_> = (0..5)
        .map(|at| {
            (
                results[at]["status"].as_str().unwrap(),
                results[at]["error"].as_str(),
            )
        })
        .collect();
    let skipped = (
        "skipped",
        Some("Skipped due to previous failure (early_exit=True)."),
    );
    assert_eq!(said[..2], [("success", None); 2]);
    assert_eq!(said[2].0, "failure");
    assert_eq!(said[3..], [skipped; 2]);
}

#[tokio::test]
async fn a_constellation_has_tasks_done_by_an_agent_of_another_node_and_hears_its_progress() {
    let scene = AipScene::start().await;
    let _agent = scene
        .nodes
        .program("upper", "echo half way >&2; tr a-z A-Z")
        .await;
    let target = format!("{}/upper", scene.nodes.far.peer_id());
    for target in ["skill:upper", target.as_str()] {
        let constellation = scene.constellation("probe", target).await;
        let info = constellation.device_info(target).await.unwrap();
        assert_eq!(info["device_id"], target);
        let mut events = constellation.events();
        let assigned = constellation.assign(target, TaskRequest::new("t1", "loud"));
        let reply = within("the task ends", assigned).await.unwrap();
        assert!(reply.completed, "{reply:?}");
        assert_eq!(reply.result.unwrap()["text"], "LOUD");
        let heard = within("progress is heard", events.recv()).await.unwrap();
        let is_progress =
            matches!(&heard, ConstellationEvent::Progress { messages, .. } if *messages == ["half way"]);
        assert!(is_progress, "{heard:?}");
    }
    eventually("the tasks are counted", || async {
        (scene.figure("tasks_ended_total", "outcome=\"completed\"").await == 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_planner_of_another_node_carries_a_task_out_on_a_device() {
    let planner = r#"
if grep -q '"results":\[\]' ; then
  echo '{"status": "continue", "actions": [{"tool_name": "execute_command", "parameters": {"command": "touch planned"}}]}'
else
  echo '{"status": "completed", "result": "it is planned"}'
fi"#;
    let scene = AipScene::with_args(&["--aip-planner=skill:planner"]).await;
    let _planner = scene.nodes.program("planner", planner).await;
    let _device = scene.device("desk").await;
    let sent = scene.send("aip:task", "Plan it").await;
    assert!(sent.status.success(), "{}", sent.all_output);
    assert!(sent.stdout.contains("it is planned"), "{}", sent.all_output);
    assert!(scene.folder().join("planned").exists());
    let constellation = scene.constellation("probe", "desk").await;
    let assigned = constellation.assign("desk", TaskRequest::new("t1", "Plan it"));
    let reply = within("the task ends", assigned).await.unwrap();
    assert_eq!(reply.result, Some(json!("it is planned")));
}
