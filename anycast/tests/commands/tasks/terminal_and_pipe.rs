//! Each command twice: in a terminal, as a person has it, and off one, as a script does. It ends with the same code and says
//! the same words; off a terminal nothing of it drives a terminal, and in one the terminal is left as it was.

use std::{collections::BTreeSet, fs, path::Path};

use super::{
    ABSENT_PEER, RunningCommand,
    asking_agent::{self, AskingAgent},
    document, run,
    terminal::Terminal,
};

/// Commands that other tests run in a terminal and off it, or that only a program speaks to.
const ELSEWHERE: [(&str, &str); 12] = [
    ("chat", "tasks/send_and_reply.rs"),
    ("demo", "startup/first_hour.rs, foreign/readme.rs"),
    ("run", "tasks/run/: it serves until it is told to end"),
    ("mcp", "its standard input is a program"),
    ("daemon", "startup/"),
    ("relay", "relay/"),
    ("bridge", "bridge/"),
    ("key", "tasks/json_schema.rs, homes/"),
    ("service", "startup/service_command.rs"),
    ("seal", "boxes.rs: it prints a box"),
    ("unseal", "boxes.rs: it reads a box"),
    ("help", "usage.rs"),
];

/// Runs commands, and remembers which.
#[derive(Default)]
struct Runner {
    ran: BTreeSet<String>,
    wrong: Vec<String>,
}

impl Runner {
    /// The command ends with this code and says these words, in a terminal and off it. Those that change something are told
    /// what to do for the second time by `{}`, which is 1 or 2.
    fn run(&mut self, home: &Path, arguments: &[&str], code: i32, words: &[&str]) {
        self.ran.insert(arguments[0].to_owned());
        let numbered = |number: &str| -> Vec<String> {
            let arguments = arguments.iter();
            arguments.map(|argument| argument.replace("{}", number)).collect()
        };
        let off = numbered("1");
        let off: Vec<&str> = off.iter().map(String::as_str).collect();
        let (text, ended) = run(home, &off);
        if ended != Some(code) || text.contains(['\u{1b}', '\r']) {
            self.wrong
                .push(format!("{off:?} off a terminal: {ended:?}, {text:?}"));
        }
        let on = numbered("2");
        let on: Vec<&str> = on.iter().map(String::as_str).collect();
        let (shown, ended) = Terminal::run(home, &on).ended();
        let is_hidden = shown.rfind("\u{1b}[?25l") > shown.rfind("\u{1b}[?25h");
        if ended != Some(code) || is_hidden {
            self.wrong
                .push(format!("{on:?} in a terminal: {ended:?}, {shown:?}"));
        }
        let plain = without_colours(&shown);
        for word in words {
            let [off_word, on_word] = ["1", "2"].map(|number| word.replace("{}", number));
            if !text.contains(&off_word) || !plain.contains(&on_word) {
                self.wrong
                    .push(format!("{off:?}: {word:?} is missing in\n{text}\nor\n{plain}"));
            }
        }
    }
}

/// The text without the sequences that colour it, clear lines or move the cursor.
fn without_colours(shown: &str) -> String {
    let mut plain = String::new();
    let mut rest = shown;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain += before;
        let end = after
            .find(|c: char| c.is_ascii_alphabetic())
            .unwrap_or(after.len() - 1);
        rest = &after[end + 1..];
    }
    plain + rest
}

#[test]
#[ignore = "long: some 50 commands, each in a terminal too"]
fn each_command_works_in_a_terminal_and_off_one() {
    let root = tempfile::tempdir().unwrap();
    let home = root.path();
    let other = tempfile::tempdir().unwrap();
    let mut runner = Runner::default();

    without_a_daemon(&mut runner, home);
    let _daemon = RunningCommand::daemon(home);
    let agent = AskingAgent::asking(home);
    let own = agent.peer.as_str();
    let _other = RunningCommand::start(other.path(), &["demo"]);
    let status = document(other.path(), &["status"]);
    let there = status["peer_id"].as_str().unwrap();
    let at = format!("{}/p2p/{there}", status["addresses"][0].as_str().unwrap());
    with_a_peer(&mut runner, home, own, there, &at);
    invites(&mut runner, home, other.path());
    open_tasks(&mut runner, home, own);
    files(&mut runner, home);
    assert!(runner.wrong.is_empty(), "{}", runner.wrong.join("\n\n"));
    let (help, _) = run(home, &["--help"]);
    let listed = help
        .split_once("Commands:\n")
        .unwrap()
        .1
        .split_once("\n\n")
        .unwrap()
        .0;
    let listed = listed
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let listed: BTreeSet<&str> = listed.filter_map(|line| line.split_whitespace().next()).collect();
    let elsewhere = ELSEWHERE.iter().map(|(name, _)| *name);
    let known: BTreeSet<&str> = runner.ran.iter().map(String::as_str).chain(elsewhere).collect();
    assert_eq!(listed, known, "a command is run by no test of a terminal");
}

fn without_a_daemon(runner: &mut Runner, home: &Path) {
    runner.run(home, &["status"], 3, &["no daemon is running", " up`"]);
    runner.run(home, &["doctor"], 1, &["no daemon"]);
    runner.run(home, &["down"], 3, &["no daemon is running"]);
    runner.run(home, &["completions", "bash"], 0, &["complete"]);
    runner.run(home, &["man", "send"], 0, &["anycast-send"]);
    runner.run(
        home,
        &["config", "set", "log_level", "debug"],
        0,
        &["config.toml"],
    );
    runner.run(home, &["config", "get", "log_level"], 0, &["debug"]);
    runner.run(home, &["config", "set", "log_level", "loud"], 2, &["loud"]);
    runner.run(home, &["up"], 0, &["12D3KooW"]);
    runner.run(home, &["restart"], 0, &["12D3KooW"]);
    runner.run(home, &["logs", "-n", "3"], 0, &["INFO"]);
    assert_eq!(run(home, &["down"]).1, Some(0));
}

