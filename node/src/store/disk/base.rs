//! The database below the journal: sled 0.34, with what it takes to make it durable (docs/design.md,
//! "Store").
//!
//! The rules it keeps: what was taken in is flushed, then the file is synced, since sled's flush does
//! not reach through the disk's cache on Linux; segments of 8 MiB; half-written snapshots are deleted
//! before opening. It carries the number of the last journal segment that it has taken in, so that a
//! lost end of its own log is noticed.

use std::{
    fs::{self, File},
    io,
    ops::Bound,
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::table::{Change, Table};

/// sled's page cache, in bytes. Little is read from it: tasks in use are in the engine's memory.
const CACHE: u64 = 16 << 20;

/// sled's segment size, in bytes; fixed when the database is made.
const SEGMENT: usize = 8 << 20;

/// Longest wait for sled's own lock.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// The tree, and its key, that every database has from its birth on.
const BIRTH: &str = "birth";

/// The key in that tree with the last segment taken in.
const TAKEN_IN: &str = "taken in";

/// An open database.
pub(super) struct Base {
    path: PathBuf,
    db: sled::Db,
    marks: sled::Tree,
    file: File,
}

/// Why it did not open.
#[derive(Debug)]
pub(super) enum Failure {
    /// Its files are not what it wrote.
    Damaged(String),
    /// Something that another database in the same place would meet too.
    Refused(sled::Error),
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

impl Base {
    /// Opens the database at `path`.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        remove_half_written_snapshots(path).map_err(sled::Error::Io)?;
        let db = open_sled(path)?;
        let marks = db.open_tree(BIRTH)?;
        // Over some damages sled opens as if nothing had ever been written.
        if !marks.contains_key(BIRTH)? {
            return Err(Failure::Damaged("its beginning is missing".into()));
        }
        Ok(Self::around(path, db, marks)?)
    }

    fn around(path: &Path, db: sled::Db, marks: sled::Tree) -> sled::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            db,
            marks,
            file: File::open(path.join("db"))?,
        })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes an empty database at `path`, which is not there yet: beside its place first, and moved
    /// there once its birth mark is durable, so that a database without one is a damaged one.
    pub(super) fn make(path: &Path) -> Result<(), Failure> {
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
            fs::rename(&unborn, path)?;
            sync_directory_of(path)?;
            Ok(())
        };
        made().map_err(Failure::Refused)
    }

    /// The last journal segment that was taken in; 0: none.
    pub(super) fn taken_in(&self) -> sled::Result<u64> {
        let mark = self.marks.get(TAKEN_IN)?;
        let number = mark.and_then(|mark| Some(u64::from_le_bytes(mark.as_ref().try_into().ok()?)));
        Ok(number.unwrap_or(0))
    }

    /// Takes in the changes up to the end of journal segment `segment`; they are durable on return. Not
    /// atomic: the journal has to keep them until then. By how many bytes the live data has grown.
    pub(super) fn take_in(&self, changes: &Table, segment: u64) -> sled::Result<i64> {
        let mut grown = 0;
        for (key, value) in changes.iter() {
            let before = match value {
                Some(value) => {
                    grown += (key.len() + value.len()) as i64;
                    self.db.insert(key, value.as_slice())?
                }
                None => self.db.remove(key)?,
            };
            grown -= before.map_or(0, |before| (key.len() + before.len()) as i64);
        }
        self.marks.insert(TAKEN_IN, &segment.to_le_bytes())?;
        self.sync()?;
        Ok(grown)
    }

    fn sync(&self) -> sled::Result<()> {
        self.db.flush()?;
        Ok(self.file.sync_data()?)
    }

    /// Bytes of all keys and values: reads everything.
    pub(super) fn live(&self) -> sled::Result<u64> {
        self.db
            .iter()
            .map(|pair| pair.map(|(key, value)| (key.len() + value.len()) as u64))
            .sum()
    }

    /// A database at `path` with what is live in this one; durable on return. Its birth mark comes last.
    pub(super) fn copy_to(&self, path: &Path) -> sled::Result<Self> {
        let db = open_sled(path)?;
        let marks = db.open_tree(BIRTH)?;
        for pair in self.db.iter() {
            let (key, value) = pair?;
            db.insert(key, value)?;
        }
        marks.insert(TAKEN_IN, &self.taken_in()?.to_le_bytes())?;
        let copy = Self::around(path, db, marks)?;
        copy.sync()?;
        copy.marks.insert(BIRTH, &[])?;
        copy.sync()?;
        sync_directory_of(path)?;
        Ok(copy)
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &[u8]) -> sled::Result<Option<Vec<u8>>> {
        Ok(self.db.get(key)?.map(|value| value.to_vec()))
    }

    /// All pairs from a key on, as changes that nothing was laid over.
    pub(super) fn from(&self, from: Bound<&[u8]>) -> impl Iterator<Item = sled::Result<(Vec<u8>, Change)>> {
        let range = self.db.range::<&[u8], _>((from, Bound::Unbounded));
        range.map(|pair| pair.map(|(key, value)| (key.to_vec(), Some(value.to_vec()))))
    }

    /// Bytes that it takes on disk.
    pub(super) fn size_on_disk(&self) -> sled::Result<u64> {
        self.db.size_on_disk()
    }
}

/// Makes a rename in the directory of `path` durable.
pub(super) fn sync_directory_of(path: &Path) -> io::Result<()> {
    path.parent()
        .map_or(Ok(()), |directory| File::open(directory)?.sync_all())
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

/// Whether sled waits for its own lock.
pub(super) fn is_lock(error: &sled::Error) -> bool {
    matches!(error, sled::Error::Io(cause) if cause.to_string().contains("could not acquire lock"))
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
