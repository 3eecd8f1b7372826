//! Pages that a user pastes from, and the machines that the tests paste them into.
//!
//! What builds or installs is replaced by the programs of the test run; [`INSTALLS`] lists those lines, and one that is not
//! in the list fails the test.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Stdio,
};

use agentanycast_tests::{TransportKind, cli, within};
use serde_json::Value;

use crate::{
    client_env::{ClientEnv, node_modules},
    script::ScriptProcess,
};

/// Lines that build or install.
const INSTALLS: [&str; 11] = [
    "cargo install --locked --path anycast --features full",
    "cargo run --locked --profile quick -p anycast -- demo --pair",
    "npm install --global agentanycastd",
    "npm install --ignore-scripts",
    "npm install --ignore-scripts agentanycast@0.8.1",
    "npm install @modelcontextprotocol/sdk",
    "npm install esbuild",
    "pip install 'agentanycast[langgraph]'",
    "pip install a2a-sdk httpx",
    "pip install agentanycast",
    "pip install agentanycastd",
];

/// How such lines begin.
const INSTALLERS: [&str; 10] = [
    "apt",
    "brew ",
    "cargo ",
    "deploy/",
    "docker ",
    "npm install",
    "pip ",
    "pipx ",
    "sudo ",
    "uv ",
];

/// A block: its language, the words behind that, which nobody sees who reads the page, and its text.
pub(crate) struct DocBlock {
    pub(crate) language: String,
    pub(crate) words: Vec<String>,
    pub(crate) text: String,
}

impl DocBlock {
    /// The commands of a block of shell, without what is said of them and without those that install. One begins at the
    /// beginning of a line; what is indented belongs to the one before it.
    pub(crate) fn commands(&self) -> Vec<&str> {
        assert_eq!(self.language, "sh", "{}", self.text);
        let starts = self.text.match_indices('\n').map(|(at, _)| at + 1);
        let starts = starts.filter(|at| !self.text[*at..].starts_with([' ', '\n']));
        let mut starts: Vec<usize> = [0].into_iter().chain(starts).collect();
        starts.push(self.text.len());
        let lines = starts.windows(2).map(|pair| &self.text[pair[0]..pair[1]]);
        let lines = lines.map(|line| line.split(" #").next().unwrap_or_default().trim());
        let (installs, commands): (Vec<&str>, Vec<&str>) = lines
            .filter(|line| !line.is_empty())
            .partition(|line| INSTALLERS.iter().any(|begin| line.starts_with(begin)));
        for line in installs {
            assert!(
                INSTALLS.contains(&line),
                "a page installs by a line that no test knows: {line}"
            );
        }
        commands
    }
}

/// A page of the repository.
pub(crate) fn page(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// The blocks of a page.
pub(crate) fn blocks(text: &str) -> Vec<DocBlock> {
    let mut blocks = Vec::new();
    // Every second piece is between two fences.
    for piece in text.split("\n```").skip(1).step_by(2) {
        let (head, text) = piece.split_once('\n').unwrap();
        let mut words = head.split_whitespace().map(ToOwned::to_owned);
        blocks.push(DocBlock {
            language: words.next().expect("every block has a language"),
            words: words.collect(),
            text: text.to_owned(),
        });
    }
    blocks
}

/// A user's machine: a home, and the programs of the test run on `PATH`.
pub(crate) struct UserMachine(ClientEnv);

impl UserMachine {
    pub(crate) fn new() -> Self {
        let stage = ClientEnv::new(TransportKind::Tcp);
        symlink(cli::program(), stage.daemon().with_file_name("anycast")).unwrap();
        Self(stage)
    }

    /// With this one as `python`.
    pub(crate) fn python(self, python: &Path) -> Self {
        let program = self.0.daemon().with_file_name("python");
        // A venv is where its python is started from, so no link.
        fs::write(
            &program,
            format!("#!/bin/sh\nexec '{}' \"$@\"\n", python.display()),
        )
        .unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// With what `npm install` would bring in its directory.
    pub(crate) fn node_modules(self) -> Self {
        symlink(node_modules(), self.0.path().join("node_modules")).unwrap();
        self
    }

    /// With the files of a directory in its own.
    pub(crate) fn files(self, directory: &Path) -> Self {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                fs::copy(&path, self.0.path().join(path.file_name().unwrap())).unwrap();
            }
        }
        self
    }

    fn shell(&self, line: &str) -> tokio::process::Command {
        let mut command = self.0.command("sh");
        command.args(["-c", line]);
        command
    }

    /// Starts a line of shell, which goes on.
    pub(crate) fn start(&self, line: &str) -> ScriptProcess {
        ScriptProcess::start(self.shell(&format!("exec {line}")))
    }

    /// Runs a line of shell, which ends well: what it printed.
    pub(crate) async fn run(&self, line: &str) -> String {
        let mut shell = self.shell(line);
        let output = within(line, shell.stdin(Stdio::null()).output()).await.unwrap();
        let [said, complaint] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        assert!(output.status.success(), "{line}: {said}{complaint}");
        said
    }

    /// The agent beside its node has shown its card.
    pub(crate) async fn has_an_agent(&self) {
        agentanycast_tests::eventually("the agent has shown its card", || async {
            self.run("anycast card --json || true")
                .await
                .contains("peer_id")
                .then_some(())
        })
        .await;
    }

    pub(crate) async fn peer_id(&self) -> String {
        let id: Value = serde_json::from_str(&self.run("anycast id --json").await).unwrap();
        id["peer_id"].as_str().unwrap().to_owned()
    }

    /// The id of the task that has changed last.
    pub(crate) async fn newest_task(&self) -> String {
        let tasks: Value = serde_json::from_str(&self.run("anycast tasks --json").await).unwrap();
        tasks[0]["task_id"].as_str().unwrap().to_owned()
    }

    /// The directory of the programs that are found before all others.
    pub(crate) fn programs(&self) -> PathBuf {
        self.0.daemon().parent().unwrap().to_owned()
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        let path = self.0.path().join(name);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.0.path().join(name), text).unwrap();
    }
}

impl Drop for UserMachine {
    fn drop(&mut self) {
        let homes = fs::read_dir(self.0.path()).into_iter().flatten().flatten();
        let homes = homes
            .map(|entry| entry.path())
            .filter(|path| path.join("start.lock").exists());
        for home in homes {
            let mut down = std::process::Command::new(cli::program());
            let _ = down.arg("--home").arg(home).arg("down").output();
        }
    }
}
