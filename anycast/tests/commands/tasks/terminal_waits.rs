//! Commands that print while they wait, in a terminal: what an agent says is all on the screen in the end,
//! and the line of progress is not, on narrow and wide terminals, without colours and on one that takes no
//! escape sequences.

use std::path::Path;

use super::{
    RunningCommand,
    asking_agent::AskingAgent,
    document, run,
    terminal::{Terminal, screen},
};

/// What kind of terminal it is.
const TERMINALS: [&[(&str, &str)]; 3] = [
    &[("TERM", "xterm-256color")],
    &[("TERM", "xterm"), ("NO_COLOR", "1")],
    &[("TERM", "dumb")],
];

const COLUMNS: [usize; 3] = [40, 80, 200];

/// What an agent is told, how `send` ends, and the lines of the screen then; `…` begins what a line has
/// somewhere.
const ANSWERS: [(&str, i32, &[&str]); 6] = [
    ("stream", 0, &["one twö", "three"]),
    ("slow", 0, &["at last"]),
    ("silent", 0, &["…is completed"]),
    ("blank", 0, &["…is blank"]),
    ("notice", 0, &["…Outside of its turns"]),
    ("fail", 1, &["one twö", "three", "…broke off", "…it broke"]),
];

fn has_lines(lines: &[String], wanted: &[&str]) -> bool {
    let mut lines = lines.iter();
    wanted.iter().all(|wanted| {
        lines.any(|line| match wanted.strip_prefix('…') {
            Some(part) => line.contains(part),
            None => line == wanted,
        })
    })
}

/// Whether nothing is coloured, or nothing at all drives the terminal, where that is not wanted.
fn fits(shown: &str, environment: &[(&str, &str)]) -> bool {
    let is_coloured = || {
        let mut sequences = shown.split("\u{1b}[").skip(1);
        sequences.any(|rest| {
            rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';')
                .starts_with('m')
        })
    };
    if environment.contains(&("TERM", "dumb")) {
        !shown.contains('\u{1b}')
    } else {
        !environment.iter().any(|(name, _)| *name == "NO_COLOR") || !is_coloured()
    }
}

fn check(home: &Path, columns: usize, environment: &[(&str, &str)], arguments: &[&str], answer: usize) {
    let (_, code, lines) = ANSWERS[answer];
    let (shown, ended) = Terminal::sized(home, columns, environment, arguments).ended();
    let what = format!("{arguments:?} on {columns} columns with {environment:?}");
    let on_screen = screen(&shown, columns);
    assert_eq!(ended, Some(code), "{what}: {shown:?}");
    assert!(
        has_lines(&on_screen, lines),
        "{what}: {on_screen:#?} of {shown:?}"
    );
    let progress = [" s)", "Ctrl-C"];
    let is_left = on_screen
        .iter()
        .any(|line| progress.iter().any(|part| line.contains(part)));
    assert!(!is_left, "{what}: progress is left: {on_screen:#?}");
    assert!(fits(&shown, environment), "{what}: {shown:?}");
    let was_drawn = shown.contains("\u{1b}[K");
    assert_eq!(
        was_drawn,
        !environment.contains(&("TERM", "dumb")),
        "{what}: {shown:?}"
    );
}

