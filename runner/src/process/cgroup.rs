//! Bounds the processes of a program by a cgroup (version 2) of its own, where this process may make one: below its own
//! cgroup, with the controller `pids`. Elsewhere the bound is left out, which is said once.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Once,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Where cgroups of version 2 are mounted.
const MOUNT: &str = "/sys/fs/cgroup";

/// Said once that there is no bound.
static WITHOUT: Once = Once::new();

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A cgroup of one program; removed, with what still runs in it, when it is dropped.
#[derive(Debug)]
pub(super) struct TaskCgroup(PathBuf);

impl TaskCgroup {
    /// A cgroup with room for this many processes and the helper; `None`, with a warning once, where there can be none.
    pub(super) fn new(most: u32) -> Option<Self> {
        match Self::make(most) {
            Ok(cgroup) => Some(cgroup),
            Err(error) => {
                WITHOUT.call_once(|| {
                    tracing::warn!(%error, "--max-processes is not kept: this process may make no cgroup");
                });
                None
            }
        }
    }

    fn make(most: u32) -> io::Result<Self> {
        let own = own_cgroup(&fs::read_to_string("/proc/self/cgroup")?)
            .ok_or_else(|| io::Error::other("the system has no cgroups of version 2"))?;
        let control = own.join("cgroup.subtree_control");
        if !fs::read_to_string(&control)?
            .split_whitespace()
            .any(|name| name == "pids")
        {
            enable_pids(&own, &control)?;
        }
        let number = NUMBER.fetch_add(1, Relaxed);
        let path = own.join(format!("anycast-run-{}-{number}", std::process::id()));
        fs::create_dir(&path)?;
        let cgroup = Self(path);
        // The helper counts too.
        fs::write(cgroup.0.join("pids.max"), most.saturating_add(1).to_string())?;
        Ok(cgroup)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TaskCgroup {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
        // Processes that were killed are gone in a moment, not at once.
        for _ in 0..20 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        tracing::debug!(cgroup = %self.0.display(), "a cgroup could not be removed");
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
    let path = said.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let path = Path::new(MOUNT).join(path);
    // After the move below, this is the cgroup that the program was started in.
    let path = match path.strip_prefix(MOUNT).ok()?.file_name() {
        Some(name) if name == "anycast-runner" => path.parent()?.to_owned(),
        _ => path,
    };
    path.join("cgroup.controllers").exists().then_some(path)
}
