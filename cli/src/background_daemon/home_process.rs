//! The process that serves a home, as the system has it, whatever the settings of the home say: found by its socket,
//! stopped.

use std::{
    fs::{DirBuilder, File, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::{net::UnixStream, time::sleep};

use super::{POLL_INTERVAL, general};
use crate::{failure::CommandFailure, home::Home};

/// Held while a daemon is started or stopped.
const LOCK: &str = "start.lock";

/// How long a daemon may take to end. It drains for 5 s at most.
const STOP_LIMIT: Duration = Duration::from_secs(15);

/// How long another command may hold the lock: a stop and a start.
const LOCK_LIMIT: Duration = Duration::from_mins(1);

/// The process that serves a home, if there is one.
#[derive(Debug)]
pub struct HomeProcess {
    home: PathBuf,
    socket: PathBuf,
}

impl HomeProcess {
    /// The process of this home.
    pub fn from_home(home: &Home) -> Result<Self, CommandFailure> {
        Ok(Self {
            home: home.directory()?,
            socket: home.socket()?,
        })
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Whether it has crashed: its socket is there, and nobody serves it. One that was stopped has removed it.
    pub async fn has_crashed(&self) -> bool {
        self.socket.symlink_metadata().is_ok() && matches!(self.pid().await, Ok(None))
    }

    /// The process that serves the home's socket.
    pub(crate) async fn pid(&self) -> Result<Option<Pid>, CommandFailure> {
        serving(&self.socket).await
    }

    /// Stops it; the process that it was, if it ran.
    pub(crate) async fn stop(&self) -> Result<Option<Pid>, CommandFailure> {
        let _lock = self.lock().await?;
        self.stop_locked().await
    }

    /// As [`HomeProcess::stop`], of whoever has the lock.
    pub(super) async fn stop_locked(&self) -> Result<Option<Pid>, CommandFailure> {
        let Some(pid) = self.pid().await? else {
            return Ok(None);
        };
        let number = pid.as_raw_nonzero();
        kill_process(pid, Signal::TERM)
            .map_err(|error| general(format!("cannot stop the daemon (pid {number}): {error}")))?;
        let began = Instant::now();
        while is_alive(pid) {
            if began.elapsed() > STOP_LIMIT {
                return Err(general(format!(
                    "the daemon (pid {number}) still runs {} s after SIGTERM; `kill -9 {number}` ends it, and no task that \
                     was accepted is lost",
                    STOP_LIMIT.as_secs()
                )));
            }
            sleep(POLL_INTERVAL).await;
        }
        Ok(Some(pid))
    }

    /// Waits until no other command starts or stops the daemon of the home. The system releases the lock with the file.
    pub(super) async fn lock(&self) -> Result<File, CommandFailure> {
        let path = self.home.join(LOCK);
        let failed = |error: io::Error| general(format!("cannot lock {}: {error}", path.display()));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.home)
            .map_err(|error| general(format!("cannot make the home {}: {error}", self.home.display())))?;
        let mut options = File::options();
        let file = options.create(true).append(true).mode(0o600).open(&path);
        let file = file.map_err(failed)?;
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_LIMIT => sleep(POLL_INTERVAL).await,
                Err(TryLockError::WouldBlock) => {
                    return Err(general(format!(
                        "another command has held {} for {} s; end it and try again",
                        path.display(),
                        LOCK_LIMIT.as_secs()
                    )));
                }
                // A file system without locks: the daemon's own lock on its key still lets one alone run.
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                    return Ok(file);
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
                Ok(()) => return Ok(file),
            }
        }
    }
}

/// The process that takes calls on a socket; `None` if none does.
async fn serving(socket: &Path) -> Result<Option<Pid>, CommandFailure> {
    let unknown = |why: &str| {
        let text = format!(
            "a daemon answers on {}, and its process is not known: {why}",
            socket.display()
        );
        general(text)
    };
    let stream = match UnixStream::connect(socket).await {
        Ok(stream) => stream,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(unknown(&error.to_string())),
    };
    let credentials = stream.peer_cred().map_err(|error| unknown(&error.to_string()))?;
    // In a container of its own its process has no number here.
    let pid = credentials.pid().and_then(Pid::from_raw);
    pid.map(Some)
        .ok_or_else(|| unknown("it runs in another container"))
}

/// Whether a process has not ended. One that only waits for its parent to ask how it ended has.
fn is_alive(pid: Pid) -> bool {
    if test_kill_process(pid) == Err(rustix::io::Errno::SRCH) {
        return false;
    }
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    // The name of the program is in parentheses, and may have some; its state is behind it.
    let state = stat.ok().and_then(|stat| {
        let (_, rest) = stat.rsplit_once(')')?;
        rest.trim_start().chars().next()
    });
    !matches!(state, Some('Z' | 'X'))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_that_ended_is_not_alive_before_its_parent_asks() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        assert!(is_alive(pid));
        child.kill().unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        while is_alive(pid) {
            assert!(Instant::now() < until, "a zombie counts as alive");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(test_kill_process(pid).is_ok(), "it is a zombie");
        child.wait().unwrap();
        assert!(!is_alive(pid));
    }

    #[tokio::test]
    async fn who_serves_a_socket_is_known_and_a_stale_one_is_served_by_nobody() {
        let home = tempfile::tempdir().unwrap();
        let socket = home.path().join("s");
        assert_eq!(serving(&socket).await.unwrap(), None);
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(serving(&socket).await.unwrap(), Some(rustix::process::getpid()));
        drop(listener);
        assert_eq!(serving(&socket).await.unwrap(), None);
    }
}
