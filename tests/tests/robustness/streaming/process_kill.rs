//! SIGKILL in the middle of an artifact: of the daemon that receives, it goes on after the restart; of the daemon
//! or the agent that sends, it ends with a reason that the reader and GetTask show.

use std::{process::Stdio, sync::Arc, time::Duration};

use agentanycast::{EndReason, IncomingTask, TaskError};
use agentanycast_proto::v1;
use agentanycast_tests::{
    Daemon, DaemonPair, TransportKind,
    agent::TestAgent,
    daemon_pair::wait_connected,
    eventually, rpc,
    task_assertions::{completed, not_completed},
};
use tokio::{process::Command, sync::Mutex};

use super::{ThrottledReader, ask, pieces, producer};
use crate::size;

/// Read before anybody is killed, in bytes; with what is under way then, far from all.
const READ: u64 = 8 << 20;

/// The whole of an artifact.
const BYTES: u64 = 64 << 20;

async fn receiving_daemon(transport: TransportKind) {
    let kills = size("AGENTANYCAST_STREAM_KILLS", 2) as u64;
    let bytes = BYTES * (kills + 1);
    let mut pair = DaemonPair::start(transport).await;
    let (alice, bob) = pair.nodes().await;
    let _agent = producer(&bob);
    let handle = ask(&alice, pair.bob.peer_id(), bytes).await;
    let mut reading = ThrottledReader::start(&handle, READ);
    for kill in 1..=kills {
        reading.reaches((kill - 1) * BYTES + READ).await;
        pair.alice.kill().await;
        pair.alice.restart().await;
        wait_connected(&bob, &pair.alice).await;
        reading.allow(kill * BYTES + READ);
    }
    reading.into_end().await.is_whole(bytes);
    completed(&handle).await;
}

#[tokio::test]
async fn an_artifact_goes_on_after_its_receiving_daemon_was_killed_over_tcp() {
    receiving_daemon(TransportKind::Tcp).await;
}

#[tokio::test]
async fn an_artifact_goes_on_after_its_receiving_daemon_was_killed_over_quic() {
    receiving_daemon(TransportKind::Quic).await;
}

/// What GetTask says of how an artifact ended.
fn shown(task: &v1::Task, artifact: usize) -> (&str, &str) {
    let part = &task.artifacts[artifact].parts[0];
    assert!(matches!(part.content, Some(v1::part::Content::UrlPart(_))));
    let word = |key: &str| part.metadata.get(key).map_or("", String::as_str);
    (word("agentanycast-stream-end"), word("agentanycast-stream-error"))
}

/// The artifact is lost with the daemon's memory, and everybody is told; its agent sends another, and the task
/// completes.
#[tokio::test]
async fn an_artifact_ends_with_a_reason_when_its_sending_daemon_was_killed() {
    const REASON: &str = "the sending daemon was restarted";
    const SECOND: u64 = 1000;
    let mut pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let second = Arc::new(Mutex::new(String::new()));
    let written = Arc::clone(&second);
    let _agent = TestAgent::serve(&bob, move |task| {
        let written = Arc::clone(&written);
        async move {
            assert!(send(&task, BYTES).await.is_err(), "it cannot be whole");
            let id = loop {
                // Until the daemon is back.
                match send(&task, SECOND).await {
                    Ok(id) => break id,
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            };
            *written.lock().await = id;
            task.complete([]).await?;
            Ok(())
        }
    });
    let handle = ask(&alice, pair.bob.peer_id(), BYTES).await;
    let mut reading = ThrottledReader::start(&handle, READ);
    reading.reaches(READ).await;
    pair.bob.kill().await;
    pair.bob.restart().await;
    let arrived = reading.into_end().await;
    assert_eq!((arrived.end, arrived.error.as_str()), (EndReason::Error, REASON));
    assert!(arrived.bytes < BYTES);
    completed(&handle).await;
    let task = rpc::get(&mut pair.alice.rpc().await, handle.id()).await.unwrap();
    assert_eq!(shown(&task, 0), ("error", REASON));
    let second = second.lock().await.clone();
    assert_eq!(task.artifacts.last().unwrap().artifact_id, second);
    let expected: Vec<u8> = pieces(SECOND).flatten().collect();
    assert_eq!(handle.read_artifact(second).await.unwrap(), expected);
}

/// Sends an artifact; its id.
async fn send(task: &IncomingTask, bytes: u64) -> Result<String, agentanycast::Error> {
    let mut artifact = task.stream_artifact("bulk", "").await?;
    let id = artifact.artifact_id().to_owned();
    for piece in pieces(bytes) {
        artifact.write(piece).await?;
    }
    artifact.finish().await?;
    Ok(id)
}

/// An agent's process that dies takes its artifact with it, and, if nobody takes over, its task.
#[tokio::test]
async fn an_artifact_ends_with_a_reason_when_its_agent_was_killed() {
    const REASON: &str = "the agent broke off";
    let alice = Daemon::builder().start().await;
    let bob = Daemon::builder()
        .bootstrap(&alice.addresses()[0])
        .config("agent_grace = \"1s\"\n")
        .start()
        .await;
    let node = alice.node().await;
    wait_connected(&node, &bob).await;
    let mut agent = Command::new(env!("CARGO_BIN_EXE_endless_artifact_agent"))
        .arg(bob.grpc())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let handle = ask(&node, bob.peer_id(), 0).await;
    let mut reading = ThrottledReader::start(&handle, READ);
    reading.reaches(READ).await;
    agent.kill().await.unwrap();
    let arrived = reading.into_end().await;
    assert_eq!((arrived.end, arrived.error.as_str()), (EndReason::Error, REASON));
    let error = not_completed(&handle).await;
    assert!(matches!(error, TaskError::Failed { .. }), "{error:?}");
    for daemon in [&alice, &bob] {
        let mut client = daemon.rpc().await;
        let task = rpc::get(&mut client, handle.id()).await.unwrap();
        assert_eq!(shown(&task, 0).0, "error");
        assert_eq!(
            rpc::text_of(&task.status_message.unwrap().parts),
            "agent went away"
        );
    }
    let mut client = alice.rpc().await;
    let task = rpc::get(&mut client, handle.id()).await.unwrap();
    assert_eq!(shown(&task, 0), ("error", REASON));
}

/// The daemon that sends is away for good: its artifact stays open, and ends when the originator gives up.
#[tokio::test]
async fn an_artifact_ends_when_its_task_is_canceled_while_its_sender_is_away() {
    let mut pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let _agent = producer(&bob);
    let handle = ask(&alice, pair.bob.peer_id(), BYTES).await;
    let mut reading = ThrottledReader::start(&handle, READ);
    reading.reaches(READ).await;
    pair.bob.kill().await;
    handle.cancel().await.unwrap();
    let arrived = reading.into_end().await;
    assert_eq!(
        (arrived.end, arrived.error.as_str()),
        (EndReason::Canceled, "the task has ended")
    );
    let client = pair.alice.rpc().await;
    let task = eventually("GetTask shows it", || {
        let (mut client, id) = (client.clone(), handle.id());
        async move {
            let task = rpc::get(&mut client, id).await.unwrap();
            (shown(&task, 0).0 == "canceled").then_some(task)
        }
    });
    assert_eq!(shown(&task.await, 0).1, "the task has ended");
}
