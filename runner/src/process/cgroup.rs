//! A cgroup (version 2) of its own for a program, where this process may make one below its own cgroup. All that the program
//! starts is in it, and is ended with it, also what has left the process group. With the controller `pids` it bounds the
//! processes; where it cannot, that is said once.
//!
//! Invariant: the directory is locked by the runner for as long as it lives, so that one without a lock was left behind.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{
        Once,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Where cgroups of version 2 are mounted: alone, or beside those of version 1.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// Begins the names of the cgroups of programs.
const PREFIX: &str = "anycast-run-";

/// Said once that there is no bound.
static WITHOUT: Once = Once::new();

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A cgroup of one program; removed, with what still runs in it, when it is dropped.
#[derive(Debug)]
pub(super) struct TaskCgroup {
    path: PathBuf,
    /// Locked.
    _lock: File,
}

impl TaskCgroup {
    /// A cgroup, with room for this many processes and the helper; `None` where there can be none, with a warning once if
    /// processes are to be bounded.
    pub(super) fn new(most: Option<u32>) -> Option<Self> {
        match Self::make(most) {
            Ok(cgroup) => Some(cgroup),
            Err(error) => {
                if most.is_some() {
                    WITHOUT.call_once(|| {
                        tracing::warn!(%error, "--max-processes is not kept: this process may make no cgroup");
                    });
                }
                None
            }
        }
    }

    fn make(most: Option<u32>) -> io::Result<Self> {
        let own = own_cgroup(&fs::read_to_string("/proc/self/cgroup")?)
            .ok_or_else(|| io::Error::other("the system has no cgroups of version 2"))?;
        if most.is_some() {
            let control = own.join("cgroup.subtree_control");
            if !fs::read_to_string(&control)?
                .split_whitespace()
                .any(|name| name == "pids")
            {
                enable_pids(&own, &control)?;
            }
        }
        let number = NUMBER.fetch_add(1, Relaxed);
        let path = own.join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&path)?;
        let lock = File::open(&path)?;
        lock.try_lock()?;
        let cgroup = Self { path, _lock: lock };
        if let Some(most) = most {
            // The helper counts too.
            fs::write(cgroup.path.join("pids.max"), most.saturating_add(1).to_string())?;
        }
        Ok(cgroup)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Ends the programs of runners that are gone, where those and their helpers were killed at once.
    pub(super) fn end_left_behind() {
        let said = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let Some(own) = own_cgroup(&said) else { return };
        for entry in fs::read_dir(own).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(PREFIX)
                && let Ok(lock) = File::open(entry.path())
                && lock.try_lock().is_ok()
            {
                drop(Self {
                    path: entry.path(),
                    _lock: lock,
                });
            }
        }
    }
}

impl Drop for TaskCgroup {
    fn drop(&mut self) {
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
        // Processes that were killed are gone in a moment, not at once.
        for _ in 0..20 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        tracing::debug!(cgroup = %self.path.display(), "a cgroup could not be removed");
    }
}

/// Lets cgroups below `own` have bounds for processes. A cgroup that has processes of its own cannot: if this one is the
/// only one, it moves into one below.
fn enable_pids(own: &Path, control: &Path) -> io::Result<()> {
    let Err(error) = fs::write(control, "+pids") else {
        return Ok(());
    };
    let alone = fs::read_to_string(own.join("cgroup.procs"))?.trim() == std::process::id().to_string();
    if !alone {
        return Err(error);
    }
    let below = own.join("anycast-runner");
    if !below.is_dir() {
        fs::create_dir(&below)?;
    }
    fs::write(below.join("cgroup.procs"), std::process::id().to_string())?;
    fs::write(control, "+pids")
}

/// The directory of the cgroup by `/proc/self/cgroup`.
fn own_cgroup(said: &str) -> Option<PathBuf> {
    let below = Path::new(said.lines().find_map(|line| line.strip_prefix("0::/"))?);
    // After the move below, this is the cgroup that the program was started in.
    let below = match below.file_name() {
        Some(name) if name == "anycast-runner" => below.parent()?,
        _ => below,
    };
    let mut paths = MOUNTS.iter().map(|mount| Path::new(mount).join(below));
    paths.find(|path| path.join("cgroup.controllers").exists())
}
