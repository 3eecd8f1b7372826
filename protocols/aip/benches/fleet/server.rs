//! A server in a process of its own: says where it listens, begins at a line on standard input, and says when
//! all commands have their results.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

/// A server. Dropping it ends it.
pub(crate) struct Server {
    pub(crate) url: String,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Server {
    pub(crate) fn start(kind: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg(kind)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut server = Self {
            url: String::new(),
            child,
            input,
            output: BufReader::new(output),
        };
        server.url = server.line();
        server
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.output.read_line(&mut line).unwrap();
        assert!(read > 0, "the server has ended");
        line.trim().to_owned()
    }

    /// A line of its `/proc/PID/status`, in MiB.
    pub(crate) fn memory(&self, name: &str) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    }

    /// Begins the commands, and waits until all have results.
    pub(crate) fn run(&mut self) -> Duration {
        let begun = Instant::now();
        self.input.write_all(b"go\n").unwrap();
        let said = tokio::task::block_in_place(|| self.line());
        assert_eq!(said, "done");
        begun.elapsed()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Says where a server listens, and waits for the line by which it begins.
pub(crate) async fn announce(url: &str) {
    println!("{url}");
    let line = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()).unwrap());
    line.await.unwrap();
}
