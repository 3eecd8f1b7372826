//! What was accepted survives: a SIGKILL of either daemon at any point, a peer that is away, an agent that
//! is. Each test names the moment of the loss; the end is always that the task completes, once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by a panic"
)]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use agentanycast::{
    Artifact, ArtifactEvent, EndReason, HandlerError, Target, TaskError, TaskHandle, TaskStatus,
};
use agentanycast_proto::v1;
use agentanycast_tests::{
    Daemon, DaemonPair, TransportKind,
    agent::TestAgent,
    cli::anycast_json,
    daemon_pair::wait_connected,
    eventually,
    rpc::{self, next_task},
    task_assertions::completed,
    within,
};
use futures::StreamExt as _;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Mutex, Notify};

/// Waits until the task is in this state at `handle`'s daemon.
async fn becomes(handle: &TaskHandle, status: TaskStatus) {
    eventually(&format!("the task is {status}"), || async {
        let task = handle.snapshot().await.ok()?;
        (task.status == status).then_some(())
    })
    .await;
}

/// Bob took the task, and said so to Alice and to an agent; then it dies, before the agent said anything.
#[tokio::test]
async fn the_receiver_is_killed_before_the_task_is_claimed() {
    let mut pair = DaemonPair::start(TransportKind::Tcp).await;
    let alice = pair.alice.node().await;
    let mut first_agent = pair.bob.rpc().await;
    let mut incoming = rpc::listen(&mut first_agent).await;
    let handle = alice
        .send_task(Target::Peer(pair.bob.peer_id().clone()), "hello")
        .await
        .unwrap();
    assert_eq!(next_task(&mut incoming).await.task_id, handle.id());
    pair.bob.kill().await;
    pair.bob.restart().await;
    let bob = pair.bob.node().await;
    let _agent = TestAgent::echo(&bob);
    assert_eq!(completed(&handle).await.text_content(), "echo: hello");
}

