//! A daemon started as a child process: its start-up lines, its log file, its end. It runs in a
//! process group of its own, so that Ctrl-C in a terminal reaches the agent first, which then stops it.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{Child, ChildStdout, Command},
    sync::watch,
};

use crate::error::{Error, ErrorKind};

/// How long a daemon may take until it accepts calls: opening a large store takes seconds.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A daemon stops within 5 s of SIGTERM; then it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// A log larger than this is set aside as `daemon.log.1` when the next daemon starts.
const MAX_LOG: u64 = 16 << 20;

/// How much of the log's end is searched for the daemon's last words.
const LOG_TAIL: u64 = 4096;

/// Most bytes of start-up output that are kept; the rest is read and forgotten.
const MAX_STARTUP_OUTPUT: u64 = 64 << 10;

/// The line that says that calls are accepted.
const READY: &str = "PEER_ID=";

/// The lines after it: one per address that the daemon listens on.
const LISTENS: &str = "LISTEN_ADDR=";

/// The addresses follow [`READY`] at once; a daemon that listens nowhere writes none.
const ANNOUNCE_LIMIT: Duration = Duration::from_secs(2);

/// How to start a daemon.
#[derive(Debug)]
pub(crate) struct DaemonLaunch {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) home: PathBuf,
}

/// A daemon that runs. Dropping it sends SIGTERM, and a thread kills it if it does not stop.
#[derive(Debug)]
pub(crate) struct Daemon {
    /// Taken when it has been stopped.
    child: Option<Child>,
    log: PathBuf,
    announced: watch::Receiver<Vec<String>>,
}

impl Daemon {
    /// Starts a daemon and waits until it accepts calls.
    pub(crate) async fn launch(launch: DaemonLaunch) -> Result<Self, Error> {
        let log = launch.home.join("logs").join("daemon.log");
        let stderr = open_log(&launch.home, &log).map_err(|error| {
            let message = format!("cannot write the daemon's log {}: {error}", log.display());
            Error::new(ErrorKind::InvalidArgument, message).because(error)
        })?;
        let mut child = Command::new(&launch.program)
            .args(&launch.arguments)
            .envs(launch.environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .process_group(0)
            .spawn()
            .map_err(|error| cannot_start(&launch.program, error))?;
        let stdout = child.stdout.take();
        let (announce, announced) = watch::channel(Vec::new());
        let mut daemon = Self {
            child: Some(child),
            log,
            announced,
        };
        let ready = tokio::time::timeout(START_LIMIT, until_ready(stdout, announce)).await;
        match ready {
            Ok(true) => Ok(daemon),
            Ok(false) => Err(daemon.ended().await),
            Err(_) => {
                let message = format!(
                    "the daemon is not ready after {START_LIMIT:?}; see {}",
                    daemon.log.display()
                );
                Err(Error::new(ErrorKind::Timeout, message))
            }
        }
    }

    /// Where the daemon writes what it does.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// The addresses that the daemon announced, as soon as there is one.
    pub(crate) async fn announced(&self) -> Vec<String> {
        let mut announced = self.announced.clone();
        let some = announced.wait_for(|addresses| !addresses.is_empty());
        match tokio::time::timeout(ANNOUNCE_LIMIT, some).await {
            Ok(Ok(addresses)) => addresses.clone(),
            _ => Vec::new(),
        }
    }

    /// Asks the daemon to stop.
    pub(crate) fn terminate(&mut self) {
        let pid = self
            .child
            .as_ref()
            .and_then(Child::id)
            .and_then(|id| Pid::from_raw(id.cast_signed()));
        if let Some(pid) = pid
            && let Err(error) = kill_process(pid, Signal::TERM)
        {
            tracing::debug!(%error, "the daemon could not be signalled");
        }
    }

    /// Stops the daemon: SIGTERM, and the hard way after [`STOP_LIMIT`].
    pub(crate) async fn stop(mut self) {
        self.terminate();
        let Some(mut child) = self.child.take() else {
            return;
        };
        if tokio::time::timeout(STOP_LIMIT, child.wait()).await.is_err() {
            tracing::warn!("the daemon did not stop within {STOP_LIMIT:?} and is killed");
            if let Err(error) = child.kill().await {
                tracing::warn!(%error, "the daemon could not be killed");
            }
        }
    }

    /// Why a daemon that was to start has ended.
    async fn ended(&mut self) -> Error {
        let status = match self.child.as_mut() {
            Some(child) => tokio::time::timeout(STOP_LIMIT, child.wait()).await,
            None => Ok(Err(io::Error::other("it was stopped"))),
        };
        let how = match status {
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it closed its output".to_owned(),
        };
        let words = last_words(&self.log).unwrap_or_default();
        let message = format!(
            "the daemon did not start ({how}): {words} (log: {})",
            self.log.display()
        );
        Error::new(ErrorKind::DaemonUnavailable, message)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.terminate();
        let Some(mut child) = self.child.take() else {
            return;
        };
        // A drop must not block an executor; whoever wants to wait calls `stop`.
        std::thread::spawn(move || {
            let deadline = Instant::now() + STOP_LIMIT;
            while Instant::now() < deadline {
                if !matches!(child.try_wait(), Ok(None)) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            if let Err(error) = child.start_kill() {
                tracing::warn!(%error, "the daemon could not be killed");
            }
        });
    }
}

fn cannot_start(program: &OsString, error: io::Error) -> Error {
    let program = Path::new(program).display();
    let hint = if error.kind() == io::ErrorKind::NotFound {
        "; install it, put it on PATH, or name it in AGENTANYCAST_DAEMON"
    } else {
        ""
    };
    let message = format!("cannot start the daemon {program}: {error}{hint}");
    Error::new(ErrorKind::DaemonUnavailable, message).because(error)
}

/// Reads up to the line that says that the daemon is ready. Then the addresses are read on, and the
/// pipe kept empty until it closes.
async fn until_ready(stdout: Option<ChildStdout>, announce: watch::Sender<Vec<String>>) -> bool {
    let Some(stdout) = stdout else { return false };
    let mut lines = BufReader::new(stdout.take(MAX_STARTUP_OUTPUT)).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if !line.starts_with(READY) {
            continue;
        }
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some(address) = line.strip_prefix(LISTENS) {
                    announce.send_modify(|addresses| addresses.push(address.to_owned()));
                }
            }
            let mut rest = lines.into_inner().into_inner().into_inner();
            tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
        });
        return true;
    }
    false
}