fn with_a_peer(runner: &mut Runner, home: &Path, own: &str, there: &str, at: &str) {
    runner.run(home, &["status"], 0, &[own]);
    runner.run(home, &["id"], 0, &[own, "did:key:"]);
    runner.run(home, &["send", at, "hello {}"], 0, &["hello {}"]);
    runner.run(home, &["send", there, "hello {}", "--stream"], 0, &["hello {}"]);
    let done = document(home, &["tasks"])[0]["id"].as_str().unwrap().to_owned();
    runner.run(home, &["tasks"], 0, &["completed"]);
    runner.run(home, &["task", &done], 0, &["completed", there]);
    runner.run(home, &["trace", &done], 0, &["completed"]);
    runner.run(home, &["retry", &done], 0, &["hello"]);
    runner.run(home, &["peers"], 0, &[&there[there.len() - 8..]]);
    runner.run(home, &["relays"], 0, &["relay"]);
    runner.run(home, &["card", there], 0, &["echo"]);
    runner.run(home, &["ping", there, "-c", "1"], 0, &["1"]);
    runner.run(home, &["discover", "echo"], 0, &[&there[there.len() - 8..]]);
    runner.run(home, &["discover", "ech"], 4, &["echo"]);
    runner.run(home, &["agents"], 0, &["asker", "echo"]);
    asking_agent::register(home, &["gone1", "gone2"]);
    runner.run(home, &["trust", there, "--agent", "gone{}"], 0, &["gone{}"]);
    runner.run(home, &["trust", "ls"], 0, &["gone1", "gone2"]);
    runner.run(home, &["untrust", there, "--agent", "gone{}"], 0, &["gone{}"]);
    runner.run(home, &["requests"], 0, &[]);
    runner.run(home, &["agents", "rm", "gone{}"], 0, &["gone"]);
    runner.run(home, &["ps"], 0, &["sdk"]);
    runner.run(home, &["skills"], 0, &["echo"]);
    runner.run(home, &["alias", "add", "there{}", there], 0, &["there{}"]);
    runner.run(home, &["alias", "ls"], 0, &["there1"]);
    runner.run(home, &["alias", "rm", "there{}"], 0, &["there{}"]);
    runner.run(home, &["top", "--once", "--interval", "100ms"], 0, &["completed"]);
    runner.run(home, &["doctor"], 0, &["all is well"]);
    let archive = home.join("report{}.tar.gz");
    runner.run(
        home,
        &["bugreport", "--output", archive.to_str().unwrap()],
        0,
        &["wrote"],
    );
}

/// The one who is asked, and the one who joins. A terminal shows the QR code too.
fn invites(runner: &mut Runner, home: &Path, other: &Path) {
    runner.run(other, &["invite", "--label", "friend{}"], 0, &[]);
    let (shown, _) = Terminal::run(other, &["invite"]).ended();
    assert!(shown.contains('█') || shown.contains('▀'), "no QR code: {shown}");
    let invite = document(other, &["invite"])["invite"]
        .as_str()
        .unwrap()
        .to_owned();
    runner.run(home, &["join", &invite, "--as", "there"], 0, &["joined", "there"]);
    runner.run(other, &["invite", "ls"], 0, &["friend1", "friend2"]);
    runner.run(other, &["invite", "revoke", "friend{}"], 0, &["revoked"]);
}

/// A task that waits, and one that asks.
fn open_tasks(runner: &mut Runner, home: &Path, own: &str) {
    runner.run(
        home,
        &["send", ABSENT_PEER, "hello", "--timeout", "1500ms"],
        5,
        &["trace"],
    );
    let [first, second] =
        [0, 1].map(|at: usize| document(home, &["tasks"])[at]["id"].as_str().unwrap().to_owned());
    let (text, code) = run(home, &["cancel", &first]);
    assert_eq!(code, Some(0), "{text}");
    let (shown, code) = Terminal::run(home, &["cancel", &second]).ended();
    assert_eq!(code, Some(0), "{shown}");
    runner.ran.insert("cancel".to_owned());
    for in_terminal in [false, true] {
        let (text, code) = run(home, &["send", own, "ask"]);
        assert_eq!(code, Some(7), "{text}");
        let id = document(home, &["tasks"])[0]["id"].as_str().unwrap().to_owned();
        let (text, code) = if in_terminal {
            Terminal::run(home, &["reply", &id, "blue"]).ended()
        } else {
            run(home, &["reply", &id, "blue"])
        };
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("ask blue"), "{text}");
    }
    runner.ran.insert("reply".to_owned());
}

/// What needs no daemon.
fn files(runner: &mut Runner, home: &Path) {
    runner.run(home, &["policy", "check", "--source", "local"], 0, &["allow"]);
    runner.run(home, &["policy", "show"], 0, &["no rules"]);
    let log = home.join("audit.jsonl");
    fs::write(&log, "").unwrap();
    runner.run(home, &["audit", "verify", log.to_str().unwrap()], 0, &[]);
    let subject = document(home, &["id"])["did_key"].as_str().unwrap().to_owned();
    let issue = [
        "credential",
        "issue",
        "--subject",
        &subject,
        "--capability",
        "echo",
    ];
    runner.run(home, &issue, 0, &["VerifiableCredential"]);
    let (code, words): (i32, &[&str]) = if cfg!(feature = "uamp") {
        (0, &["\"sig\"", "2+2"])
    } else {
        (2, &["uamp"])
    };
    runner.run(home, &["uamp", "sign", "--to", &subject, "2+2"], code, words);
}
