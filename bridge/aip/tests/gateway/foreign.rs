//! An agent of the mesh as a device of a foreign service, which another gateway is here.

use std::io::Write as _;

use agentanycast_aip_gateway::settings::{AipSettings, DeviceEntrySetting};
use agentanycast_gateway::fake::TWO_AGENTS;
use serde_json::json;

use crate::fixture::{TOKEN, TestGateway, data, soon};

#[tokio::test]
async fn commands_of_a_foreign_service_are_tasks_of_an_agent() {
    let service = TestGateway::start().await;
    let mut token = tempfile::NamedTempFile::new().unwrap();
    writeln!(token, "{TOKEN}").unwrap();
    let node = TestGateway::with(AipSettings {
        devices: vec![DeviceEntrySetting {
            url: service.url(),
            client_id: "mesh".to_owned(),
            target: format!("{TWO_AGENTS}/one"),
            agent_names: vec!["LinuxAgent".to_owned()],
            token_file: Some(token.path().to_owned()),
            ca_file: None,
        }],
        ..AipSettings::default()
    })
    .await;
    soon(
        service
            .agents
            .until(|agents| agents.attached().contains("aip.mesh").then_some(())),
    )
    .await;
    let action = json!({ "tool_name": "look", "parameters": { "at": "x" } });
    let batch = |agent: &str| data(&json!({ "agent_name": agent, "actions": [action] }));
    service.give("t", "aip:command", batch("LinuxAgent"));
    // The agent repeats what it is sent.
    let result = service.result_of("t").await;
    assert_eq!(
        result["results"][0]["result"],
        json!({ "name": "look", "arguments": { "at": "x" } })
    );
    service.give("u", "aip:command", batch("AppAgent"));
    let result = service.result_of("u").await;
    assert_eq!(result["results"][0]["status"], "failure");
    node.running.stop().await;
}
