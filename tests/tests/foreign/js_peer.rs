//! The peer on js-libp2p, as tests drive it: what it is told, what it has heard, and envelopes as JSON.

use std::path::Path;

use agentanycast::PeerId;
use agentanycast_tests::{Daemon, TransportKind};
use serde_json::{Value, json};

use crate::{client_env::ClientEnv, script::ScriptProcess};

/// A peer that runs.
#[derive(Debug)]
pub(crate) struct JsPeer {
    _stage: ClientEnv,
    script: ScriptProcess,
    /// Who it is.
    pub(crate) id: PeerId,
    /// Where it listens, with its id.
    pub(crate) address: String,
    /// Every envelope that it has got, oldest first, with the number of the stream that it came on.
    pub(crate) received: Vec<(u64, Value)>,
}

impl JsPeer {
    /// Starts it.
    pub(crate) async fn start() -> Self {
        Self::run(None).await
    }

    /// Starts it behind a relay: it listens nowhere else, and has a place there.
    pub(crate) async fn behind(relay: &str) -> Self {
        Self::run(Some(relay)).await
    }

    async fn run(relay: Option<&str>) -> Self {
        let stage = ClientEnv::new(TransportKind::Tcp);
        let mut command = stage.node("peer.mjs");
        command
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/proto"))
            .args(relay);
        let mut script = ScriptProcess::start(command);
        let ready = script.json().await;
        assert_eq!(ready["event"], "ready");
        Self {
            _stage: stage,
            script,
            id: ready["peer_id"].as_str().unwrap().parse().unwrap(),
            address: ready["addresses"][0].as_str().unwrap().to_owned(),
            received: Vec::new(),
        }
    }

    /// Starts it and connects it to this daemon.
    pub(crate) async fn connected_to(daemon: &Daemon) -> Self {
        let mut peer = Self::start().await;
        peer.tell(json!({"do": "dial", "address": daemon.tcp()}), "dialed")
            .await;
        peer
    }

    /// Tells it something, and waits until it says that it is done.
    pub(crate) async fn tell(&mut self, what: Value, done: &str) -> Value {
        self.script.tell(&what).await;
        self.event(done).await
    }

    /// Sends envelopes, each on a stream of its own.
    pub(crate) async fn send(&mut self, envelopes: &[Value]) {
        self.tell(json!({"do": "send", "envelopes": envelopes}), "sent")
            .await;
    }

    /// The next event of this name; envelopes that come meanwhile are kept.
    pub(crate) async fn event(&mut self, name: &str) -> Value {
        loop {
            let event = self.next().await;
            if event["event"] == name {
                return event;
            }
        }
    }

    async fn next(&mut self) -> Value {
        let event = self.script.json().await;
        if event["event"] == "envelope" {
            self.received
                .push((event["stream"].as_u64().unwrap(), event["envelope"].clone()));
        }
        event
    }

    /// The first envelope, of those heard and those to come, that `wanted` gives a value for.
    pub(crate) async fn envelope<T>(&mut self, wanted: impl Fn(&Value) -> Option<T>) -> T {
        loop {
            if let Some(found) = self.received.iter().find_map(|(_, envelope)| wanted(envelope)) {
                return found;
            }
            self.next().await;
        }
    }

    /// The ACK of this envelope.
    pub(crate) async fn ack_of(&mut self, envelope: &Value) -> Value {
        let id = envelope["envelope_id"].clone();
        self.envelope(|heard| (heard["ack"]["acknowledged_envelope_id"] == id).then(|| heard["ack"].clone()))
            .await
    }

    /// The first envelope of this kind for this task.
    pub(crate) async fn of_task(&mut self, payload: &str, task_id: &str) -> Value {
        self.envelope(|heard| (heard[payload]["task_id"] == task_id).then(|| heard.clone()))
            .await
    }
}

/// An envelope; `payload` is the name of its field, from which its type follows.
#[allow(
    clippy::needless_pass_by_value,
    reason = "it is made by `json!` in every call"
)]
pub(crate) fn envelope(payload: &str, content: Value) -> Value {
    json!({
        "envelope_id": uuid::Uuid::new_v4().to_string(),
        "type": format!("ENVELOPE_TYPE_{}", payload.to_uppercase()),
        "timestamp": {"seconds": 1_700_000_000},
        payload: content,
    })
}

/// A new task of one text, as deployed peers send it; its id is `task_of` it.
pub(crate) fn send_task(text: &str) -> Value {
    let id = uuid::Uuid::new_v4().to_string();
    let message = json!({
        "message_id": uuid::Uuid::new_v4().to_string(),
        "role": "MESSAGE_ROLE_USER",
        "parts": [{"text_part": {"text": text}}],
    });
    envelope("send_task", json!({"task_id": id, "message": message}))
}

/// The task of a SEND_TASK.
pub(crate) fn task_of(envelope: &Value) -> String {
    envelope["send_task"]["task_id"].as_str().unwrap().to_owned()
}

/// An ACK; deployed peers leave the outcome out.
pub(crate) fn ack(of: &Value) -> Value {
    envelope("ack", json!({"acknowledged_envelope_id": of["envelope_id"]}))
}

/// An artifact of one text.
pub(crate) fn artifact(text: &str) -> Value {
    json!({"artifact_id": "a", "name": "result", "parts": [{"text_part": {"text": text}}]})
}
