//! The system's clock is set back an hour and more, and 30 days ahead: under daemons that run, and between a
//! crash and the next start. Nothing is lost, done twice or ended early; waiting goes on in real time.
//!
//! Each daemon has a clock of its own ([`FakeClock`]).

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::SystemTime,
};

use agentanycast::{Artifact, HandlerError, IncomingTask, Target, TaskHandle};
use agentanycast_proto::v1::TaskStatus;
use agentanycast_tests::{
    Daemon, DaemonBuilder, agent::TestAgent, daemon::Home, daemon_pair::wait_connected, eventually,
    fake_clock::FakeClock, rpc, within,
};
use tokio::sync::Semaphore;

const HOUR: i64 = 3600;

/// A daemon with this clock.
fn daemon(clock: &FakeClock, home: &Home) -> DaemonBuilder {
    let environment = clock.environment().into_iter();
    environment.fold(DaemonBuilder::new(home.clone()), |builder, (name, value)| {
        builder.env(name, value)
    })
}

/// How often each task was worked on, by what it says.
type TaskRuns = Arc<Mutex<BTreeMap<String, usize>>>;

/// Holds back whoever says `hold`, and answers.
async fn answer(task: IncomingTask, runs: TaskRuns, gate: Arc<Semaphore>) -> Result<(), HandlerError> {
    let text = task.message().text_content();
    *runs.lock().unwrap().entry(text.clone()).or_default() += 1;
    if text.starts_with("hold") {
        gate.acquire().await.unwrap().forget();
    }
    task.complete([Artifact::text(text)]).await?;
    Ok(())
}

/// When a task was made, by the clock of its daemon: so many seconds from the right time.
async fn made(task: &TaskHandle) -> i64 {
    let made = task.snapshot().await.unwrap().created_at.unwrap();
    match made.duration_since(SystemTime::now()) {
        Ok(later) => later.as_secs() as i64,
        Err(earlier) => -(earlier.duration().as_secs() as i64),
    }
}

#[tokio::test]
async fn a_clock_that_is_set_back_stops_nothing() {
    let (Some(clock), Some(other_clock)) = (FakeClock::new(), FakeClock::new()) else {
        return;
    };
    let (home, other_home) = (Home::new(), Home::new());
    let mut bob = daemon(&other_clock, &other_home).start().await;
    let mut alice = daemon(&clock, &home).bootstrap(bob.tcp()).start().await;
    let (runs, gate) = (TaskRuns::default(), Arc::new(Semaphore::new(0)));
    let serve = async |bob: &Daemon| {
        let (runs, gate) = (Arc::clone(&runs), Arc::clone(&gate));
        TestAgent::serve(&bob.node().await, move |task| {
            answer(task, Arc::clone(&runs), Arc::clone(&gate))
        })
    };
    let mut agent = serve(&bob).await;
    let mut node = alice.node().await;
    wait_connected(&node, &bob).await;
    let target = Target::Peer(bob.peer_id().clone());
    let mut sent = Vec::new();
    let mut done = async |node: &agentanycast::Node, text: &str| {
        let task = node.send_task(target.clone(), text).await.unwrap();
        let ended = within("the task ends", task.wait()).await.unwrap();
        assert_eq!(ended.text_content(), text);
        sent.push(text.to_owned());
        task
    };
    let first = done(&node, "right").await;
    assert!(made(&first).await > -HOUR / 2);
    let held = node.send_task(target.clone(), "hold 1").await.unwrap();

    // Under those who run: first one's, then the other's too.
    clock.set(-HOUR);
    let back = done(&node, "sender back").await;
    assert!(made(&back).await <= -HOUR, "the clock is not what it was set to");
    other_clock.set(-2 * HOUR);
    done(&node, "both back").await;
    gate.add_permits(1);
    within("what was begun before ends", held.wait()).await.unwrap();

    // Under what waits in the queue: it is not older than it may be, nor from a time that has not come.
    drop(agent);
    bob.kill().await;
    let mut waiting = Vec::new();
    for at in 0..3 {
        let task = node.send_task(target.clone(), format!("queued {at}")).await;
        waiting.push(task.unwrap().id().to_owned());
    }
    clock.set(-5 * HOUR);
    alice.kill().await;
    alice.restart().await;
    node = alice.node().await;
    other_clock.set(-9 * HOUR);
    bob.restart().await;
    agent = serve(&bob).await;
    for id in &waiting {
        let task = node.task_handle(id);
        within("what waited ends", task.wait()).await.unwrap();
    }
    done(&node, "after both starts").await;

    // Forward to what is right, as when the time of the network has come.
    clock.set(0);
    other_clock.set(0);
    done(&node, "right again").await;
    drop(agent);
    let texts = ["hold 1", "queued 0", "queued 1", "queued 2"].map(str::to_owned);
    let all: BTreeMap<String, usize> = sent.into_iter().chain(texts).map(|text| (text, 1)).collect();
    assert_eq!(*runs.lock().unwrap(), all, "each once");
    super::has_not_panicked(&alice.log_tail());
    super::has_not_panicked(&bob.log_tail());
}

