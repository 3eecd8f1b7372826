//! A peer that is away for longer than the retries last gets everything in order when it is back: tasks,
//! answers, cancels to the receiver; progress, questions, ends to the originator. And what cannot be
//! delivered in its time ends with that reason.

use agentanycast::{Message, Node, PeerId, Target, Task, TaskError, TaskHandle, TaskStatus};
use agentanycast_proto::v1;
use agentanycast_tests::{
    Daemon, DaemonPair, TransportKind,
    daemon_pair::{wait_connected, wait_disconnected},
    eventually,
    rpc::{self, Rpc, next_task},
    task_assertions::{completed, not_completed},
    within,
};
use futures::StreamExt as _;
use std::time::Duration;

/// Retries that are over soon.
const SOON: &str = "retry_delays = [\"100ms\", \"200ms\", \"400ms\"]\n";

/// How long those retries last with the longest jitter: 700 ms and a fifth, and what the timer's step takes.
const RETRIED: Duration = Duration::from_secs(1);

/// How long an envelope may wait in the tests of expiry.
const TTL: &str = "offline_queue_ttl = \"2s\"\n";

/// What the end of a task begins with that was not delivered within [`TTL`]; how often it was sent follows.
const EXPIRED: &str = "not delivered within 2 s: ";

/// Two daemons whose retries are over soon.
async fn impatient(transport: TransportKind) -> DaemonPair {
    let daemon = || Daemon::builder().listen([transport.listen()]).config(SOON);
    DaemonPair::from_builders(daemon(), daemon()).await
}

/// Waits until the task is in this state here.
async fn becomes(handle: &TaskHandle, status: TaskStatus) -> Task {
    eventually(&format!("the task is {status}"), || async {
        let task = handle.snapshot().await.ok()?;
        (task.status == status).then_some(task)
    })
    .await
}

fn said(task: &Task) -> Vec<String> {
    task.messages.iter().map(Message::text_content).collect()
}

/// What waits for the receiver while it is away: tasks, and between them an answer and a cancel.
struct QueuedTasks {
    tasks: Vec<TaskHandle>,
    asked: TaskHandle,
    doomed: TaskHandle,
}

impl QueuedTasks {
    /// While all is well: one task whose agent asks, one whose agent works.
    async fn prepare(alice: &Node, bob: &PeerId, agent: &mut Rpc) -> (TaskHandle, TaskHandle) {
        let mut incoming = rpc::listen(agent).await;
        let mut handles = Vec::new();
        for status in [v1::TaskStatus::InputRequired, v1::TaskStatus::Working] {
            let handle = alice.send_task(Target::Peer(bob.clone()), "first").await.unwrap();
            assert_eq!(next_task(&mut incoming).await.task_id, handle.id());
            rpc::update(agent, handle.id(), status).await.unwrap();
            handles.push(handle);
        }
        let [asked, doomed] = handles.try_into().unwrap();
        becomes(&asked, TaskStatus::InputRequired).await;
        becomes(&doomed, TaskStatus::Working).await;
        (asked, doomed)
    }

    /// While the receiver is away.
    async fn queue(alice: &Node, bob: &PeerId, asked: TaskHandle, doomed: TaskHandle) -> Self {
        let mut tasks = Vec::new();
        for number in 0..10 {
            match number {
                3 => asked.reply("an answer").await.unwrap(),
                6 => drop(doomed.cancel().await.unwrap()),
                _ => {}
            }
            let target = Target::Peer(bob.clone());
            tasks.push(alice.send_task(target, format!("task {number}")).await.unwrap());
        }
        Self { tasks, asked, doomed }
    }

    /// When the receiver is back: its agent is handed everything once, tasks and answers in order. That a task has ended is
    /// told before what still waits to be handed over.
    async fn comes(&self, incoming: &mut tonic::Streaming<v1::SubscribeIncomingTasksResponse>) {
        let mut expected: Vec<&str> = self.tasks.iter().map(TaskHandle::id).collect();
        expected.insert(3, self.asked.id());
        let mut handed = Vec::new();
        let mut ends = 0;
        for _ in 0..=expected.len() {
            let task = next_task(incoming).await;
            if task.task_id == self.doomed.id() {
                assert_eq!(task.status(), v1::TaskStatus::Canceled);
                ends += 1;
                continue;
            }
            if task.task_id == self.asked.id() {
                let last = task.messages.last().unwrap();
                assert_eq!(rpc::text_of(&last.parts), "an answer");
            }
            handed.push(task.task_id);
        }
        assert_eq!(handed, expected);
        assert_eq!(ends, 1);
    }

