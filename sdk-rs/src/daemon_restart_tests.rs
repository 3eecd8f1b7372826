//! Tests: the daemon goes away in the middle of things, and senders do not notice.

use std::time::Duration;

use agentanycast_proto::v1::TaskStatus as Status;
use futures::StreamExt;

use crate::{
    AgentCard, ErrorKind, PeerId, Target, TaskError, TaskStatus,
    fake_daemon::{CallMode, FakeDaemon, in_both_modes},
};

const PEER: &str = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";

fn peer() -> PeerId {
    PEER.parse().unwrap()
}

in_both_modes! {
    updates_go_on_and_the_end_comes_once
    an_end_while_the_daemon_was_away_is_not_missed
    a_repeated_send_makes_one_task
    without_patience_a_lost_daemon_is_an_error_that_may_be_retried
    a_refusal_is_not_repeated
    the_card_is_set_again_on_a_new_connection
    a_cancel_whose_answer_was_lost_is_no_conflict
    the_way_is_the_one_that_the_daemon_knows
    the_way_changes_with_the_daemon
    many_waits_outlive_restarts
    dropped_waits_are_given_up
    what_is_run_is_one_task_over_restarts
    what_is_run_is_not_sent_again_when_its_key_may_be_forgotten
    what_is_run_ends_as_the_task_does
}

async fn updates_go_on_and_the_end_comes_once(way: CallMode) {
    let mut fake = FakeDaemon::start(way);
    fake.put("t", Status::Working, Vec::new());
    let mut updates = fake.node().await.task_handle("t").updates();
    assert_eq!(updates.next().await.unwrap().unwrap().status, TaskStatus::Working);
    fake.restart();
    let completing = async {
        fake.until("a new subscription", |state| state.subscriptions == 2)
            .await;
        fake.put("t", Status::Completed, Vec::new());
    };
    let (next, ()) = tokio::join!(updates.next(), completing);
    // The state known from before is not repeated.
    assert_eq!(next.unwrap().unwrap().status, TaskStatus::Completed);
    assert!(updates.next().await.is_none());
}

async fn an_end_while_the_daemon_was_away_is_not_missed(way: CallMode) {
    let mut fake = FakeDaemon::start(way);
    fake.put("t", Status::Working, Vec::new());
    let handle = fake.node().await.task_handle("t");
    let waiting = tokio::spawn(async move { handle.wait().await });
    fake.until("the subscription", |state| state.subscriptions == 1)
        .await;
    fake.stop();
    fake.put("t", Status::Completed, Vec::new());
    fake.restart();
    assert_eq!(waiting.await.unwrap().unwrap().status, TaskStatus::Completed);
}

async fn a_repeated_send_makes_one_task(way: CallMode) {
    let mut fake = FakeDaemon::start(way);
    let node = fake.node().await;
    fake.state().unanswered.push("send");
    let sending = tokio::spawn(async move { node.send_task(Target::Peer(peer()), "hi").await });
    fake.until("the send", |state| state.calls == ["send"]).await;
    fake.restart();
    assert_eq!(sending.await.unwrap().unwrap().id(), "task-0");
    assert_eq!(fake.state().calls, ["send", "send"]);
    assert_eq!(fake.state().tasks.len(), 1);
}

async fn what_is_run_is_one_task_over_restarts(way: CallMode) {
    let mut fake = FakeDaemon::start(way);
    let node = fake.node().await;
    fake.state().unanswered.push("send");
    let running = tokio::spawn(async move { node.run_task(Target::Peer(peer()), "hi").await });
    fake.until("the send", |state| state.calls == ["send"]).await;
    fake.restart();
    for waits in 1..=2 {
        fake.until("the wait", |state| state.subscriptions == waits).await;
        fake.restart();
    }
    fake.put("task-0", Status::Completed, Vec::new());
    assert_eq!(running.await.unwrap().unwrap().id, "task-0");
    assert_eq!(fake.state().tasks.len(), 1);
}

