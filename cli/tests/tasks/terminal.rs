//! The command on a pseudo-terminal of 24×100, by util-linux's `script`, as a person has it before them.

use std::{
    io::{Read as _, Write as _},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// How long a test waits for what it wants to see.
const LIMIT: Duration = Duration::from_secs(20);

pub(crate) struct Terminal {
    child: Child,
    keys: ChildStdin,
    seen: Arc<Mutex<String>>,
}

impl Terminal {
    /// Runs `anycast` with the home of the test.
    pub(crate) fn run(home: &Path, arguments: &[&str]) -> Self {
        let quoted: Vec<String> = arguments.iter().map(|argument| format!("'{argument}'")).collect();
        let command = format!(
            "stty rows 24 cols 100; exec {} --home '{}' {}",
            env!("CARGO_BIN_EXE_anycast"),
            home.join("home").display(),
            quoted.join(" ")
        );
        let mut child = Command::new("script")
            .args([
                "--quiet",
                "--return",
                "--flush",
                "--command",
                &command,
                "/dev/null",
            ])
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .env("HOME", home)
            .env("AGENTANYCAST_ENABLE_MDNS", "false")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script, of util-linux, is installed");
        let (keys, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let seen = Arc::new(Mutex::new(String::new()));
        let shown = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut some) {
                shown
                    .lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&some[..read]));
            }
        });
        Self { child, keys, seen }
    }

    /// All that was shown so far.
    pub(crate) fn seen(&self) -> String {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until this was shown.
    pub(crate) fn shows(&self, text: &str) {
        let start = Instant::now();
        while !self.seen().contains(text) {
            assert!(start.elapsed() < LIMIT, "{text:?} is not shown:\n{}", self.seen());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Types.
    pub(crate) fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits for its end: all that was shown, and the exit code.
    pub(crate) fn ended(mut self) -> (String, Option<i32>) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < LIMIT, "it still runs:\n{}", self.seen());
            std::thread::sleep(Duration::from_millis(50));
        };
        // What it said last is read by the thread.
        std::thread::sleep(Duration::from_millis(200));
        (self.seen(), status.code())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
