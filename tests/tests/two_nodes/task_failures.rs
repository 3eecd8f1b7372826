//! How tasks end when they do not complete: failed by the agent, canceled by either side, out of time.

use std::{sync::Arc, time::Duration};

use agentanycast::{ErrorKind, HandlerError, Target, TaskError, TaskStatus};
use agentanycast_proto::v1;
use agentanycast_tests::{
    Daemon, DaemonPair, TransportKind,
    agent::TestAgent,
    eventually,
    rpc::{self, next_task},
    task_assertions::{completed, not_completed},
    within,
};
use tokio::sync::Notify;

#[tokio::test]
async fn a_failure_arrives_with_its_reason() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let _agent = TestAgent::serve(&bob, |_task| async { Err(HandlerError::new("no such city")) });
    let handle = alice
        .send_task(Target::Peer(pair.bob.peer_id().clone()), "weather")
        .await
        .unwrap();
    match not_completed(&handle).await {
        TaskError::Failed { reason, .. } => assert_eq!(reason, "no such city"),
        other => panic!("{other:?}"),
    }
}

/// The originator cancels while the agent works: the agent's token fires, and both sides agree.
#[tokio::test]
async fn the_originator_cancels() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let (started, stopped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let marks = (Arc::clone(&started), Arc::clone(&stopped));
    let _agent = TestAgent::serve(&bob, move |task| {
        let (started, stopped) = marks.clone();
        async move {
            task.working("on it").await?;
            started.notify_one();
            task.cancelled().cancelled().await;
            stopped.notify_one();
            Ok(())
        }
    });
    let handle = alice
        .send_task(Target::Peer(pair.bob.peer_id().clone()), "long work")
        .await
        .unwrap();
    within("the agent starts", started.notified()).await;
    assert_eq!(handle.cancel().await.unwrap().status, TaskStatus::Canceled);
    within("the agent learns of the cancel", stopped.notified()).await;
    assert!(matches!(not_completed(&handle).await, TaskError::Canceled { .. }));
    let theirs = bob.task_handle(handle.id()).snapshot().await.unwrap();
    assert_eq!(theirs.status, TaskStatus::Canceled);
    let again = bob.task_handle(handle.id()).cancel().await;
    assert!(again.is_err_and(|error| error.kind() == ErrorKind::Conflict));
}

/// The agent's side cancels: the originator sees it.
#[tokio::test]
async fn the_assignee_cancels() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, _) = pair.nodes().await;
    let mut bob = pair.bob.rpc().await;
    let mut incoming = rpc::listen(&mut bob).await;
    let handle = alice
        .send_task(Target::Peer(pair.bob.peer_id().clone()), "unwanted")
        .await
        .unwrap();
    let task_id = next_task(&mut incoming).await.task_id;
    rpc::update(&mut bob, &task_id, v1::TaskStatus::Working)
        .await
        .unwrap();
    bob.cancel_task(v1::CancelTaskRequest { task_id }).await.unwrap();
    assert!(matches!(not_completed(&handle).await, TaskError::Canceled { .. }));
}

/// A task that nobody has started can be rejected by its agent.
#[tokio::test]
async fn the_assignee_rejects() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, _) = pair.nodes().await;
    let mut bob = pair.bob.rpc().await;
    let mut incoming = rpc::listen(&mut bob).await;
    let handle = alice
        .send_task(Target::Peer(pair.bob.peer_id().clone()), "unwanted")
        .await
        .unwrap();
    let task_id = next_task(&mut incoming).await.task_id;
    rpc::update(&mut bob, &task_id, v1::TaskStatus::Rejected)
        .await
        .unwrap();
    assert!(matches!(not_completed(&handle).await, TaskError::Rejected { .. }));
}

/// A deadline ends the task on both sides, also when nobody ever listened.
#[tokio::test]
async fn a_deadline_passes() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let handle = alice
        .task(Target::Peer(pair.bob.peer_id().clone()), "quick")
        .timeout(Duration::from_secs(1))
        .send()
        .await
        .unwrap();
    assert!(matches!(not_completed(&handle).await, TaskError::Failed { .. }));
    eventually("the other side ends it too", || async {
        let theirs = bob.task_handle(handle.id()).snapshot().await.ok()?;
        (theirs.status == TaskStatus::Failed).then_some(())
    })
    .await;
}

/// The agent claims the task, and its process goes away for longer than `agent_grace`.
#[tokio::test]
async fn an_agent_that_stays_away_fails_its_task() {
    let bob = Daemon::builder().config("agent_grace = \"1s\"\n").start().await;
    let alice = Daemon::builder().bootstrap(bob.tcp()).start().await;
    let asker = alice.node().await;
    let handle = asker
        .send_task(Target::Peer(bob.peer_id().clone()), "x")
        .await
        .unwrap();
    {
        let mut agent = bob.rpc().await;
        let mut incoming = rpc::listen(&mut agent).await;
        let task_id = next_task(&mut incoming).await.task_id;
        rpc::update(&mut agent, &task_id, v1::TaskStatus::Working)
            .await
            .unwrap();
    }
    match not_completed(&handle).await {
        TaskError::Failed { reason, .. } => assert!(reason.contains("agent went away"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

/// A peer that never comes: the task ends, and says why.
#[tokio::test]
async fn an_undelivered_task_expires() {
    let alice = Daemon::builder()
        .config("offline_queue_ttl = \"1s\"\n")
        .start()
        .await;
    let nobody = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK"
        .parse()
        .unwrap();
    let handle = alice
        .node()
        .await
        .send_task(Target::Peer(nobody), "x")
        .await
        .unwrap();
    match not_completed(&handle).await {
        TaskError::Failed { reason, .. } => assert!(reason.contains("not delivered within"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

/// The originator cancels a task that its peer has never got; the agent is not bothered with it.
#[tokio::test]
async fn a_task_is_canceled_while_its_peer_is_away() {
    let mut pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    pair.bob.stop().await;
    let target = Target::Peer(pair.bob.peer_id().clone());
    let canceled = alice.send_task(target.clone(), "never mind").await.unwrap();
    assert_eq!(canceled.cancel().await.unwrap().status, TaskStatus::Canceled);
    let wanted = alice.send_task(target, "but this").await.unwrap();
    pair.bob.restart().await;
    let _agent = TestAgent::echo(&bob);
    assert_eq!(completed(&wanted).await.text_content(), "echo: but this");
    assert_eq!(canceled.snapshot().await.unwrap().status, TaskStatus::Canceled);
    match bob.task_handle(canceled.id()).snapshot().await {
        Ok(theirs) => assert_eq!(theirs.status, TaskStatus::Canceled),
        Err(error) => assert_eq!(error.kind(), ErrorKind::TaskNotFound),
    }
}