/// A daemon forgets idempotency keys, busy ones soon, and a task may take longer: by then it is known by its id.
async fn what_is_run_is_not_sent_again_when_its_key_may_be_forgotten(way: CallMode) {
    let mut fake = FakeDaemon::start(way);
    let node = fake.node().await;
    let running = tokio::spawn(async move { node.run_task(Target::Peer(peer()), "hi").await });
    // The one by its id is the second, where the first was part of the call.
    let waits = if way == CallMode::Session { 2 } else { 1 };
    fake.until("it is waited for by its id", |state| state.subscriptions == waits)
        .await;
    fake.state().keys.clear();
    fake.restart();
    fake.put("task-0", Status::Completed, Vec::new());
    assert_eq!(running.await.unwrap().unwrap().id, "task-0");
    assert_eq!(fake.state().tasks.len(), 1);
}

/// It is not asked again on the same stream.
#[tokio::test]
async fn a_daemon_that_cannot_run_tasks_is_sent_them_and_asked_for_their_ends() {
    let fake = FakeDaemon::start(CallMode::Session);
    fake.state().refuses_runs = true;
    let node = fake.node().await;
    for task in ["task-0", "task-1"] {
        let sender = node.clone();
        let running = tokio::spawn(async move { sender.run_task(Target::Peer(peer()), "hi").await });
        fake.until("the send", |state| state.tasks.contains_key(task))
            .await;
        fake.put(task, Status::Completed, Vec::new());
        assert_eq!(running.await.unwrap().unwrap().id, task);
        assert_eq!(fake.state().runs, 1);
    }
    assert_eq!(fake.state().tasks.len(), 2);
}

async fn what_is_run_ends_as_the_task_does(way: CallMode) {
    let fake = FakeDaemon::start(way);
    let node = fake.node().await;
    for (end, task) in [(Status::Failed, "task-0"), (Status::Rejected, "task-1")] {
        let sender = node.clone();
        let running = tokio::spawn(async move { sender.run_task(Target::Peer(peer()), "hi").await });
        fake.until("the send", |state| state.tasks.contains_key(task))
            .await;
        fake.put(task, end, Vec::new());
        let ended = running.await.unwrap().unwrap_err();
        assert!(
            matches!(
                (&ended, end),
                (TaskError::Failed { .. }, Status::Failed) | (TaskError::Rejected { .. }, Status::Rejected)
            ),
            "{ended:?}"
        );
    }
    assert_eq!(fake.state().calls, ["send", "send"]);
    let sender = node.clone();
    let dropped = tokio::spawn(async move { sender.run_task(Target::Peer(peer()), "hi").await });
    fake.until("the wait", |state| state.subscriptions == 3).await;
    dropped.abort();
    if way == CallMode::Session {
        fake.until("it is given up", |state| state.canceled_waits == 1)
            .await;
    }
}

async fn without_patience_a_lost_daemon_is_an_error_that_may_be_retried(way: CallMode) {
    let mut fake = FakeDaemon::start(way);
    let node = crate::Node::builder().patience(Duration::ZERO);
    let node = node.connect(fake.node().await.address()).await.unwrap();
    fake.stop();
    let error = node.info().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DaemonUnavailable);
    assert!(error.is_retryable());
}

async fn a_refusal_is_not_repeated(way: CallMode) {
    let fake = FakeDaemon::start(way);
    let node = fake.node().await;
    assert_eq!(
        node.connect_peer(&peer(), [""]).await.unwrap_err().kind(),
        ErrorKind::PeerNotFound
    );
    assert_eq!(
        node.card_of(&peer()).await.unwrap_err().kind(),
        ErrorKind::CardNotFound
    );
    let missing = node.task_handle("nothing").wait().await.unwrap_err();
    assert!(matches!(missing, crate::TaskError::Node(error) if error.kind() == ErrorKind::TaskNotFound));
}

