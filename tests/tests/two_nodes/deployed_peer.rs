//! A peer as it is deployed: it has one card, names no agent in what it sends, and knows nothing of several agents on a node.

use agentanycast_proto::v1::{A2aEnvelope, TaskStatus, a2a_envelope::Payload};
use agentanycast_tests::{
    Daemon,
    agent::TestAgent,
    raw_peer::{RawPeer, ack, card, envelope, send_task, task_of},
    rpc,
};
use prost::Message as _;

/// What the peer is told when the task has completed, or why it ended otherwise.
fn end_of(heard: &A2aEnvelope, task: &str) -> Option<String> {
    match &heard.payload {
        Some(Payload::TaskComplete(done)) if done.task_id == task => Some(
            done.artifacts
                .iter()
                .map(|artifact| rpc::text_of(&artifact.parts))
                .collect(),
        ),
        Some(Payload::TaskFail(failed)) if failed.task_id == task => Some(format!("failed: {failed:?}")),
        Some(Payload::TaskStatusUpdate(update))
            if update.task_id == task && update.status() == TaskStatus::Rejected =>
        {
            Some(format!("rejected: {update:?}"))
        }
        _ => None,
    }
}

#[tokio::test]
async fn is_answered_by_the_primary_agent_of_three() {
    let daemon = Daemon::builder().start().await;
    let node = daemon.node().await;
    let mut agents = Vec::new();
    for name in ["one", "two", "three"] {
        agents.push(TestAgent::named(&node, name).await);
    }
    for address in [daemon.tcp(), daemon.quic()] {
        let peer = RawPeer::new();
        let link = peer.dial(address).await;
        // It reads the node as one agent, which can do what all of them can.
        let own = card("Deployed", peer.id().as_ref(), "").encode_to_vec();
        let shown = link
            .send_card(&own)
            .await
            .unwrap()
            .expect("the node shows a card");
        assert_eq!(shown.name, "Agent one");
        let mut skills: Vec<&str> = shown.skills.iter().map(|skill| skill.id.as_str()).collect();
        skills.sort_unstable();
        assert_eq!(skills, ["skill-one", "skill-three", "skill-two"]);

        let asked = envelope(send_task("who?"));
        link.send(std::slice::from_ref(&asked)).await;
        let id = task_of(&asked);
        let (heard, said) = link
            .wait_for("the task ends", |heard| {
                Some((heard.envelope_id.clone(), end_of(heard, &id)?))
            })
            .await;
        assert_eq!(said, "one");
        link.send(&[envelope(ack(&heard))]).await;
    }
}
