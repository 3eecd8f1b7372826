//! Artifacts that are sent piece by piece.

use std::{process::Stdio, sync::Arc};

use agentanycast::{ArtifactEvent, EndReason, Target, TaskError, TaskHandle};
use agentanycast_proto::v1::{self, send_streaming_artifact_request::Event};
use agentanycast_tests::{
    DaemonPair, TransportKind,
    agent::TestAgent,
    cli::{self, anycast_at},
    eventually,
    rpc::{self, next_task},
    task_assertions::{completed, not_completed},
    within,
};
use futures::StreamExt as _;
use rustix::process::{Pid, Signal, kill_process};
use sha2::{Digest as _, Sha256};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
    sync::{Mutex, Notify},
};
use tonic::Code;

/// Bytes that are different everywhere and the same each time.
fn content(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

async fn ten_mib(transport: TransportKind) {
    const BYTES: usize = 10 << 20;
    let pair = DaemonPair::start(transport).await;
    let (alice, bob) = pair.nodes().await;
    let id = Arc::new(Mutex::new(String::new()));
    let written = Arc::clone(&id);
    let _agent = TestAgent::serve(&bob, move |task| {
        let written = Arc::clone(&written);
        async move {
            let mut artifact = task
                .stream_artifact("numbers", "application/octet-stream")
                .await?;
            artifact.artifact_id().clone_into(&mut *written.lock().await);
            for piece in content(BYTES).chunks(300_001) {
                artifact.write(piece).await?;
            }
            artifact.finish().await?;
            task.complete([]).await?;
            Ok(())
        }
    });
    let handle = alice
        .send_task(Target::Peer(pair.bob.peer_id().clone()), "numbers")
        .await
        .unwrap();
    let mut digest = Sha256::new();
    let (mut name, mut end) = (String::new(), None);
    let mut events = handle.artifacts();
    while let Some(event) = within("the artifact goes on", events.next()).await {
        match event.unwrap() {
            ArtifactEvent::Start { name: given, .. } => name = given,
            ArtifactEvent::Chunk { data, .. } => digest.update(&data),
            ArtifactEvent::End { reason, .. } => end = Some(reason),
            _ => {}
        }
    }
    let expected = Sha256::digest(content(BYTES));
    assert_eq!((name.as_str(), end), ("numbers", Some(EndReason::Complete)));
    assert_eq!(digest.finalize(), expected);
    let task = completed(&handle).await;
    assert_eq!(task.artifacts[0].name, "numbers");
    // Once it is whole it is replayed to whoever comes later.
    let again = handle.read_artifact(id.lock().await.clone()).await.unwrap();
    assert_eq!(Sha256::digest(again), expected);
}

#[tokio::test]
async fn ten_mib_arrive_as_they_were_over_tcp() {
    ten_mib(TransportKind::Tcp).await;
}

#[tokio::test]
async fn ten_mib_arrive_as_they_were_over_quic() {
    ten_mib(TransportKind::Quic).await;
}

/// How the one artifact of the task ended.
async fn end_of_artifact(handle: &TaskHandle) -> Option<EndReason> {
    let mut end = None;
    let mut events = handle.artifacts();
    while let Some(event) = within("the artifact ends", events.next()).await {
        if let ArtifactEvent::End { reason, .. } = event.unwrap() {
            end = Some(reason);
        }
    }
    end
}

/// A producer that breaks off says so to the reader, and the task goes on.
#[tokio::test]
async fn an_aborted_artifact_is_an_error_to_the_reader() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let _agent = TestAgent::serve(&bob, |task| async move {
        let mut artifact = task.stream_artifact("broken", "text/plain").await?;
        artifact.write("half of ").await?;
        artifact.abort("out of ink").await?;
        task.complete([]).await?;
        Ok(())
    });
    let handle = alice
        .send_task(Target::Peer(pair.bob.peer_id().clone()), "x")
        .await
        .unwrap();
    assert_eq!(end_of_artifact(&handle).await, Some(EndReason::Error));
    completed(&handle).await;
}

/// The end of the task may overtake what is left of its artifact; the reader learns an end all the same.
#[tokio::test]
async fn an_artifact_ends_with_its_task() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let _agent = TestAgent::serve(&bob, |task| async move {
        let mut artifact = task.stream_artifact("broken", "text/plain").await?;
        artifact.write("half of ").await?;
        drop(artifact);
        task.fail("out of ink").await?;
        Ok(())
    });
    let handle = alice
        .send_task(Target::Peer(pair.bob.peer_id().clone()), "x")
        .await
        .unwrap();
    let end = end_of_artifact(&handle).await;
    // Or nothing of it ever came, and nothing is waited for.
    assert!(
        matches!(end, None | Some(EndReason::Error | EndReason::Canceled)),
        "{end:?}"
    );
    assert!(matches!(not_completed(&handle).await, TaskError::Failed { .. }));
    for daemon in [&pair.alice, &pair.bob] {
        let args = ["task", handle.id()];
        let shown = within("the task is shown", anycast_at(daemon, &args)).await;
        assert!(shown.all_output.contains("out of ink"), "{}", shown.all_output);
    }
}

