//! Streamed artifacts from an assignee that keeps to no window, no size and no order: what breaks the rules is
//! refused with a reason, memory stays bounded, and the task goes on.

use agentanycast::{Target, TaskHandle};
use agentanycast_proto::v1::{
    A2aEnvelope, StreamChunk, StreamEnd, StreamStart, TaskCompletePayload, TaskStatusUpdatePayload,
    a2a_envelope::Payload,
};
use agentanycast_tests::{
    raw_peer::{A2A, RawConnection, RawPeer, artifact, encoded, envelope},
    task_assertions::completed,
    within,
};

use super::{AttackedDaemon, MIB, assert_accepted, assert_refused};

/// Artifacts of one task that may be streamed at once.
const MAX_OPEN: usize = 64;

/// Chunks that go wrong in every way.
#[tokio::test]
async fn chunks_against_the_rules_are_refused() {
    let siege = AttackedDaemon::begin().await;
    let (link, handle) = assignee_of(&siege).await;
    let id = handle.id();
    let before = [chunk(id, "a", 0, 10), end(id, "a", 1)];
    for wrong in &before {
        link.send(std::slice::from_ref(wrong)).await;
    }
    assert_refused(&link.ack_of(&before[0]).await, &"a chunk before its start");
    let mut large = start(id, "large");
    if let Some(Payload::StreamStart(start)) = &mut large.payload {
        start.metadata = (0..10_000)
            .map(|key| (key.to_string(), "x".repeat(100)))
            .collect();
    }
    let nameless = start(id, &"x".repeat(257));
    let begun = start(id, "b");
    link.send(&[large.clone(), nameless.clone(), begun.clone()]).await;
    assert_accepted(&link.ack_of(&begun).await, &begun);
    assert_refused(&link.ack_of(&large).await, &"a start of a megabyte");
    assert!(!link.is_acked(&nameless), "an artifact id over 256 bytes");
    let wrong = [
        chunk(id, "b", -1, 10),
        chunk(id, "b", i32::MIN, 10),
        chunk(id, "b", 1, 10),
        chunk(id, "b", i32::MAX, 10),
        chunk(id, "b", 0, (256 << 10) + 1),
        chunk(id, "b", 0, 15 << 20),
    ];
    link.send(&wrong).await;
    for wrong in &wrong {
        let Some(Payload::StreamChunk(chunk)) = &wrong.payload else {
            unreachable!("they are chunks")
        };
        assert_refused(&link.ack_of(wrong).await, &(chunk.sequence, chunk.data.len()));
    }
    // The first of them has ended the artifact: what would be right comes too late.
    let late = [chunk(id, "b", 0, 10), end(id, "b", 1)];
    link.send(&late).await;
    assert_refused(
        &link.ack_of(&late[0]).await,
        &"a chunk of an artifact that has ended",
    );
    finish(&link, &handle).await;
    siege.endured(64 * MIB).await;
}

/// 256 artifacts begun at once: as many as may be open are, the rest is refused.
#[tokio::test]
async fn artifacts_begun_at_once_are_bounded() {
    let siege = AttackedDaemon::begin().await;
    let (link, handle) = assignee_of(&siege).await;
    let starts: Vec<A2aEnvelope> = (0..4 * MAX_OPEN)
        .map(|at| start(handle.id(), &at.to_string()))
        .collect();
    link.send(&starts).await;
    let mut accepted = 0;
    for start in &starts {
        let ack = link.ack_of(start).await;
        if ack.reason.is_empty() {
            accepted += 1;
        } else {
            assert_refused(&ack, start);
        }
    }
    assert_eq!(accepted, MAX_OPEN);
    siege.honest_work(50).await;
    for at in 0..MAX_OPEN {
        link.send(&[end(handle.id(), &at.to_string(), 3)]).await;
    }
    finish(&link, &handle).await;
    siege.endured(48 * MIB).await;
}

/// Artifacts whose chunks are poured out without waiting for any acknowledgement: what is beyond the window is not
/// kept, and no more of it is in memory than the peer's share.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chunks_without_end_are_bounded() {
    const ARTIFACTS: usize = 8;
    const CHUNKS: i32 = 150;
    let siege = AttackedDaemon::begin().await;
    let (link, handle) = assignee_of(&siege).await;
    let names: Vec<String> = (0..ARTIFACTS).map(|at| at.to_string()).collect();
    for name in &names {
        let begun = start(handle.id(), name);
        link.send(std::slice::from_ref(&begun)).await;
        assert_accepted(&link.ack_of(&begun).await, &begun);
    }
    let pours = names.iter().map(|name| {
        let chunks: Vec<A2aEnvelope> = (0..CHUNKS)
            .map(|sequence| chunk(handle.id(), name, sequence, 128 << 10))
            .collect();
        let link = &link;
        async move {
            for some in chunks.chunks(8) {
                link.send_bytes(A2A, &encoded(some)).await.unwrap();
            }
        }
    });
    let pouring = futures::future::join_all(pours);
    within(
        "it is poured out",
        futures::future::join(pouring, siege.honest_work(50)),
    )
    .await;
    for name in &names {
        let broken_off = end(handle.id(), name, 3);
        link.send(std::slice::from_ref(&broken_off)).await;
        link.ack_of(&broken_off).await;
    }
    finish(&link, &handle).await;
    // The peer's share of frames (32 MiB), the same again decoded and in the spool's writers, and the allocator's
    // leftovers of 150 MiB that passed through.
    siege.endured(160 * MIB).await;
}

/// A stranger to whom the daemon under attack has sent a task, which it has claimed.
async fn assignee_of(siege: &AttackedDaemon) -> (RawConnection, TaskHandle) {
    let assignee = RawPeer::new();
    let link = assignee.dial(siege.daemon.tcp()).await;
    let target = Target::Peer(assignee.id().clone());
    let handle = siege.node.send_task(target, "stream something").await.unwrap();
    let working = envelope(Payload::TaskStatusUpdate(TaskStatusUpdatePayload {
        task_id: handle.id().to_owned(),
        status: 2,
        message: None,
    }));
    link.send(std::slice::from_ref(&working)).await;
    assert_accepted(&link.ack_of(&working).await, &working);
    (link, handle)
}

/// The task can still complete.
async fn finish(link: &RawConnection, handle: &TaskHandle) {
    let complete = envelope(Payload::TaskComplete(TaskCompletePayload {
        task_id: handle.id().to_owned(),
        artifacts: vec![artifact("done")],
        message: None,
    }));
    link.send(std::slice::from_ref(&complete)).await;
    assert_accepted(&link.ack_of(&complete).await, &complete);
    completed(handle).await;
}

fn start(task_id: &str, artifact_id: &str) -> A2aEnvelope {
    envelope(Payload::StreamStart(StreamStart {
        task_id: task_id.to_owned(),
        artifact_id: artifact_id.to_owned(),
        ..StreamStart::default()
    }))
}

fn chunk(task_id: &str, artifact_id: &str, sequence: i32, bytes: usize) -> A2aEnvelope {
    envelope(Payload::StreamChunk(StreamChunk {
        task_id: task_id.to_owned(),
        artifact_id: artifact_id.to_owned(),
        sequence,
        data: vec![7; bytes].into(),
        is_last: false,
    }))
}

fn end(task_id: &str, artifact_id: &str, reason: i32) -> A2aEnvelope {
    envelope(Payload::StreamEnd(StreamEnd {
        task_id: task_id.to_owned(),
        artifact_id: artifact_id.to_owned(),
        reason,
        ..StreamEnd::default()
    }))
}
