//! Sending with parts, conversations and deadlines; questions, answers, retries; leaving and canceling a wait.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::Value;

use super::{
    ABSENT_PEER, RunningCommand, asking_agent::AskingAgent, command, document, run, terminal::Terminal,
};

struct SendSetup {
    home: tempfile::TempDir,
    daemon: RunningCommand,
    agent: AskingAgent,
}

impl SendSetup {
    fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let daemon = RunningCommand::daemon(home.path());
        let agent = AskingAgent::asking(home.path());
        Self { home, daemon, agent }
    }

    fn home(&self) -> &Path {
        self.home.path()
    }

    fn peer(&self) -> &str {
        self.agent.peer.as_str()
    }

    fn status(&self, id: &str) -> Value {
        document(self.home(), &["task", id])["status"].clone()
    }
}

/// The newest task of the daemon.
fn newest(home: &Path) -> String {
    document(home, &["tasks"])[0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn parts_conversations_and_retries() {
    let scene = SendSetup::start();
    let (home, peer) = (scene.home(), scene.peer());
    let file = home.join("notes.txt");
    std::fs::write(&file, "from a file").unwrap();
    let at = format!("@{}", file.display());
    let (text, code) = run(home, &["send", peer, "one", &at, "two"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.starts_with("one|from a file|two"), "{text}");
    let first = newest(home);
    let context = document(home, &["task", &first])["context_id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(text.contains(&context), "{text}");

    for option in [["--context", context.as_str()], ["--reply-to", first.as_str()]] {
        let (text, code) = run(home, &[&["send", peer, "more"], &option[..]].concat());
        assert!(
            code == Some(0) && text.contains(&context),
            "{option:?} {code:?}: {text}"
        );
    }
    assert_eq!(
        run(home, &["send", peer, "x", "--reply-to", "no-such-task"]).1,
        Some(4)
    );
    assert_eq!(
        run(home, &["send", peer, "x", "--reply-to", &first, "--context", "y"]).1,
        Some(2)
    );

    let (text, code) = run(home, &["retry", &first]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.starts_with("one|from a file|two") && text.contains(&context),
        "{text}"
    );
    assert_ne!(newest(home), first, "a task of its own");
    assert_eq!(run(home, &["retry", "no-such-task"]).1, Some(4));
}

#[test]
fn a_question_off_a_terminal_is_answered_later() {
    let scene = SendSetup::start();
    let (home, peer) = (scene.home(), scene.peer());
    let (text, code) = run(home, &["send", peer, "ask"]);
    assert_eq!(code, Some(7), "{text}");
    let id = newest(home);
    for part in ["Which colour?", &format!("reply {id} TEXT")] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
    assert_eq!(scene.status(&id), "input-required", "it is not canceled");
    assert_eq!(run(home, &["retry", &id]).1, Some(1), "it has not ended");
    let (text, code) = run(home, &["reply", &id, "blue"]);
    assert!(
        code == Some(0) && text.starts_with("ask blue"),
        "{code:?}: {text}"
    );
    let (text, code) = run(home, &["reply", &id, "red"]);
    assert!(code == Some(1) && text.contains("completed"), "{code:?}: {text}");

    let output = command(home)
        .args(["--json", "send", peer, "ask"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7));
    let first = output.stdout.split(|byte| *byte == b'\n').next().unwrap();
    let task: Value = serde_json::from_slice(first).unwrap();
    assert_eq!(task["status"], "input-required", "{task}");
}

#[test]
fn a_task_goes_on_without_a_wait_and_ends_by_its_deadline() {
    let scene = SendSetup::start();
    let (home, peer) = (scene.home(), scene.peer());
    let (id, code) = run(home, &["send", peer, "hello", "--no-wait"]);
    assert_eq!(code, Some(0), "{id}");
    let (text, code) = run(home, &["task", id.trim(), "--wait"]);
    assert!(code == Some(0) && text.contains("completed"), "{code:?}: {text}");
    let sent = document(
        home,
        &["send", ABSENT_PEER, "hello", "--no-wait", "--deadline", "1500ms"],
    );
    let id = sent["task_id"].as_str().unwrap();
    let (text, code) = run(home, &["task", id, "--wait", "--timeout", "20s"]);
    assert!(code == Some(1) && text.contains("deadline"), "{code:?}: {text}");
    let (text, code) = run(home, &["send", peer, "hello", "--deadline", "yesterday"]);
    assert!(code == Some(2) && text.contains("10m"), "{code:?}: {text}");
    let (text, code) = run(home, &["send", ABSENT_PEER, "hello", "--timeout", "300ms"]);
    let trace = format!("trace {}`", newest(home));
    assert!(code == Some(5) && text.contains(&trace), "{code:?}: {text}");
}

/// Off a terminal, too, it is said soon what a task waits for, and what is done meanwhile.
#[test]
fn off_a_terminal_a_peer_that_is_not_reached_is_told() {
    let scene = SendSetup::start();
    for json in [false, true] {
        let mut command = command(scene.home());
        if json {
            command.arg("--json");
        }
        let output = command
            .args(["send", ABSENT_PEER, "hello", "--timeout", "8s"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(5), "{said}");
        let first = said.lines().next().unwrap_or_default();
        for part in ["is not connected: no address known", "waits for 8s at most"] {
            assert!(first.contains(part), "{part:?} is missing in {said}");
        }
        assert_eq!(first.contains("\"warning\""), json, "{said}");
    }
    // What is soon done says nothing.
    let output = command(scene.home())
        .args(["send", scene.peer(), "slow"])
        .output()
        .unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

/// A signal ends the wait: Ctrl-C the task too, the others not.
#[test]
fn signals_end_the_wait() {
    let scene = SendSetup::start();
    let home = scene.home();
    for (signal, code, status, says) in [
        ("INT", 130, "canceled", "was canceled"),
        ("TERM", 143, "submitted", "goes on"),
        ("HUP", 129, "submitted", "goes on"),
    ] {
        let child = command(home)
            .args(["send", ABSENT_PEER, "hello", signal])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let id = waits(home, signal);
        kill(&child, signal);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{signal}: {said}");
        assert!(said.contains(&id) && said.contains(says), "{signal}: {said}");
        assert_eq!(scene.status(&id), status, "{signal}");
    }
}

/// Before anything is sent a signal ends the command at once: here while it reads what is to be sent.
#[test]
fn a_signal_ends_a_command_that_still_reads() {
    let scene = SendSetup::start();
    let mut child = command(scene.home())
        .args(["send", ABSENT_PEER, "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none(), "it reads its standard input");
    // Programs in the background have SIGINT ignored, as this test may be.
    kill(&child, "TERM");
    let ended = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        child.try_wait().unwrap().is_some()
    });
    assert!(ended, "the signal was not heard");
}

/// The id of the task in which this was said, once it is there.
fn waits(home: &Path, said: &str) -> String {
    for _ in 0..200 {
        let tasks = document(home, &["tasks"]);
        for task in tasks.as_array().unwrap() {
            let id = task["id"].as_str().unwrap();
            if document(home, &["task", id])["messages"][0]["parts"][1]["text"] == said {
                return id.to_owned();
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("no task says {said:?}");
}

fn kill(child: &Child, signal: &str) {
    let status = Command::new("kill")
        .args(["-s", signal, &child.id().to_string()])
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn on_a_terminal_the_wait_says_where_it_hangs_and_is_left() {
    let scene = SendSetup::start();
    let home = scene.home();
    let mut terminal = Terminal::run(home, &["send", ABSENT_PEER, "hello"]);
    terminal.shows("is not connected: no address known");
    terminal.shows("Ctrl-C cancels, Ctrl-D leaves it queued");
    terminal.types("\u{4}");
    let (text, code) = terminal.ended();
    let id = newest(home);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains(&format!("task {id} goes on")), "{text}");
    assert_eq!(scene.status(&id), "submitted");

    let mut terminal = Terminal::run(home, &["send", ABSENT_PEER, "hello again"]);
    terminal.shows("Ctrl-C cancels");
    terminal.types("\u{3}");
    let (text, code) = terminal.ended();
    let id = newest(home);
    assert_eq!(code, Some(130), "{text}");
    assert!(
        text.contains(&format!("interrupted; task {id} was canceled")),
        "{text}"
    );
    assert_eq!(scene.status(&id), "canceled");

    let mut terminal = Terminal::run(home, &["send", scene.peer(), "wait"]);
    terminal.shows("working thinking");
    terminal.shows("Ctrl-D leaves it running");
    terminal.types("\u{4}");
    assert_eq!(terminal.ended().1, Some(0));
    assert_eq!(scene.status(&newest(home)), "working");
}

#[test]
fn on_a_terminal_a_question_is_answered_there() {
    let scene = SendSetup::start();
    let mut terminal = Terminal::run(scene.home(), &["send", scene.peer(), "ask"]);
    terminal.shows("Which colour?");
    terminal.types("deep blue\r");
    let (text, code) = terminal.ended();
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("ask deep blue ["), "{text}");
}

#[test]
fn a_chat_is_one_conversation() {
    let scene = SendSetup::start();
    let (home, peer) = (scene.home(), scene.peer());
    std::fs::write(home.join("note.txt"), "from a file").unwrap();
    let mut terminal = Terminal::run(home, &["chat", peer]);
    terminal.shows("/help says what can be typed");
    terminal.types("good morning\r");
    terminal.shows("good morning  [");
    let file = home.join("note.tx");
    terminal.types(&format!("see @{}\t\r", file.display()));
    terminal.shows("see|from a file");
    terminal.types("/qiut\r");
    terminal.shows("/qiut is no command");
    terminal.types("ask\r");
    terminal.shows("asks: Which colour?");
    terminal.types("blue\r");
    terminal.shows("ask blue [");
    terminal.types("wait\r");
    terminal.shows("Ctrl-C cancels");
    terminal.types("\u{3}");
    terminal.shows("was canceled");
    terminal.types("\u{4}");
    let (text, code) = terminal.ended();
    assert_eq!(code, Some(0), "{text}");
    let tasks = document(home, &["tasks"]);
    let tasks = tasks.as_array().unwrap();
    assert_eq!(tasks.len(), 4, "{tasks:?}");
    let context = tasks[0]["context_id"].as_str().unwrap();
    assert!(
        tasks.iter().all(|task| task["context_id"] == context),
        "{tasks:?}"
    );
    assert_eq!(tasks[0]["status"], "canceled", "{tasks:?}");

    let mut terminal = Terminal::run(home, &["chat", peer, "--context", context]);
    terminal.shows("ask blue [");
    terminal.types("/quit\r");
    let (text, code) = terminal.ended();
    assert!(code == Some(0) && text.contains("good morning"), "{text}");
}

#[test]
fn a_chat_without_a_terminal_reads_lines() {
    let scene = SendSetup::start();
    let mut child = command(scene.home())
        .args(["chat", scene.peer()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"one\n\nask\nblue\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{said} {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        matches!(lines.as_slice(), [one, blue] if one.starts_with("one  [") && blue.starts_with("ask blue [")),
        "{said}"
    );
}

#[test]
fn tasks_are_watched() {
    use std::io::BufRead as _;
    let scene = SendSetup::start();
    let home = scene.home();
    let (_, code) = run(home, &["send", scene.peer(), "before"]);
    assert_eq!(code, Some(0));
    let mut child = command(home)
        .args(["--json", "tasks", "--watch"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["status"], "completed");
    let (id, _) = run(home, &["send", ABSENT_PEER, "later", "--no-wait"]);
    let seen = next();
    assert_eq!(
        (&seen["id"], &seen["status"]),
        (&id.trim().into(), &"submitted".into())
    );
    run(home, &["cancel", id.trim()]);
    let seen = next();
    assert_eq!(
        (&seen["id"], &seen["status"]),
        (&id.trim().into(), &"canceled".into())
    );
    kill(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// A cancel that the daemon does not answer is waited for; a second Ctrl-C is not.
#[test]
fn a_second_interrupt_leaves_at_once() {
    let scene = SendSetup::start();
    let home = scene.home();
    let child = command(home)
        .args(["send", ABSENT_PEER, "hello", "twice"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let id = waits(home, "twice");
    kill(&scene.daemon.process, "STOP");
    kill(&child, "INT");
    std::thread::sleep(Duration::from_millis(300));
    let second = std::time::Instant::now();
    kill(&child, "INT");
    let output = child.wait_with_output().unwrap();
    let took = second.elapsed();
    kill(&scene.daemon.process, "CONT");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("interrupted twice") && said.contains(&id), "{said}");
    assert!(took < Duration::from_secs(1), "{took:?}");
}
