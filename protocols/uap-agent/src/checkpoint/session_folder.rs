//! The folder of a session with its two files, which change as a pair.
//!
//! A file is written beside its place, flushed and renamed, so that a crash leaves the old or the new one. A
//! writer locks the folder, and a reader waits for the end of the write: this holds between the stores and
//! processes that use one directory. On a file system without locks each file is still whole.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use serde::Serialize;
use uuid::Uuid;

use super::Checkpoint;

pub(super) const STATE_FILE: &str = "checkpoint.json";
pub(super) const METADATA_FILE: &str = "metadata.json";

/// How old a file that a process left beside its place has to be before it is removed. A write takes
/// milliseconds.
const LEFT_OVER_AGE: Duration = Duration::from_hours(1);

/// How often a folder is made that another call deletes before it is locked.
const LOCK_TRIES: u32 = 100;

/// Writes both files in place of the last ones.
pub(super) fn write(folder: &Path, checkpoint: &Checkpoint) -> io::Result<()> {
    let locked = lock_to_write(folder)?;
    remove_left_over(folder, SystemTime::now());
    let state = Beside::write(folder, STATE_FILE, &checkpoint.state)?;
    let metadata = Beside::write(folder, METADATA_FILE, &checkpoint.metadata)?;
    state.put(&folder.join(STATE_FILE))?;
    metadata.put(&folder.join(METADATA_FILE))?;
    // The renames are durable once the folder is.
    locked.sync_all()
}

/// Keeps writers out until the answer is dropped. `None` if there is no folder, or if it cannot be opened.
pub(super) fn lock_to_read(folder: &Path) -> Option<File> {
    lock(folder, File::lock_shared).ok()
}

/// Deletes the folder, if it is there.
pub(super) fn delete(folder: &Path) -> io::Result<()> {
    let deleted = lock(folder, File::lock).and_then(|_locked| fs::remove_dir_all(folder));
    match deleted {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes the folder, unless it is there, and locks it.
fn lock_to_write(folder: &Path) -> io::Result<File> {
    let mut outcome = Err(io::ErrorKind::NotFound.into());
    for _ in 0..LOCK_TRIES {
        outcome = fs::create_dir_all(folder).and_then(|()| lock(folder, File::lock));
        // Another call may have deleted the folder after it was made.
        match &outcome {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            _ => break,
        }
    }
    outcome
}

/// Opens the folder with a lock that ends when it is closed. `NotFound` if there is no folder, or if it was
/// deleted before it was locked.
fn lock(folder: &Path, take: fn(&File) -> io::Result<()>) -> io::Result<File> {
    let file = File::open(folder)?;
    if let Err(error) = take(&file) {
        tracing::debug!(folder = %folder.display(), %error, "the folder of a session cannot be locked");
    } else if !is_at(&file, folder)? {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(file)
}

/// Whether the open folder is still the one of this path.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;

    let (open, there) = (file.metadata()?, fs::metadata(path)?);
    Ok((open.dev(), open.ino()) == (there.dev(), there.ino()))
}

#[cfg(not(unix))]
fn is_at(_file: &File, _path: &Path) -> io::Result<bool> {
    Ok(true)
}

/// A file that is written beside its place. It is removed unless it is put there.
struct Beside {
    path: PathBuf,
    is_put: bool,
}

impl Beside {
    /// Writes and flushes a file. No other call has its name, in this process, another one or on another
    /// machine.
    fn write(folder: &Path, name: &str, content: &impl Serialize) -> io::Result<Self> {
        let beside = Self {
            path: folder.join(format!(".{name}.{}", Uuid::new_v4())),
            is_put: false,
        };
        let mut file = File::create(&beside.path)?;
        file.write_all(&serde_json::to_vec_pretty(content)?)?;
        file.sync_all()?;
        Ok(beside)
    }

    fn put(mut self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        self.is_put = true;
        Ok(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if !self.is_put
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::debug!(path = %self.path.display(), %error, "a file of a failed save is left");
        }
    }
}

/// Removes what processes that were killed during a save left beside the files.
fn remove_left_over(folder: &Path, now: SystemTime) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_beside = |file: &str| {
            let rest = name.to_str().and_then(|name| name.strip_prefix('.'));
            rest.and_then(|rest| rest.strip_prefix(file))
                .is_some_and(|rest| rest.starts_with('.'))
        };
        let age = || now.duration_since(entry.metadata().ok()?.modified().ok()?).ok();
        if (is_beside(STATE_FILE) || is_beside(METADATA_FILE))
            && age().is_some_and(|age| age > LEFT_OVER_AGE)
            && let Err(error) = fs::remove_file(entry.path())
        {
            let path = entry.path();
            tracing::debug!(path = %path.display(), %error, "a file that a save left is not removed");
        }
    }
}
