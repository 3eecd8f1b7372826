//! What is typed at a terminal while a command waits, and how the terminal is left.

use std::{path::Path, process::Command, time::Duration};

use super::{ABSENT_PEER, RunningCommand, asking_agent::AskingAgent, document, terminal::Terminal};

#[test]
fn what_is_typed_ahead_is_the_next_line_whole() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let _daemon = RunningCommand::daemon(home);
    let agent = AskingAgent::asking(home);
    let mut terminal = Terminal::run(home, &["chat", agent.peer.as_str()]);
    terminal.shows("/help says what can be typed");
    terminal.types("slow\r");
    terminal.shows("thinking");
    for letter in "do more\r".chars() {
        terminal.types(&letter.to_string());
        std::thread::sleep(Duration::from_millis(20));
    }
    terminal.types("half ");
    terminal.shows("at last");
    terminal.shows("do more  [");
    terminal.types("a line\r");
    terminal.shows("half a line  [");
    // All at once, faster than they are answered.
    terminal.types("one\rtwo\rthree\r");
    for line in ["one  [", "two  [", "three  ["] {
        terminal.shows(line);
    }
    // A terminal marks what is pasted, also while an answer is awaited.
    let pasted = |text: &str| format!("\u{1b}[200~{text}\u{1b}[201~\r");
    terminal.types(&pasted("first\rsecond"));
    terminal.shows("second  [");
    terminal.types_until("slow\r", "thinking");
    terminal.types(&pasted("third\rfourth"));
    terminal.shows("fourth  [");
    terminal.types_until("wait\r", "Ctrl-D leaves it running");
    terminal.types("\u{4}");
    terminal.shows("goes on");
    terminal.types("\u{4}");
    let (text, code) = terminal.ended();
    assert_eq!(code, Some(0), "{text}");
    let tasks = document(home, &["tasks"]);
    let asked: Vec<String> = tasks
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|task| {
            let id = task["id"].as_str().unwrap();
            let task = document(home, &["task", id]);
            task["messages"][0]["parts"][0]["text"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    let wanted = [
        "slow",
        "do more",
        "half a line",
        "one",
        "two",
        "three",
        "first\nsecond",
        "slow",
        "third\nfourth",
        "wait",
    ];
    let mut sorted = asked.clone();
    sorted.sort();
    let mut wanted_sorted = wanted.to_vec();
    wanted_sorted.sort_unstable();
    assert_eq!(sorted, wanted_sorted, "{asked:?}");
}

/// Sends a signal to the process whose id is in the file.
fn kill(pid: &Path, signal: &str) {
    let number = std::fs::read_to_string(pid).unwrap();
    let killed = Command::new("kill").args(["-s", signal, number.trim()]).status();
    assert!(killed.unwrap().success());
}

/// Checks what `stty -a` says of a terminal that is as it was.
pub(crate) fn are_usual(modes: &str, what: &str) {
    for mode in ["icanon", "echo", "isig", "icrnl", "opost"] {
        assert!(
            modes.split_whitespace().any(|on| on == mode),
            "{mode} is off: {what}"
        );
    }
}

/// SIGINT from elsewhere empties the line of a chat, as Ctrl-C does.
#[test]
fn an_interrupt_empties_the_line_of_a_chat() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let _daemon = RunningCommand::daemon(home);
    let agent = AskingAgent::asking(home);
    let pid = home.join("pid");
    let mut terminal = Terminal::with_modes(home, &pid, &["chat", agent.peer.as_str()]);
    terminal.shows("/help says");
    for number in 0..3 {
        terminal.types_until("half", "half");
        let from = terminal.seen().len();
        if number == 1 {
            terminal.types("\u{3}");
        } else {
            kill(&pid, "INT");
        }
        terminal.shows_since(from, "> ");
    }
    terminal.types_until("whole\r", "whole  [");
    terminal.prompts_behind("whole  [");
    terminal.types("\u{4}");
    terminal.shows("it ended with 0");
    let (text, _) = terminal.ended();
    let tasks = document(home, &["tasks"]);
    assert_eq!(tasks.as_array().unwrap().len(), 1, "{text}");
    are_usual(text.rsplit("it ended with").next().unwrap(), &text);
}

/// A signal ends a command in the middle of a line, or of a wait: the terminal is as it was.
#[test]
fn signals_leave_the_terminal_as_it_was() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let _daemon = RunningCommand::daemon(home);
    let agent = AskingAgent::asking(home);
    let cases: [(&[&str], &str, &str, i32); 10] = [
        (&["chat", agent.peer.as_str()], "> ", "TERM", 143),
        (&["chat", agent.peer.as_str()], "> ", "HUP", 129),
        (&["chat", ABSENT_PEER], "hello\r", "TERM", 143),
        (&["send", ABSENT_PEER, "hello"], "Ctrl-D", "HUP", 129),
        (&["top"], "queue", "TERM", 143),
        (&["chat", agent.peer.as_str()], "> ", "QUIT", 131),
        (&["chat", ABSENT_PEER], "hello\r", "QUIT", 131),
        (&["send", ABSENT_PEER, "hello"], "Ctrl-D", "QUIT", 131),
        // Typed: Ctrl-\.
        (&["send", ABSENT_PEER, "hello"], "Ctrl-D", "\u{1c}", 131),
        (&["top"], "queue", "QUIT", 131),
    ];
    std::thread::scope(|scope| {
        for (number, (arguments, waits_for, signal, code)) in cases.into_iter().enumerate() {
            scope.spawn(move || {
                let pid = home.join(format!("pid{number}"));
                let mut terminal = Terminal::with_modes(home, &pid, arguments);
                match waits_for.strip_suffix('\r') {
                    Some(line) => {
                        terminal.shows("/help says");
                        terminal.types(&format!("{line}\r"));
                        terminal.shows("Ctrl-D leaves it");
                    }
                    None => terminal.shows(waits_for),
                }
                if signal.starts_with(char::is_alphabetic) {
                    kill(&pid, signal);
                } else {
                    terminal.types(signal);
                }
                let (text, _) = terminal.ended();
                let what = format!("{arguments:?} {signal}: {text}");
                assert!(text.contains(&format!("it ended with {code}")), "{what}");
                let modes = text.rsplit("it ended with").next().unwrap();
                are_usual(modes, &what);
                assert!(
                    text.rfind("\u{1b}[?2004l") >= text.rfind("\u{1b}[?2004h"),
                    "{what}"
                );
            });
        }
    });
}
