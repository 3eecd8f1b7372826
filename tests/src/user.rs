//! A user with a home directory and no daemon yet, who types `anycast` commands. The daemon that one of them starts ends
//! with this value.

use std::{
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::Stdio,
};

use rustix::process::Pid;
use serde_json::Value;
use tokio::process::Command;

use crate::{cli, cli::CommandOutput, daemon::Home, network_lab::Namespace, wait::within};

/// The user.
#[derive(Debug, Default)]
pub struct User {
    directory: Home,
    environment: Vec<(String, String)>,
    host: Option<Namespace>,
}

impl User {
    /// One whose daemons look for nobody on the local network.
    pub fn new() -> Self {
        Self::default().env("AGENTANYCAST_ENABLE_MDNS", "false")
    }

    /// With a variable in the environment of each command.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// On a host of the laboratory.
    #[must_use]
    pub fn in_namespace(mut self, host: &Namespace) -> Self {
        self.host = Some(host.clone());
        self
    }

    /// The user's home directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The home of the user's daemon.
    pub fn home(&self) -> PathBuf {
        self.directory().join(".agentanycast")
    }

    /// The socket of the user's daemon.
    pub fn socket(&self) -> PathBuf {
        self.home().join("daemon.sock")
    }

    /// Whether a daemon takes calls there.
    pub fn is_served(&self) -> bool {
        UnixStream::connect(self.socket()).is_ok()
    }

    /// A command, to be run as it is.
    pub fn command(&self, args: &[&str]) -> Command {
        let program = cli::program();
        let mut command = match &self.host {
            Some(host) => host.command(&program).into(),
            None => Command::new(program),
        };
        command.args(args).env_clear();
        if self.host.is_some() {
            // By which `ip` is found.
            command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        }
        command
            .env("HOME", self.directory())
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Runs a command to its end.
    ///
    /// # Panics
    /// When it cannot be run, or does not end.
    pub async fn run(&self, args: &[&str]) -> CommandOutput {
        let output = within("the command ends", self.command(args).output()).await;
        let output = output.expect("the command can be run");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let printed = text(&output.stdout);
        CommandOutput {
            status: output.status,
            all_output: printed.clone() + &text(&output.stderr),
            stdout: printed,
        }
    }

    /// The answer of a command with `--json`.
    ///
    /// # Panics
    /// When it fails, or says no JSON.
    pub async fn ask(&self, args: &[&str]) -> Value {
        let said = self.run(&[&["--json"], args].concat()).await;
        assert!(said.status.success(), "{args:?}: {}", said.all_output);
        serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("no JSON: {}", said.all_output))
    }

    /// The daemon's process and peer id, started if it does not run.
    ///
    /// # Panics
    /// When there is none.
    pub async fn up(&self, args: &[&str]) -> (Pid, String) {
        let up = self.ask(&[&["up"], args].concat()).await;
        let pid = up["pid"].as_i64().and_then(|pid| Pid::from_raw(pid as i32));
        let peer = up["peer_id"].as_str().expect("a peer id").to_owned();
        (pid.expect("a process id"), peer)
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if self.is_served() {
            let _ = self.command(&["down"]).as_std_mut().output();
        }
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.home().join("logs/daemon.log")).unwrap_or_default();
            eprintln!("--- log of the daemon in {} ---\n{log}", self.home().display());
        }
    }
}
