//! Devices as those in use are: they drop a batch with an unknown tool or agent and answer nothing.

use agentanycast_aip::transport::{Connector as _, WireFrame};
use agentanycast_gateway::fake::{TWO_AGENTS, agents::FakeEnd};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use crate::fixture::{TestGateway, data, soon, text};

/// A device with the tool `say`, and from its second list on with `later`. The list of the agent `Broken` fails.
async fn silent_device(gateway: &TestGateway, id: &'static str) -> AbortOnDropHandle<()> {
    let mut device = gateway.endpoint().connect().await.unwrap();
    let register = json!({ "type": "register", "status": "ok", "client_id": id });
    let frame = WireFrame::Text(register.to_string());
    device.sender.send(frame).await.unwrap();
    let running = tokio::spawn(async move {
        let mut lists = 0;
        while let Some(Ok(WireFrame::Text(frame))) = device.receiver.receive().await {
            let command: Value = serde_json::from_str(&frame).unwrap();
            if command["type"] != "command" {
                continue;
            }
            let actions = command["actions"].as_array().unwrap();
            let is_list = actions[0]["tool_name"] == "list_tools";
            lists += u32::from(is_list);
            let result = if command["agent_name"] == "Broken" {
                json!({ "status": "failure", "error": "no such agent" })
            } else if is_list {
                let names: &[&str] = if lists > 1 { &["say", "later"] } else { &["say"] };
                let tools = names.iter().map(|name| {
                    let required = json!({ "type": "object", "required": ["text", "times"] });
                    json!({
                        "tool_key": format!("action::{name}"), "tool_name": name, "tool_type": "action",
                        "input_schema": required,
                    })
                });
                json!({ "status": "success", "result": tools.collect::<Vec<_>>() })
            } else if actions.iter().all(|action| action["tool_name"] != "nope") {
                let said = actions[0]["parameters"]["text"].as_str().unwrap_or("done");
                let status = actions[0]["parameters"]["status"].as_str().unwrap_or("success");
                json!({ "status": status, "result": said })
            } else {
                continue;
            };
            let results = vec![result; actions.len()];
            let answer = json!({
                "type": "command_results", "status": "completed", "client_id": id,
                "prev_response_id": command["response_id"], "action_results": results,
            });
            // As Python writes a number that is none, and half an emoji.
            let answer = answer.to_string();
            let answer = answer.replace("\"NAN\"", "NaN").replace("HALF", "\\ud83d");
            let answer = WireFrame::Text(answer);
            device.sender.send(answer).await.unwrap();
        }
    });
    gateway.has_skill(&format!("aip:{id}:say")).await;
    AbortOnDropHandle::new(running)
}

fn batch(tools: &[&str]) -> Value {
    let actions: Vec<_> = tools.iter().map(|tool| json!({ "tool_name": tool })).collect();
    json!({ "actions": actions })
}

#[tokio::test]
async fn a_batch_with_an_unknown_tool_is_refused_and_holds_nothing() {
    let gateway = TestGateway::start().await;
    let _device = silent_device(&gateway, "d").await;
    gateway.give("unknown", "aip:command", data(&batch(&["say", "nope"])));
    gateway.give("known", "aip:command", data(&batch(&["say"])));
    let reason = gateway.reason_of("unknown").await;
    assert_eq!(
        reason,
        "rejected: device 'd' has no tool 'nope' for its agent 'LinuxAgent'; it has: say, later"
    );
    let results = gateway.result_of("known").await;
    assert_eq!(results["results"][0]["status"], "success");
}

#[tokio::test]
async fn results_that_cannot_be_read_fail_their_task_at_once() {
    let gateway = TestGateway::start().await;
    let _device = silent_device(&gateway, "d").await;
    gateway.give("half", "aip:d:say", data(&json!({ "text": "HALF" })));
    assert_eq!(gateway.result_of("half").await, json!("\u{fffd}"));
    for (id, parameters, shown) in [
        ("nan", json!({ "text": "NAN" }), "NaN"),
        ("odd", json!({ "status": "odd" }), "\"odd\""),
    ] {
        gateway.give(id, "aip:d:say", data(&parameters));
        let reason = gateway.reason_of(id).await;
        assert!(
            reason.contains("its results cannot be read") && reason.contains(shown),
            "{reason}"
        );
    }
}

#[tokio::test]
async fn a_tool_that_came_after_the_registration_is_found_and_becomes_a_skill() {
    let gateway = TestGateway::start().await;
    let _device = silent_device(&gateway, "d").await;
    gateway.give("t", "aip:command", data(&batch(&["later", "list_tools"])));
    assert_eq!(gateway.result_of("t").await["results"][0]["status"], "success");
    gateway.has_skill("aip:d:later").await;
}

#[tokio::test]
async fn an_agent_whose_tools_are_not_listed_gets_no_commands() {
    let gateway = TestGateway::start().await;
    let _device = silent_device(&gateway, "d").await;
    let mut ghost = batch(&["nope"]);
    ghost["agent_name"] = "Broken".into();
    gateway.give("t", "aip:command", data(&ghost));
    let reason = gateway.reason_of("t").await;
    assert!(
        reason.contains("does not list the tools of its agent 'Broken'") && reason.contains("no such agent"),
        "{reason}"
    );
}

#[tokio::test]
async fn a_planner_sees_that_a_tool_is_unknown() {
    let gateway = TestGateway::with(agentanycast_aip_gateway::settings::AipSettings {
        planner: format!("{TWO_AGENTS}/two"),
        ..Default::default()
    })
    .await;
    let _device = silent_device(&gateway, "d").await;
    gateway.give("t", "aip:task", text("nope"));
    let reason = gateway.reason_of("t").await;
    assert!(reason.contains("has no tool 'nope'"), "{reason}");
}

#[tokio::test]
async fn text_for_several_required_parameters_is_refused_with_their_names() {
    let gateway = TestGateway::start().await;
    let _device = silent_device(&gateway, "d").await;
    gateway.give("t", "aip:d:say", text("hello"));
    let end = soon(gateway.agents.end_of("t")).await;
    assert!(
        matches!(&end, FakeEnd::Failed(reason) if reason.ends_with("it requires: text, times")),
        "{end:?}"
    );
}
