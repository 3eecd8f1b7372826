//! Agents that are lost while tasks wait and are under way, and a hub that is lost.

use agentanycast_tests::{Daemon, bystander::Bystander, cli::anycast_json, eventually};
use serde_json::{Value, json};

use super::fleet::{Fleet, FleetAgent};

/// The task at the sender, once it has ended.
async fn ended(fleet: &Fleet, id: &str) -> Value {
    ended_at(&fleet.asker, id).await
}

/// The same of a task of this daemon.
async fn ended_at(daemon: &Daemon, id: &str) -> Value {
    eventually("the task ends", || async {
        let task = anycast_json(daemon, &["task", id]).await;
        ["completed", "failed"]
            .iter()
            .any(|status| task["status"] == *status)
            .then_some(task)
    })
    .await
}

#[tokio::test]
async fn an_agent_that_is_lost_fails_its_session_and_the_next_gets_what_waits() {
    let fleet = Fleet::start().await;
    let mut agent = fleet.agent("first").await;
    let running = fleet.post("uap:test:junit", "hold").await;
    agent.began().await;
    let waiting = fleet.post("uap:test:junit", "pass").await;
    eventually("it waits at the hub", || async {
        (fleet.hub_figure("waiting_tasks", "").await == 1).then_some(())
    })
    .await;
    drop(agent);
    let task = ended(&fleet, &running).await;
    assert_eq!(
        (&task["status"], &task["reason"]),
        (&json!("failed"), &json!("agent disconnected: first"))
    );
    assert_eq!(
        fleet.hub_figure("sessions_ended_total", "outcome=\"lost\"").await,
        1
    );
    let _second = fleet.agent("second").await;
    let task = ended(&fleet, &waiting).await;
    assert_eq!(task["status"], "completed", "{task:#}");
}

#[tokio::test]
async fn an_agent_connects_again_to_a_hub_that_was_killed() {
    let mut fleet = Fleet::start().await;
    let mut agent = fleet.agent("runner").await;
    fleet.hub.kill().await;
    fleet.hub.restart().await;
    // The relay still knows the fleet, so the task comes before the agent, or after it.
    let task = fleet.post("uap:test:junit", "pass").await;
    assert_eq!(agent.began().await.1, "pass");
    let task = ended(&fleet, &task).await;
    assert_eq!(task["status"], "completed", "{task:#}");
    assert_eq!(fleet.hub_figure("clients", "").await, 1);
}

/// The node's primary agent does not get a task for a type while no agent of that type is connected.
#[tokio::test]
async fn a_task_waits_for_an_agent_that_connects_again() {
    let mut fleet = Fleet::beside_another_agent().await;
    let other = Bystander::start(&fleet.hub).await;
    let agent = fleet.agent("runner").await;
    drop(agent);
    eventually("the skills go with the agent", || async {
        fleet
            .skills_at_relay()
            .await
            .iter()
            .all(|skill| skill == "other")
            .then_some(())
    })
    .await;
    let sent = [
        "send",
        "--skill",
        "--no-wait",
        "uap:test:junit",
        &fleet.suite("pass"),
    ];
    let sent = anycast_json(&fleet.hub, &sent).await;
    let id = sent["task_id"].as_str().unwrap();
    assert_eq!(
        anycast_json(&fleet.hub, &["task", id]).await["status"],
        "submitted"
    );
    let mut agent = FleetAgent::start("runner", fleet.hub_url());
    assert_eq!(agent.began().await.1, "pass");
    let task = ended_at(&fleet.hub, id).await;
    assert_eq!(task["status"], "completed", "{task:#}");

    fleet.hub.kill().await;
    drop(agent);
    fleet.hub.restart().await;
    let id = fleet.post("uap:test:junit", "pass").await;
    let mut agent = FleetAgent::start("runner", fleet.hub_url());
    assert_eq!(agent.began().await.1, "pass");
    let task = ended(&fleet, &id).await;
    assert_eq!(task["status"], "completed", "{task:#}");
    assert_eq!(other.tasks(), 0);
}

#[tokio::test]
async fn a_hub_that_is_killed_fails_what_was_under_way_and_keeps_what_waits() {
    survives_a_kill(Fleet::start().await).await;
}

#[tokio::test]
async fn so_does_one_that_is_not_the_primary_agent() {
    survives_a_kill(Fleet::beside_another_agent().await).await;
}

async fn survives_a_kill(mut fleet: Fleet) {
    let mut agent = fleet.agent("runner").await;
    let running = fleet.post("uap:test:junit", "hold").await;
    agent.began().await;
    let waiting = fleet.post("uap:test:junit", "pass").await;
    eventually("it waits at the hub", || async {
        (fleet.hub_figure("waiting_tasks", "").await == 1).then_some(())
    })
    .await;
    fleet.hub.kill().await;
    agent.cancelled().await;
    fleet.hub.restart().await;
    let task = ended(&fleet, &running).await;
    assert_eq!(
        (&task["status"], &task["reason"]),
        (
            &json!("failed"),
            &json!("agent disconnected: the hub was started again")
        )
    );
    // The agent connects again by itself.
    assert_eq!(agent.began().await.1, "pass");
    let task = ended(&fleet, &waiting).await;
    assert_eq!(task["status"], "completed", "{task:#}");
}
