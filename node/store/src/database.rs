//! sled 0.34.7 with what it takes to make it durable. Every database of the daemon and of the relay is opened here.
//!
//! The rules it keeps:
//! 1. What was written is flushed, then the file is synced: sled's flush does not reach through the disk's cache on Linux.
//! 2. Segments have 8 MiB. No value is larger than [`MAX_DATABASE_VALUE`]: sled puts larger ones into files of their own
//!    that it never syncs.
//! 3. Half-written snapshots are deleted before a database is opened.
//! 4. A database carries a birth mark. Over some damages sled opens as if nothing had ever been written; then the mark is
//!    missing.
//! 5. sled may panic on damaged files. A panic while opening is damage, and nothing of that database is used.
//!
//! Moving a damaged database aside is the caller's task ([`crate::directory`]): the caller knows which files belong to it.

use std::{
    fs::{self, File},
    io,
    panic::{self, AssertUnwindSafe},
    path::Path,
    thread,
    time::{Duration, Instant},
};

pub use sled::{Batch as TreeBatch, IVec as TreeBytes, Mode as DatabaseMode, Tree};

use crate::directory::sync_directory;

/// Largest value, in bytes.
pub const MAX_DATABASE_VALUE: usize = 64 << 10;

/// sled's segment size, in bytes; fixed when a database is made.
const SEGMENT: usize = 8 << 20;

/// Longest wait for sled's own lock.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// Why a database does not open, or does not do what it is asked.
#[derive(Debug)]
#[non_exhaustive]
pub enum DatabaseError {
    /// Its files are not what it wrote.
    Damaged(String),
    /// They are of a format that is not known here, as those of a newer version may be.
    UnknownFormat(String),
    /// Something that another database in the same place would meet too.
    Io(io::Error),
}

impl DatabaseError {
    /// Whether another process, or a thread of sled's that has not ended yet, has the database open.
    pub fn is_lock(&self) -> bool {
        matches!(self, Self::Io(cause) if is_lock(cause))
    }
}

impl std::error::Error for DatabaseError {}

impl std::fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Damaged(what) | Self::UnknownFormat(what) => f.write_str(what),
            Self::Io(error) => write!(f, "IO error: {error}"),
        }
    }
}

impl From<sled::Error> for DatabaseError {
    fn from(error: sled::Error) -> Self {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        match error {
            sled::Error::Io(cause) if !matches!(cause.kind(), InvalidData | InvalidInput | UnexpectedEof) => {
                Self::Io(cause)
            }
            // Its settings never change and its version is pinned: "unsupported" settings and broken
            // invariants come from damaged files as well.
            error => Self::Damaged(error.to_string()),
        }
    }
}

impl From<io::Error> for DatabaseError {
    fn from(error: io::Error) -> Self {
        Self::from(sled::Error::Io(error))
    }
}

/// What the databases of one store have in common.
#[derive(Clone, Copy, Debug)]
pub struct DatabaseOptions {
    /// sled's page cache, in bytes.
    pub cache: u64,
    /// Whether sled spends room to be quicker.
    pub mode: DatabaseMode,
    /// The tree that the birth mark is in.
    pub birth_tree: &'static str,
    /// The key of the birth mark in that tree.
    pub birth_key: &'static str,
}

/// An open database.
#[derive(Debug)]
pub struct Database {
    db: sled::Db,
    births: Tree,
    file: File,
    options: DatabaseOptions,
}

impl Database {
    /// Opens the database at `path`, which was created before. Waits up to 5 s for sled's own lock.
    ///
    /// # Errors
    /// [`DatabaseError::Damaged`] when it cannot be read, or has no birth mark.
    pub fn open(path: &Path, options: DatabaseOptions) -> Result<Self, DatabaseError> {
        remove_half_written_snapshots(path)?;
        let database = Self::begin(path, options)?;
        match database.birth_mark()? {
            Some(_) => Ok(database),
            None => Err(DatabaseError::Damaged("its beginning is missing".into())),
        }
    }

    /// Opens an empty database at `path`, which is not there yet. It counts as damaged until [`Database::mark`].
    pub fn begin(path: &Path, options: DatabaseOptions) -> Result<Self, DatabaseError> {
        Ok(Self::open_waiting(path, options)?)
    }

    /// Makes an empty database at `path`, which is not there yet: beside its place first, and moved there once its birth
    /// mark `mark` is durable, so that a database without one is a damaged one.
    pub fn create(path: &Path, options: DatabaseOptions, mark: &[u8]) -> Result<(), DatabaseError> {
        let unborn = path.with_extension("new");
        let made = || -> sled::Result<()> {
            if unborn.exists() {
                fs::remove_dir_all(&unborn)?;
            }
            let database = Self::open_waiting(&unborn, options)?;
            database.births.insert(options.birth_key, mark)?;
            database.flush_and_sync()?;
            drop(database);
            fs::rename(&unborn, path)?;
            path.parent().map_or(Ok(()), sync_directory)?;
            Ok(())
        };
        made().map_err(|error| match error {
            // Nothing was stored yet, so there is nothing to move aside.
            sled::Error::Io(cause) => DatabaseError::Io(cause),
            error => DatabaseError::Io(io::Error::other(error)),
        })
    }

