//! What a host may lack for a while: room on a disk, descriptors, processes, memory. A task does not fail for it: it is not taken,
//! or waits until the want has passed.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rustix::{
    fs::{StatVfsMountFlags, statvfs},
    io::Errno,
};
use tokio::time::{Instant, sleep};

/// How often a host is looked at while no task comes, and a want until it has passed.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// How long what a task lacked counts: longer than it waits before it tries again.
const LACKED_FOR: Duration = Duration::from_secs(5);

/// Errors that pass without a change of the program or the task.
const PASSING: [Errno; 9] = [
    Errno::NOSPC,
    Errno::DQUOT,
    Errno::MFILE,
    Errno::NFILE,
    Errno::AGAIN,
    Errno::NOMEM,
    Errno::ROFS,
    Errno::NOBUFS,
    Errno::TOOMANYREFS,
];

/// Room that the disk of the runner's files has at least, in bytes: for notes, and for the files of a small task.
const ROOM: u64 = 1 << 20;

/// Descriptors that are free at least: those of a program and of its task.
const DESCRIPTORS: usize = 16;

/// Whether this error is a passing want of the host.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(|errno| PASSING.contains(&errno))
}

/// The same of an error that another process has told as text, as [`io::Error`] writes it.
pub(crate) fn is_passing_text(text: &str) -> bool {
    let code = text
        .rsplit_once("(os error ")
        .and_then(|(_, code)| code.strip_suffix(')'));
    let code = code.and_then(|code| code.parse().ok());
    code.is_some_and(|code| is_passing(&io::Error::from_raw_os_error(code)))
}

/// A host, as a runner needs it.
#[derive(Debug)]
pub(crate) struct Host {
    /// Where the runner has its files.
    directory: PathBuf,
    /// What a task lacked last, and when.
    lacked: Mutex<Option<(String, Instant)>>,
}

impl Host {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            lacked: Mutex::default(),
        }
    }

    /// What it lacks now, for people.
    pub(crate) fn want(&self) -> Option<String> {
        let lacked = self.lacked.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let lacked = lacked.filter(|(_, since)| since.elapsed() < LACKED_FOR);
        lacked.map(|(what, _)| what).or_else(|| {
            look(&self.directory)
                .err()
                .map(|error| shown(&error, &self.directory))
        })
    }

    /// Resolves when it lacks something.
    pub(crate) async fn wants(&self) -> String {
        loop {
            sleep(LOOK).await;
            if let Some(want) = self.want() {
                return want;
            }
        }
    }

    /// Resolves when it lacks nothing any more.
    pub(crate) async fn has_recovered(&self) {
        while self.want().is_some() {
            sleep(LOOK).await;
        }
    }

    /// A task lacks this now.
    pub(crate) fn set_lacked(&self, what: String) {
        *self.lacked.lock().unwrap_or_else(PoisonError::into_inner) = Some((what, Instant::now()));
    }
}

fn shown(error: &io::Error, directory: &Path) -> String {
    format!("{error}, for the files in {}", directory.display())
}

/// Looks whether there is room, and whether there are descriptors.
fn look(directory: &Path) -> io::Result<()> {
    let disk = statvfs(directory)?;
    if disk.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Err(Errno::ROFS.into());
    }
    // Some file systems count no files.
    let has_files = disk.f_files == 0 || disk.f_favail > 0;
    if disk.f_bavail.saturating_mul(disk.f_frsize) < ROOM || !has_files {
        return Err(Errno::NOSPC.into());
    }
    let open: io::Result<Vec<File>> = (0..DESCRIPTORS).map(|_| File::open("/dev/null")).collect();
    match open {
        Err(error) if is_passing(&error) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_want_of_the_host_passes_and_others_do_not() {
        for errno in [
            Errno::NOSPC,
            Errno::DQUOT,
            Errno::MFILE,
            Errno::NFILE,
            Errno::AGAIN,
            Errno::NOMEM,
            Errno::ROFS,
        ] {
            let error = io::Error::from(errno);
            assert!(
                is_passing(&error) && is_passing_text(&error.to_string()),
                "{error}"
            );
        }
        for errno in [Errno::NOENT, Errno::ACCESS, Errno::IO, Errno::NOEXEC] {
            let error = io::Error::from(errno);
            assert!(
                !is_passing(&error) && !is_passing_text(&error.to_string()),
                "{error}"
            );
        }
        assert!(!is_passing(&io::Error::other("(os error 28)")) && !is_passing_text("os error 28"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_lacks_what_a_task_lacked() {
        let directory = tempfile::tempdir().unwrap();
        let host = Host::new(directory.path().to_owned());
        assert_eq!(host.want(), None);
        host.set_lacked("no room".to_owned());
        assert_eq!(host.want().as_deref(), Some("no room"));
        host.has_recovered().await;
        assert_eq!(host.want(), None);
    }
}
