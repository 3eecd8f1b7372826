//! The README, as a user pastes it: each block of its first hour is run, in the order in which they stand.
//!
//! What builds or installs is replaced by the programs of the test run; [`INSTALLS`] lists those lines, and one that is not
//! in the list fails the test. Its Rust is compiled by the tests of the SDK's documentation.

use std::{fs, os::unix::fs::symlink, path::Path, process::Stdio};

use agentanycast_tests::{Transport, command, eventually, within};
use serde_json::Value;

use crate::{
    script::Script,
    stage::{Stage, node_modules, python},
};

/// Lines that build or install.
const INSTALLS: [&str; 5] = [
    "pip install agentanycastd",
    "npm install --global agentanycastd",
    "cargo install --locked --path cli --features full",
    "npm install --ignore-scripts agentanycast@0.8.1",
    "npm install esbuild",
];

/// How such lines begin.
const INSTALLERS: [&str; 4] = ["cargo ", "docker ", "npm ", "pip "];

/// A block: its language, and its text.
struct Block {
    language: String,
    text: String,
}

impl Block {
    /// The lines of a block of shell, without what is said of them and without those that install.
    fn commands(&self) -> Vec<&str> {
        assert_eq!(self.language, "sh", "{}", self.text);
        let lines = self.text.lines();
        let lines = lines.map(|line| line.split(" #").next().unwrap_or_default().trim());
        let (installs, commands): (Vec<&str>, Vec<&str>) = lines
            .filter(|line| !line.is_empty())
            .partition(|line| INSTALLERS.iter().any(|begin| line.starts_with(begin)));
        for line in installs {
            assert!(
                INSTALLS.contains(&line),
                "README installs by a line that no test knows: {line}"
            );
        }
        commands
    }
}

/// The blocks of README from this heading to the next one of its level, without those that show what is printed.
fn blocks(heading: &str) -> Vec<Block> {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let text = fs::read_to_string(readme).unwrap();
    let (_, text) = text.split_once(&format!("\n## {heading}\n")).unwrap();
    let text = text.split("\n## ").next().unwrap();
    let mut blocks = Vec::new();
    // Every second piece is between two fences.
    for piece in text.split("\n```").skip(1).step_by(2) {
        let (language, text) = piece.split_once('\n').unwrap();
        if language != "text" {
            blocks.push(Block {
                language: language.to_owned(),
                text: text.to_owned(),
            });
        }
    }
    blocks
}

/// A user's machine: a home, and the programs of the test run on `PATH`.
struct Machine(Stage);

impl Machine {
    fn new() -> Self {
        let stage = Stage::new(Transport::Tcp);
        symlink(command::program(), stage.daemon().with_file_name("anycast")).unwrap();
        Self(stage)
    }

    fn shell(&self, line: &str) -> tokio::process::Command {
        let mut command = self.0.command("sh");
        command.args(["-c", line]);
        command
    }

    /// Starts a line of shell, which goes on.
    fn start(&self, line: &str) -> Script {
        Script::start(self.shell(&format!("exec {line}")))
    }

    /// Runs a line of shell, which ends well: what it printed.
    async fn run(&self, line: &str) -> String {
        let mut shell = self.shell(line);
        let output = within(line, shell.stdin(Stdio::null()).output()).await.unwrap();
        let [said, complaint] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        assert!(output.status.success(), "{line}: {said}{complaint}");
        said
    }

    async fn peer_id(&self) -> String {
        let id: Value = serde_json::from_str(&self.run("anycast id --json").await).unwrap();
        id["peer_id"].as_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).unwrap();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let mut down = std::process::Command::new(command::program());
        let _ = down.arg("down").env("HOME", self.0.path()).output();
    }
}

#[test]
fn what_installs_is_known() {
    for block in blocks("Install") {
        assert_eq!(block.commands(), [""; 0], "an install does nothing else");
    }
}

#[tokio::test]
async fn the_first_hour_runs_as_it_is_written() {
    let blocks = blocks("The first hour");
    let mut blocks = blocks.iter();
    let [first, second] = [Machine::new(), Machine::new()];

    let demo = blocks.next().unwrap().commands();
    let said = first.run(demo[0]).await;
    assert!(demo.len() == 1 && said.contains("echo: Hello"), "{said}");

    let [agent, invite] = blocks.next().unwrap().commands()[..] else {
        panic!("an agent and an invite")
    };
    let mut agent = first.start(agent);
    agent.line_with("listens").await;
    let invite = first.run(invite).await;
    let fill = |line: &str, task: &str| line.replace("STRING", invite.trim()).replace("TASK_ID", task);

    let send = blocks.next().unwrap().commands();
    let said = second.run(&fill(send[0], "")).await;
    assert!(send.len() == 1 && said == "hello\n", "{said}");

    // As the text between the blocks has it.
    second.run(&fill("anycast join STRING --as bob", "")).await;
    second.write("report.pdf", "%PDF-1.4");
    let tasks: Value = serde_json::from_str(&second.run("anycast tasks --json").await).unwrap();
    let task = tasks[0]["task_id"].as_str().unwrap();
    let rest = blocks.next().unwrap().commands();
    assert!(rest.len() > 5, "{rest:?}");
    for line in rest {
        second.run(&fill(line, task)).await;
    }
    agent.interrupt();
    agent.end().await;
}

#[tokio::test]
async fn the_programs_run_as_they_are_written() {
    let blocks = blocks("The first hour");
    let mut programs = blocks.iter().filter(|block| block.language != "sh");
    let mut program = |language: &str| {
        let block = programs.next().unwrap();
        assert_eq!(block.language, language);
        block.text.as_str()
    };
    let [first, second] = [Machine::new(), Machine::new()];
    first.write("server.py", program("python"));
    second.write("ask.py", program("python"));
    second.write("ask.ts", program("ts"));
    program("rust,no_run");

    for machine in [&first, &second] {
        machine.run("anycast up").await;
    }
    let _server = first.start(&format!("{} server.py", python().display()));
    eventually("the agent has shown its card", || async {
        first
            .run("anycast card --json || true")
            .await
            .contains("Shouter")
            .then_some(())
    })
    .await;
    let invite = first.run("anycast invite").await;
    let said = second.run(&format!("anycast send {} hello", invite.trim())).await;
    assert_eq!(said, "HELLO\n");

    let peer = first.peer_id().await;
    let ask = format!("{} ask.py {peer} hello", python().display());
    assert_eq!(second.run(&ask).await, "HELLO\n");

    // The lines that make TypeScript run, in the directory with the packages that they install.
    symlink(node_modules(), second.0.path().join("node_modules")).unwrap();
    let shells = blocks.iter().filter(|block| block.language == "sh");
    let typescript = shells
        .map(Block::commands)
        .find(|lines| lines.iter().any(|line| line.contains("ask.ts")));
    let mut said = String::new();
    for line in typescript.unwrap() {
        said = second.run(&line.replace("PEER_ID", &peer)).await;
    }
    assert_eq!(said, "HELLO\n");
}
