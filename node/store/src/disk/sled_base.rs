//! The database below the journal.
//!
//! It carries the number of the last journal segment that it has taken in, so that a lost end of its own log is noticed.
//! Large values are in files beside it ([`super::value_log`]).

use std::{
    collections::BTreeMap,
    io,
    ops::Bound,
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
};

use bytes::Bytes;

use super::{
    block_tree::BlockTree,
    failed,
    journal::FullSegment,
    layout,
    memtable::{Memtable, ValueChange},
    value_log::{self, StoredCell, ValueContainer, ValueLog, ValuePointer},
};
use crate::{
    StoreError,
    database::{Database, DatabaseError, DatabaseMode, DatabaseOptions},
    directory::sync_directory,
};

const OPTIONS: DatabaseOptions = DatabaseOptions {
    // Little is read from it: tasks in use are in the engine's memory.
    cache: 16 << 20,
    mode: DatabaseMode::HighThroughput,
    birth_tree: "birth",
    birth_key: "birth",
};

/// The key in the tree of the birth mark with the last segment taken in.
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
    database: Database,
    pairs: BlockTree,
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
    pub(super) fn open(path: &Path, store: &Path) -> Result<Self, DatabaseError> {
        let database = Database::open(path, OPTIONS)?;
        match database.birth_mark()? {
            Some(format) if format == FORMAT_BLOCKS || format == FORMAT_PAIRS => {
                Ok(Self::around(path, store, database, format == FORMAT_PAIRS))
            }
            format => Err(unknown(path, &format.unwrap_or_default())),
        }
    }

    fn around(path: &Path, store: &Path, database: Database, is_unpacked: bool) -> Self {
        Self {
            path: path.to_owned(),
            store: store.to_owned(),
            pairs: BlockTree::new(database.default_tree()),
            database,
            is_unpacked,
        }
    }

    /// Whether it is of the format before, and has to be copied before anything else is done with it.
    pub(super) fn is_unpacked(&self) -> bool {
        self.is_unpacked
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes an empty database at `path`, which is not there yet.
    pub(super) fn create(path: &Path) -> Result<(), DatabaseError> {
        Database::create(path, OPTIONS, &FORMAT_BLOCKS)
    }

    /// The last journal segment that was taken in; 0: none.
    pub(super) fn last_segment(&self) -> Result<u64, DatabaseError> {
        let mark = self.database.birth_tree().get(LAST_SEGMENT_KEY)?;
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
    ) -> Result<AbsorbResult, DatabaseError> {
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
        self.set_last_segment(segment.number)?;
        self.database.sync()?;
        values.sweep()?;
        Ok(AbsorbResult { grown, stays })
    }

    /// Moves what is used of a file of values into the newest one; the file is gone on return, unless it
    /// cannot be read to its end.
    pub(super) fn empty(&self, file: ValueContainer, values: &mut ValueLog) -> Result<(), DatabaseError> {
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
        self.database.sync()?;
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

    fn set_last_segment(&self, number: u64) -> Result<(), DatabaseError> {
        let marks = self.database.birth_tree();
        marks.insert(LAST_SEGMENT_KEY, &number.to_le_bytes())?;
        Ok(())
    }

    /// Bytes of all keys and cells, and where the large values are: reads everything.
    pub(super) fn survey(&self) -> Result<(u64, Vec<ValuePointer>), DatabaseError> {
        let (mut live, mut places) = (0, Vec::new());
        let surveyed = panic::catch_unwind(AssertUnwindSafe(|| -> Result<(), DatabaseError> {
            for pair in self.pairs.from(Bound::Unbounded)? {
                let (key, cell) = pair?;
                live += (key.len() + cell.len()) as u64;
                match StoredCell::decode(&cell) {
                    Some(StoredCell::Pointer(place)) => places.push(place),
                    Some(StoredCell::Inline(_)) => {}
                    None => return Err(DatabaseError::Damaged("a value is none that was written".into())),
                }
            }
            Ok(())
        }));
        surveyed.unwrap_or_else(|_| {
            Err(DatabaseError::Damaged(
                "the database panicked while reading".into(),
            ))
        })?;
        Ok((live, places))
    }

    /// A database at `path` with what is live in this one; durable on return. Its birth mark comes last.
    pub(super) fn copy_to(&self, path: &Path) -> Result<Self, DatabaseError> {
        let copy = Self::around(path, &self.store, Database::begin(path, OPTIONS)?, false);
        if self.is_unpacked {
            let pairs = self.database.default_tree().iter();
            copy.pairs.fill(pairs.map(|pair| {
                let (key, cell) = pair?;
                Ok((key.to_vec(), cell.to_vec()))
            }))?;
        } else {
            copy.pairs.fill(self.pairs.from(Bound::Unbounded)?)?;
        }
        copy.set_last_segment(self.last_segment()?)?;
        copy.database.sync()?;
        copy.database.mark(&FORMAT_BLOCKS)?;
        path.parent().map_or(Ok(()), sync_directory)?;
        Ok(copy)
    }

    /// All keys with their cells.
    #[cfg(test)]
    pub(super) fn cells(&self) -> impl Iterator<Item = Result<(Vec<u8>, Vec<u8>), DatabaseError>> {
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
        let directories = [layout::values(&self.store), layout::journals(&self.store)];
        directories
            .iter()
            .map(|directory| value_log::size_of(directory))
            .sum()
    }

    /// Bytes that it takes on disk.
    pub(super) fn size_on_disk(&self) -> Result<u64, DatabaseError> {
        self.database.size_on_disk()
    }
}

fn explain(failure: DatabaseError) -> StoreError {
    match failure {
        DatabaseError::Damaged(what) | DatabaseError::UnknownFormat(what) => StoreError::Damaged(what),
        error @ DatabaseError::Io(_) => failed(error),
    }
}

/// Nothing of it is damaged as far as is known here, so it is not moved aside.
fn unknown(path: &Path, format: &[u8]) -> DatabaseError {
    let name = path.file_name().unwrap_or_default().display();
    DatabaseError::UnknownFormat(format!(
        "its database {name} is of format {}, which this version does not know; run the version that wrote it, or choose \
         another store_path",
        format.first().copied().unwrap_or_default()
    ))
}

fn damaged(key: &[u8]) -> StoreError {
    StoreError::Damaged(format!("the key {}", key.escape_ascii()))
}
