//! Peers that speak for others: they report on, end, overwrite and acknowledge what is not theirs. Each such
//! envelope is refused with a reason, and the task goes its own way.

use agentanycast::{Target, TaskStatus};
use agentanycast_proto::v1::{
    A2aEnvelope, GetTaskPayload, GetTaskResponsePayload, SendTaskPayload, StreamChunk, StreamEnd,
    StreamStart, Task, TaskCancelPayload, TaskCompletePayload, TaskFailPayload, TaskStatusUpdatePayload,
    a2a_envelope::Payload,
};
use agentanycast_tests::{
    raw_peer::{
        RawConnection, RawPeer, ack, artifact, envelope, message, numbered, refused_by, send_task, task_of,
    },
    rpc,
    task_assertions::completed,
    within,
};

use super::{AttackedDaemon, HOLD, MIB, assert_accepted, assert_refused};

/// Everything that somebody could say about a task.
fn meddling(id: &str) -> Vec<Payload> {
    let task_id = || id.to_owned();
    let mut all: Vec<Payload> = (1..=7)
        .map(|status| {
            Payload::TaskStatusUpdate(TaskStatusUpdatePayload {
                task_id: task_id(),
                status,
                message: Some(message("forged")),
            })
        })
        .collect();
    let fail = |held| {
        Payload::TaskFail(TaskFailPayload {
            task_id: task_id(),
            error_message: "forged".to_owned(),
            message: None,
            returned: true,
            held,
        })
    };
    all.extend([
        Payload::TaskComplete(TaskCompletePayload {
            task_id: task_id(),
            artifacts: vec![artifact("forged")],
            message: Some(message("forged")),
        }),
        fail(false),
        fail(true),
        Payload::TaskCancel(TaskCancelPayload { task_id: task_id() }),
        Payload::SendTask(SendTaskPayload {
            task_id: task_id(),
            message: Some(message("overwritten")),
            ..SendTaskPayload::default()
        }),
        Payload::GetTask(GetTaskPayload { task_id: task_id() }),
        Payload::GetTaskResponse(GetTaskResponsePayload {
            task: Some(Task {
                task_id: task_id(),
                status: 4,
                artifacts: vec![artifact("forged")],
                ..Task::default()
            }),
        }),
        Payload::StreamStart(StreamStart {
            task_id: task_id(),
            artifact_id: "forged".to_owned(),
            ..StreamStart::default()
        }),
        Payload::StreamChunk(StreamChunk {
            task_id: task_id(),
            artifact_id: "forged".to_owned(),
            data: b"forged".to_vec().into(),
            is_last: true,
            ..StreamChunk::default()
        }),
        Payload::StreamEnd(StreamEnd {
            task_id: task_id(),
            artifact_id: "forged".to_owned(),
            reason: 1,
            ..StreamEnd::default()
        }),
    ]);
    all
}

/// Says all of it, without places and with them; each is refused with a reason.
async fn meddle(link: &RawConnection, payloads: &[Payload]) {
    let plain = payloads.iter().cloned().map(envelope);
    let placed = (1..)
        .zip(payloads)
        .map(|(sequence, payload)| numbered(payload.clone(), 99, sequence));
    let all: Vec<A2aEnvelope> = plain.chain(placed).collect();
    link.send(&all).await;
    for envelope in &all {
        assert_refused(&link.ack_of(envelope).await, envelope);
    }
}

/// A third peer meddles with a task at the daemon that works on it: nothing changes, its originator alone may
/// go on, and it completes.
#[tokio::test]
async fn a_third_peer_cannot_touch_a_task_at_its_assignee() {
    let siege = AttackedDaemon::begin().await;
    let owner = RawPeer::new().dial(siege.daemon.tcp()).await;
    let third = RawPeer::new().dial(siege.daemon.quic()).await;
    let sent = envelope(send_task(&format!("{HOLD} mine")));
    let id = task_of(&sent);
    owner.send(std::slice::from_ref(&sent)).await;
    owner
        .wait_for("the task is claimed", |heard| reported(heard, &id))
        .await;
    meddle(&third, &meddling(&id)).await;
    let leaked = third
        .heard()
        .into_iter()
        .any(|heard| matches!(heard.payload, Some(Payload::GetTaskResponse(_))));
    assert!(!leaked, "the third peer was told of the task");
    let task = siege.task(&id).await.unwrap();
    assert_eq!(task.status(), agentanycast_proto::v1::TaskStatus::Working);
    assert!(task.artifacts.is_empty());
    let texts: Vec<String> = task
        .messages
        .iter()
        .map(|message| rpc::text_of(&message.parts))
        .collect();
    assert_eq!(texts, [format!("{HOLD} mine"), "holding".to_owned()]);
    // Reports are not its originator's business either.
    let of_the_assignee = meddling(&id).into_iter().filter(|payload| {
        !matches!(
            payload,
            Payload::TaskCancel(_) | Payload::GetTask(_) | Payload::SendTask(_)
        )
    });
    meddle(&owner, &of_the_assignee.collect::<Vec<_>>()).await;
    siege.release();
    let complete = owner
        .wait_for("the task completes", |heard| match &heard.payload {
            Some(Payload::TaskComplete(complete)) if complete.task_id == id => Some(complete.clone()),
            _ => None,
        })
        .await;
    assert_eq!(
        rpc::text_of(&complete.artifacts[0].parts),
        format!("echo: {HOLD} mine")
    );
    siege.endured(16 * MIB).await;
}

