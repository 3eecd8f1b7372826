//! 2 000 tasks for three agents, each a process with a daemon of its own, while one is killed and comes back and one is
//! frozen: each task ends well, and is finished by one agent. What the killed one had claimed and not finished, as
//! it has written down itself, is done by another. An agent that is frozen stays so until all tasks have ended; a whole node thaws, since
//! nobody but itself knows what it has acknowledged and not done.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use agentanycast::{Node, Target};
use agentanycast_tests::{Daemon, TestRelay, eventually, eventually_within};
use futures::{StreamExt as _, stream};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::{
    process::{Child, Command},
    task::JoinHandle,
};

use crate::{registry_requests::found, skill_routing::daemon};

const TASKS: usize = 2_000;
const AT_ONCE: usize = 64;
const AGENTS: usize = 3;
/// What an agent works on at once; more waits unclaimed.
const CLAIMED: usize = 8;

/// An agent: its process, and the daemon that it is at.
struct WorkerProcess {
    daemon: Daemon,
    process: Child,
    /// What it has begun and completed.
    ledger: PathBuf,
}

impl WorkerProcess {
    async fn start(relay: &TestRelay, ledger: PathBuf) -> Self {
        let daemon = daemon(&[relay]).config("agent_grace = \"2s\"\n").start().await;
        let process = Self::process(&daemon, &ledger);
        Self {
            daemon,
            process,
            ledger,
        }
    }

    fn process(daemon: &Daemon, ledger: &Path) -> Child {
        Command::new(env!("CARGO_BIN_EXE_load_agent"))
            .args([daemon.grpc(), "load", &CLAIMED.to_string()])
            .arg(ledger)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }

    /// Has it finish nothing any more until it works on as much as it may, and so claims nothing either; then SIGKILL to the
    /// agent's process. What it had claimed and not finished.
    async fn kill_agent(&mut self) -> HashSet<String> {
        std::fs::write(self.hold(), "").unwrap();
        let held = eventually("the agent has its hands full", || async {
            Some(self.said("held ")).filter(|held| held.len() == CLAIMED)
        })
        .await;
        self.process.kill().await.unwrap();
        let (begun, done) = (self.said("begun "), self.said("done "));
        assert_eq!(begun.difference(&done).cloned().collect::<HashSet<_>>(), held);
        held
    }

    /// Waits until its node has none of these tasks any more: an agent that comes before is handed them again.
    async fn has_given_back(&self, tasks: &HashSet<String>) {
        let node = self.daemon.node().await;
        let open = |task: &agentanycast::Task| !task.status.is_terminal() && tasks.contains(&task.id);
        eventually("its node gives back what it had claimed", || async {
            let all = node.tasks(&agentanycast::TaskFilter::default()).await.unwrap();
            (!all.iter().any(open)).then_some(())
        })
        .await;
    }

    fn restart_agent(&mut self) {
        std::fs::remove_file(self.hold()).unwrap();
        self.process = Self::process(&self.daemon, &self.ledger);
    }

    fn hold(&self) -> PathBuf {
        self.ledger.with_added_extension("hold")
    }

    fn signal_agent(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.id().unwrap() as i32).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// The tasks of which its ledger says this.
    fn said(&self, word: &str) -> HashSet<String> {
        let text = std::fs::read_to_string(&self.ledger).unwrap_or_default();
        let of = text.lines().filter_map(|line| line.strip_prefix(word));
        of.map(ToOwned::to_owned).collect()
    }
}

/// The agents, who sends to them, and the tasks.
struct SkillLoad {
    workers: Vec<WorkerProcess>,
    ended: Arc<AtomicUsize>,
    /// How long each took.
    tasks: JoinHandle<Vec<Duration>>,
    _sender: Daemon,
    _relay: TestRelay,
    _files: TempDir,
}

impl SkillLoad {
    async fn start() -> Self {
        let relay = TestRelay::builder().start().await;
        let files = tempfile::tempdir().unwrap();
        let mut workers = Vec::new();
        for number in 0..AGENTS {
            workers.push(WorkerProcess::start(&relay, files.path().join(number.to_string())).await);
        }
        eventually("all agents are registered", || async {
            (found(&relay, "load").await.len() == AGENTS).then_some(())
        })
        .await;
        let sender = daemon(&[&relay]).start().await;
        let ended = Arc::default();
        Self {
            workers,
            tasks: tokio::spawn(send(sender.node().await, Arc::clone(&ended))),
            ended,
            _sender: sender,
            _relay: relay,
            _files: files,
        }
    }

