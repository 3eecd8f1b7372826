//! `anycast` as people run it: with arguments, without their environment, to its end.

use std::{
    ffi::OsStr,
    path::PathBuf,
    process::{Command, ExitStatus},
};

use serde_json::Value;

use crate::{daemon::Daemon, programs};

/// What the command said, and how it ended.
#[derive(Debug)]
pub struct Said {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output, then standard error.
    pub said: String,
    /// Standard output.
    pub printed: String,
}

/// Names another program to be tested in its place: that of an installed package.
const INSTALLED: &str = "AGENTANYCAST_TEST_ANYCAST";

/// The program, which is beside the test executables.
///
/// # Panics
/// When it is not there.
pub fn program() -> PathBuf {
    let installed = std::env::var_os(INSTALLED).map(PathBuf::from);
    installed.unwrap_or_else(|| programs::beside("anycast", "agentanycast-cli"))
}

/// Runs `anycast`.
///
/// # Panics
/// When it cannot be run.
pub fn anycast<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Said {
    let output = Command::new(program())
        .args(args)
        .env_clear()
        .output()
        .expect("the command can be run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let printed = text(&output.stdout);
    Said {
        status: output.status,
        said: printed.clone() + &text(&output.stderr),
        printed,
    }
}

/// Runs `anycast` with a daemon, beside the runtime.
///
/// # Panics
/// When it cannot be run.
pub async fn told(daemon: &Daemon, args: &[&str]) -> Said {
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
pub async fn asked(daemon: &Daemon, args: &[&str]) -> Value {
    let said = told(daemon, &[&["--json"], args].concat()).await;
    assert!(said.status.success(), "{}", said.said);
    serde_json::from_str(&said.printed).unwrap_or_else(|_| panic!("no JSON: {}", said.said))
}
