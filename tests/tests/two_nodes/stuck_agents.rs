//! Agents that listen and read nothing, beside one that does.

use std::{collections::HashSet, time::Duration};

use agentanycast_proto::v1::SubscribeIncomingTasksResponse;
use agentanycast_tests::{Daemon, rpc, within};
use tokio::sync::mpsc;

/// 20 MB wait when the agents come. Both stuck agents answer pings, so their connections stand; the good one
/// has all tasks long before a silent connection would be given up (40 s).
#[tokio::test]
async fn two_agents_that_read_nothing_do_not_delay_a_good_one_that_gets_all_tasks() {
    let mut stage = Stage::new("agents.deliver = \"all\"\n", 50, 400 << 10).await;
    tokio::time::timeout(Duration::from_secs(25), stage.until_are_left(0))
        .await
        .expect("a stuck agent keeps tasks from the good one");
}

/// The transport of a program that hangs takes tasks off its stream. Some wait when the three come, and more come while the good
/// one works: it has nearly all, and the rest when the connections of the two are gone.
#[tokio::test]
async fn two_agents_that_hang_have_few_tasks() {
    /// A tenth of what would be their share; they may have one more with each 100 ms that a loaded machine stands still.
    const MOST_KEPT: usize = 8;
    for bytes in [200, 400 << 10] {
        let mut stage = Stage::new("", 60, bytes).await;
        stage.send(60, bytes).await;
        stage.until_are_left(MOST_KEPT).await;
        stage.stuck.clear();
        stage.until_are_left(0).await;
    }
}

/// Two stuck agents and a good one, which came when tasks waited.
struct Stage {
    daemon: Daemon,
    sender: rpc::Rpc,
    /// The tasks that are not done.
    open: HashSet<String>,
    stuck: Vec<(rpc::Rpc, tonic::Streaming<SubscribeIncomingTasksResponse>)>,
    /// The tasks that the good one has done.
    done: mpsc::UnboundedReceiver<String>,
}

impl Stage {
    /// With so many tasks of so many bytes.
    async fn new(config: &str, tasks: usize, bytes: usize) -> Self {
        let daemon = Daemon::builder().config(config).start().await;
        let (done, all_done) = mpsc::unbounded_channel();
        let mut stage = Self {
            sender: daemon.rpc().await,
            daemon,
            open: HashSet::new(),
            stuck: Vec::new(),
            done: all_done,
        };
        stage.send(tasks, bytes).await;
        for _ in 0..2 {
            let mut rpc = stage.daemon.rpc().await;
            let unread = rpc::listen(&mut rpc).await;
            stage.stuck.push((rpc, unread));
        }
        let mut rpc = stage.daemon.rpc().await;
        let mut incoming = rpc::listen(&mut rpc).await;
        tokio::spawn(async move {
            while !done.is_closed() {
                let task = rpc::next_task(&mut incoming).await;
                // Refused where the task comes once more, as one that has ended.
                if rpc::complete(&mut rpc, &task.task_id, "done").await.is_ok() {
                    let _ = done.send(task.task_id);
                }
            }
        });
        stage
    }

    async fn send(&mut self, tasks: usize, bytes: usize) {
        let text = "x".repeat(bytes);
        for _ in 0..tasks {
            let sent = rpc::send(&mut self.sender, self.daemon.peer_id(), &text).await;
            self.open.insert(sent.task_id);
        }
    }

    /// Waits until the good one has done all but so many.
    async fn until_are_left(&mut self, left: usize) {
        while self.open.len() > left {
            let done = within("no stuck agent keeps a task", self.done.recv()).await;
            self.open.remove(&done.expect("the good one works"));
        }
    }
}