async fn the_card_is_set_again_on_a_new_connection(way: CallMode) {
    let mut fake = FakeDaemon::start(way);
    let node = fake.node().await;
    node.set_card(AgentCard::new("a", "b")).await.unwrap();
    node.info().await.unwrap();
    assert_eq!(fake.state().cards, 1);
    fake.restart();
    node.info().await.unwrap();
    assert_eq!(fake.state().cards, 2);
}

async fn a_cancel_whose_answer_was_lost_is_no_conflict(way: CallMode) {
    let mut fake = FakeDaemon::start(way);
    fake.put("t", Status::Working, Vec::new());
    let handle = fake.node().await.task_handle("t");
    fake.state().unanswered.push("cancel");
    let canceling = tokio::spawn(async move { handle.cancel().await });
    fake.until("the cancel", |state| state.calls == ["cancel"]).await;
    fake.restart();
    assert_eq!(canceling.await.unwrap().unwrap().status, TaskStatus::Canceled);
}

async fn the_way_is_the_one_that_the_daemon_knows(way: CallMode) {
    let mut fake = FakeDaemon::start(way);
    let node = fake.node().await;
    for round in 1..=2 {
        let handle = node.send_task(Target::Peer(peer()), "hi").await.unwrap();
        handle.snapshot().await.unwrap();
        let sessions = if way == CallMode::Session { round } else { 0 };
        assert_eq!(fake.state().sessions, sessions);
        fake.restart();
    }
}

/// The daemon is exchanged for one that does not know, or newly knows, sessions.
async fn the_way_changes_with_the_daemon(way: CallMode) {
    let mut fake = FakeDaemon::start(way);
    let handle = fake
        .node()
        .await
        .send_task(Target::Peer(peer()), "hi")
        .await
        .unwrap();
    fake.mode = if way == CallMode::Session {
        CallMode::Unary
    } else {
        CallMode::Session
    };
    fake.restart();
    // An older daemon is asked again once the connection is known to be another.
    handle.snapshot().await.unwrap();
    handle.snapshot().await.unwrap();
    assert_eq!(fake.state().sessions, 1);
    fake.put(handle.id(), Status::Completed, Vec::new());
    handle.wait().await.unwrap();
}

async fn many_waits_outlive_restarts(way: CallMode) {
    const WAITS: usize = 300;
    let mut fake = FakeDaemon::start(way);
    let node = fake.node().await;
    for number in 0..WAITS {
        fake.put(&number.to_string(), Status::Working, Vec::new());
    }
    let waits = (0..WAITS).map(|number| {
        let handle = node.task_handle(number.to_string());
        tokio::spawn(async move { handle.wait().await.unwrap().id })
    });
    let waits: Vec<_> = waits.collect();
    for restarts in 1..=3 {
        fake.until("all wait", |state| state.subscriptions >= restarts * WAITS)
            .await;
        fake.restart();
    }
    for number in 0..WAITS {
        fake.put(&number.to_string(), Status::Completed, Vec::new());
    }
    for (number, wait) in waits.into_iter().enumerate() {
        assert_eq!(wait.await.unwrap(), number.to_string());
    }
}

/// Waits that nobody wants are given up, more of them than the way to the daemon holds; what comes after works.
async fn dropped_waits_are_given_up(way: CallMode) {
    const WAITS: usize = 500;
    let fake = FakeDaemon::start(way);
    let node = fake.node().await;
    fake.put("t", Status::Working, Vec::new());
    let handle = node.task_handle("t");
    let waits: Vec<_> = (0..WAITS)
        .map(|_| {
            let handle = handle.clone();
            tokio::spawn(async move { handle.wait().await })
        })
        .collect();
    fake.until("all wait", |state| state.subscriptions == WAITS).await;
    for wait in &waits {
        wait.abort();
    }
    if way == CallMode::Session {
        fake.until("all are given up", |state| state.canceled_waits == WAITS)
            .await;
    }
    fake.put("t", Status::Completed, Vec::new());
    handle.wait().await.unwrap();
}
