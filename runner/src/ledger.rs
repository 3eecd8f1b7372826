//! Which tasks have been started and have not ended, on disk, so that a runner that comes after this one knows it.
//!
//! Each runner has a directory `STATE/run/NAME/RUNNER` with a file `lock`, which it and the helpers of its programs hold locked while
//! they live, so that no two attempts of a task run at once, and one file
//! per started task below `tasks`. A file is written and synced before the task's program starts, and removed when the daemon
//! knows the task's end. A directory whose lock is free is that of a runner that is gone: the next runner of the same agent
//! takes over its entries ([`Ledger::take_over`]) and removes it. So several runners of one agent do not disturb each other.

use std::{
    collections::HashMap,
    fs::{self, DirBuilder, File, TryLockError},
    io::{self, Write as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

/// Most entries of one runner. A task is not started beyond it.
const MOST_ENTRIES: usize = 10_000;

/// Largest file of an entry that is read, in bytes.
const MOST_BYTES: u64 = 64 << 10;

/// Most directories that are tried for a new ledger.
const MOST_TRIES: usize = 5;

const LOCK: &str = "lock";
const TASKS: &str = "tasks";

/// What is known of a started task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StartedTask {
    /// The task's id.
    pub(crate) task: String,
    /// Which try it is, from 1.
    pub(crate) attempt: u32,
    /// When it was started, in seconds since 1970.
    pub(crate) at: u64,
    /// Its program has ended with a question; none runs until the answer comes.
    pub(crate) asked: bool,
}

impl StartedTask {
    pub(crate) fn new(task: &str, attempt: u32, asked: bool) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            task: task.to_owned(),
            attempt,
            at: since.unwrap_or_default().as_secs(),
            asked,
        }
    }

    /// Why it fails when its runner has ended meanwhile.
    pub(crate) fn lost(&self) -> String {
        let at = UNIX_EPOCH + Duration::from_secs(self.at);
        let at = jiff::Timestamp::try_from(at).unwrap_or_default();
        let at = at.to_zoned(jiff::tz::TimeZone::system());
        format!(
            "the runner ended while the program ran (started {})",
            at.strftime("%H:%M:%S")
        )
    }
}

/// The ledger of one runner.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// Of all runners of the agent.
    agent: PathBuf,
    /// Of this one.
    own: PathBuf,
    /// Locked until this and the helpers of its programs are gone.
    lock: Arc<File>,
    state: Mutex<LedgerState>,
}

#[derive(Debug, Default)]
struct LedgerState {
    next: u64,
    /// The number of the file and what it says, by task.
    entries: HashMap<String, (u64, StartedTask)>,
}

impl Ledger {
    /// A new ledger of an agent of this name, with its files below `state`.
    pub(crate) fn open(state: &Path, name: &str) -> io::Result<Self> {
        let agent = state.join("run").join(name);
        for _ in 0..MOST_TRIES {
            let own = agent.join(uuid::Uuid::new_v4().simple().to_string());
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(own.join(TASKS))?;
            let lock = File::create(own.join(LOCK))?;
            // Another runner that takes this one for gone has the lock, and removes the directory.
            if lock.try_lock().is_ok() && own.join(LOCK).exists() {
                return Ok(Self {
                    agent,
                    own,
                    lock: Arc::new(lock),
                    state: Mutex::default(),
                });
            }
        }
        Err(io::Error::other(
            "other runners of the agent remove its directory",
        ))
    }

    /// The directory of this runner, for its other files.
    pub(crate) fn directory(&self) -> &Path {
        &self.own
    }

    /// The lock of this runner. Who holds it open keeps the next runner from taking over.
    pub(crate) fn lock(&self) -> Arc<File> {
        Arc::clone(&self.lock)
    }

    /// The directory of all runners of the agent, which stays; for files of the agent.
    pub(crate) fn agent_directory(&self) -> &Path {
        &self.agent
    }

    // Each change is one insertion or removal.
    fn state(&self) -> MutexGuard<'_, LedgerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how a task stands; on disk when this returns.
    pub(crate) fn note(&self, started: StartedTask) -> io::Result<()> {
        let number = {
            let mut state = self.state();
            if state.entries.len() >= MOST_ENTRIES && !state.entries.contains_key(&started.task) {
                let text = format!("{MOST_ENTRIES} started tasks have not ended; there is no room for more");
                return Err(io::Error::other(text));
            }
            state.next += 1;
            state.next
        };
        let path = self.file(number);
        if let Err(error) = write_synced(&path, &serde_json::to_vec(&started)?) {
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        let former = self
            .state()
            .entries
            .insert(started.task.clone(), (number, started));
        if let Some((number, _)) = former {
            let _ = fs::remove_file(self.file(number));
        }
        Ok(())
    }

    /// The task has ended, and the daemon knows it.
    pub(crate) fn remove(&self, task: &str) {
        let removed = self.state().entries.remove(task);
        if let Some((number, _)) = removed
            && let Err(error) = fs::remove_file(self.file(number))
        {
            tracing::warn!(task, %error, "the note of a started task could not be removed");
        }
    }

    /// What is known of this task.
    pub(crate) fn entry(&self, task: &str) -> Option<StartedTask> {
        self.state().entries.get(task).map(|(_, started)| started.clone())
    }

    /// Takes over the entries of runners of the same agent that are gone, and removes their directories.
    pub(crate) fn take_over(&self) -> io::Result<Vec<StartedTask>> {
        let mut taken = Vec::new();
        for entry in fs::read_dir(&self.agent)? {
            let path = entry?.path();
            if path == self.own || !path.is_dir() {
                continue;
            }
            match take_lock(&path.join(LOCK)) {
                Ok(Some(_lock)) => {
                    for started in read_entries(&path.join(TASKS)) {
                        self.note(started.clone())?;
                        taken.push(started);
                    }
                    fs::remove_dir_all(&path)?;
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, path = %path.display(), "the notes of a former runner could not be taken over");
                }
            }
        }
        taken.sort_by(|one, other| (one.at, &one.task).cmp(&(other.at, &other.task)));
        Ok(taken)
    }

