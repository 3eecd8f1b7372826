//! A js-libp2p peer that lies, meddles and sends garbage: it is refused, and everybody else is served.

use agentanycast::TaskStatus;
use agentanycast_tests::{
    Daemon,
    agent::TestAgent,
    rpc::{self},
};
use serde_json::{Value, json};

use crate::js_peer::{JsPeer, artifact, envelope, send_task, task_of};

const A2A: &str = "/agentanycast/a2a/1.0";
use crate::js_libp2p::{busy_echo, result_of};

/// Nobody but the assignee may report on a task, and nobody but the originator may end or add to it.
#[tokio::test]
async fn a_stranger_is_refused() {
    let daemon = Daemon::builder().start().await;
    let node = daemon.node().await;
    let _agent = TestAgent::serve(&node, |task| async move {
        task.working("on it").await?;
        task.cancelled().cancelled().await;
        Ok(())
    });
    let mut owner = JsPeer::connected_to(&daemon).await;
    let mut stranger = JsPeer::connected_to(&daemon).await;
    let sent = send_task("mine");
    let id = task_of(&sent);
    owner.send(std::slice::from_ref(&sent)).await;
    owner.of_task("task_status_update", &id).await;
    let mut intrusion = send_task("me too");
    intrusion["send_task"]["task_id"] = json!(id);
    let attempts = [
        intrusion,
        envelope("task_cancel", json!({"task_id": id})),
        envelope(
            "task_complete",
            json!({"task_id": id, "artifacts": [artifact("forged")]}),
        ),
        envelope("task_fail", json!({"task_id": id, "error_message": "forged"})),
        envelope(
            "task_status_update",
            json!({"task_id": id, "status": "TASK_STATUS_CANCELED"}),
        ),
        envelope("task_cancel", json!({"task_id": "unknown"})),
    ];
    stranger.send(&attempts).await;
    for attempt in &attempts {
        let ack = stranger.ack_of(attempt).await;
        assert_eq!(ack["outcome"], "ACK_OUTCOME_REJECTED", "{attempt}");
        assert!(
            ack["reason"].as_str().is_some_and(|reason| !reason.is_empty()),
            "{ack}"
        );
    }
    let handle = node.task_handle(&id);
    let task = handle.snapshot().await.unwrap();
    assert_eq!(
        (
            task.status,
            task.artifacts.len(),
            task.messages[0].text_content().as_str()
        ),
        (TaskStatus::Working, 0, "mine")
    );
    // The owner may.
    let cancel = envelope("task_cancel", json!({"task_id": id}));
    owner.send(std::slice::from_ref(&cancel)).await;
    owner.ack_of(&cancel).await;
    assert_eq!(handle.snapshot().await.unwrap().status, TaskStatus::Canceled);
}

/// What no deployed peer would send: it is not acknowledged, and the next task is served as if nothing was.
#[tokio::test]
async fn garbage_does_no_harm() {
    let daemon = Daemon::builder().start().await;
    let _agent = busy_echo(&daemon.node().await);
    let mut peer = JsPeer::connected_to(&daemon).await;
    let raw = [
        "ffffffff",
        "01000001",
        "0100000100",
        "00000005ffffffffff",
        "00000010aabb",
        "00",
        "",
        "00000000",
        "474554202f20485454502f312e310d0a0d0a",
        "130000000000000000000000",
    ];
    for hex in raw {
        peer.tell(json!({"do": "raw", "protocol": A2A, "hex": hex}), "raw_done")
            .await;
    }
    let wrong = |changes: &[(&str, Value)]| {
        let mut envelope = send_task("wrong");
        for (name, value) in changes {
            if value.is_null() {
                envelope.as_object_mut().unwrap().remove(*name);
            } else {
                envelope[*name] = value.clone();
            }
        }
        envelope
    };
    let unacceptable = [
        wrong(&[("type", json!("ENVELOPE_TYPE_TASK_CANCEL"))]),
        wrong(&[("type", json!("ENVELOPE_TYPE_UNSPECIFIED"))]),
        wrong(&[("type", json!(77))]),
        wrong(&[("send_task", Value::Null)]),
        wrong(&[
            ("send_task", Value::Null),
            ("task_cancel", json!({"task_id": "x"})),
        ]),
    ];
    peer.send(&unacceptable).await;
    let nameless = wrong(&[("envelope_id", json!(""))]);
    peer.send(&[
        nameless,
        envelope("ack", json!({"acknowledged_envelope_id": "never sent"})),
    ])
    .await;
    let sent = send_task("after all that");
    peer.send(std::slice::from_ref(&sent)).await;
    peer.ack_of(&sent).await;
    let complete = peer.of_task("task_complete", &task_of(&sent)).await;
    assert_eq!(result_of(&complete), "echo: after all that");
    let acknowledged = |envelope: &Value| {
        let is_of =
            |heard: &(u64, Value)| heard.1["ack"]["acknowledged_envelope_id"] == envelope["envelope_id"];
        peer.received.iter().any(is_of)
    };
    for envelope in &unacceptable {
        assert!(!acknowledged(envelope), "{envelope} was acknowledged");
    }
}

/// At the bound of open tasks a peer is refused with a reason, and taken again later.
#[tokio::test]
async fn a_peer_is_refused_at_the_bound() {
    let daemon = Daemon::builder().config("max_open_tasks = 2\n").start().await;
    let mut rpc = daemon.rpc().await;
    let mut peer = JsPeer::connected_to(&daemon).await;
    let tasks = ["one", "two", "three"].map(send_task);
    peer.tell(json!({"do": "send_on_one", "envelopes": tasks}), "sent")
        .await;
    let refusal = peer.ack_of(&tasks[2]).await;
    assert_eq!(refusal["outcome"], "ACK_OUTCOME_REJECTED");
    assert!(
        refusal["reason"]
            .as_str()
            .is_some_and(|reason| !reason.is_empty()),
        "{refusal}"
    );
    rpc::complete(&mut rpc, &task_of(&tasks[0]), "x").await.unwrap();
    let later = send_task("four");
    peer.send(std::slice::from_ref(&later)).await;
    let taken = peer.ack_of(&later).await;
    assert_ne!(taken["outcome"], "ACK_OUTCOME_REJECTED", "{taken}");
}
