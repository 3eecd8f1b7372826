//! A hub that another node joins: its sessions are done by a program there, as tasks of the mesh.

use agentanycast_tests::{Daemon, cli::anycast_json, eventually};
use serde_json::json;

use super::fleet::{Fleet, artifact, task_of};

#[tokio::test]
async fn sessions_of_a_joined_hub_are_done_by_an_agent_of_the_node() {
    let fleet = Fleet::start().await;
    let settings = format!(
        r#"
        [[agents.run]]
        name = "upper"
        command = ["sh", "-c", 'cat "$ANYCAST_INPUT_DIR/suite.xml" | tr a-z A-Z']
        [[agents.run]]
        name = "broken"
        command = ["sh", "-c", "echo no display >&2; exit 3"]
        [[gateways.uap-hub.join]]
        url = "{0}"
        target = "self/upper"
        test = ["junit"]
        [[gateways.uap-hub.join]]
        url = "{0}"
        target = "self/broken"
        name = "broken"
        test = ["selenium"]
        "#,
        fleet.hub_url()
    );
    let node = Daemon::builder()
        .gateway("uap-hub")
        .config(&settings)
        .start()
        .await;
    fleet.until_found().await;
    let sent = fleet.send_with("uap:test:junit", "quiet", &["--json"]).await;
    assert!(sent.status.success(), "{}", sent.all_output);
    let task = task_of(&sent);
    assert_eq!(task["assignee"], fleet.hub.peer_id().as_str());
    let answer = artifact(&task, "report");
    assert_eq!(answer["parts"][0]["data"]["status"], "COMPLETED");
    let answered = task["artifacts"].as_array().unwrap().iter();
    // The report is a file too.
    let files: Vec<_> = answered
        .filter(|artifact| artifact["name"] != "report")
        .filter_map(|artifact| artifact["files"][0].as_str())
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect();
    assert_eq!(files, ["QUIET"]);
    // There it was a task as any other, of the agent that was named.
    let tasks = anycast_json(&node, &["tasks"]).await;
    let done = tasks.to_string();
    assert!(
        done.contains("\"upper\"") && done.contains("uap.session_type"),
        "{tasks:#}"
    );
    // What goes wrong there is said here.
    eventually("the other type is there", || async {
        fleet
            .skills_at_relay()
            .await
            .contains(&"uap:test:selenium".to_owned())
            .then_some(())
    })
    .await;
    let sent = fleet.send_with("uap:test:selenium", "quiet", &["--json"]).await;
    let task = task_of(&sent);
    assert_eq!(task["status"], json!("failed"));
    assert!(
        task["reason"].as_str().unwrap().contains("no display"),
        "{task:#}"
    );
    // The node goes, and its skills with it.
    drop(node);
    eventually("the skills are gone", || async {
        fleet.skills_at_relay().await.is_empty().then_some(())
    })
    .await;
}