    /// Writes the birth mark, durable on return.
    pub fn mark(&self, mark: &[u8]) -> Result<(), DatabaseError> {
        self.births.insert(self.options.birth_key, mark)?;
        self.sync()
    }

    /// The birth mark.
    pub fn birth_mark(&self) -> Result<Option<TreeBytes>, DatabaseError> {
        Ok(self.births.get(self.options.birth_key)?)
    }

    /// The tree that the birth mark is in.
    pub fn birth_tree(&self) -> &Tree {
        &self.births
    }

    /// The tree without a name.
    pub fn default_tree(&self) -> Tree {
        Tree::clone(&self.db)
    }

    /// The tree of this name, made if it is missing.
    pub fn tree(&self, name: &str) -> Result<Tree, DatabaseError> {
        Ok(self.db.open_tree(name)?)
    }

    /// Returns when everything that was written is durable.
    pub fn sync(&self) -> Result<(), DatabaseError> {
        Ok(self.flush_and_sync()?)
    }

    /// Bytes that it takes on disk.
    pub fn size_on_disk(&self) -> Result<u64, DatabaseError> {
        Ok(self.db.size_on_disk()?)
    }

    fn flush_and_sync(&self) -> sled::Result<()> {
        self.db.flush()?;
        Ok(self.file.sync_data()?)
    }

    /// Opens sled, and waits a little for a lock that sled's own threads let go of late: no other process is here, since
    /// the lock of the store's directory is the outer one.
    fn open_waiting(path: &Path, options: DatabaseOptions) -> sled::Result<Self> {
        let deadline = Instant::now() + LOCK_WAIT;
        loop {
            match Self::open_now(path, options) {
                Err(sled::Error::Io(cause)) if is_lock(&cause) && Instant::now() < deadline => {
                    thread::sleep(LOCK_WAIT / 100);
                }
                opened => return opened,
            }
        }
    }

    /// Opens sled and reads the way to its first and last key. On damaged files sled may panic instead
    /// of answering; nothing of it is used after that, so no half-changed state can be seen.
    fn open_now(path: &Path, options: DatabaseOptions) -> sled::Result<Self> {
        let opened = panic::catch_unwind(AssertUnwindSafe(|| {
            let config = sled::Config::new()
                .path(path)
                .cache_capacity(options.cache)
                .segment_size(SEGMENT);
            let db = config.flush_every_ms(None).mode(options.mode).open()?;
            db.first()?;
            db.last()?;
            let births = db.open_tree(options.birth_tree)?;
            births.get(options.birth_key)?;
            Ok(Self {
                births,
                file: File::open(path.join("db"))?,
                db,
                options,
            })
        }));
        opened.unwrap_or_else(|_| Err(sled::Error::ReportableBug("sled panicked while opening".into())))
    }
}

pub(crate) fn is_lock(cause: &io::Error) -> bool {
    cause.to_string().contains("could not acquire lock")
}

fn remove_half_written_snapshots(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: DatabaseOptions = DatabaseOptions {
        cache: 8 << 20,
        mode: DatabaseMode::LowSpace,
        birth_tree: "marks",
        birth_key: "born",
    };

    /// A database as relays made it when they opened sled themselves.
    fn make_by_hand(path: &Path, is_marked: bool) {
        let settings = sled::Config::new().path(path).segment_size(8 << 20);
        let db = settings.flush_every_ms(None).open().unwrap();
        let marks = db.open_tree("marks").unwrap();
        if is_marked {
            marks.insert("born", &[]).unwrap();
        }
        marks.insert("last version", &7_u64.to_be_bytes()).unwrap();
        db.open_tree("records").unwrap().insert("key", "value").unwrap();
        db.flush().unwrap();
    }

    #[test]
    fn a_database_that_was_made_before_is_opened_as_it_is() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("registry");
        make_by_hand(&path, true);
        let database = Database::open(&path, OPTIONS).unwrap();
        let read = database.tree("records").unwrap().get("key").unwrap();
        assert_eq!(read.as_deref(), Some(&b"value"[..]));
        let last = database.birth_tree().get("last version").unwrap();
        assert_eq!(last.as_deref(), Some(&7_u64.to_be_bytes()[..]));
    }

    #[test]
    fn a_database_without_its_birth_mark_is_damaged() {
        let home = tempfile::tempdir().unwrap();
        make_by_hand(&home.path().join("registry"), false);
        let opened = Database::open(&home.path().join("registry"), OPTIONS);
        assert!(matches!(opened, Err(DatabaseError::Damaged(_))), "{opened:?}");
    }

    #[test]
    fn a_half_written_snapshot_does_not_keep_a_database_shut() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("registry");
        Database::create(&path, OPTIONS, b"").unwrap();
        let snapshot = path.join("snap.0000000000000000.generating");
        fs::write(&snapshot, "half").unwrap();
        drop(Database::open(&path, OPTIONS).unwrap());
        assert!(!snapshot.exists());
    }
}
