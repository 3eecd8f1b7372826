//! The DevTools protocol over a pipe: JSON messages, each ended by a zero byte. No port, no WebSocket.

use std::{path::PathBuf, process::Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::wait;

/// Most messages that are kept when nobody asks for them: far more than a test makes.
const EVENTS: usize = 100_000;

/// Set where Chromium is none of the usual programs.
const PROGRAM: &str = "AGENTANYCAST_TEST_CHROMIUM";

/// A browser at the other end of a pipe; dropping it ends the browser.
#[derive(Debug)]
pub(super) struct Pipe {
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    last: u64,
    events: Vec<Value>,
    _child: Child,
    /// The browser writes here until it has ended.
    _home: TempDir,
}

/// The browser's program.
pub(super) fn program() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(PROGRAM) {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    let places = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&path)
        .flat_map(|directory| places.map(|name| directory.join(name)))
        .find(|program| program.is_file())
}

impl Pipe {
    pub(super) fn open(program: &std::path::Path) -> Self {
        let home = tempfile::Builder::new()
            .prefix("aab")
            .tempdir()
            .expect("a temporary home");
        // Chromium reads commands from descriptor 3 and answers on 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1"])
            .arg(program)
            .args([
                "--headless",
                "--remote-debugging-pipe",
                // As root, which a container's tests are, its sandbox cannot be made.
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--hide-scrollbars",
                "--lang=en-GB",
            ])
            .arg(format!("--user-data-dir={}", home.path().display()))
            .env("HOME", home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the browser can be run");
        Self {
            to: child.stdin.take().expect("it is piped"),
            from: BufReader::new(child.stdout.take().expect("it is piped")),
            last: 0,
            events: Vec::new(),
            _child: child,
            _home: home,
        }
    }

    /// Calls a method, of a page's session where there is one, and waits for its result.
    pub(super) async fn call(&mut self, session: Option<&str>, method: &str, params: &Value) -> Value {
        self.last += 1;
        let mut call = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = session {
            call["sessionId"] = session.into();
        }
        let mut bytes = call.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).await.expect("the browser reads");
        wait::within(&format!("the browser answers {method}"), self.answer(method)).await
    }

    async fn answer(&mut self, method: &str) -> Value {
        loop {
            let mut bytes = Vec::new();
            self.from
                .read_until(0, &mut bytes)
                .await
                .expect("the browser writes");
            assert_eq!(bytes.pop(), Some(0), "the browser has ended");
            let mut message: Value = serde_json::from_slice(&bytes).expect("JSON");
            if message["id"] == self.last {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].take();
            }
            assert!(self.events.len() < EVENTS, "too many events");
            self.events.push(message);
        }
    }

    /// What the browser has told since this was last asked.
    pub(super) fn events(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.events)
    }
}
