//! An example that runs, and what it prints.

use std::{
    env,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStderr, ChildStdout, Command},
};

/// How long anything may take.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// The result of what should not take long.
pub(crate) async fn soon<R>(what: impl Future<Output = R>) -> R {
    tokio::time::timeout(SOON, what).await.unwrap()
}

/// Asks until there is an answer.
pub(crate) async fn wait_for<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    soon(async {
        loop {
            if let Some(answer) = ask() {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

/// An example, which cargo builds before it runs this test.
pub(crate) fn example(name: &str) -> PathBuf {
    // target/PROFILE/deps/THIS-TEST
    let test = env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(
        program.exists(),
        "{}: build it with `cargo test -p agentanycast-aip`, or with --examples besides --test examples",
        program.display()
    );
    program
}

/// An example that runs. It is killed when it is dropped.
pub(crate) struct Program {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    stderr: Lines<BufReader<ChildStderr>>,
}

impl Program {
    pub(crate) fn start(name: &str, flags: &[&str]) -> Self {
        let mut child = Command::new(example(name))
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Self {
            child,
            stdout: BufReader::new(stdout).lines(),
            stderr: BufReader::new(stderr).lines(),
        }
    }

    /// Waits until it prints this line.
    pub(crate) async fn prints(&mut self, wanted: &str) {
        let found = async { while self.stdout.next_line().await.unwrap().unwrap() != wanted {} };
        soon(found).await;
    }

    /// Waits until it says something with this text on standard error.
    pub(crate) async fn says(&mut self, wanted: &str) {
        let found = async { while !self.stderr.next_line().await.unwrap().unwrap().contains(wanted) {} };
        soon(found).await;
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().unwrap().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// How it ends by itself, and what it has printed since.
    pub(crate) async fn end(mut self) -> (ExitStatus, Vec<String>, Vec<String>) {
        let read = async {
            let (mut printed, mut said) = (Vec::new(), Vec::new());
            let out = async {
                while let Some(line) = self.stdout.next_line().await.unwrap() {
                    printed.push(line);
                }
            };
            let err = async {
                while let Some(line) = self.stderr.next_line().await.unwrap() {
                    said.push(line);
                }
            };
            let (status, (), ()) = tokio::join!(self.child.wait(), out, err);
            (status.unwrap(), printed, said)
        };
        soon(read).await
    }
}

/// Processes whose command line has this text.
pub(crate) fn processes_with(text: &str) -> Vec<u32> {
    let lines = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(text).then_some(pid)
    });
    let own = std::process::id();
    lines.filter(|pid| *pid != own).collect()
}
