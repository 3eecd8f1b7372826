//! A hub that is joined: its sessions are done by agents of the mesh.

use std::sync::Arc;

use agentanycast_gateway::fake::{FakeGateway, TWO_AGENTS, agents::FakeEnd};
use agentanycast_proto::v1 as mesh;
use agentanycast_uap_hub_gateway::settings::{JoinEntry, SessionCount, UapHubSettings};
use mesh::part::Content;

use crate::fixture::{TestHub, file, reason, task};

/// A node that joins a hub with agents of this target.
async fn joined(hub: &TestHub, target: &str) -> TestHub {
    let join = JoinEntry {
        url: hub.url().to_owned(),
        target: target.to_owned(),
        name: "mesh".to_owned(),
        test: vec!["junit".to_owned()],
        translate: vec!["playwright-py".to_owned()],
        sessions: SessionCount::new(4).unwrap(),
        ca_file: None,
        client_cert: None,
        client_key: None,
        token_file: None,
    };
    let settings = UapHubSettings {
        join: vec![join],
        ..UapHubSettings::default()
    };
    let node = TestHub::on_node(settings, Arc::new(FakeGateway::default())).await;
    hub.has_skill("uap:test:junit").await;
    node
}

fn text(text: &str) -> mesh::Part {
    mesh::Part {
        content: Some(Content::TextPart(mesh::TextPart {
            text: text.to_owned(),
        })),
        ..mesh::Part::default()
    }
}

#[tokio::test]
async fn sessions_of_a_joined_hub_are_tasks_of_an_agent() {
    let hub = TestHub::start().await;
    let _node = joined(&hub, &format!("{TWO_AGENTS}/two")).await;
    // The agent repeats what it is sent.
    hub.give("t", "junit");
    let FakeEnd::Completed(artifacts, _) = hub.end_of("t").await else {
        panic!("it has not completed")
    };
    let attached = artifacts
        .iter()
        .find(|artifact| artifact.name == "suite.xml")
        .unwrap();
    let Some(Content::RawPart(raw)) = &attached.parts[0].content else {
        panic!()
    };
    assert_eq!(raw.data, b"<suite/>");
    hub.agents.give(task(
        "tr",
        "uap:translate:playwright-py",
        vec![file("a.java", b"class A {}")],
    ));
    let FakeEnd::Completed(artifacts, _) = hub.end_of("tr").await else {
        panic!("it has not completed")
    };
    let translated = artifacts
        .iter()
        .find(|artifact| artifact.name == "a.java")
        .unwrap();
    assert_eq!(translated.parts.len(), 1);
}

#[tokio::test]
async fn what_an_agent_cannot_do_ends_the_session_with_the_reason() {
    let hub = TestHub::start().await;
    let _node = joined(&hub, &format!("{TWO_AGENTS}/three")).await;
    hub.give("t", "junit");
    let told = reason(hub.end_of("t").await);
    assert!(told.contains("three"), "{told}");
}

#[tokio::test]
async fn a_session_that_is_ended_cancels_the_task_and_a_question_ends_it() {
    let hub = TestHub::start().await;
    let _node = joined(&hub, TWO_AGENTS).await;
    let wait = mesh::Part {
        metadata: [("uap.type".to_owned(), "text".to_owned())].into(),
        ..text("wait")
    };
    hub.agents.give(task("t", "uap:test:junit", vec![wait]));
    hub.until_figure("uap_hub_sessions", "open", 1).await;
    hub.agents.cancel("t");
    hub.until_figure("uap_hub_sessions", "open", 0).await;
    assert_eq!(hub.end_of("t").await, FakeEnd::Canceled);
    hub.give("next", "junit");
    assert!(matches!(hub.end_of("next").await, FakeEnd::Completed(..)));
}
