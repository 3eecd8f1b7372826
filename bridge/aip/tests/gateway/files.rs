//! Files of a device that break off, and those that come after them.

use agentanycast_aip::{
    protocol::file_frames,
    transport::{Connector as _, Transport, WireFrame},
};
use agentanycast_aip_gateway::settings::AipSettings;
use agentanycast_gateway::fake::agents::FakeEnd;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::fixture::{TestGateway, data, soon};

/// A device of frames, which has no tools.
struct FrameDevice {
    gateway: TestGateway,
    transport: Transport,
}

impl FrameDevice {
    async fn connect() -> Self {
        let gateway = TestGateway::with(AipSettings {
            agent_names: Vec::new(),
            ..AipSettings::default()
        })
        .await;
        let transport = gateway.endpoint().connect().await.unwrap();
        let mut device = Self { gateway, transport };
        device
            .say(&json!({ "type": "register", "status": "ok", "client_id": "d" }))
            .await;
        assert_eq!(device.heard().await["type"], "heartbeat");
        device
    }

    async fn send(&mut self, frames: Vec<WireFrame>) {
        for frame in frames {
            self.transport.sender.send(frame).await.unwrap();
        }
    }

    async fn say(&mut self, message: &Value) {
        self.send(vec![WireFrame::Text(message.to_string())]).await;
    }

    async fn heard(&mut self) -> Value {
        match soon(self.transport.receiver.receive()).await.unwrap().unwrap() {
            WireFrame::Text(text) => serde_json::from_str(&text).unwrap(),
            WireFrame::Binary(_) => panic!("a frame that is no text"),
        }
    }

    /// Gives the device a task; the id that its results answer.
    async fn begin(&mut self, task: &str) -> Value {
        let actions = json!({ "agent_name": "A", "actions": [{ "tool_name": "work", "parameters": {} }] });
        self.gateway.give(task, "aip:command", data(&actions));
        let command = self.heard().await;
        assert_eq!(command["type"], "command");
        command["response_id"].clone()
    }

    /// Says that the command succeeded.
    async fn done(&mut self, response_id: Value) {
        let results = json!({
            "type": "command_results", "status": "continue", "prev_response_id": response_id,
            "action_results": [{ "status": "success", "result": "done" }],
        });
        self.say(&results).await;
    }
}

#[tokio::test]
async fn a_file_with_a_wrong_checksum_fails_its_task_with_the_reason() {
    let mut device = FrameDevice::connect().await;
    let command = device.begin("t").await;
    for frames in file_frames("a.txt", None, Bytes::from_static(b"right")) {
        let changed = frames.into_iter().map(|frame| match frame {
            WireFrame::Binary(_) => WireFrame::Binary(Bytes::from_static(b"wrong")),
            text @ WireFrame::Text(_) => text,
        });
        device.send(changed.collect()).await;
    }
    let refusal = device.heard().await;
    let refusal = refusal["error"].as_str().unwrap();
    assert!(
        refusal.contains("checksum") && !refusal.contains("again"),
        "{refusal}"
    );
    // A second, whole file does not mend the task.
    for frames in file_frames("a.txt", None, Bytes::from_static(b"right")) {
        device.send(frames).await;
    }
    device.done(command).await;
    let reason = device.gateway.reason_of("t").await;
    assert!(
        reason.starts_with("file 'a.txt' broke off: the checksum of \"a.txt\" is"),
        "{reason}"
    );
    let command = device.begin("next").await;
    device.done(command).await;
    assert_eq!(
        device.gateway.result_of("next").await["results"][0]["result"],
        "done"
    );
}

#[tokio::test]
async fn a_file_that_is_open_when_the_results_come_fails_its_task_and_not_the_next_file() {
    let mut device = FrameDevice::connect().await;
    let command = device.begin("left-open").await;
    let whole = Bytes::from(vec![7; 3 << 20]);
    for frames in file_frames("big.bin", None, whole.clone()).take(2) {
        device.send(frames).await;
    }
    device.done(command).await;
    assert_eq!(
        device.gateway.reason_of("left-open").await,
        "file 'big.bin' broke off: the results came before the file was complete"
    );
    let command = device.begin("next").await;
    for frames in file_frames("b.bin", None, whole.clone()) {
        device.send(frames).await;
    }
    device.done(command).await;
    let end = device.gateway.end_of("next").await;
    assert!(matches!(end, FakeEnd::Completed(..)), "{end:?}");
    let streams = device.gateway.agents.task("next").streams;
    assert_eq!((streams.len(), streams[0].0.as_str()), (1, "b.bin"));
    assert!(streams[0].2 == whole);
}
