//! Homes with daemons of their own, and the command run in them.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

use serde_json::Value;

pub(crate) fn command(home: &Path) -> Command {
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
pub(crate) fn run(home: &Path, arguments: &[&str]) -> (String, Option<i32>) {
    let output = command(home).args(arguments).output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (text, output.status.code())
}

pub(crate) fn document(home: &Path, arguments: &[&str]) -> Value {
    let output = command(home).arg("--json").args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"))
}

/// A process that ends with the test.
pub(crate) struct RunningCommand {
    pub(crate) process: Child,
    /// Not read any more, and open: what it says has somewhere to go.
    _said: BufReader<ChildStdout>,
    home: PathBuf,
}

impl RunningCommand {
    /// Started, and after its first line of output.
    pub(crate) fn start(home: &Path, arguments: &[&str]) -> Self {
        Self::start_with(home, arguments, &[])
    }

    /// The same with variables of its environment.
    pub(crate) fn start_with(home: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut child = command(home)
            .args(arguments)
            .envs(variables.iter().copied())
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
            home: home.to_owned(),
        }
    }

    pub(crate) fn daemon(home: &Path) -> Self {
        Self::start(home, &["daemon", "--listen=/ip4/127.0.0.1/tcp/0"])
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
        // A daemon that it has started stays.
        let _ = command(&self.home).arg("down").output();
    }
}
