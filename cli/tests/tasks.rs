//! A task looked at, waited for and canceled from the command line, with real daemons.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by a panic")]

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

use serde_json::Value;

/// A peer that nobody is.
const NOBODY: &str = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";

fn command(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anycast"));
    command
        .env_clear()
        .env("HOME", home)
        .env("AGENTANYCAST_ENABLE_MDNS", "false")
        .arg("--home")
        .arg(home.join("home"));
    command
}

/// What a command printed, and its exit code.
fn run(home: &Path, arguments: &[&str]) -> (String, Option<i32>) {
    let output = command(home).args(arguments).output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (text, output.status.code())
}

fn json(home: &Path, arguments: &[&str]) -> Value {
    let (text, _) = run(home, &[&["--json"], arguments].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"))
}

/// A process that ends with the test.
struct Running {
    process: Child,
    /// Not read any more, and open: what it says has somewhere to go.
    _said: BufReader<ChildStdout>,
}

impl Running {
    /// Started, and after its first line of output.
    fn start(home: &Path, arguments: &[&str]) -> Self {
        let mut child = command(home)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "{arguments:?} ended at once");
        Self {
            process: child,
            _said: said,
        }
    }

    fn daemon(home: &Path) -> Self {
        Self::start(home, &["daemon", "--listen=/ip4/127.0.0.1/tcp/0"])
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Politely, so that a daemon that it has started ends with it.
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
    }
}

#[test]
fn a_task_that_waits_for_its_peer_is_seen_and_canceled() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let _daemon = Running::daemon(home);
    let (text, code) = run(home, &["send", NOBODY, "hello", "--timeout", "300ms"]);
    assert_eq!(code, Some(5), "{text}");
    let id = json(home, &["tasks"])[0]["id"].as_str().unwrap().to_owned();
    assert!(text.contains(&id), "{text}");

    let (text, code) = run(home, &["task", &id]);
    assert_eq!(code, Some(0), "{text}");
    for word in [id.as_str(), "submitted", NOBODY, "hello"] {
        assert!(text.contains(word), "{word:?} is missing in:\n{text}");
    }
    let (text, code) = run(home, &["task", &id, "--wait", "--timeout", "200ms"]);
    assert_eq!(code, Some(5), "{text}");

    let (text, code) = run(home, &["cancel", &id]);
    assert_eq!(
        (text.trim(), code),
        (format!("task {id} canceled").as_str(), Some(0))
    );
    assert_eq!(json(home, &["task", &id])["status"], "canceled");
    let (text, code) = run(home, &["task", &id, "--wait"]);
    assert!(code == Some(1) && text.contains("canceled"), "{code:?}: {text}");
    assert_eq!(run(home, &["task", "no-such-task"]).1, Some(4));
    assert_eq!(run(home, &["cancel", "no-such-task"]).1, Some(4));
}

#[test]
fn what_came_out_is_shown_again() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let _daemon = Running::daemon(here.path());
    let _agent = Running::start(there.path(), &["demo"]);
    let status = json(there.path(), &["status"]);
    let address = status["listen_addresses"][0].as_str().unwrap();
    let peer = status["peer_id"].as_str().unwrap();
    let target = if address.contains("/p2p/") {
        address.to_owned()
    } else {
        format!("{address}/p2p/{peer}")
    };
    let (text, code) = run(here.path(), &["send", &target, "good morning"]);
    assert_eq!(code, Some(0), "{text}");
    let id = json(here.path(), &["tasks"])[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let (text, code) = run(here.path(), &["task", &id, "--wait"]);
    assert_eq!(code, Some(0), "{text}");
    for word in ["completed", "user", peer] {
        assert!(text.contains(word), "{word:?} is missing in:\n{text}");
    }
    assert_eq!(
        text.matches("good morning").count(),
        2,
        "what was said and what came out:\n{text}"
    );
    // Too late.
    let (text, code) = run(here.path(), &["cancel", &id]);
    assert!(code == Some(1) && text.contains("COMPLETED"), "{code:?}: {text}");
}
