//! The store on disk: sled 0.34, with what it takes to make it durable (docs/design.md, "Store").
//!
//! The rules it keeps: a barrier flushes sled and then syncs the database file, since sled's flush
//! does not reach through the disk's cache on Linux; segments of 8 MiB; half-written snapshots are
//! deleted before opening; a corrupt database is moved aside, never repaired in silence. All of
//! this happens under a lock of its own: sled takes its lock only after it has read some files.

use std::{
    fs::{self, File, TryLockError},
    io,
    ops::Bound,
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use super::{Batch, Pair, Store, StoreError};

/// sled's page cache, in bytes.
const CACHE: u64 = 64 << 20;

/// sled's segment size, in bytes; fixed when the database is made.
const SEGMENT: usize = 8 << 20;

/// Longest wait for sled's own lock.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// The tree, and its only key, that every database has from its birth on.
const BIRTH: &str = "birth";

/// The database in `<directory>/tasks`.
pub struct DiskStore {
    db: sled::Db,
    file: File,
    /// Held as long as the database is open; declared last, so that it is released last.
    _lock: File,
}

/// What opening found.
pub struct Opened {
    /// The store.
    pub store: DiskStore,
    /// Where a corrupt database was moved, if there was one; the store is empty then.
    pub moved_aside: Option<PathBuf>,
}

impl DiskStore {
    /// Opens the database under `directory` (made with mode 0700 when missing), or makes one.
    pub fn open(directory: &Path) -> Result<Opened, StoreError> {
        let unusable = |cause: io::Error| StoreError::Unusable {
            path: directory.to_owned(),
            cause: cause.to_string(),
        };
        make_private_dir(directory).map_err(unusable)?;
        let lock = lock(directory)?;
        let path = directory.join("tasks");
        remove_half_written_snapshots(&path).map_err(unusable)?;
        let (opened, moved_aside) = match open_at(&path) {
            Err(Failure::Damaged(cause)) => {
                let aside = free_name(directory);
                fs::rename(&path, &aside).map_err(unusable)?;
                tracing::error!(cause, aside = %aside.display(), "the store is damaged and was moved aside");
                (open_at(&path), Some(aside))
            }
            opened => (opened, None),
        };
        match opened {
            Ok((db, file)) => Ok(Opened {
                store: Self {
                    db,
                    file,
                    _lock: lock,
                },
                moved_aside,
            }),
            Err(failure) => Err(failure.explain(directory)),
        }
    }

    /// Bytes that the database takes on disk.
    pub fn size_on_disk(&self) -> u64 {
        self.db.size_on_disk().unwrap_or(0)
    }
}

fn make_private_dir(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
}

fn lock(directory: &Path) -> Result<File, StoreError> {
    let path = directory.join("tasks.lock");
    let locked = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(TryLockError::Error);
    match locked.and_then(|file| file.try_lock().map(|()| file)) {
        Ok(file) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked {
            path: directory.to_owned(),
        }),
        Err(TryLockError::Error(error)) => Err(StoreError::Unusable {
            path: directory.to_owned(),
            cause: error.to_string(),
        }),
    }
}

/// `data.corrupt-<time>`, numbered when two are moved within a second.
fn free_name(directory: &Path) -> PathBuf {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let plain = directory.join(format!("data.corrupt-{seconds}"));
    let numbered = (1..u64::MAX).map(|number| directory.join(format!("data.corrupt-{seconds}-{number}")));
    let mut names = std::iter::once(plain.clone()).chain(numbered);
    names.find(|name| !name.exists()).unwrap_or(plain)
}

/// Why sled did not open.
enum Failure {
    /// Its files are not what it wrote.
    Damaged(String),
    /// Something that another database in the same place would meet too.
    Refused(sled::Error),
}

impl Failure {
    fn explain(self, path: &Path) -> StoreError {
        let cause = match self {
            Self::Damaged(cause) => cause,
            Self::Refused(error) if is_lock(&error) => {
                return StoreError::Locked {
                    path: path.to_owned(),
                };
            }
            Self::Refused(error) => error.to_string(),
        };
        StoreError::Unusable {
            path: path.to_owned(),
            cause,
        }
    }
}

