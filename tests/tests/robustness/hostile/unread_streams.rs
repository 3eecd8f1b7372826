//! SDK streams that are opened and never read: each holds a bounded amount of memory, slows nobody, loses no
//! last word, and does not keep the daemon from stopping.

use std::{io::Write as _, os::unix::net::UnixStream, time::Duration};

use agentanycast::{Target, TaskHandle, TaskStatus};
use agentanycast_proto::v1::{
    A2aEnvelope, Message, SubscribeIncomingTasksRequest, SubscribeTaskStreamRequest,
    SubscribeTaskUpdatesRequest, TaskCompletePayload, TaskStatusUpdatePayload, a2a_envelope::Payload,
    node_service_client::NodeServiceClient,
};
use agentanycast_tests::{
    Daemon, eventually, eventually_within,
    proc_stats::open_files,
    raw_peer::{RawConnection, RawPeer, ack, artifact, envelope, message, send_task, task_of},
    rpc::Rpc,
    within,
};
use tonic::transport::Endpoint;

use super::{AttackedDaemon, CACHES, MIB, assert_accepted};

/// Eight tasks whose assignee reports 16 MiB of progress each, eight subscribers each that never read: they hold
/// some of it, not all, and one that reads at last hears the end.
#[tokio::test]
async fn updates_that_nobody_reads() {
    const TASKS: usize = 8;
    const SUBSCRIBERS: usize = 8;
    const REPORTS: usize = 16;
    let siege = AttackedDaemon::begin().await;
    let assignee = RawPeer::new();
    let link = assignee.dial(siege.daemon.tcp()).await;
    let mut handles: Vec<TaskHandle> = Vec::new();
    let mut unread = Vec::new();
    let mut deaf = closed(&siege.daemon).await;
    for _ in 0..TASKS {
        let target = Target::Peer(assignee.id().clone());
        let handle = siege.node.send_task(target, "tell me").await.unwrap();
        for _ in 0..SUBSCRIBERS {
            let request = SubscribeTaskUpdatesRequest {
                task_id: handle.id().to_owned(),
                ..Default::default()
            };
            unread.push(deaf.subscribe_task_updates(request).await.unwrap().into_inner());
        }
        handles.push(handle);
    }
    for handle in &handles {
        let id = handle.id();
        let progress: Vec<A2aEnvelope> = (0..REPORTS)
            .map(|_| report(id, 2, Some(message(&"x".repeat(1 << 20)))))
            .collect();
        link.send(&progress).await;
        assert_accepted(&link.ack_of(&progress[REPORTS - 1]).await, &id);
    }
    siege.honest_work(50).await;
    for handle in &handles {
        complete(&link, handle.id()).await;
    }
    // The first of the unread streams, read at last: the beginning may be missing, the end is not.
    let mut last = None;
    while let Some(update) = within("the updates end", unread[0].message()).await.unwrap() {
        last = Some(update.status());
    }
    assert_eq!(last, Some(agentanycast_proto::v1::TaskStatus::Completed));
    drop(unread);
    // What waits for subscribers has a bound of its own (64 MiB); each stream holds one event of 1 MiB, encoded and
    // not.
    siege
        .endured(CACHES + (64 + 2 * (TASKS * SUBSCRIBERS) as u64) * MIB)
        .await;
}

/// Fifty listeners that never read, and tasks of 512 KiB from a stranger: the one agent that reads gets all of them, as every
/// listener does.
#[tokio::test]
async fn incoming_tasks_that_nobody_reads() {
    const LISTENERS: usize = 50;
    const TASKS: usize = 40;
    let every_listener = Daemon::builder().config("agents.deliver = \"all\"\n");
    let siege = AttackedDaemon::begin_with(every_listener).await;
    let mut deaf = closed(&siege.daemon).await;
    let mut unread = Vec::new();
    for _ in 0..LISTENERS {
        let listening = deaf
            .subscribe_incoming_tasks(SubscribeIncomingTasksRequest::default())
            .await;
        unread.push(listening.unwrap().into_inner());
    }
    let link = RawPeer::new().dial(siege.daemon.tcp()).await;
    let mut sent = Vec::new();
    for _ in 0..TASKS {
        let task = envelope(send_task(&"x".repeat(512 << 10)));
        link.send(std::slice::from_ref(&task)).await;
        sent.push(task_of(&task));
    }
    for id in &sent {
        let answer = link
            .wait_for("a task is answered by the agent that reads", |heard| {
                let of_it = matches!(&heard.payload, Some(Payload::TaskComplete(complete)) if complete.task_id == *id);
                of_it.then(|| heard.envelope_id.clone())
            })
            .await;
        // Else the window stays full until the retries are used up.
        link.send(&[envelope(ack(&answer))]).await;
    }
    siege.honest_work(50).await;
    drop(unread);
    // The listeners share the 4 MiB that each is sent ahead; each stream holds one task, encoded and not.
    siege.endured(CACHES + (4 + 2 * LISTENERS as u64) * MIB).await;
}