/// Retention is 7 days, the queue and keys of calls are kept a day: by the time that passes.
#[tokio::test]
async fn a_clock_that_is_set_30_days_ahead_deletes_nothing() {
    const AHEAD: i64 = 30 * 24 * HOUR;
    let Some(clock) = FakeClock::new() else {
        return;
    };
    let mut alice = daemon(&clock, &Home::new()).start().await;
    let mut rpc = alice.rpc().await;
    let own = rpc::to_peer(alice.peer_id(), rpc::text("done"));
    let keyed = agentanycast_proto::v1::SendTaskRequest {
        idempotency_key: "key".to_owned(),
        ..own.clone()
    };
    let sent = rpc.send_task(keyed.clone()).await.unwrap().into_inner();
    let done = sent.task.unwrap().task_id;
    rpc::complete(&mut rpc, &done, "r").await.unwrap();
    let nobody = agentanycast_tests::raw_peer::RawPeer::new();
    let away: agentanycast::PeerId = nobody.id().to_string().parse().unwrap();
    let queued = rpc::send(&mut rpc, &away, "queued").await.task_id;
    for restarts in [false, true] {
        clock.set(AHEAD);
        if restarts {
            alice.kill().await;
            alice.restart().await;
            rpc = alice.rpc().await;
        }
        // The daemon has looked after time when a deadline of yesterday's calendar has passed, and some times
        // more.
        let soon =
            prost_types::Timestamp::from(SystemTime::now() + std::time::Duration::from_secs(HOUR as u64));
        let mut late = own.clone();
        late.metadata.insert("deadline".to_owned(), soon.to_string());
        let late = rpc
            .send_task(late)
            .await
            .unwrap()
            .into_inner()
            .task
            .unwrap()
            .task_id;
        eventually("the deadline passes", || async {
            let task = rpc::get(&mut alice.rpc().await, &late).await.ok()?;
            (task.status() == TaskStatus::Failed).then_some(())
        })
        .await;
        for _ in 0..30 {
            let task = rpc::get(&mut rpc, &done).await.unwrap();
            assert_eq!(task.status(), TaskStatus::Completed);
            let task = rpc::get(&mut rpc, &queued).await.unwrap();
            assert_eq!(task.status(), TaskStatus::Submitted, "it waits for its peer");
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        let again = rpc.send_task(keyed.clone()).await.unwrap().into_inner();
        assert_eq!(again.task.unwrap().task_id, done, "the key is known");
        clock.set(0);
    }
    // Ended while the clock was 30 days back, and it is right again.
    clock.set(-AHEAD);
    let back = rpc::send(&mut rpc, alice.peer_id(), "back").await.task_id;
    rpc::complete(&mut rpc, &back, "r").await.unwrap();
    clock.set(0);
    for _ in 0..30 {
        rpc::get(&mut rpc, &back).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    super::has_not_panicked(&alice.log_tail());
}