/// The same at the daemon that sent the task.
#[tokio::test]
async fn a_third_peer_cannot_touch_a_task_at_its_originator() {
    let siege = AttackedDaemon::begin().await;
    let (assignee, third) = (RawPeer::new(), RawPeer::new());
    let worker = assignee.dial(siege.daemon.tcp()).await;
    let third = third.dial(siege.daemon.tcp()).await;
    let handle = siege
        .node
        .send_task(Target::Peer(assignee.id().clone()), "theirs")
        .await
        .unwrap();
    let id = handle.id().to_owned();
    let sent = worker
        .wait_for("the task arrives", |heard| sent_task(heard, &id))
        .await;
    meddle(&third, &meddling(&id)).await;
    assert_eq!(handle.snapshot().await.unwrap().status, TaskStatus::Submitted);
    // The assignee may report; it may not end the task as its originator, nor send it back.
    let of_the_originator = meddling(&id)
        .into_iter()
        .filter(|payload| matches!(payload, Payload::TaskCancel(_) | Payload::SendTask(_)));
    meddle(&worker, &of_the_originator.collect::<Vec<_>>()).await;
    let report = [
        envelope(ack(&sent.envelope_id)),
        envelope(Payload::TaskStatusUpdate(TaskStatusUpdatePayload {
            task_id: id.clone(),
            status: 2,
            message: None,
        })),
        envelope(Payload::TaskComplete(TaskCompletePayload {
            task_id: id.clone(),
            artifacts: vec![artifact("genuine")],
            message: None,
        })),
    ];
    worker.send(&report).await;
    assert_eq!(completed(&handle).await.text_content(), "genuine");
    siege.endured(16 * MIB).await;
}

/// Somebody acknowledges, and refuses, an envelope that was sent to another peer: it stays queued for that one,
/// goes to it again on its next connection, and its task completes.
#[tokio::test]
async fn an_ack_of_another_peers_envelope_counts_for_nothing() {
    let siege = AttackedDaemon::begin().await;
    let assignee = RawPeer::new();
    let deaf = assignee.dial(siege.daemon.tcp()).await;
    let handle = siege
        .node
        .send_task(Target::Peer(assignee.id().clone()), "for one only")
        .await
        .unwrap();
    let id = handle.id().to_owned();
    let sent = deaf
        .wait_for("the task arrives", |heard| sent_task(heard, &id))
        .await;
    let third = RawPeer::new().dial(siege.daemon.tcp()).await;
    let fence = envelope(send_task("everything before it has been dealt with"));
    third
        .send(&[
            envelope(ack(&sent.envelope_id)),
            envelope(refused_by(&sent.envelope_id, "forged")),
            numbered(ack(&sent.envelope_id), sent.sender_epoch, sent.sequence),
            fence.clone(),
        ])
        .await;
    third.ack_of(&fence).await;
    assert_eq!(handle.snapshot().await.unwrap().status, TaskStatus::Submitted);
    drop(deaf);
    let back = assignee.dial(siege.daemon.tcp()).await;
    let again = back
        .wait_for("the task arrives again", |heard| sent_task(heard, &id))
        .await;
    assert_eq!(again, sent, "the same envelope, byte for byte");
    back.send(&[
        envelope(ack(&sent.envelope_id)),
        envelope(Payload::TaskStatusUpdate(TaskStatusUpdatePayload {
            task_id: id.clone(),
            status: 2,
            message: None,
        })),
        envelope(Payload::TaskComplete(TaskCompletePayload {
            task_id: id.clone(),
            artifacts: vec![artifact("delivered")],
            message: None,
        })),
    ])
    .await;
    assert_eq!(completed(&handle).await.text_content(), "delivered");
    siege.endured(16 * MIB).await;
}

