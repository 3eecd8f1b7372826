//! The directory of a store: made for its owner alone, locked by one process, and the names under which damaged data are
//! moved aside.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// Makes a directory with mode 0700, and those above it that are missing.
pub fn make_private(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
}

/// Locks the directory by the file `name` in it, until the answer is dropped.
///
/// # Errors
/// [`TryLockError::WouldBlock`] when another process holds the lock.
pub fn lock(directory: &Path, name: &str) -> Result<File, TryLockError> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(directory.join(name))
        .map_err(TryLockError::Error)?;
    file.try_lock()?;
    Ok(file)
}

/// Makes the names in a directory durable.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Removes a directory with all that is in it, if it is there.
pub fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A name that is free for damaged data: `NAME.corrupt-<seconds since 1970>`, numbered when two are moved within a second.
pub fn free_corrupt_path(directory: &Path, name: &str) -> PathBuf {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let plain = directory.join(format!("{}{seconds}", corrupt_prefix(name)));
    let numbered =
        (1..u64::MAX).map(|number| directory.join(format!("{}{seconds}-{number}", corrupt_prefix(name))));
    let mut names = std::iter::once(plain.clone()).chain(numbered);
    names.find(|name| !name.exists()).unwrap_or(plain)
}

/// The places in the directory to which damaged data of this name were moved, in the order of their names.
pub fn corrupt_paths(directory: &Path, name: &str) -> Vec<PathBuf> {
    let prefix = corrupt_prefix(name);
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let aside = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    let mut places: Vec<PathBuf> = aside.map(|entry| entry.path()).collect();
    places.sort_unstable();
    places
}

fn corrupt_prefix(name: &str) -> String {
    format!("{name}.corrupt-")
}
