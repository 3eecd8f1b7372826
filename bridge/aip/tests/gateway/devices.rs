//! Devices as agents of the node.

use std::time::Duration;

use agentanycast_aip::{
    endpoints::{ClientError, ClosureTools, DeviceClient, DeviceClientSettings},
    resilience::ReconnectPolicy,
    transport::{Connector as _, WireFrame},
};
use agentanycast_aip_gateway::settings::AipSettings;
use agentanycast_gateway::fake::agents::FakeEnd;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::fixture::{TWO_SECONDS, TestDevice, TestGateway, data, soon, text};

#[tokio::test]
async fn a_device_is_an_agent_with_its_tools_as_skills() {
    let gateway = TestGateway::start().await;
    let _device = gateway.device("linux1").await;
    assert!(gateway.agents.attached().contains("aip.linux1"));
    let skill = gateway.has_skill("aip:linux1:say").await;
    assert!(skill.input_schema.contains("\"text\""), "{}", skill.input_schema);
    assert_eq!(skill.tags["platform"], std::env::consts::OS);
    assert_eq!(skill.tags["feature.cli"], "true");
    let ids: Vec<String> = gateway
        .agents
        .card()
        .skills
        .into_iter()
        .map(|skill| skill.id)
        .collect();
    assert!(ids.contains(&"aip:command".to_owned()) && !ids.contains(&"aip:task".to_owned()));
}

