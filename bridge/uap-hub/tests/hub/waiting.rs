//! Tasks that wait: their order, whom they are given to, and what a stop leaves.

use agentanycast_gateway::fake::agents::{FakeAgents, FakeEnd};
use agentanycast_proto::v1 as mesh;
use agentanycast_uap_hub::v1::{PayloadRequirement, TestState, capability::Format};
use agentanycast_uap_hub_gateway::{
    capability::{Domain, Kind},
    settings::{SessionCount, SkillRetries, UapHubSettings},
};

use crate::fixture::{TestClient, TestHub, reason, registration, soon, task};

#[tokio::test]
async fn tasks_wait_for_a_busy_agent_in_their_order() {
    let hub = TestHub::start().await;
    let mut client = hub.client("runner", "junit").await;
    for id in ["1", "2", "3"] {
        hub.give(id, "junit");
    }
    for id in ["1", "2", "3"] {
        client.complete().await;
        assert!(matches!(hub.end_of(id).await, FakeEnd::Completed(..)));
    }
    assert_eq!(hub.figure("uap_hub_proposals", "accepted"), 3);
}

#[tokio::test]
async fn a_refusal_asks_the_next_agent_and_the_last_one_rejects() {
    let hub = TestHub::start().await;
    let mut first = hub.client("first", "junit").await;
    let mut second = hub.client("second", "junit").await;
    hub.until_figure("uap_hub_clients", "", 2).await;
    hub.give("t", "junit");
    let session = first.proposal().await;
    first.answer(&session, false, "no display").await;
    let session = second.proposal().await;
    second.answer(&session, false, "no java").await;
    assert_eq!(reason(hub.end_of("t").await), "rejected: second refused: no java");
    assert_eq!(hub.figure("uap_hub_proposals", "refused"), 2);
    assert!(!hub.agents.task("t").claimed);
}

#[tokio::test]
async fn a_busy_agent_with_several_slots_says_so() {
    let hub = TestHub::with(UapHubSettings {
        sessions_per_client: SessionCount::new(2).unwrap(),
        ..UapHubSettings::default()
    })
    .await;
    let mut client = hub.client("runner", "junit").await;
    hub.give("1", "junit");
    let stream = client.begin().await;
    hub.give("2", "junit");
    let session = client.proposal().await;
    client.answer(&session, false, "busy").await;
    hub.until_figure("uap_hub_proposals", "busy", 1).await;
    stream.status(TestState::Completed, "").await;
    drop(stream.says);
    client.complete().await;
    assert!(matches!(hub.end_of("2").await, FakeEnd::Completed(..)));
}

#[tokio::test]
async fn what_a_capability_needs_is_checked_before_anything_is_proposed() {
    let hub = TestHub::start().await;
    let mut needs = registration("runner", "junit");
    let Some(Format::Test(test)) = &mut needs.capabilities[0].format else {
        panic!()
    };
    test.payloads.push(PayloadRequirement {
        r#type: "suite".to_owned(),
        is_required: true,
        accepted_mime_types: vec!["text/xml".to_owned()],
        ..PayloadRequirement::default()
    });
    let mut client = TestClient::register(hub.connect().await, needs).await;
    client.listen().await;
    let skill = hub.has_skill("uap:test:junit").await;
    assert!(skill.input_schema.contains("\"suite\""), "{}", skill.input_schema);
    hub.agents.give(task("none", "uap:test:junit", Vec::new()));
    let told = reason(hub.end_of("none").await);
    assert_eq!(told, "rejected: payload suite (text/xml) is required and missing");
    hub.give("t", "junit");
    let session = client.accept().await;
    let mut stream = client.execute(&session).await.unwrap();
    assert_eq!(stream.init().await.payloads[0].r#type, "suite");
}

#[tokio::test]
async fn a_task_for_no_skill_of_the_hub_is_told_which_there_are() {
    let hub = TestHub::start().await;
    let _client = hub.client("runner", "junit").await;
    hub.agents.give(task("t", "", Vec::new()));
    let told = reason(hub.end_of("t").await);
    assert_eq!(
        told,
        "rejected: the task names no skill of the hub; there are: uap:test:junit"
    );
}

#[tokio::test]
async fn a_lost_session_is_given_again_as_often_as_its_skill_says() {
    let hub = TestHub::with(UapHubSettings {
        retry: vec![SkillRetries {
            kind: Kind::new(Domain::Test, "junit"),
            times: 1,
        }],
        ..UapHubSettings::default()
    })
    .await;
    let mut first = hub.client("first", "junit").await;
    hub.give("t", "junit");
    let stream = first.begin().await;
    drop((first, stream));
    let mut second = hub.client("second", "junit").await;
    let stream = second.begin().await;
    drop((second, stream));
    assert_eq!(reason(hub.end_of("t").await), "agent disconnected: second");
    assert_eq!(hub.figure("uap_hub_sessions_ended", "lost"), 2);
}

#[tokio::test]
async fn a_stop_fails_what_is_under_way_and_lets_go_of_what_waits() {
    let hub = TestHub::start().await;
    let mut client = hub.client("runner", "junit").await;
    hub.give("running", "junit");
    let _stream = client.begin().await;
    hub.give("waiting", "junit");
    hub.until_figure("uap_hub_waiting_tasks", "", 1).await;
    let agents = hub.agents.clone();
    drop(client);
    soon(hub.running.stop()).await;
    let told = reason(soon(agents.end_of("running")).await);
    assert!(told.starts_with("agent disconnected"), "{told}");
    let waiting = agents.task("waiting");
    assert!(
        waiting.left && waiting.end.is_none() && !waiting.claimed,
        "{waiting:?}"
    );
}

#[tokio::test]
async fn what_was_under_way_when_the_hub_was_killed_ends_or_is_given_again() {
    let agents = FakeAgents::default();
    let waiting = |id: &str, skill: &str| task(id, skill, Vec::new());
    let begun = |id: &str, skill: &str| {
        let mut task = waiting(id, skill);
        task.messages.push(mesh::Message {
            role: mesh::MessageRole::Agent.into(),
            ..mesh::Message::default()
        });
        task
    };
    agents.leave_unfinished(begun("ends", "uap:test:junit"));
    agents.leave_unfinished(begun("again", "uap:test:selenium"));
    agents.leave_unfinished(waiting("waits", "uap:test:playwright"));
    let settings = UapHubSettings {
        retry: vec![SkillRetries {
            kind: Kind::new(Domain::Test, "selenium"),
            times: 1,
        }],
        ..UapHubSettings::default()
    };
    let hub = TestHub::on_agents(settings, agents).await;
    assert_eq!(
        reason(hub.end_of("ends").await),
        "agent disconnected: the hub was started again"
    );
    for (id, kind) in [("again", "selenium"), ("waits", "playwright")] {
        hub.client("runner", kind).await.complete().await;
        assert!(matches!(hub.end_of(id).await, FakeEnd::Completed(..)), "{id}");
    }
}