/// All kinds of answers on all widths, each kind of terminal with each of both; all at once, since they wait
/// most of the time.
#[test]
fn answers_are_on_the_screen_in_the_end() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let _daemon = RunningCommand::daemon(home);
    let agent = AskingAgent::asking(home);
    let peer = agent.peer.as_str();
    std::thread::scope(|scope| {
        for answer in 0..ANSWERS.len() {
            for (at, columns) in COLUMNS.into_iter().enumerate() {
                let environment = TERMINALS[(answer + at) % TERMINALS.len()];
                scope.spawn(move || {
                    let told = ANSWERS[answer].0;
                    check(
                        home,
                        columns,
                        environment,
                        &["send", peer, told, "--stream"],
                        answer,
                    );
                });
            }
        }
    });
    // Without --stream the same is printed at the end, and again by the other commands that wait.
    std::thread::scope(|scope| {
        for (at, environment) in TERMINALS.into_iter().enumerate() {
            scope.spawn(move || check(home, COLUMNS[at], environment, &["send", peer, "stream"], 0));
        }
        let tasks = document(home, &["tasks"]);
        let ended = tasks
            .as_array()
            .unwrap()
            .iter()
            .find(|task| task["status"] == "completed");
        let id = ended.unwrap()["id"].as_str().unwrap().to_owned();
        scope.spawn(move || {
            let (shown, code) = Terminal::sized(home, 40, TERMINALS[0], &["retry", &id, "--stream"]).ended();
            assert_eq!(code, Some(0), "{shown:?}");
            assert!(
                !screen(&shown, 40).iter().any(|line| line.contains(" s)")),
                "{shown:?}"
            );
        });
        scope.spawn(move || {
            let (text, code) = run(home, &["send", peer, "ask"]);
            assert_eq!(code, Some(7), "{text}");
            let tasks = document(home, &["tasks"]);
            let asks = tasks
                .as_array()
                .unwrap()
                .iter()
                .find(|task| task["status"] == "input-required");
            let id = asks.unwrap()["id"].as_str().unwrap().to_owned();
            let (shown, code) = Terminal::sized(home, 80, TERMINALS[1], &["reply", &id, "blue"]).ended();
            assert_eq!(code, Some(0), "{shown:?}");
            assert!(has_lines(&screen(&shown, 80), &["…ask blue ["]), "{shown:?}");
        });
    });
}

#[test]
fn states_are_whole_on_a_narrow_terminal() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let _daemon = RunningCommand::daemon(home);
    let agent = AskingAgent::asking(home);
    let peer = agent.peer.as_str();
    for (told, code) in [("a longer text than fits a line", 0), ("ask", 7)] {
        assert_eq!(run(home, &["send", peer, told]).1, Some(code));
    }
    let (shown, code) = Terminal::sized(home, 40, TERMINALS[0], &["tasks"]).ended();
    let on_screen = screen(&shown, 40);
    assert_eq!(code, Some(0), "{shown:?}");
    for words in ["STATE", "CHANGED", "completed", "input-required"] {
        assert!(
            on_screen.iter().any(|line| line.contains(words)),
            "{words}: {on_screen:#?}"
        );
    }
    assert_eq!(on_screen.iter().filter(|line| !line.is_empty()).count(), 3);
}

#[test]
fn a_chat_keeps_what_comes_in_pieces() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let _daemon = RunningCommand::daemon(home);
    let agent = AskingAgent::asking(home);
    let peer = agent.peer.as_str();
    std::thread::scope(|scope| {
        for (environment, columns) in TERMINALS.into_iter().zip(COLUMNS) {
            scope.spawn(move || {
                let mut terminal = Terminal::sized(home, columns, environment, &["chat", peer]);
                terminal.shows("/help says what can be typed");
                terminal.types_until("stream\r", "three\r\n");
                // One that takes no escape sequences shows what is typed at once.
                if environment.contains(&("TERM", "dumb")) {
                    terminal.shows("three\r\n> ");
                    terminal.types_until("silent\r", "> ");
                } else {
                    terminal.types("silent\r");
                }
                terminal.types("fail\r");
                terminal.shows("it broke");
                terminal.types_until("notice\r", "at last");
                terminal.types("/quit\r");
                let (shown, code) = terminal.ended();
                let on_screen = screen(&shown, columns);
                assert_eq!(code, Some(0), "{shown:?}");
                let lines = ["one twö", "three", "one twö", "three", "…it broke", "at last"];
                assert!(has_lines(&on_screen, &lines), "{on_screen:#?} of {shown:?}");
                // It may come after the answer, which is on a stream of its own.
                assert!(
                    has_lines(&on_screen, &["…Outside of its turns"]),
                    "{on_screen:#?} of {shown:?}"
                );
                assert!(fits(&shown, environment), "{shown:?}");
            });
        }
    });
}
