//! The database below the journal: sled 0.34, with what it takes to make it durable (docs/design.md,
//! "Store").
//!
//! The rules it keeps: what was taken in is flushed, then the file is synced, since sled's flush does
//! not reach through the disk's cache on Linux; segments of 8 MiB; half-written snapshots are deleted
//! before opening. It carries the number of the last journal segment that it has taken in, so that a
//! lost end of its own log is noticed. Large values are in files beside it ([`super::value_log`]).

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    ops::Bound,
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;

use super::{
    block_tree::BlockTree,
    checkpoint::FullSegment,
    error::BaseError,
    failed,
    memtable::{Memtable, ValueChange},
    recovery,
    value_log::{self, StoredCell, ValueContainer, ValueLog, ValuePointer},
};
use crate::store::StoreError;

/// sled's page cache, in bytes. Little is read from it: tasks in use are in the engine's memory.
const CACHE: u64 = 16 << 20;

/// sled's segment size, in bytes; fixed when the database is made.
const SEGMENT: usize = 8 << 20;

/// Longest wait for sled's own lock.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// The tree, and its key, that every database has from its birth on.
const CREATED_MARK: &str = "birth";

/// The key in that tree with the last segment taken in.
const LAST_SEGMENT_KEY: &str = "taken in";

/// How pairs lie in it: packed into blocks. One of a format that is not known here is refused.
const FORMAT_BLOCKS: [u8; 1] = [3];

/// The format before: each pair by itself. It is packed when it is opened.
const FORMAT_PAIRS: [u8; 1] = [2];

/// An open database.
pub(super) struct SledBase {
    path: PathBuf,
    /// The store's directory, in which large values are.
    store: PathBuf,
    db: sled::Db,
    pairs: BlockTree,
    marks: sled::Tree,
    file: File,
    is_unpacked: bool,
}

/// What taking in has changed.
pub(super) struct AbsorbResult {
    /// By how many bytes the live data has grown.
    pub(super) grown: i64,
    /// The segment stays, with the values in it.
    pub(super) stays: bool,
}

/// What a key has: in a table above the database, or in the database.
pub(super) enum LayerValue {
    Above(ValueChange),
    Below(Vec<u8>),
}

impl SledBase {
    /// Opens the database at `path`.
    pub(super) fn open(path: &Path, store: &Path) -> Result<Self, BaseError> {
        remove_half_written_snapshots(path).map_err(sled::Error::Io)?;
        let db = open_sled(path)?;
        let marks = db.open_tree(CREATED_MARK)?;
        // Over some damages sled opens as if nothing had ever been written.
        match marks.get(CREATED_MARK)? {
            None => Err(BaseError::Damaged("its beginning is missing".into())),
            Some(format) if format == FORMAT_BLOCKS || format == FORMAT_PAIRS => {
                Ok(Self::around(path, store, db, marks, format == FORMAT_PAIRS)?)
            }
            Some(format) => Err(unknown(path, &format)),
        }
    }