    /// The agent does it all, and the originator sees it.
    async fn ends(&self, agent: &mut Rpc) {
        for handle in self.tasks.iter().chain([&self.asked]) {
            rpc::complete(agent, handle.id(), "late, but done").await.unwrap();
            assert_eq!(completed(handle).await.text_content(), "late, but done");
        }
        assert_eq!(self.doomed.snapshot().await.unwrap().status, TaskStatus::Canceled);
    }
}

/// The receiver does nothing for a while, but its connection stays: every envelope is sent four times.
#[tokio::test]
async fn a_receiver_that_was_frozen_gets_all_in_order() {
    for transport in [TransportKind::Tcp, TransportKind::Quic] {
        let pair = impatient(transport).await;
        let (alice, bob) = (pair.alice.node().await, pair.bob.peer_id());
        let mut agent = pair.bob.rpc().await;
        let (asked, doomed) = QueuedTasks::prepare(&alice, bob, &mut agent).await;
        let mut incoming = rpc::listen(&mut agent).await;
        pair.bob.freeze();
        let queued = QueuedTasks::queue(&alice, bob, asked, doomed).await;
        // This is the time that has to pass, nothing is waited for.
        tokio::time::sleep(RETRIED).await;
        pair.bob.thaw();
        queued.comes(&mut incoming).await;
        queued.ends(&mut agent).await;
    }
}

/// The receiver is gone for a while; so, for a moment, is the sender.
#[tokio::test]
async fn a_receiver_that_was_gone_gets_all_in_order() {
    for transport in [TransportKind::Tcp, TransportKind::Quic] {
        let mut pair = impatient(transport).await;
        let (alice, bob) = (pair.alice.node().await, pair.bob.peer_id().clone());
        let mut agent = pair.bob.rpc().await;
        let (asked, doomed) = QueuedTasks::prepare(&alice, &bob, &mut agent).await;
        pair.bob.kill().await;
        let queued = QueuedTasks::queue(&alice, &bob, asked, doomed).await;
        pair.alice.kill().await;
        pair.alice.restart().await;
        tokio::time::sleep(RETRIED).await;
        pair.bob.restart().await;
        let mut agent = pair.bob.rpc().await;
        let mut incoming = rpc::listen(&mut agent).await;
        queued.comes(&mut incoming).await;
        queued.ends(&mut agent).await;
    }
}

/// The originator is gone while the agent reports, asks, completes and fails; each task says all of it.
#[tokio::test]
async fn an_originator_that_was_gone_gets_all_in_order() {
    let mut pair = impatient(TransportKind::Tcp).await;
    let (alice, bob) = (pair.alice.node().await, pair.bob.peer_id().clone());
    let mut agent = pair.bob.rpc().await;
    let mut incoming = rpc::listen(&mut agent).await;
    let mut handles = Vec::new();
    for name in ["asks", "completes", "fails"] {
        let handle = alice.send_task(Target::Peer(bob.clone()), name).await.unwrap();
        assert_eq!(next_task(&mut incoming).await.task_id, handle.id());
        handles.push(handle);
    }
    let [asks, completes, fails] = handles.try_into().unwrap();
    pair.alice.kill().await;
    for step in ["one", "two", "three"] {
        for handle in [&asks, &completes, &fails] {
            rpc::report(&mut agent, handle.id(), v1::TaskStatus::Working, step)
                .await
                .unwrap();
        }
    }
    rpc::report(&mut agent, asks.id(), v1::TaskStatus::InputRequired, "four?")
        .await
        .unwrap();
    rpc::complete(&mut agent, completes.id(), "result").await.unwrap();
    let request = v1::FailTaskRequest {
        task_id: fails.id().to_owned(),
        error_message: "no ink".to_owned(),
        unclaimed: false,
    };
    agent.fail_task(request).await.unwrap();
    tokio::time::sleep(RETRIED).await;
    pair.alice.restart().await;
    let asking = becomes(&asks, TaskStatus::InputRequired).await;
    assert_eq!(said(&asking), ["asks", "one", "two", "three", "four?"]);
    let done = completed(&completes).await;
    assert_eq!(said(&done), ["completes", "one", "two", "three"]);
    assert_eq!(done.text_content(), "result");
    match not_completed(&fails).await {
        TaskError::Failed { reason, .. } => assert_eq!(reason, "no ink"),
        other => panic!("{other:?}"),
    }
    let failed = fails.snapshot().await.unwrap();
    assert_eq!(said(&failed)[..4], ["fails", "one", "two", "three"]);
}

