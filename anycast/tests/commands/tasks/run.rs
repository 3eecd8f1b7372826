//! `anycast run` with real daemons and real programs.

mod configured;
mod host_wants;
mod jsonl;
mod process;
mod runner_ends;
mod secrets;
mod services;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use agentanycast::{Message, Node, Part, Target, Task, TaskHandle, TaskStatus};
use tokio::runtime::Runtime;

use crate::homes::{RunningCommand, command};

/// How long a test waits for something that happens at once.
const SOON: Duration = Duration::from_secs(30);

/// A daemon with a directory for the files of the test, and a connection to it.
struct Host {
    runtime: Runtime,
    node: Node,
    daemon: Option<RunningCommand>,
    root: tempfile::TempDir,
}

impl Host {
    fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        let daemon = RunningCommand::daemon(root.path());
        Self::with_daemon(root, daemon)
    }

    fn with_daemon(root: tempfile::TempDir, daemon: RunningCommand) -> Self {
        let runtime = Runtime::new().unwrap();
        let socket = format!("unix://{}", root.path().join("home/daemon.sock").display());
        let node = runtime.block_on(Node::connect(&socket)).unwrap();
        Self {
            runtime,
            node,
            daemon: Some(daemon),
            root,
        }
    }

    /// A path for a file of the test.
    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// An agent whose program is this shell script.
    fn script(&self, options: &[&str], script: &str) -> AgentRun {
        self.run(options, &["sh", "-c", script])
    }

    /// An agent whose program is this command, when it takes tasks.
    fn run(&self, options: &[&str], program: &[&str]) -> AgentRun {
        AgentRun::start(self.root.path(), options, program)
    }

    fn send(&self, message: impl Into<Message>) -> TaskHandle {
        self.runtime.block_on(async {
            let peer = self.node.info().await.unwrap().peer_id.unwrap();
            self.node.task(Target::Peer(peer), message).send().await.unwrap()
        })
    }

    /// The task when it has ended or asks.
    fn halted(&self, handle: &TaskHandle) -> Task {
        let halted = async { tokio::time::timeout(SOON, handle.wait_or_input()).await };
        self.runtime.block_on(halted).expect("the task goes on").unwrap()
    }

    /// The task of this message when it has ended or asks.
    fn does(&self, message: impl Into<Message>) -> Task {
        let handle = self.send(message);
        self.halted(&handle)
    }

    fn now(&self, handle: &TaskHandle) -> Task {
        self.runtime.block_on(handle.snapshot()).unwrap()
    }

    fn answer(&self, handle: &TaskHandle, answer: impl Into<Message>) {
        self.runtime.block_on(handle.reply(answer)).unwrap();
    }

    fn cancel(&self, handle: &TaskHandle) {
        self.runtime.block_on(handle.cancel()).unwrap();
    }
}

/// `anycast run`, until it is dropped.
struct AgentRun {
    process: Child,
    /// Open for as long as it runs.
    _said: BufReader<std::process::ChildStdout>,
}

impl AgentRun {
    fn start(home: &Path, options: &[&str], program: &[&str]) -> Self {
        Self::start_with(home, options, program, &[])
    }

    /// The same with variables of its environment.
    fn start_with(home: &Path, options: &[&str], program: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut process = command(home)
            .env("PATH", std::env::var_os("PATH").unwrap())
            .envs(variables.iter().copied())
            .args(["--no-start", "run", "--name", "worker"])
            .args(options)
            .arg("--")
            .args(program)
            .stdout(Stdio::piped())
            // As a shell does: signals to one group do not reach the test.
            .process_group(0)
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.contains("worker"), "{line:?}");
        Self { process, _said: said }
    }

    fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// kill -9, and nothing else.
    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Told to end, and waited for.
    fn end(self) {
        self.signal("-TERM");
        self.end_alone();
    }

    /// Waited for, and its files with it.
    fn end_alone(mut self) {
        let status = self.process.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for AgentRun {
    fn drop(&mut self) {
        if self.process.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.signal("-TERM");
            self.signal("-TERM");
            let _ = self.process.wait();
        }
    }
}

/// Waits until it is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The process ids that a program of the test has written into a file, one a line, when there are so many.
fn processes(file: &Path, count: usize) -> Vec<u32> {
    let read = || -> Vec<u32> {
        let text = fs::read_to_string(file).unwrap_or_default();
        text.lines().filter_map(|line| line.trim().parse().ok()).collect()
    };
    until("the processes have started", || read().len() >= count);
    read()
}

fn is_running(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // A zombie has ended; whoever is its parent has not looked yet.
    !status.is_empty() && !status.contains(") Z ")
}

fn all_gone(processes: &[u32]) -> bool {
    !processes.iter().any(|process| is_running(*process))
}

/// A message of a text and a file.
fn with_file(text: &str, name: &str, bytes: &[u8]) -> Message {
    let file = Part::raw(bytes, "application/octet-stream").with_filename(name);
    Message::new([Part::text(text), file])
}

fn ended(task: &Task) -> (TaskStatus, String) {
    let said = if task.status == TaskStatus::Completed {
        task.text_content()
    } else {
        task.reason()
    };
    (task.status, said)
}