    fn around(
        path: &Path,
        store: &Path,
        db: sled::Db,
        marks: sled::Tree,
        is_loose: bool,
    ) -> sled::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            store: store.to_owned(),
            pairs: BlockTree::new(sled::Tree::clone(&db)),
            db,
            marks,
            file: File::open(path.join("db"))?,
            is_unpacked: is_loose,
        })
    }

    /// Whether it is of the format before, and has to be copied before anything else is done with it.
    pub(super) fn is_unpacked(&self) -> bool {
        self.is_unpacked
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes an empty database at `path`, which is not there yet: beside its place first, and moved
    /// there once its birth mark is durable, so that a database without one is a damaged one.
    pub(super) fn create(path: &Path) -> Result<(), BaseError> {
        let unborn = path.with_extension("new");
        let made = || -> sled::Result<()> {
            if unborn.exists() {
                fs::remove_dir_all(&unborn)?;
            }
            let db = open_sled(&unborn)?;
            db.open_tree(CREATED_MARK)?.insert(CREATED_MARK, &FORMAT_BLOCKS)?;
            db.flush()?;
            File::open(unborn.join("db"))?.sync_data()?;
            drop(db);
            fs::rename(&unborn, path)?;
            sync_directory_of(path)?;
            Ok(())
        };
        made().map_err(BaseError::Sled)
    }

    /// The last journal segment that was taken in; 0: none.
    pub(super) fn last_segment(&self) -> sled::Result<u64> {
        let mark = self.marks.get(LAST_SEGMENT_KEY)?;
        let number = mark.and_then(|mark| Some(u64::from_le_bytes(mark.as_ref().try_into().ok()?)));
        Ok(number.unwrap_or(0))
    }

    /// Takes in the changes up to the end of journal segment `segment`; they are durable on return. Not
    /// atomic: the journal has to keep them until then. Of values of which the table knows where in the segment they lie,
    /// none is written again if the segment stays.
    pub(super) fn absorb(
        &self,
        changes: &Memtable,
        segment: FullSegment,
        values: &mut ValueLog,
    ) -> Result<AbsorbResult, BaseError> {
        let mut grown = 0;
        let stays = values.retain_segment(segment, changes.journal_value_bytes());
        let changes = changes.iter().map(|(key, change, at)| (key, (change, at)));
        self.pairs.change(changes, |key, (change, at), before| {
            if let Some(before) = before {
                grown -= (key.len() + before.len()) as i64;
                values.release(before);
            }
            let Some(value) = change else { return Ok(None) };
            let written = at.filter(|_| stays).map(|offset| (segment.number, offset));
            let cell = values.cell(key, value, written)?;
            grown += (key.len() + cell.len()) as i64;
            Ok(Some(cell))
        })?;
        values.sync()?;
        self.marks
            .insert(LAST_SEGMENT_KEY, &segment.number.to_le_bytes())?;
        self.sync()?;
        values.sweep()?;
        Ok(AbsorbResult { grown, stays })
    }

    /// Moves what is used of a file of values into the newest one; the file is gone on return, unless it
    /// cannot be read to its end.
    pub(super) fn empty(&self, file: ValueContainer, values: &mut ValueLog) -> Result<(), BaseError> {
        let mut moved = BTreeMap::new();
        let mut end = Ok(());
        for entry in values.entries(file) {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    end = Err(error);
                    break;
                }
            };
            if let Some(used) = self.pairs.get(&entry.key)?
                && let Some(cell) = values.rewrite(file, &entry, &used)?
            {
                moved.insert(entry.key, cell);
            }
        }
        // Whoever reads may follow the new cells at once.
        values.sync()?;
        let moved = moved.iter().map(|(key, cell)| (&key[..], cell));
        self.pairs.change(moved, |_, cell, before| {
            if let Some(before) = before {
                values.release(before);
            }
            Ok(Some(cell.clone()))
        })?;
        self.sync()?;
        let bytes = values.live(file);
        if bytes > 0 {
            let path = file.path(&self.store);
            let cause = end.map_or_else(|error| error.to_string(), |()| "they are not in it".to_owned());
            tracing::error!(
                path = %path.display(), bytes, cause,
                "large values of a file cannot be read to be moved; it is kept as long as they are used"
            );
            values.pin(file);
        }
        Ok(values.sweep()?)
    }

    fn sync(&self) -> sled::Result<()> {
        self.db.flush()?;
        Ok(self.file.sync_data()?)
    }

    /// Bytes of all keys and cells, and where the large values are: reads everything.
    pub(super) fn survey(&self) -> Result<(u64, Vec<ValuePointer>), BaseError> {
        let (mut live, mut places) = (0, Vec::new());
        let surveyed = panic::catch_unwind(AssertUnwindSafe(|| -> Result<(), BaseError> {
            for pair in self.pairs.from(Bound::Unbounded)? {
                let (key, cell) = pair?;
                live += (key.len() + cell.len()) as u64;
                match StoredCell::decode(&cell) {
                    Some(StoredCell::Pointer(place)) => places.push(place),
                    Some(StoredCell::Inline(_)) => {}
                    None => return Err(BaseError::Damaged("a value is none that was written".into())),
                }
            }
            Ok(())
        }));
        surveyed.unwrap_or_else(|_| Err(BaseError::Damaged("the database panicked while reading".into())))?;
        Ok((live, places))
    }

    /// A database at `path` with what is live in this one; durable on return. Its birth mark comes last.
    pub(super) fn copy_to(&self, path: &Path) -> Result<Self, BaseError> {
        let db = open_sled(path)?;
        let marks = db.open_tree(CREATED_MARK)?;
        let copy = Self::around(path, &self.store, db, marks, false)?;
        if self.is_unpacked {
            let pairs = self.db.iter();
            copy.pairs.fill(pairs.map(|pair| {
                let (key, cell) = pair?;
                Ok((key.to_vec(), cell.to_vec()))
            }))?;
        } else {
            copy.pairs.fill(self.pairs.from(Bound::Unbounded)?)?;
        }
        copy.marks
            .insert(LAST_SEGMENT_KEY, &self.last_segment()?.to_le_bytes())?;
        copy.sync()?;
        copy.marks.insert(CREATED_MARK, &FORMAT_BLOCKS)?;
        copy.sync()?;
        sync_directory_of(path)?;
        Ok(copy)
    }

    /// All keys with their cells.
    #[cfg(test)]
    pub(super) fn cells(&self) -> impl Iterator<Item = Result<(Vec<u8>, Vec<u8>), BaseError>> {
        self.pairs.from(Bound::Unbounded).into_iter().flatten()
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &[u8]) -> Result<ValueChange, StoreError> {
        let mut missing = None;
        loop {
            let Some(cell) = self.pairs.get(key).map_err(explain)? else {
                return Ok(None);
            };
            match self.content(key, &cell)? {
                Some(value) => return Ok(Some(value)),
                // Moved since, unless it is missing in the same place twice.
                None if missing.as_ref() != Some(&cell) => missing = Some(cell),
                None => return Err(damaged(key)),
            }
        }
    }

    /// What a cell stands for; None: the file that it points to is gone.
    fn content(&self, key: &[u8], cell: &[u8]) -> Result<Option<Bytes>, StoreError> {
        match StoredCell::decode(cell) {
            None => Err(damaged(key)),
            Some(StoredCell::Inline(value)) => Ok(Some(Bytes::copy_from_slice(value))),
            Some(StoredCell::Pointer(place)) => match value_log::read(&self.store, place) {
                Ok(Some(value)) => Ok(Some(value.into())),
                Ok(None) => Err(damaged(key)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(failed(error)),
            },
        }
    }

    /// All keys from one on, with what they have. Nothing is taken in until the iterator is dropped.
    pub(super) fn from(
        &self,
        from: Bound<&[u8]>,
    ) -> Result<impl Iterator<Item = Result<(Vec<u8>, LayerValue), StoreError>>, StoreError> {
        let pairs = self.pairs.from(from).map_err(explain)?;
        Ok(pairs.map(|pair| {
            let (key, cell) = pair.map_err(explain)?;
            Ok((key, LayerValue::Below(cell)))
        }))
    }

    /// What a key that [`SledBase::from`] has come to was found to have.
    pub(super) fn value(&self, key: &[u8], found: LayerValue) -> Result<ValueChange, StoreError> {
        match found {
            LayerValue::Above(change) => Ok(change),
            LayerValue::Below(cell) => match self.content(key, &cell)? {
                Some(value) => Ok(Some(value)),
                None => Err(damaged(key)),
            },
        }
    }

    /// Bytes that the files beside it take on disk: large values and the journal.
    pub(super) fn size_of_files(&self) -> io::Result<u64> {
        let directories = [recovery::values(&self.store), recovery::journals(&self.store)];
        directories
            .iter()
            .map(|directory| value_log::size_of(directory))
            .sum()
    }

    /// Bytes that it takes on disk.
    pub(super) fn size_on_disk(&self) -> sled::Result<u64> {
        self.db.size_on_disk()
    }
}

fn explain(failure: BaseError) -> StoreError {
    match failure {
        BaseError::Damaged(what) | BaseError::Unknown(what) => StoreError::Damaged(what),
        BaseError::Sled(error) => failed(error),
    }
}

/// Nothing of it is damaged as far as is known here, so it is not moved aside.
fn unknown(path: &Path, format: &[u8]) -> BaseError {
    let name = path.file_name().unwrap_or_default().display();
    BaseError::Unknown(format!(
        "its database {name} is of format {}, which this version does not know; run the version that wrote it, or choose \
         another store_path",
        format.first().copied().unwrap_or_default()
    ))
}

fn damaged(key: &[u8]) -> StoreError {
    StoreError::Damaged(format!("the key {}", key.escape_ascii()))
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
