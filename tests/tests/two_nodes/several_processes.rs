//! Several processes of one agent on one daemon: each task is handed to one of them. None of them claims, or says anything
//! before its result, as agents of the published Python SDK do.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Stdio,
    time::Duration,
};

use agentanycast::TaskStatus;
use agentanycast_proto::v1;
use agentanycast_tests::{
    Daemon, eventually_within,
    rpc::{self, Rpc},
    within,
};
use tokio::{
    process::{Child, Command},
    sync::mpsc,
    task::AbortHandle,
};

const TASKS: usize = 20;

/// A process of the agent: says which tasks it was handed, is silent for `silence`, and completes them.
async fn work(daemon: &Daemon, silence: Duration, handed: mpsc::UnboundedSender<String>) -> AbortHandle {
    let mut rpc = daemon.rpc().await;
    let mut tasks = rpc::listen(&mut rpc).await;
    let working = tokio::spawn(async move {
        loop {
            let id = rpc::next_task(&mut tasks).await.task_id;
            handed.send(id.clone()).unwrap();
            let mut rpc = rpc.clone();
            tokio::spawn(async move {
                tokio::time::sleep(silence).await;
                rpc::complete(&mut rpc, &id, "done").await.unwrap();
            });
        }
    });
    working.abort_handle()
}

async fn send_all(daemon: &Daemon, sender: &mut Rpc) -> BTreeSet<String> {
    let mut sent = BTreeSet::new();
    for number in 0..TASKS {
        let task = rpc::send(sender, daemon.peer_id(), &number.to_string()).await;
        sent.insert(task.task_id);
    }
    sent
}

async fn all_complete(sender: &Rpc, sent: &BTreeSet<String>) {
    for id in sent {
        eventually_within(Duration::from_mins(1), "the task completes", || async {
            let task = rpc::get(&mut sender.clone(), id).await.unwrap();
            (task.status() == v1::TaskStatus::Completed).then_some(())
        })
        .await;
    }
}

/// All that was said so far.
fn said(handed: &mut mpsc::UnboundedReceiver<String>) -> Vec<String> {
    std::iter::from_fn(|| handed.try_recv().ok()).collect()
}

#[tokio::test]
async fn twenty_tasks_are_run_twenty_times_by_two_processes() {
    let daemon = Daemon::builder().start().await;
    let mut sender = daemon.rpc().await;
    let (first, mut handed_to_first) = mpsc::unbounded_channel();
    let (second, mut handed_to_second) = mpsc::unbounded_channel();
    // Longer than a listener that reads nothing was left alone before.
    let silence = Duration::from_secs(6);
    let processes = [
        work(&daemon, silence, first).await,
        work(&daemon, silence, second).await,
    ];
    let sent = send_all(&daemon, &mut sender).await;
    all_complete(&sender, &sent).await;
    let (first, second) = (said(&mut handed_to_first), said(&mut handed_to_second));
    assert_eq!((first.len(), second.len()), (TASKS / 2, TASKS / 2));
    let run: BTreeSet<String> = first.into_iter().chain(second).collect();
    assert_eq!(run, sent, "each is run once");
    processes.iter().for_each(AbortHandle::abort);
}

/// An agent in a process of its own, which takes four seconds for a task.
fn start_process(daemon: &Daemon) -> Child {
    Command::new(env!("CARGO_BIN_EXE_crashing_agent"))
        .args([daemon.grpc(), "bare", "2000"])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn the_tasks_of_a_killed_process_go_to_the_other_once_more() {
    let daemon = Daemon::builder().start().await;
    let mut sender = daemon.rpc().await;
    let mut killed = start_process(&daemon);
    // It listens when its first task is done.
    let first = rpc::send(&mut sender, daemon.peer_id(), "first").await.task_id;
    all_complete(&sender, &BTreeSet::from([first])).await;
    let (handed, mut handed_to_second) = mpsc::unbounded_channel();
    let second = work(&daemon, Duration::from_secs(3), handed).await;
    let sent = send_all(&daemon, &mut sender).await;
    let mut own = Vec::new();
    while own.len() < TASKS / 2 {
        let handed = within("the second has its half", handed_to_second.recv()).await;
        own.push(handed.unwrap());
    }
    killed.kill().await.unwrap();
    all_complete(&sender, &sent).await;
    let others = said(&mut handed_to_second);
    let mut counts = BTreeMap::new();
    for id in own.iter().chain(&others) {
        *counts.entry(id.clone()).or_insert(0) += 1;
    }
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    assert_eq!(counts.into_keys().collect::<BTreeSet<_>>(), sent);
    let node = daemon.node().await;
    for id in &sent {
        let trace = node.trace(id.clone()).await.unwrap();
        assert_eq!(trace.agent_ends, u32::from(others.contains(id)), "{id}");
        let ended = node.task_handle(id.clone()).snapshot().await.unwrap();
        assert_eq!(ended.status, TaskStatus::Completed);
    }
    second.abort();
}
