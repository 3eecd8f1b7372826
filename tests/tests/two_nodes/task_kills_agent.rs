//! A task that kills the agent that works on it. The agent is a process of its own, which a supervisor starts
//! again.

use std::{
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use agentanycast::{Target, TaskStatus};
use agentanycast_tests::{
    Daemon, DaemonBuilder, DaemonPair, TransportKind, eventually, eventually_within, rpc,
};
use tokio::{process::Command, task::AbortHandle};

use crate::metrics::wait_metrics;

const GOOD: usize = 50;

/// What the agent's process is started with: by the SDK or bare, and when it dies of the task, in
/// milliseconds.
const KINDS: [(&str, &str); 3] = [("bare", "10"), ("sdk", "0"), ("sdk", "50")];

/// Starts the agent again whenever it ends. The counter has how often it ended.
fn supervise(daemon: &Daemon, kind: (&'static str, &'static str)) -> (Arc<AtomicUsize>, AbortHandle) {
    let (ends, address) = (Arc::new(AtomicUsize::new(0)), daemon.grpc().to_owned());
    let counted = Arc::clone(&ends);
    let supervisor = tokio::spawn(async move {
        loop {
            let mut process = Command::new(env!("CARGO_BIN_EXE_crashing_agent"))
                .args([address.as_str(), kind.0, kind.1])
                .stdin(Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .unwrap();
            process.wait().await.unwrap();
            counted.fetch_add(1, Relaxed);
        }
    });
    (ends, supervisor.abort_handle())
}

async fn the_good_ones_are_done(kind: (&'static str, &'static str)) {
    let pair = DaemonPair::start_with(TransportKind::Tcp, DaemonBuilder::metrics).await;
    let (alice, bob) = pair.nodes().await;
    let mut sent = Vec::new();
    for number in 0..=GOOD {
        let text = if number == GOOD / 2 { "poison" } else { "good" };
        let target = Target::Peer(pair.bob.peer_id().clone());
        sent.push((text, alice.send_task(target, text).await.unwrap()));
    }
    // All are there before the agent is, so that it takes all at once.
    eventually("all tasks are at the agent's node", || async {
        let open = pair.bob.metric("agentanycast_open_tasks").await;
        (open == Some(51.0)).then_some(())
    })
    .await;
    let (ends, supervisor) = supervise(&pair.bob, kind);
    for (text, handle) in &sent {
        let ended = eventually_within(Duration::from_mins(2), "the task ends", || async {
            let task = handle.snapshot().await.ok()?;
            task.status.is_terminal().then_some(task)
        })
        .await;
        if *text == "good" {
            assert_eq!(ended.status, TaskStatus::Completed, "{kind:?}: {ended:?}");
            continue;
        }
        assert_eq!(ended.status, TaskStatus::Failed, "{kind:?}");
        let reason = ended.status_message.map(|message| message.text_content());
        let expected = "its agent ended 5 times while it had this task";
        assert_eq!(reason.as_deref(), Some(expected), "{kind:?}");
        assert_eq!(bob.trace(ended.id).await.unwrap().agent_ends, 5);
    }
    assert_eq!(ends.load(Relaxed), 5, "{kind:?}: the agent ended as often");
    wait_metrics(
        &pair.bob,
        &[(r#"agentanycast_task_agent_ends_total{outcome="failed"}"#, 1.0)],
    )
    .await;
    supervisor.abort();
}

#[tokio::test]
async fn a_task_that_kills_a_bare_agent_fails_and_the_others_are_done() {
    the_good_ones_are_done(KINDS[0]).await;
}

#[tokio::test]
async fn a_task_that_kills_an_agent_of_the_sdk_fails_and_the_others_are_done() {
    the_good_ones_are_done(KINDS[1]).await;
}

/// It dies after the SDK has claimed all tasks for it.
#[tokio::test]
async fn a_task_that_kills_an_agent_after_the_claim_fails_and_the_others_are_done() {
    the_good_ones_are_done(KINDS[2]).await;
}

/// An agent that stops its stream, or closes its connection, has not ended of the task.
#[tokio::test]
async fn an_agent_that_stops_by_itself_is_not_counted() {
    let daemon = Daemon::builder().start().await;
    let mut sender = daemon.rpc().await;
    let id = rpc::send(&mut sender, daemon.peer_id(), "x").await.task_id;
    let mut agent = daemon.rpc().await;
    for round in 0..8 {
        let mut tasks = rpc::listen(&mut agent).await;
        assert_eq!(rpc::next_task(&mut tasks).await.task_id, id);
        drop(tasks);
        if round % 2 == 1 {
            agent = daemon.rpc().await;
        }
    }
    rpc::complete(&mut sender, &id, "done").await.unwrap();
    let node = daemon.node().await;
    assert_eq!(node.trace(id).await.unwrap().agent_ends, 0);
}