/// Makes the home (only for its user) and opens the log for appending.
fn open_log(home: &Path, log: &Path) -> io::Result<File> {
    let directory = log.parent().unwrap_or(home);
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    if fs::metadata(log).is_ok_and(|metadata| metadata.len() > MAX_LOG) {
        fs::rename(log, log.with_extension("log.1"))?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(log)
}

/// The last line of the log that is not empty.
fn last_words(log: &Path) -> io::Result<String> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL)))?;
    let mut tail = Vec::new();
    file.take(LOG_TAIL).read_to_end(&mut tail)?;
    let tail = String::from_utf8_lossy(&tail).into_owned();
    Ok(tail
        .lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default()
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(home: &Path, script: &str) -> DaemonLaunch {
        let arguments = vec!["-c".into(), script.into()];
        DaemonLaunch {
            program: "sh".into(),
            arguments,
            environment: Vec::new(),
            home: home.to_owned(),
        }
    }

    #[tokio::test]
    async fn a_daemon_that_ignores_the_signal_is_killed() {
        let home = tempfile::tempdir().unwrap();
        let script = "trap '' TERM; echo PEER_ID=x; echo LISTEN_ADDR=y; while :; do sleep 1; done";
        let daemon = Daemon::launch(launch(home.path(), script)).await.unwrap();
        assert_eq!(daemon.announced().await, ["y"]);
        let id = daemon.child.as_ref().and_then(Child::id).unwrap();
        tokio::time::timeout(STOP_LIMIT * 2, daemon.stop()).await.unwrap();
        let pid = Pid::from_raw(id.cast_signed()).unwrap();
        assert!(rustix::process::test_kill_process(pid).is_err());
    }

    #[tokio::test]
    async fn a_large_log_is_set_aside() {
        let home = tempfile::tempdir().unwrap();
        let logs = home.path().join("logs");
        fs::create_dir(&logs).unwrap();
        File::create(logs.join("daemon.log"))
            .unwrap()
            .set_len(MAX_LOG + 1)
            .unwrap();
        let daemon = Daemon::launch(launch(home.path(), "echo PEER_ID=x; exec sleep 60"))
            .await
            .unwrap();
        daemon.stop().await;
        assert!(logs.join("daemon.log.1").exists());
        assert_eq!(fs::metadata(logs.join("daemon.log")).unwrap().len(), 0);
    }
}