/// A task that is not delivered in its time fails, whether somebody watches it, or its daemon is down when
/// the time is over; and the receiver never hears of it.
#[tokio::test]
async fn a_task_that_is_not_delivered_in_time_fails() {
    let daemon = || Daemon::builder().config(TTL);
    let mut pair = DaemonPair::from_builders(daemon(), daemon()).await;
    let (alice, bob) = (pair.alice.node().await, pair.bob.peer_id().clone());
    pair.bob.stop().await;
    let send = async |what: &str| {
        let target = Target::Peer(bob.clone());
        alice.send_task(target, what).await.unwrap()
    };
    let watched = [send("one").await, send("two").await];
    for handle in &watched {
        let mut updates = handle.updates();
        let mut states = Vec::new();
        while let Some(update) = within("the task expires", updates.next()).await {
            let update = update.unwrap();
            let reason = update.message.map(|message| message.text_content());
            states.push((update.status, reason));
        }
        let (status, reason) = states.pop().unwrap();
        assert_eq!(status, TaskStatus::Failed);
        let reason = reason.unwrap_or_default();
        assert!(reason.starts_with(EXPIRED), "{reason}");
    }
    let missed = send("three").await;
    pair.alice.kill().await;
    // Longer than the time that the task has.
    tokio::time::sleep(Duration::from_secs(3)).await;
    pair.alice.restart().await;
    for handle in watched.iter().chain([&missed]) {
        match not_completed(handle).await {
            TaskError::Failed { reason, .. } => assert!(reason.starts_with(EXPIRED), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
    let restart = pair.bob.stopped().config("offline_queue_ttl = \"24h\"\n");
    pair.bob = restart.start().await;
    let mut agent = pair.bob.rpc().await;
    let mut incoming = rpc::listen(&mut agent).await;
    let in_time = send("in time").await;
    assert_eq!(next_task(&mut incoming).await.task_id, in_time.id());
}

/// An answer that is not delivered in its time fails its task; the agent that waits for it learns that.
#[tokio::test]
async fn an_answer_that_is_not_delivered_in_time_fails_its_task() {
    let mut pair = DaemonPair::from_builders(Daemon::builder().config(TTL), Daemon::builder()).await;
    let (alice, bob) = (pair.alice.node().await, pair.bob.peer_id().clone());
    let mut agent = pair.bob.rpc().await;
    let (asked, _) = QueuedTasks::prepare(&alice, &bob, &mut agent).await;
    pair.bob.kill().await;
    asked.reply("too late").await.unwrap();
    match not_completed(&asked).await {
        TaskError::Failed { reason, .. } => assert!(reason.starts_with(EXPIRED), "{reason}"),
        other => panic!("{other:?}"),
    }
    pair.bob.restart().await;
    let theirs = pair.bob.node().await.task_handle(asked.id());
    becomes(&theirs, TaskStatus::Canceled).await;
}

/// An end that is not delivered in its time is fetched by the originator when the two meet again.
#[tokio::test]
async fn an_end_that_was_not_delivered_in_time_is_fetched() {
    let daemon = || Daemon::builder().config(TTL);
    let mut pair = DaemonPair::from_builders(daemon(), daemon()).await;
    let (alice, bob) = pair.nodes().await;
    let mut agent = pair.bob.rpc().await;
    let mut incoming = rpc::listen(&mut agent).await;
    let target = Target::Peer(pair.bob.peer_id().clone());
    let handle = alice.send_task(target, "x").await.unwrap();
    assert_eq!(next_task(&mut incoming).await.task_id, handle.id());
    rpc::update(&mut agent, handle.id(), v1::TaskStatus::Working)
        .await
        .unwrap();
    becomes(&handle, TaskStatus::Working).await;
    pair.alice.kill().await;
    wait_disconnected(&bob).await;
    rpc::complete(&mut agent, handle.id(), "fetched").await.unwrap();
    // Longer than the time that the end has.
    tokio::time::sleep(Duration::from_secs(3)).await;
    pair.alice.restart().await;
    wait_connected(&alice, &pair.bob).await;
    assert_eq!(completed(&handle).await.text_content(), "fetched");
}
