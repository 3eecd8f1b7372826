//! Ctrl-Z: the terminal is as it was while a command is stopped, and the command goes on as before.

use std::{process::Command, time::Duration};

use super::{
    ABSENT_PEER, RunningCommand, asking_agent::AskingAgent, document, terminal::Terminal, typing::are_usual,
};

/// Checks the modes that were shown at each stop, and at the end.
fn check(text: &str, stops: usize) {
    let shown: Vec<&str> = text.split("stopped with").skip(1).collect();
    assert_eq!(shown.len(), stops, "{text}");
    for modes in shown {
        are_usual(modes.split("it goes on").next().unwrap(), text);
    }
    are_usual(text.rsplit("it ended with").next().unwrap(), text);
}

#[test]
fn a_chat_goes_on_with_the_line_that_was_begun_and_with_the_wait() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let _daemon = RunningCommand::daemon(home);
    let agent = AskingAgent::asking(home);
    let mut terminal = Terminal::with_jobs(home, 2, &["chat", agent.peer.as_str()]);
    terminal.shows("/help says");
    terminal.types_until("half", "half");
    terminal.types_until("\u{1a}", "it goes on");
    let from = terminal.seen().rfind("it goes on").unwrap();
    terminal.shows_since(from, "> half");
    terminal.types_until(" a line\r", "half a line  [");
    terminal.prompts_behind("half a line  [");
    terminal.types_until("wait\r", "Ctrl-D leaves it running");
    let from = terminal.seen().len();
    terminal.types("\u{1a}");
    terminal.shows_since(from, "it goes on");
    // The line of progress is drawn again.
    let from = terminal.seen().rfind("it goes on").unwrap();
    terminal.shows_since(from, "Ctrl-D leaves it running");
    terminal.types_until("\u{4}", "waits for it");
    terminal.prompts_behind("waits for it");
    terminal.types_until("later\r", "later  [");
    terminal.prompts_behind("later  [");
    terminal.types("\u{4}");
    let (text, _) = terminal.ended();
    assert!(text.contains("it ended with 0"), "{text}");
    check(&text, 2);
    let tasks = document(home, &["tasks"]);
    assert_eq!(tasks.as_array().unwrap().len(), 3, "{text}");
}

#[test]
fn waits_and_screens_go_on() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let _daemon = RunningCommand::daemon(home);
    let cases: [(&[&str], &str, &str, i32); 2] = [
        (&["send", ABSENT_PEER, "hello"], "Ctrl-D leaves it", "\u{4}", 0),
        (&["top"], "queue", "q", 0),
    ];
    std::thread::scope(|scope| {
        for (arguments, waits_for, ends, code) in cases {
            scope.spawn(move || {
                let mut terminal = Terminal::with_jobs(home, 1, arguments);
                terminal.shows(waits_for);
                terminal.types_until("\u{1a}", "it goes on");
                let from = terminal.seen().rfind("it goes on").unwrap();
                terminal.shows_since(from, waits_for);
                std::thread::sleep(Duration::from_millis(300));
                terminal.types(ends);
                terminal.shows(&format!("it ended with {code}"));
                let (text, _) = terminal.ended();
                check(&text, 1);
            });
        }
    });
}

/// Where no shell could let it go on, Ctrl-Z stops nothing.
#[test]
fn a_command_without_a_shell_is_not_stopped() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let _daemon = RunningCommand::daemon(home);
    let mut terminal = Terminal::run(home, &["send", ABSENT_PEER, "hello"]);
    terminal.shows("Ctrl-D leaves it");
    terminal.types("\u{1a}");
    std::thread::sleep(Duration::from_millis(300));
    terminal.types("\u{4}");
    terminal.shows("goes on");
    let (text, code) = terminal.ended();
    assert_eq!(code, Some(0), "{text}");
    let processes = Command::new("ps").args(["-eo", "stat,args"]).output();
    if let Ok(processes) = processes {
        let processes = String::from_utf8_lossy(&processes.stdout).into_owned();
        let home = home.display().to_string();
        let mut of_home = processes.lines().filter(|line| line.contains(&home));
        assert!(!of_home.any(|line| line.starts_with('T')), "{processes}");
    }
}
