//! Agents that listen and read nothing, beside one that does.

use std::{collections::HashSet, time::Duration};

use agentanycast_tests::{Daemon, rpc, within};

const TASKS: usize = 50;
const BYTES: usize = 400 << 10;

/// 20 MB wait when the agents come. Both stuck agents answer pings, so their connections stand; the good one
/// has all tasks long before a silent connection would be given up (40 s).
#[tokio::test]
async fn two_agents_that_read_nothing_do_not_delay_a_good_one_that_gets_all_tasks() {
    the_good_one_has_all_tasks("agents.deliver = \"all\"\n").await;
}

/// Each task is handed to one of them; what the stuck ones do not take off their streams goes to the good one.
#[tokio::test]
async fn two_agents_that_read_nothing_delay_a_good_one_for_the_hand_over_timeout() {
    the_good_one_has_all_tasks("agents.hand_over_timeout = \"2s\"\n").await;
}

async fn the_good_one_has_all_tasks(config: &str) {
    let daemon = Daemon::builder().config(config).start().await;
    let mut sender = daemon.rpc().await;
    let text = "x".repeat(BYTES);
    let mut open = HashSet::new();
    for _ in 0..TASKS {
        open.insert(rpc::send(&mut sender, daemon.peer_id(), &text).await.task_id);
    }
    let mut stuck = Vec::new();
    for _ in 0..2 {
        let mut rpc = daemon.rpc().await;
        let unread = rpc::listen(&mut rpc).await;
        stuck.push((rpc, unread));
    }
    let mut rpc = daemon.rpc().await;
    let mut tasks = rpc::listen(&mut rpc).await;
    let work = async {
        while !open.is_empty() {
            let task = rpc::next_task(&mut tasks).await;
            if open.remove(&task.task_id) {
                rpc::complete(&mut rpc, &task.task_id, "done").await.unwrap();
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(25), work)
        .await
        .expect("a stuck agent keeps tasks from the good one");
}

/// What is small lies in buffers of the transport, so a program that hangs seems to have taken it. Tasks wait when the three come,
/// and more come while the good one works: it has nearly all, and the rest when the connections of the two are gone.
#[tokio::test]
async fn two_agents_that_hang_have_few_small_tasks() {
    const WAITING: usize = 60;
    const LATER: usize = 60;
    /// A tenth of what would be their share; they may have one more with each 100 ms that a loaded machine stands still.
    const MOST_KEPT: usize = 8;
    let daemon = Daemon::builder().start().await;
    let mut sender = daemon.rpc().await;
    let text = "x".repeat(200);
    let mut open = HashSet::new();
    for _ in 0..WAITING {
        open.insert(rpc::send(&mut sender, daemon.peer_id(), &text).await.task_id);
    }
    let mut stuck = Vec::new();
    for _ in 0..2 {
        let mut rpc = daemon.rpc().await;
        let unread = rpc::listen(&mut rpc).await;
        stuck.push((rpc, unread));
    }
    let mut rpc = daemon.rpc().await;
    let mut tasks = rpc::listen(&mut rpc).await;
    let (done, mut all_done) = tokio::sync::mpsc::unbounded_channel();
    let working = tokio::spawn(async move {
        loop {
            let task = rpc::next_task(&mut tasks).await;
            rpc::complete(&mut rpc, &task.task_id, "done").await.unwrap();
            done.send(task.task_id).unwrap();
        }
    });
    for _ in 0..LATER {
        open.insert(rpc::send(&mut sender, daemon.peer_id(), &text).await.task_id);
    }
    let mut take = async |left: usize| {
        while open.len() > left {
            let task = within("a task is not kept by a stuck agent", all_done.recv())
                .await
                .unwrap();
            assert!(open.remove(&task), "{task} came twice");
        }
    };
    take(MOST_KEPT).await;
    stuck.clear();
    take(0).await;
    working.abort();
}