    /// Waits until so many tasks have ended.
    async fn reached(&self, count: usize) {
        eventually_within(Duration::from_mins(3), "the load goes on", || async {
            (self.ended.load(Relaxed) >= count).then_some(())
        })
        .await;
    }

    /// All tasks end well, none is finished by two agents, and these by none of whoever had left them `unfinished`.
    async fn end(self, (worker, unfinished): (usize, HashSet<String>), what: &str) {
        let mut took = tokio::time::timeout(Duration::from_mins(3), self.tasks)
            .await
            .expect("all tasks end")
            .unwrap();
        assert_eq!(took.len(), TASKS);
        took.sort();
        let at = |percent: usize| took[(took.len() - 1) * percent / 100];
        eprintln!(
            "{TASKS} tasks by skill, {what}: p50 {:?}, p99 {:?}, longest {:?}; {} taken over from the agent that was killed",
            at(50),
            at(99),
            at(100),
            unfinished.len()
        );
        assert!(
            self.workers[worker].said("done ").is_disjoint(&unfinished),
            "done where they had been left"
        );
        // Whoever is frozen may have been told that it has finished something, and not have written that down.
        self.workers[2].signal_agent(Signal::CONT);
        let by = eventually("all were done, as the agents have it", || async {
            let mut by: HashMap<String, usize> = HashMap::new();
            for worker in &self.workers {
                let done = worker.said("done ");
                assert!(!done.is_empty(), "all of them worked");
                for task in done {
                    *by.entry(task).or_default() += 1;
                }
            }
            (by.len() == TASKS).then_some(by)
        })
        .await;
        assert!(unfinished.iter().all(|task| by.contains_key(task)));
        let twice: Vec<_> = by.iter().filter(|(_, agents)| **agents > 1).collect();
        assert!(twice.is_empty(), "done by two agents: {twice:?}");
    }
}

/// Sends all tasks, some at a time; how long each took to end well.
async fn send(node: Node, ended: Arc<AtomicUsize>) -> Vec<Duration> {
    let one = |number: usize| {
        let (node, ended) = (node.clone(), Arc::clone(&ended));
        async move {
            let begun = Instant::now();
            let handle = node
                .send_task(Target::skill("load"), format!("{number}").as_str())
                .await
                .unwrap();
            let task = handle.wait().await.unwrap();
            assert_eq!(task.artifacts[0].text_content(), "done");
            ended.fetch_add(1, Relaxed);
            begun.elapsed()
        }
    };
    stream::iter(0..TASKS)
        .map(one)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: waits 40 s until a frozen agent is noticed"]
async fn one_agent_is_killed_and_one_frozen() {
    let mut load = SkillLoad::start().await;
    load.reached(300).await;
    let unfinished = load.workers[1].kill_agent().await;
    load.reached(600).await;
    // Its node takes tasks for it until it has noticed, and gives them back then, those that it had claimed and the others.
    load.workers[2].signal_agent(Signal::STOP);
    load.workers[1].has_given_back(&unfinished).await;
    load.workers[1].restart_agent();
    load.end(
        (1, unfinished),
        "one of three agents' processes killed and one frozen",
    )
    .await;
}

/// The same with the whole node of each: then nobody acknowledges, and others take over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_is_killed_and_one_frozen() {
    let mut load = SkillLoad::start().await;
    load.reached(300).await;
    let unfinished = load.workers[1].kill_agent().await;
    load.workers[1].daemon.kill().await;
    load.reached(600).await;
    load.workers[2].signal_agent(Signal::STOP);
    load.workers[2].daemon.freeze();
    load.reached(1_200).await;
    load.workers[1].daemon.restart().await;
    load.workers[1].restart_agent();
    load.workers[2].daemon.thaw();
    load.workers[2].signal_agent(Signal::CONT);
    load.end(
        (1, unfinished),
        "one of three nodes with their agents killed and one frozen",
    )
    .await;
}