/// Sixty readers of one artifact of 8 MiB that never read.
#[tokio::test]
async fn artifacts_that_nobody_reads() {
    const READERS: usize = 60;
    let siege = AttackedDaemon::begin().await;
    let target = Target::Peer(siege.id().clone());
    let handle = siege
        .node
        .send_task(target, "x".repeat(8 << 20).as_str())
        .await
        .unwrap();
    eventually("the task completes", || async {
        let task = handle.snapshot().await.ok()?;
        (task.status == TaskStatus::Completed).then_some(())
    })
    .await;
    let mut deaf = closed(&siege.daemon).await;
    let mut unread = Vec::new();
    for _ in 0..READERS {
        let request = SubscribeTaskStreamRequest {
            task_id: handle.id().to_owned(),
            ..SubscribeTaskStreamRequest::default()
        };
        unread.push(deaf.subscribe_task_stream(request).await.unwrap().into_inner());
    }
    siege.honest_work(50).await;
    drop(unread);
    // The artifact and its task's message, decoded, queued and cached; each reader a few chunks of 64 KiB.
    siege.endured((8 * 8 + READERS as u64 / 2 + 64) * MIB).await;
}

/// Clients that speak HTTP/2 by hand, ask for every stream there is, and never read their socket: the daemon keeps
/// serving, and lets go of them when its pings stay unanswered.
#[tokio::test]
#[ignore = "long: waits 40 s for unanswered pings"]
async fn sockets_that_nobody_reads() {
    const SOCKETS: usize = 50;
    const STREAMS: u32 = 100;
    let siege = AttackedDaemon::begin().await;
    let before = open_files(siege.daemon.pid());
    let path = siege.daemon.grpc().strip_prefix("unix://").unwrap().to_owned();
    let mut held = Vec::new();
    for _ in 0..SOCKETS {
        let mut socket = UnixStream::connect(&path).unwrap();
        socket.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        // It may be cut off before all of this is out.
        let _ = socket.write_all(&asking(STREAMS));
        held.push(socket);
    }
    siege.honest_work(100).await;
    eventually_within(Duration::from_secs(100), "the daemon lets go of them", || async {
        (open_files(siege.daemon.pid()) <= before + 2).then_some(())
    })
    .await;
    drop(held);
    siege.endured(96 * MIB).await;
}

/// A connection whose streams have the smallest window that clients use, which nobody reads.
async fn closed(daemon: &Daemon) -> Rpc {
    let endpoint = Endpoint::from_shared(daemon.grpc().to_owned()).unwrap();
    let channel = endpoint
        .initial_stream_window_size((64 << 10) - 1)
        .connect()
        .await
        .unwrap();
    NodeServiceClient::new(channel)
}

/// HTTP/2 as bytes: the preface, windows of nothing, and so many calls of SubscribeIncomingTasks.
fn asking(streams: u32) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // SETTINGS_INITIAL_WINDOW_SIZE = 0.
    bytes.extend(http2(4, 0, 0, &[0, 4, 0, 0, 0, 0]));
    let mut headers = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/agentanycast.v1.NodeService/SubscribeIncomingTasks"),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ] {
        // Literal header field without indexing, a new name, no Huffman code (RFC 7541, 6.2.2).
        headers.push(0);
        for text in [name, value] {
            headers.push(text.len() as u8);
            headers.extend_from_slice(text.as_bytes());
        }
    }
    for number in 0..streams {
        let stream = 2 * number + 1;
        bytes.extend(http2(1, 4, stream, &headers));
        // One empty message, and the end.
        bytes.extend(http2(0, 1, stream, &[0; 5]));
    }
    bytes
}

/// A frame of HTTP/2.
fn http2(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

fn report(task_id: &str, status: i32, message: Option<Message>) -> A2aEnvelope {
    envelope(Payload::TaskStatusUpdate(TaskStatusUpdatePayload {
        task_id: task_id.to_owned(),
        status,
        message,
    }))
}

async fn complete(link: &RawConnection, task_id: &str) {
    let complete = envelope(Payload::TaskComplete(TaskCompletePayload {
        task_id: task_id.to_owned(),
        artifacts: vec![artifact("done")],
        message: None,
    }));
    link.send(std::slice::from_ref(&complete)).await;
    assert_accepted(&link.ack_of(&complete).await, &complete);
}
