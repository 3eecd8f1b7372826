//! A script that runs and talks in lines: what it prints is read with a deadline, what it is told goes to its
//! standard input, and what it says on standard error is shown when the test fails.

use std::{
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex},
};

use agentanycast_tests::{eventually, within};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, Command},
    sync::mpsc,
};

/// A script that runs. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct ScriptProcess {
    child: Child,
    input: Option<ChildStdin>,
    lines: mpsc::UnboundedReceiver<String>,
    stderr_lines: Arc<Mutex<Vec<String>>>,
}

impl ScriptProcess {
    /// Starts it.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (sender, lines) = mpsc::unbounded_channel();
        each_line(child.stdout.take().unwrap(), move |line| drop(sender.send(line)));
        let stderr_lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&stderr_lines);
        each_line(child.stderr.take().unwrap(), move |line| {
            kept.lock().unwrap().push(line);
        });
        Self {
            input: child.stdin.take(),
            child,
            lines,
            stderr_lines,
        }
    }

    /// The next line that it prints.
    pub(crate) async fn line(&mut self) -> String {
        let line = within("the script prints a line", self.lines.recv()).await;
        line.expect("the script goes on")
    }

    /// The next line that contains this text.
    pub(crate) async fn line_with(&mut self, text: &str) -> String {
        loop {
            let line = self.line().await;
            if line.contains(text) {
                return line;
            }
        }
    }

    /// The next line, as JSON.
    pub(crate) async fn json(&mut self) -> Value {
        let line = self.line().await;
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    /// The next JSON that `wanted` gives a value for; the others are left out.
    pub(crate) async fn json_with<T>(&mut self, wanted: impl Fn(&Value) -> Option<T>) -> T {
        loop {
            if let Some(found) = wanted(&self.json().await) {
                return found;
            }
        }
    }

    /// Tells it something.
    pub(crate) async fn tell(&mut self, what: &Value) {
        let input = self.input.as_mut().expect("its input is open");
        input.write_all(format!("{what}\n").as_bytes()).await.unwrap();
        input.flush().await.unwrap();
    }

    /// Waits until its standard error has this text.
    pub(crate) async fn complains_of(&self, text: &str) {
        eventually("the script says it on standard error", || async {
            let lines = self.stderr_lines.lock().unwrap();
            lines.iter().any(|line| line.contains(text)).then_some(())
        })
        .await;
    }

    /// Its process.
    pub(crate) fn pid(&self) -> Pid {
        let pid = self.child.id().and_then(|id| Pid::from_raw(id as i32));
        pid.expect("it runs")
    }

    /// Sends SIGINT, as Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        kill_process(self.pid(), Signal::INT).unwrap();
    }

    /// Ends it with SIGKILL, as a crash does; what it had printed and nobody has read.
    pub(crate) async fn kill(mut self) -> Vec<String> {
        self.child.kill().await.unwrap();
        let mut rest = Vec::new();
        while let Some(line) = within("the script's output ends", self.lines.recv()).await {
            rest.push(line);
        }
        rest
    }

    /// Closes its input and waits for its end.
    pub(crate) async fn end(mut self) -> ExitStatus {
        drop(self.input.take());
        within("the script ends", self.child.wait()).await.unwrap()
    }

    /// As [`ScriptProcess::end`], and checks that it ends well; what it still printed.
    pub(crate) async fn succeed(mut self) -> Vec<String> {
        drop(self.input.take());
        let mut rest = Vec::new();
        // Its output ends with it, or before.
        while let Some(line) = within("the script ends", self.lines.recv()).await {
            rest.push(line);
        }
        let status = within("the script ends", self.child.wait()).await.unwrap();
        assert!(status.success(), "the script ended with {status}, after {rest:?}");
        rest
    }
}

impl Drop for ScriptProcess {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let complaints = self.stderr_lines.lock().unwrap();
            eprintln!("--- standard error of the script ---\n{}", complaints.join("\n"));
        }
    }
}

fn each_line(from: impl AsyncRead + Send + Unpin + 'static, to: impl Fn(String) + Send + 'static) {
    tokio::spawn(async move {
        let mut lines = BufReader::new(from).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            to(line);
        }
    });
}
