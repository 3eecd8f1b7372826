//! What hints tell people to type works when it is pasted, also in a home that was given, whose path has a space.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use super::{ABSENT_PEER, RunningCommand, command, document, run};

/// A shell with a pasted line.
fn shell(home: &Path, line: &str) -> Command {
    let programs = Path::new(env!("CARGO_BIN_EXE_anycast")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", line])
        .current_dir(home)
        .env_clear()
        .env("HOME", home)
        .env("PATH", format!("{}:{path}", programs.display()))
        .env("AGENTANYCAST_ENABLE_MDNS", "false");
    shell
}

/// What a pasted line prints, and its exit code.
fn pasted(home: &Path, line: &str) -> (String, Option<i32>) {
    let output = shell(home, line).output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (text, output.status.code())
}

/// A process that is killed in the end, and what it has printed up to a line with this.
fn running(mut command: Command, until: &str) -> (Running, Vec<String>) {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = Vec::new();
    while said.last().is_none_or(|line: &String| !line.contains(until)) {
        let line = lines.next().unwrap_or_else(|| panic!("it ended: {said:?}"));
        said.push(line.unwrap());
    }
    std::thread::spawn(move || lines.for_each(drop));
    (Running(child), said)
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// Ends the daemon of a home.
struct Down<'a>(&'a Path);

impl Drop for Down<'_> {
    fn drop(&mut self) {
        let _ = command(self.0).arg("down").output();
    }
}

/// The command in a line of a hint, up to what it does.
fn hint<'a>(lines: impl IntoIterator<Item = &'a str>, words: &str) -> String {
    let found = lines.into_iter().find(|line| line.contains(words));
    let line = found.unwrap_or_else(|| panic!("no hint has {words:?}"));
    let begin = line.find("anycast ").unwrap();
    let line = &line[begin..];
    line[..line.find("  ").unwrap_or(line.len())].to_owned()
}

#[test]
fn the_next_steps_of_up_work_one_after_the_other() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().join("a home");
    std::fs::create_dir(&root).unwrap();
    let root = root.as_path();
    let (text, code) = run(root, &["up", "--listen", "/ip4/127.0.0.1/tcp/0"]);
    let _down = Down(root);
    assert_eq!(code, Some(0), "{text}");
    let line = hint(text.lines(), " run ");
    assert!(line.contains("--home '"), "{line}");
    let (_agent, _) = running(shell(root, &format!("exec {line}")), "Try it");
    assert_eq!(
        pasted(root, &hint(text.lines(), " send ")),
        ("hello\n".to_owned(), Some(0))
    );
    for words in [" agents", " status"] {
        let line = hint(text.lines(), words);
        let (said, code) = pasted(root, &line);
        assert!(code == Some(0) && !said.is_empty(), "{line}: {said}");
    }
    let down = hint(text.lines(), " down");
    let down = down.split(" stops it").next().unwrap();
    let (said, code) = pasted(root, down);
    assert_eq!(code, Some(0), "{down}: {said}");
}

#[test]
fn what_agents_are_tried_by_works() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let _daemon = RunningCommand::daemon(home);
    let mut run = command(home);
    run.args(["run", "--name", "echo", "--", "cat"])
        .env("PATH", std::env::var_os("PATH").unwrap());
    let (_run, said) = running(run, "Try it");
    let line = hint(said.iter().map(String::as_str), "Try it");
    assert_eq!(pasted(home, &line), ("hello\n".to_owned(), Some(0)), "{line}");
    let other = tempfile::tempdir().unwrap();
    let other = other.path();
    let _daemon = RunningCommand::daemon(other);
    let mut demo = command(other);
    demo.arg("demo");
    let (_demo, said) = running(demo, "Ctrl-C");
    let line = hint(said.iter().map(String::as_str), "Try it");
    assert_eq!(pasted(other, &line), ("hello\n".to_owned(), Some(0)), "{line}");
}

#[test]
fn what_errors_tell_to_type_is_about_the_same_daemon() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let _daemon = RunningCommand::daemon(home);
    let backticked = |text: &str| {
        let hints = text.split('`').skip(1).step_by(2).map(str::to_owned);
        hints.collect::<Vec<_>>()
    };
    let (text, code) = run(home, &["send", ABSENT_PEER, "hello", "--timeout", "300ms"]);
    assert_eq!(code, Some(5), "{text}");
    let id = document(home, &["tasks"])[0]["id"].as_str().unwrap().to_owned();
    let mut hints = backticked(&text);
    for arguments in [
        &["send", "nobody", "hello"][..],
        &["alias", "ls"],
        &["ps"],
        &["invite", "ls"],
    ] {
        hints.extend(backticked(&run(home, arguments).0));
    }
    assert!(hints.len() >= 6, "{hints:?}");
    for line in &hints {
        assert!(line.starts_with("anycast --home "), "{line}");
        let options = line.split(" -- ").next().unwrap().replace("NAME", "name");
        let (said, code) = pasted(home, &format!("{options} --help"));
        assert_eq!(code, Some(0), "{line}: {said}");
    }
    let (said, code) = pasted(home, &hints[0]);
    assert!(code == Some(0) && said.contains(&id), "{}: {said}", hints[0]);
    // By its address, too.
    let socket = format!("unix://{}", home.join("home/daemon.sock").display());
    let by_address = format!("anycast --daemon {socket} send {ABSENT_PEER} hello --timeout 300ms");
    let (text, _) = pasted(home, &by_address);
    let hints = backticked(&text);
    assert!(
        hints[0].starts_with(&format!("anycast --daemon {socket} ")),
        "{text}"
    );
    assert_eq!(pasted(home, &hints[0]).1, Some(0), "{text}");
}