/// Bob dies while its agent works; the agent goes on, and answers to the restarted daemon.
#[tokio::test]
async fn the_receiver_is_killed_while_its_agent_works() {
    for transport in [TransportKind::Tcp, TransportKind::Quic] {
        let mut pair = DaemonPair::start(transport).await;
        let (alice, bob) = pair.nodes().await;
        let (started, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let runs = Arc::new(AtomicUsize::new(0));
        let marks = (Arc::clone(&started), Arc::clone(&go_on), Arc::clone(&runs));
        let _agent = TestAgent::serve(&bob, move |task| {
            let (started, go_on, runs) = marks.clone();
            async move {
                runs.fetch_add(1, Ordering::SeqCst);
                task.working("on it").await?;
                started.notify_one();
                go_on.notified().await;
                task.complete([Artifact::text("done after all")]).await?;
                Ok(())
            }
        });
        let handle = alice
            .send_task(Target::Peer(pair.bob.peer_id().clone()), "x")
            .await
            .unwrap();
        within("the agent starts", started.notified()).await;
        becomes(&handle, TaskStatus::Working).await;
        pair.bob.kill().await;
        pair.bob.restart().await;
        go_on.notify_one();
        assert_eq!(completed(&handle).await.text_content(), "done after all");
        assert_eq!(runs.load(Ordering::SeqCst), 1, "the handler ran again");
    }
}

/// Bob's agent answers while Alice is dead; Alice gets the answer when it is back.
#[tokio::test]
async fn the_sender_is_killed_while_the_agent_works() {
    let mut pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let (started, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let marks = (Arc::clone(&started), Arc::clone(&go_on));
    let _agent = TestAgent::serve(&bob, move |task| {
        let (started, go_on) = marks.clone();
        async move {
            started.notify_one();
            go_on.notified().await;
            task.complete([Artifact::text("while you were out")]).await?;
            Ok(())
        }
    });
    let handle = alice
        .send_task(Target::Peer(pair.bob.peer_id().clone()), "x")
        .await
        .unwrap();
    within("the agent starts", started.notified()).await;
    pair.alice.kill().await;
    go_on.notify_one();
    becomes(&bob.task_handle(handle.id()), TaskStatus::Completed).await;
    pair.alice.restart().await;
    // The same handle: the SDK has found the restarted daemon by itself.
    assert_eq!(completed(&handle).await.text_content(), "while you were out");
}

/// Alice dies right after the last of many sends was accepted; every one of them is delivered, once.
#[tokio::test]
async fn the_sender_is_killed_in_the_middle_of_sending() {
    const TASKS: usize = 100;
    let mut pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let _agent = TestAgent::serve(&bob, move |task| {
        count.fetch_add(1, Ordering::SeqCst);
        async move {
            task.complete([Artifact::text(task.message().text_content())])
                .await?;
            Ok(())
        }
    });
    let sends = (0..TASKS).map(|number| {
        let target = Target::Peer(pair.bob.peer_id().clone());
        let alice = alice.clone();
        async move { alice.send_task(target, format!("{number}")).await.unwrap() }
    });
    let handles = within("all are accepted", futures::future::join_all(sends)).await;
    pair.alice.kill().await;
    pair.alice.restart().await;
    for (number, handle) in handles.iter().enumerate() {
        assert_eq!(completed(handle).await.text_content(), number.to_string());
    }
    assert_eq!(runs.load(Ordering::SeqCst), TASKS);
}

/// The task waits in Alice's queue until Bob is back; so it does when Alice was restarted meanwhile.
#[tokio::test]
async fn a_peer_that_is_away_gets_its_task_when_it_is_back() {
    let mut pair = DaemonPair::start(TransportKind::Tcp).await;
    let alice = pair.alice.node().await;
    pair.bob.stop().await;
    let target = Target::Peer(pair.bob.peer_id().clone());
    let early = alice.send_task(target.clone(), "first").await.unwrap();
    pair.alice.kill().await;
    pair.alice.restart().await;
    let late = alice.send_task(target, "second").await.unwrap();
    assert_eq!(early.snapshot().await.unwrap().status, TaskStatus::Submitted);
    pair.bob.restart().await;
    let mut bob = pair.bob.rpc().await;
    let mut incoming = rpc::listen(&mut bob).await;
    for handle in [early, late] {
        let task = next_task(&mut incoming).await;
        assert_eq!(
            task.task_id,
            handle.id(),
            "the tasks come in the order in which they were sent"
        );
        rpc::complete(&mut bob, &task.task_id, "here").await.unwrap();
        assert_eq!(completed(&handle).await.text_content(), "here");
    }
}

/// A peer that Alice has never met and cannot find: the task is delivered once that peer connects.
#[tokio::test]
async fn a_peer_that_was_never_met_gets_its_task() {
    let alice = Daemon::builder().start().await;
    let mut bob = Daemon::builder().start().await;
    bob.stop().await;
    let handle = alice
        .node()
        .await
        .send_task(Target::Peer(bob.peer_id().clone()), "hello")
        .await
        .unwrap();
    let bob = bob.stopped().bootstrap(alice.quic()).start().await;
    let _agent = TestAgent::echo(&bob.node().await);
    assert_eq!(completed(&handle).await.text_content(), "echo: hello");
}

/// Nobody dials Alice: it is Alice that has to look for Bob where it was before, also after its own restart.
#[tokio::test]
async fn the_sender_looks_for_a_peer_that_is_away() {
    let mut pair = DaemonPair::start(TransportKind::Tcp).await;
    let alice = pair.alice.node().await;
    wait_connected(&alice, &pair.bob).await;
    pair.bob.stop().await;
    let handle = alice
        .send_task(Target::Peer(pair.bob.peer_id().clone()), "hello")
        .await
        .unwrap();
    pair.alice.stop().await;
    pair.alice.restart().await;
    pair.bob = pair.bob.stopped().without_bootstrap().start().await;
    let bob = pair.bob.node().await;
    let _agent = TestAgent::echo(&bob);
    assert_eq!(completed(&handle).await.text_content(), "echo: hello");
}

/// A task that nobody listened for is handed to the next listener, also after a restart.
#[tokio::test]
async fn a_task_waits_for_an_agent() {
    let mut pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let handle = alice
        .send_task(Target::Peer(pair.bob.peer_id().clone()), "hello")
        .await
        .unwrap();
    becomes(&bob.task_handle(handle.id()), TaskStatus::Submitted).await;
    {
        // This listener goes away without a word.
        let mut agent = pair.bob.rpc().await;
        let mut incoming = rpc::listen(&mut agent).await;
        assert_eq!(next_task(&mut incoming).await.task_id, handle.id());
    }
    {
        let mut agent = pair.bob.rpc().await;
        let mut incoming = rpc::listen(&mut agent).await;
        assert_eq!(next_task(&mut incoming).await.task_id, handle.id());
    }
    pair.bob.stop().await;
    pair.bob.restart().await;
    let _agent = TestAgent::echo(&bob);
    assert_eq!(completed(&handle).await.text_content(), "echo: hello");
}

/// Once an agent has claimed a task, nobody else gets it: not a later listener, not after a restart.
#[tokio::test]
async fn a_claimed_task_is_not_handed_out_again() {
    let mut pair = DaemonPair::start(TransportKind::Tcp).await;
    let mut alice = pair.alice.rpc().await;
    let mut owner = pair.bob.rpc().await;
    let mut incoming = rpc::listen(&mut owner).await;
    let claimed = rpc::send(&mut alice, pair.bob.peer_id(), "claimed").await.task_id;
    assert_eq!(next_task(&mut incoming).await.task_id, claimed);
    rpc::update(&mut owner, &claimed, v1::TaskStatus::Working)
        .await
        .unwrap();
    for restart in [false, true] {
        if restart {
            pair.bob.kill().await;
            pair.bob.restart().await;
        }
        let mut other = pair.bob.rpc().await;
        let mut later = rpc::listen(&mut other).await;
        let fresh = rpc::send(&mut alice, pair.bob.peer_id(), "fresh").await.task_id;
        assert_eq!(next_task(&mut later).await.task_id, fresh);
        rpc::complete(&mut other, &fresh, "x").await.unwrap();
    }
    let mut owner = pair.bob.rpc().await;
    rpc::complete(&mut owner, &claimed, "by its owner").await.unwrap();
    let handle = pair.alice.node().await.task_handle(claimed);
    assert_eq!(completed(&handle).await.text_content(), "by its owner");
}

/// The reader's daemon dies in the middle of an artifact; the rest follows, and the whole is what was sent.
#[tokio::test]
async fn an_artifact_goes_on_after_its_reader_was_killed() {
    const HALF: usize = 4 << 20;
    let mut pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let (half_way, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let id = Arc::new(Mutex::new(String::new()));
    let marks = (Arc::clone(&half_way), Arc::clone(&go_on), Arc::clone(&id));
    let _agent = TestAgent::serve(&bob, move |task| {
        let (half_way, go_on, id) = marks.clone();
        async move {
            let mut artifact = task
                .stream_artifact("two halves", "application/octet-stream")
                .await?;
            artifact.artifact_id().clone_into(&mut *id.lock().await);
            artifact.write(vec![1; HALF]).await?;
            half_way.notify_one();
            go_on.notified().await;
            artifact.write(vec![2; HALF]).await?;
            artifact.finish().await?;
            task.complete([]).await?;
            Ok(())
        }
    });
    let handle = alice
        .send_task(Target::Peer(pair.bob.peer_id().clone()), "x")
        .await
        .unwrap();
    within("half of it is written", half_way.notified()).await;
    pair.alice.kill().await;
    go_on.notify_one();
    pair.alice.restart().await;
    completed(&handle).await;
    let bytes = handle.read_artifact(id.lock().await.clone()).await.unwrap();
    let expected = Sha256::new()
        .chain_update(vec![1; HALF])
        .chain_update(vec![2; HALF])
        .finalize();
    assert_eq!(Sha256::digest(&bytes), expected);
}

/// The producer's daemon dies in the middle of an artifact: what it had not sent is lost, and the reader is
/// told so instead of waiting for ever.
#[tokio::test]
async fn an_artifact_breaks_off_when_its_daemon_is_killed() {
    let mut pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let _agent = TestAgent::serve(&bob, |task| async move {
        let mut artifact = task.stream_artifact("endless", "text/plain").await?;
        // Until the daemon is gone.
        while artifact.write(vec![b'x'; 64 << 10]).await.is_ok() {}
        Err(HandlerError::new("could not finish"))
    });
    let handle = alice
        .send_task(Target::Peer(pair.bob.peer_id().clone()), "x")
        .await
        .unwrap();
    let mut events = handle.artifacts();
    loop {
        let event = within("the artifact begins", events.next()).await;
        if let ArtifactEvent::Chunk { .. } = event.expect("it has not ended").unwrap() {
            break;
        }
    }
    pair.bob.kill().await;
    pair.bob.restart().await;
    let mut end = None;
    while let Some(event) = within("the artifact ends", events.next()).await {
        if let ArtifactEvent::End { reason, .. } = event.unwrap() {
            end = Some(reason);
        }
    }
    assert_eq!(end, Some(EndReason::Error));
    match within("the task ends", handle.wait()).await {
        Err(TaskError::Failed { reason, .. }) => assert_eq!(reason, "could not finish"),
        other => panic!("{other:?}"),
    }
}

/// A store that is damaged is put aside, and the node starts as who it was.
#[tokio::test]
async fn a_damaged_store_is_put_aside() {
    let mut daemon = Daemon::builder().start().await;
    let id = daemon.peer_id().clone();
    daemon.kill().await;
    let data = daemon.home().path().join("data");
    let database = find_file(&data, "db").expect("the store's file");
    std::fs::write(&database, b"this was a database").unwrap();
    std::fs::write(database.with_file_name("conf"), b"and this its configuration").unwrap();
    daemon.restart().await;
    assert_eq!(daemon.peer_id(), &id);
    let aside: Vec<_> = std::fs::read_dir(&data)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains("data.corrupt-"))
        .collect();
    let [aside] = aside.as_slice() else {
        panic!("{aside:?}");
    };
    // It is told until somebody has looked into it.
    let place = aside.to_str().unwrap();
    let problems = || async { anycast_json(&daemon, &["status"]).await["problems"].clone() };
    let told = problems().await;
    assert!(told[0].as_str().unwrap_or_default().contains(place), "{told}");
    std::fs::remove_dir_all(aside).unwrap();
    assert_eq!(problems().await, serde_json::json!([]));
}

/// The file of this name somewhere below.
fn find_file(directory: &std::path::Path, name: &str) -> Option<std::path::PathBuf> {
    std::fs::read_dir(directory).ok()?.find_map(|entry| {
        let path = entry.ok()?.path();
        if path.is_dir() {
            return find_file(&path, name);
        }
        (path.file_name()? == name).then_some(path)
    })
}

/// Both daemons die again and again, each in turn, while tasks flow both ways: every task that was accepted
/// completes with its own answer.
#[tokio::test]
async fn tasks_flow_while_daemons_die() {
    const TASKS: usize = 120;
    const DEATHS: usize = 6;
    let mut pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let _agents = (TestAgent::echo(&alice), TestAgent::echo(&bob));
    let answered = Arc::new(AtomicUsize::new(0));
    let mut all = tokio::task::JoinSet::new();
    for (node, peer) in [(&alice, &pair.bob), (&bob, &pair.alice)] {
        for number in 0..TASKS {
            let (node, answered) = (node.clone(), Arc::clone(&answered));
            let target = Target::Peer(peer.peer_id().clone());
            all.spawn(async move {
                let handle = node.send_task(target, format!("{number}")).await.unwrap();
                let task = handle
                    .wait()
                    .await
                    .unwrap_or_else(|error| panic!("{}: {error}", handle.id()));
                assert_eq!(task.text_content(), format!("echo: {number}"));
                answered.fetch_add(1, Ordering::SeqCst);
            });
        }
    }
    for death in 0..DEATHS {
        // Each time after some more have been answered, so that the daemons die in the midst of it.
        let enough = death * TASKS / DEATHS;
        eventually("tasks are answered", || async {
            (answered.load(Ordering::SeqCst) >= enough).then_some(())
        })
        .await;
        let daemon = if death % 2 == 0 {
            &mut pair.bob
        } else {
            &mut pair.alice
        };
        daemon.kill().await;
        daemon.restart().await;
    }
    while let Some(done) = within("all tasks are answered", all.join_next()).await {
        done.unwrap();
    }
    assert_eq!(answered.load(Ordering::SeqCst), 2 * TASKS);
}