#[tokio::test]
async fn a_task_for_a_tool_is_a_command() {
    let gateway = TestGateway::start().await;
    let _device = gateway.device("d").await;
    gateway.give("t", "aip:d:say", data(&json!({ "text": "hello" })));
    assert_eq!(gateway.result_of("t").await, json!({ "said": "hello" }));
    assert!(gateway.agents.task("t").claimed);
    gateway.give("j", "aip:d:say", text(r#"{"text": "as text"}"#));
    assert_eq!(gateway.result_of("j").await, json!({ "said": "as text" }));
    gateway.give("p", "aip:d:repeat", text("plain"));
    assert_eq!(gateway.result_of("p").await, json!("plain"));
    gateway.give("f", "aip:d:fail", data(&json!({})));
    assert_eq!(gateway.reason_of("f").await, "it failed");
    gateway.give("w", "aip:d:say", text("not an object"));
    assert!(gateway.reason_of("w").await.contains("as a JSON object"));
    gateway.give("n", "aip:d:nothing", data(&json!({})));
    assert!(gateway.reason_of("n").await.contains("no skill 'aip:d:nothing'"));
    assert!(!gateway.agents.task("n").claimed);
}

#[tokio::test]
async fn a_large_result_is_streamed() {
    let gateway = TestGateway::start().await;
    let _device = gateway.device("d").await;
    gateway.give("t", "aip:d:large", data(&json!({})));
    assert_eq!(gateway.end_of("t").await, FakeEnd::Completed(Vec::new(), None));
    let streams = gateway.agents.task("t").streams;
    assert_eq!(
        (streams[0].0.as_str(), streams[0].2.len()),
        ("result.txt", 4 << 20)
    );
}

#[tokio::test]
async fn files_that_a_device_sends_are_artifacts_of_its_task() {
    let gateway = TestGateway::start().await;
    let mut device = gateway.device("d").await;
    gateway.give("t", "aip:d:hang", data(&json!({})));
    device.called("hang").await;
    let log: Bytes = (0..3 << 20).map(|at| (at / 251) as u8).collect::<Vec<_>>().into();
    let sent = device
        .handle
        .send_file("log.txt", Some("text/plain"), log.clone());
    soon(sent).await.unwrap();
    let shot = device
        .handle
        .send_payload(Bytes::from_static(b"png"), Some("shot.png"), Some("image/png"));
    soon(shot).await.unwrap();
    let streams = soon(gateway.agents.until(|agents| {
        let streams = agents.task("t").streams;
        (streams.len() == 2).then_some(streams)
    }))
    .await;
    assert_eq!(
        (streams[0].0.as_str(), streams[0].1.as_str()),
        ("log.txt", "text/plain")
    );
    assert!(streams[0].2 == log);
    assert_eq!(
        (streams[1].0.as_str(), streams[1].2.as_slice()),
        ("shot.png", &b"png"[..])
    );
}

#[tokio::test]
async fn a_file_without_a_task_is_refused_and_the_device_stays() {
    let gateway = TestGateway::start().await;
    let mut device = gateway.endpoint().connect().await.unwrap();
    let mut say = async |frame: Value| {
        let frame = WireFrame::Text(frame.to_string());
        device.sender.send(frame).await.unwrap();
        let WireFrame::Text(answer) = soon(device.receiver.receive()).await.unwrap().unwrap() else {
            panic!("a frame that is no text");
        };
        answer
    };
    let register = json!({ "type": "register", "status": "ok", "client_id": "d" });
    assert!(say(register).await.contains("heartbeat"));
    // It is asked for its tools.
    let heartbeat = || json!({ "type": "heartbeat", "status": "ok", "client_id": "d" });
    say(heartbeat()).await;
    let start = json!({
        "type": "file_transfer_start", "filename": "a", "size": 3, "chunk_size": 3, "total_chunks": 1,
    });
    let answers = [say(start).await, say(heartbeat()).await];
    assert!(
        answers.concat().contains("no task of the mesh is under way"),
        "{answers:?}"
    );
}

#[tokio::test]
async fn a_batch_runs_in_order_and_skips_the_rest_after_a_failure() {
    let gateway = TestGateway::start().await;
    let device = gateway.device("d").await;
    let batch = |tools: &[&str]| {
        let actions: Vec<_> = tools
            .iter()
            .enumerate()
            .map(|(at, tool)| json!({ "tool_name": tool, "parameters": {}, "call_id": at.to_string() }))
            .collect();
        data(&json!({ "agent_name": "LinuxAgent", "actions": actions }))
    };
    gateway.give("five", "aip:command", batch(&["say"; 5]));
    let results = gateway.result_of("five").await;
    let results = results["results"].as_array().unwrap();
    let ids: Vec<&str> = results
        .iter()
        .map(|result| result["call_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["0", "1", "2", "3", "4"]);
    assert!(results.iter().all(|result| result["status"] == "success"));
    gateway.give("fails", "", batch(&["say", "fail", "say", "say", "say"]));
    let results = gateway.result_of("fails").await;
    let statuses: Vec<&str> = (0..5)
        .map(|at| results["results"][at]["status"].as_str().unwrap())
        .collect();
    assert_eq!(statuses, ["success", "failure", "skipped", "skipped", "skipped"]);
    assert_eq!(device.calls.lock().unwrap().len(), 7);
}

#[tokio::test]
async fn a_device_that_is_gone_fails_its_task_and_is_forgotten_later() {
    let gateway = TestGateway::with(AipSettings {
        device_grace: Duration::from_millis(300),
        ..AipSettings::default()
    })
    .await;
    let device = gateway.device("d").await;
    gateway.give("t", "aip:d:hang", data(&json!({})));
    device.called("hang").await;
    drop(device);
    let gone = Instant::now();
    let end = timeout(TWO_SECONDS, gateway.agents.end_of("t")).await.unwrap();
    assert!(
        matches!(&end, FakeEnd::Failed(reason) if reason.contains("disconnected")),
        "{end:?}"
    );
    let detached = gateway
        .agents
        .until(|agents| (!agents.attached().contains("aip.d")).then_some(()));
    timeout(TWO_SECONDS, detached).await.unwrap();
    assert!(gone.elapsed() < TWO_SECONDS);
    soon(
        gateway
            .agents
            .until(|agents| agents.forgotten().contains("aip.d").then_some(())),
    )
    .await;
}

#[tokio::test]
async fn a_cancelled_task_frees_the_turn_and_others_wait_for_it() {
    let gateway = TestGateway::start().await;
    let device = gateway.device("d").await;
    gateway.give("first", "aip:d:hang", data(&json!({})));
    device.called("hang").await;
    gateway.give("second", "aip:d:nothing", data(&json!({})));
    assert_eq!(gateway.agents.task("second").end, None);
    gateway.agents.cancel("first");
    assert!(gateway.reason_of("second").await.contains("rejected"));
}

#[tokio::test]
async fn devices_above_the_limit_are_refused() {
    let gateway = TestGateway::with(AipSettings {
        max_agents: 1,
        ..AipSettings::default()
    })
    .await;
    let _first = gateway.device("one").await;
    let settings = DeviceClientSettings {
        reconnect: ReconnectPolicy {
            waits: None,
            tries: 0,
        },
        ..DeviceClientSettings::new("two")
    };
    let second = DeviceClient::new(
        gateway.endpoint(),
        settings,
        std::sync::Arc::new(ClosureTools::new()),
    );
    let refused: ClientError = soon(second.run(CancellationToken::new())).await.unwrap_err();
    assert!(refused.to_string().contains("max_agents"), "{refused}");
}

#[tokio::test]
async fn an_id_that_is_no_name_is_one_with_a_digest() {
    let gateway = TestGateway::start().await;
    let _device = TestDevice::connect(&gateway, "Linux 1").await;
    gateway.has_skill("aip:Linux 1:say").await;
    assert!(gateway.agents.attached().contains("aip.linux-1-2100c3f0"));
}