    fn file(&self, number: u64) -> PathBuf {
        self.own.join(TASKS).join(number.to_string())
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        // What is left there is for the next runner.
        if self.state().entries.is_empty()
            && let Err(error) = fs::remove_dir_all(&self.own)
        {
            tracing::debug!(%error, "the directory of a runner could not be removed");
        }
    }
}

/// The lock of a runner that is gone; `None`: it lives.
fn take_lock(path: &Path) -> io::Result<Option<File>> {
    let lock = match File::options().write(true).open(path) {
        // It ended before it had begun, or begins just now.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let made = fs::metadata(path.parent().unwrap_or(path))?.modified()?;
            let is_new = made.elapsed().is_ok_and(|since| since < Duration::from_mins(1));
            if is_new {
                return Ok(None);
            }
            File::create(path)?
        }
        lock => lock?,
    };
    match lock.try_lock() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The entries in a directory. One that was not written whole is left out: its program was not started.
fn read_entries(tasks: &Path) -> Vec<StartedTask> {
    let mut newest: HashMap<String, (u64, StartedTask)> = HashMap::new();
    let Ok(files) = fs::read_dir(tasks) else {
        return Vec::new();
    };
    for file in files.flatten().take(2 * MOST_ENTRIES) {
        let number: u64 = file.file_name().to_string_lossy().parse().unwrap_or(0);
        let is_small = file
            .metadata()
            .is_ok_and(|about| about.is_file() && about.len() <= MOST_BYTES);
        let text = is_small.then(|| fs::read(file.path()).ok()).flatten();
        let Some(started) = text.and_then(|text| serde_json::from_slice::<StartedTask>(&text).ok()) else {
            continue;
        };
        let is_newer = newest.get(&started.task).is_none_or(|(known, _)| *known < number);
        if is_newer {
            newest.insert(started.task.clone(), (number, started));
        }
    }
    newest.into_values().map(|(_, started)| started).collect()
}

fn write_synced(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(text)?;
    file.sync_all()?;
    let directory = path.parent().unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a runner that was killed: its lock is free, its files stay.
    fn kill(ledger: Ledger) {
        let (own, kept) = (ledger.own.clone(), ledger.own.with_extension("kept"));
        fs::rename(&own, &kept).unwrap();
        drop(ledger);
        let _ = fs::remove_dir_all(&own);
        fs::rename(kept, own).unwrap();
    }

    #[test]
    fn a_runner_takes_over_what_one_that_is_gone_has_started() {
        let state = tempfile::tempdir().unwrap();
        let gone = Ledger::open(state.path(), "agent").unwrap();
        let alive = Ledger::open(state.path(), "agent").unwrap();
        alive.note(StartedTask::new("its own", 1, false)).unwrap();
        for (task, asked) in [("a", false), ("b", false), ("b", true), ("c", false)] {
            gone.note(StartedTask::new(task, 2, asked)).unwrap();
        }
        gone.remove("c");
        fs::write(gone.own.join(TASKS).join("99"), "{\"task\":\"torn").unwrap();
        kill(gone);
        let next = Ledger::open(state.path(), "agent").unwrap();
        let taken = next.take_over().unwrap();
        let taken: Vec<(&str, bool)> = taken
            .iter()
            .map(|entry| (entry.task.as_str(), entry.asked))
            .collect();
        assert_eq!(taken, [("a", false), ("b", true)]);
        assert_eq!(next.entry("a").unwrap().attempt, 2);
        assert_eq!(next.take_over().unwrap(), []);
        // It is still there for the one after it.
        kill(next);
        let last = Ledger::open(state.path(), "agent").unwrap();
        assert_eq!(last.take_over().unwrap().len(), 2);
        assert!(alive.entry("its own").is_some());
    }

    #[test]
    fn a_ledger_without_entries_leaves_nothing() {
        let state = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(state.path(), "agent").unwrap();
        ledger.note(StartedTask::new("a", 1, false)).unwrap();
        ledger.remove("a");
        drop(ledger);
        assert_eq!(fs::read_dir(state.path().join("run/agent")).unwrap().count(), 0);
    }

    #[test]
    fn a_lost_task_says_when_it_was_started() {
        let text = StartedTask::new("a", 1, false).lost();
        assert!(text.starts_with("the runner ended while the program ran (started "));
        assert_eq!(text.rsplit(' ').next().unwrap().len(), "14:02:11)".len());
    }
}