/// The task ends while the reader's daemon is away, and nothing comes of the artifact after that.
#[tokio::test]
async fn an_artifact_ends_with_its_task_over_a_restart_of_the_readers_daemon() {
    let mut pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let broken = Arc::new(Notify::new());
    let begun = Arc::clone(&broken);
    let agent = TestAgent::serve(&bob, move |task| {
        let begun = Arc::clone(&begun);
        async move {
            let mut artifact = task.stream_artifact("broken", "text/plain").await?;
            artifact.write("half of ").await?;
            begun.notified().await;
            task.fail("out of ink").await?;
            Ok(())
        }
    });
    let handle = alice
        .send_task(Target::Peer(pair.bob.peer_id().clone()), "x")
        .await
        .unwrap();
    let mut events = handle.artifacts();
    loop {
        if let ArtifactEvent::Chunk { .. } = within("it comes", events.next()).await.unwrap().unwrap() {
            break;
        }
    }
    pair.alice.kill().await;
    broken.notify_one();
    eventually("the task has failed", || async {
        let task = rpc::get(&mut pair.bob.rpc().await, handle.id()).await.unwrap();
        (task.status() == v1::TaskStatus::Failed).then_some(())
    })
    .await;
    pair.alice.restart().await;
    assert!(matches!(not_completed(&handle).await, TaskError::Failed { .. }));
    assert_eq!(end_of_artifact(&handle).await, Some(EndReason::Canceled));
    drop(agent);
}

/// `anycast task` shows an artifact as it comes, and ends when it is told to.
#[tokio::test]
async fn the_task_command_ends_by_a_signal_while_an_artifact_comes() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let _agent = TestAgent::serve(&bob, |task| async move {
        let mut artifact = task.stream_artifact("endless", "text/plain").await?;
        artifact.write("half of it\n").await?;
        task.cancelled().cancelled().await;
        Ok(())
    });
    let handle = alice
        .send_task(Target::Peer(pair.bob.peer_id().clone()), "x")
        .await
        .unwrap();
    within("the artifact begins", handle.artifacts().next())
        .await
        .unwrap()
        .unwrap();
    let mut command = Command::new(cli::program());
    command.args(["--daemon", pair.alice.grpc(), "task", handle.id()]);
    let mut command = command
        .env_clear()
        .env("HOME", pair.alice.home().path())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut shown = BufReader::new(command.stdout.take().unwrap()).lines();
    let mut next = async || {
        within("the artifact is shown", shown.next_line())
            .await
            .unwrap()
            .unwrap()
    };
    while next().await != "half of it" {}
    let pid = Pid::from_raw(command.id().unwrap() as i32).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let status = within("the command ends", command.wait()).await.unwrap();
    assert_eq!(status.code(), Some(143));
    handle.cancel().await.unwrap();
}

/// What SendStreamingArtifact does not take.
#[tokio::test]
async fn streams_that_break_the_rules_are_refused() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (mut alice, mut bob) = (pair.alice.rpc().await, pair.bob.rpc().await);
    let mut incoming = rpc::listen(&mut bob).await;
    let sent = rpc::send(&mut alice, pair.bob.peer_id(), "x").await;
    let task_id = next_task(&mut incoming).await.task_id;
    rpc::update(&mut bob, &task_id, v1::TaskStatus::Working)
        .await
        .unwrap();
    let start = |task_id: &str, artifact_id: &str| {
        Event::StreamStart(v1::StreamStart {
            task_id: task_id.to_owned(),
            artifact_id: artifact_id.to_owned(),
            ..v1::StreamStart::default()
        })
    };
    let chunk = |artifact_id: &str, sequence| {
        Event::StreamChunk(v1::StreamChunk {
            task_id: sent.task_id.clone(),
            artifact_id: artifact_id.to_owned(),
            sequence,
            ..v1::StreamChunk::default()
        })
    };
    let cases = [
        ("nothing", vec![], Code::InvalidArgument),
        ("no start", vec![chunk("a", 0)], Code::InvalidArgument),
        (
            "not from 0",
            vec![start(&task_id, "b"), chunk("b", 1)],
            Code::InvalidArgument,
        ),
        (
            "a gap",
            vec![start(&task_id, "c"), chunk("c", 0), chunk("c", 2)],
            Code::InvalidArgument,
        ),
        ("no task id", vec![start("", "d")], Code::InvalidArgument),
        ("unknown task", vec![start("nowhere", "e")], Code::NotFound),
    ];
    for (name, events, code) in cases {
        let requests = events
            .into_iter()
            .map(|event| v1::SendStreamingArtifactRequest { event: Some(event) });
        let outcome = bob
            .send_streaming_artifact(futures::stream::iter(requests.collect::<Vec<_>>()))
            .await;
        let status = outcome.expect_err(name);
        assert_eq!(status.code(), code, "{name}: {status}");
    }
    let foreign = v1::SendStreamingArtifactRequest {
        event: Some(start(&task_id, "f")),
    };
    let status = alice
        .send_streaming_artifact(futures::stream::iter([foreign]))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied, "{status}");
}