/// Two originators use one task id: it is the first one's, before and after its end, and nobody can take that of
/// a task that this node has sent.
#[tokio::test]
async fn a_task_id_belongs_to_its_first_originator() {
    let siege = AttackedDaemon::begin().await;
    let first = RawPeer::new().dial(siege.daemon.tcp()).await;
    let second = RawPeer::new().dial(siege.daemon.tcp()).await;
    let mine = envelope(send_task(&format!("{HOLD} first")));
    let id = task_of(&mine);
    let same_id = |text: &str| {
        let mut envelope = envelope(send_task(text));
        if let Some(Payload::SendTask(send)) = &mut envelope.payload {
            send.task_id.clone_from(&id);
        }
        envelope
    };
    let theirs = same_id("second");
    first.send(std::slice::from_ref(&mine)).await;
    assert_accepted(&first.ack_of(&mine).await, &mine);
    second.send(std::slice::from_ref(&theirs)).await;
    assert_refused(&second.ack_of(&theirs).await, &theirs);
    // Another message of the first one is none that this task waits for; the same message is a duplicate.
    let further = same_id("first, further");
    let mut repeated = same_id("");
    repeated.payload.clone_from(&mine.payload);
    first.send(&[further.clone(), repeated.clone()]).await;
    assert_refused(&first.ack_of(&further).await, &further);
    assert_accepted(&first.ack_of(&repeated).await, &repeated);
    siege.release();
    first
        .wait_for("the task completes", |heard| completion(heard, &id))
        .await;
    let late = same_id("second, late");
    second.send(std::slice::from_ref(&late)).await;
    assert_refused(&second.ack_of(&late).await, &late);
    let task = siege.task(&id).await.unwrap();
    assert_eq!(rpc::text_of(&task.messages[0].parts), format!("{HOLD} first"));
    // One that this node has sent.
    let nobody = RawPeer::new();
    let own = siege
        .node
        .send_task(Target::Peer(nobody.id().clone()), "own")
        .await
        .unwrap();
    let mut taken = envelope(send_task("taken over"));
    if let Some(Payload::SendTask(send)) = &mut taken.payload {
        own.id().clone_into(&mut send.task_id);
    }
    second.send(std::slice::from_ref(&taken)).await;
    assert_refused(&second.ack_of(&taken).await, &taken);
    assert_eq!(own.snapshot().await.unwrap().status, TaskStatus::Submitted);
    siege.endured(16 * MIB).await;
}

/// Two connections of two keys that race for one id, many times: exactly one wins each, and it is told so.
#[tokio::test]
async fn a_race_for_task_ids_has_one_winner_each() {
    const IDS: usize = 300;
    let siege = AttackedDaemon::begin().await;
    let links = [
        RawPeer::new().dial(siege.daemon.tcp()).await,
        RawPeer::new().dial(siege.daemon.quic()).await,
    ];
    let ids: Vec<String> = (0..IDS).map(|_| uuid::Uuid::new_v4().to_string()).collect();
    let of = |who: usize| -> Vec<A2aEnvelope> {
        let all = ids.iter().map(|id| {
            let mut envelope = envelope(send_task(&format!("racer {who}")));
            if let Some(Payload::SendTask(send)) = &mut envelope.payload {
                send.task_id.clone_from(id);
            }
            envelope
        });
        all.collect()
    };
    let sent = [of(0), of(1)];
    within(
        "both have sent",
        futures::future::join(links[0].send(&sent[0]), links[1].send(&sent[1])),
    )
    .await;
    for (at, id) in ids.iter().enumerate() {
        let acks = [
            links[0].ack_of(&sent[0][at]).await,
            links[1].ack_of(&sent[1][at]).await,
        ];
        let winners: Vec<usize> = (0..2).filter(|who| acks[*who].outcome == 0).collect();
        assert_eq!(winners.len(), 1, "{acks:?}");
        let task = siege.task(id).await.unwrap();
        assert_eq!(
            rpc::text_of(&task.messages[0].parts),
            format!("racer {}", winners[0])
        );
    }
    siege.endured(32 * MIB).await;
}

fn reported(heard: &A2aEnvelope, id: &str) -> Option<()> {
    match &heard.payload {
        Some(Payload::TaskStatusUpdate(update)) if update.task_id == id => Some(()),
        _ => None,
    }
}

fn completion(heard: &A2aEnvelope, id: &str) -> Option<()> {
    match &heard.payload {
        Some(Payload::TaskComplete(complete)) if complete.task_id == id => Some(()),
        _ => None,
    }
}

/// The envelope that brings this task.
fn sent_task(heard: &A2aEnvelope, id: &str) -> Option<A2aEnvelope> {
    match &heard.payload {
        Some(Payload::SendTask(send)) if send.task_id == id => Some(heard.clone()),
        _ => None,
    }
}