impl From<sled::Error> for Failure {
    fn from(error: sled::Error) -> Self {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        match &error {
            sled::Error::Io(cause) if !matches!(cause.kind(), InvalidData | InvalidInput | UnexpectedEof) => {
                Self::Refused(error)
            }
            // Its settings never change and its version is pinned: "unsupported" settings and broken
            // invariants come from damaged files as well.
            _ => Self::Damaged(error.to_string()),
        }
    }
}

/// Opens the database, made first when it is not there.
fn open_at(path: &Path) -> Result<(sled::Db, File), Failure> {
    if !path.exists() {
        make(path)?;
    }
    let db = open_sled(path)?;
    // Over some damages sled opens as if nothing had ever been written.
    if !db.open_tree(BIRTH)?.contains_key(BIRTH)? {
        return Err(Failure::Damaged("its beginning is missing".into()));
    }
    let file = File::open(path.join("db")).map_err(sled::Error::Io)?;
    Ok((db, file))
}

/// Makes the database beside its place and moves it there once its birth mark is durable, so that
/// a database without one is a damaged one.
fn make(path: &Path) -> Result<(), Failure> {
    let unborn = path.with_extension("new");
    let made = || -> sled::Result<()> {
        if unborn.exists() {
            fs::remove_dir_all(&unborn)?;
        }
        let db = open_sled(&unborn)?;
        db.open_tree(BIRTH)?.insert(BIRTH, &[])?;
        db.flush()?;
        File::open(unborn.join("db"))?.sync_data()?;
        drop(db);
        Ok(fs::rename(&unborn, path)?)
    };
    made().map_err(Failure::Refused)
}

/// Opens sled, and waits a little for a lock that sled's own threads let go of late: no other daemon
/// is here, since ours is the outer lock.
fn open_sled(path: &Path) -> sled::Result<sled::Db> {
    let deadline = Instant::now() + LOCK_WAIT;
    loop {
        match open_sled_once(path) {
            Err(error) if is_lock(&error) && Instant::now() < deadline => thread::sleep(LOCK_WAIT / 100),
            opened => return opened,
        }
    }
}

/// Opens sled and reads the way to its first and last key. On damaged files sled may panic instead
/// of answering; nothing of it is used after that, so no half-changed state can be seen.
fn open_sled_once(path: &Path) -> sled::Result<sled::Db> {
    let opened = panic::catch_unwind(AssertUnwindSafe(|| {
        let config = sled::Config::new()
            .path(path)
            .cache_capacity(CACHE)
            .segment_size(SEGMENT);
        let db = config
            .flush_every_ms(None)
            .mode(sled::Mode::HighThroughput)
            .open()?;
        db.first()?;
        db.last()?;
        Ok(db)
    }));
    opened.unwrap_or_else(|_| Err(sled::Error::ReportableBug("sled panicked while opening".into())))
}

fn is_lock(error: &sled::Error) -> bool {
    matches!(error, sled::Error::Io(cause) if cause.to_string().contains("could not acquire lock"))
}

fn remove_half_written_snapshots(path: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn failed(error: impl std::fmt::Display) -> StoreError {
    StoreError::Io(error.to_string())
}

impl Store for DiskStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.db.get(key).map_err(failed)?.map(|value| value.to_vec()))
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Pair>, StoreError> {
        let from = after.map_or(Bound::Included(prefix), Bound::Excluded);
        let mut pairs = Vec::new();
        for pair in self.db.range::<&[u8], _>((from, Bound::Unbounded)).take(limit) {
            let (key, value) = pair.map_err(failed)?;
            if !key.starts_with(prefix) {
                break;
            }
            pairs.push((key.to_vec(), value.to_vec()));
        }
        Ok(pairs)
    }

    fn apply(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut sled_batch = sled::Batch::default();
        for (key, value) in &batch.changes {
            match value {
                Some(value) => sled_batch.insert(key.as_slice(), value.as_slice()),
                None => sled_batch.remove(key.as_slice()),
            }
        }
        self.db.apply_batch(sled_batch).map_err(failed)
    }

    fn barrier(&self) -> Result<(), StoreError> {
        self.db.flush().map_err(failed)?;
        self.file.sync_data().map_err(failed)
    }
}

#[cfg(test)]
mod tests;
