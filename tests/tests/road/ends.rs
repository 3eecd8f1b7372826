//! How tasks end when they do not complete: failed by the agent, canceled by either side, out of time.

use std::{sync::Arc, time::Duration};

use agentanycast::{ErrorKind, HandlerError, Target, TaskError, TaskStatus};
use agentanycast_proto::v1;
use agentanycast_tests::{
    Pair, Transport,
    agent::Agent,
    ending::not_completed,
    eventually,
    rpc::{self, next_task},
    within,
};
use tokio::sync::Notify;

#[tokio::test]
async fn a_failure_arrives_with_its_reason() {
    let pair = Pair::start(Transport::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let _agent = Agent::serve(&bob, |_task| async { Err(HandlerError::new("no such city")) });
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
    let pair = Pair::start(Transport::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let (started, stopped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let marks = (Arc::clone(&started), Arc::clone(&stopped));
    let _agent = Agent::serve(&bob, move |task| {
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
    let pair = Pair::start(Transport::Tcp).await;
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
    let pair = Pair::start(Transport::Tcp).await;
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
    let pair = Pair::start(Transport::Tcp).await;
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
