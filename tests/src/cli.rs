//! `anycast` as people run it: with arguments, without their environment, to its end.

use std::{
    ffi::OsStr,
    path::PathBuf,
    process::{Command, ExitStatus},
};

use serde_json::Value;

use crate::{daemon::Daemon, spawn};

/// What the command said, and how it ended.
#[derive(Debug)]
pub struct CommandOutput {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output, then standard error.
    pub all_output: String,
    /// Standard output.
    pub stdout: String,
}

/// Names another program to be tested in its place: that of an installed package.
const INSTALLED: &str = "AGENTANYCAST_TEST_ANYCAST";

/// The program, which is beside the test executables.
///
/// # Panics
/// When it is not there.
pub fn program() -> PathBuf {
    let installed = std::env::var_os(INSTALLED).map(PathBuf::from);
    installed.unwrap_or_else(|| spawn::built_program("anycast"))
}

/// Runs `anycast`.
///
/// # Panics
/// When it cannot be run.
pub fn anycast<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> CommandOutput {
    let output = Command::new(program())
        .args(args)
        .env_clear()
        .output()
        .expect("the command can be run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let printed = text(&output.stdout);
    CommandOutput {
        status: output.status,
        all_output: printed.clone() + &text(&output.stderr),
        stdout: printed,
    }
}

/// Runs `anycast` with a daemon, beside the runtime.
///
/// # Panics
/// When it cannot be run.
pub async fn anycast_at(daemon: &Daemon, args: &[&str]) -> CommandOutput {
    let mut all = vec!["--daemon".to_owned(), daemon.grpc().to_owned()];
    all.extend(args.iter().map(ToString::to_string));
    tokio::task::spawn_blocking(|| anycast(all))
        .await
        .expect("the command ends")
}

/// Asks a daemon by `anycast --json`; its answer.
///
/// # Panics
/// When the command fails, or says no JSON.
pub async fn anycast_json(daemon: &Daemon, args: &[&str]) -> Value {
    let said = anycast_at(daemon, &[&["--json"], args].concat()).await;
    assert!(said.status.success(), "{}", said.all_output);
    serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("no JSON: {}", said.all_output))
}
