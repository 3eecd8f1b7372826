//! Opening a store: the lock, the newest whole generation of the database, and what the journal has
//! beyond it.
//!
//! The journal and the database must fit together without a gap: the database names the last segment
//! that it has taken in, and the next one has to be there. So neither a lost end of the database's log
//! nor a lost journal goes unnoticed; such a store is moved aside whole.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, RwLock},
    time::Instant,
};

use super::{
    DiskStore, LayerStack, Layers, OpenedStore, StoreThresholds, WriterState,
    checkpoint::Checkpoints,
    journal::{self, FullSegment, Journal, JournalError},
    layout::{generation, generation_after, generations, journals, values},
    memtable::Memtable,
    sled_base::{AbsorbResult, SledBase},
    value_log::ValueLog,
};
use crate::{
    StoreError,
    database::DatabaseError,
    directory::{self, make_private},
};

impl From<JournalError> for DatabaseError {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::Damaged(cause) => Self::Damaged(cause),
            JournalError::Io(error) => Self::from(error),
        }
    }
}

/// Opens the store under `directory`.
pub(super) fn open(directory: &Path, sizes: StoreThresholds) -> Result<OpenedStore, StoreError> {
    let unusable = |cause: io::Error| StoreError::Unusable {
        path: directory.to_owned(),
        cause: cause.to_string(),
    };
    make_private(directory).map_err(unusable)?;
    let lock = lock(directory)?;
    let (opened, moved_aside) = match StoreParts::open(directory, sizes) {
        Err(DatabaseError::Damaged(cause)) => {
            let aside = move_aside(directory).map_err(unusable)?;
            tracing::error!(cause, aside = %aside.display(), "the store is damaged and was moved aside");
            (StoreParts::open(directory, sizes), Some(aside))
        }
        opened => (opened, None),
    };
    let parts = opened.map_err(|failure| explain(&failure, directory))?;
    let layers = Arc::new(Layers(RwLock::new(LayerStack {
        active: Memtable::default(),
        frozen: None,
        base: Arc::new(parts.base),
    })));
    let checkpoints = Checkpoints::start(
        directory,
        Arc::clone(&layers),
        sizes,
        parts.values,
        parts.live,
        parts.spare,
    )
    .map_err(unusable)?;
    Ok(OpenedStore {
        store: DiskStore {
            layers,
            writing: Mutex::new(WriterState {
                journal: parts.journal,
                began: Instant::now(),
                checkpoints,
                sizes,
            }),
            _lock: lock,
        },
        moved_aside,
    })
}

struct StoreParts {
    base: SledBase,
    journal: Journal,
    values: ValueLog,
    /// Bytes of keys and cells in the database.
    live: u64,
    spare: Option<u64>,
}

impl StoreParts {
    /// Opens database and journal and brings the one up to date with the other.
    fn open(directory: &Path, sizes: StoreThresholds) -> Result<Self, DatabaseError> {
        let journals = journals(directory);
        make_private(&journals)?;
        make_private(&values(directory))?;
        let mut segments = journal::segments(&journals)?;
        let base = open_base(directory, &journals, &mut segments)?;
        let (live, used) = base.survey()?;
        let mut values = ValueLog::open(directory, sizes.values, used.into_iter())?;
        let taken_in = base.last_segment()?;
        let ahead: Vec<u64> = segments
            .iter()
            .copied()
            .filter(|number| *number > taken_in)
            .collect();
        if ahead
            .iter()
            .zip(taken_in + 1..)
            .any(|(is, expected)| *is != expected)
        {
            return Err(DatabaseError::Damaged(format!(
                "the journal goes on with segment {}, the database ends with {taken_in}",
                ahead[0]
            )));
        }
        // The next segment is begun before the one before is taken in.
        let Some(last) = ahead.last().copied() else {
            return Err(DatabaseError::Damaged(format!(
                "segment {} of the journal is missing",
                taken_in + 1
            )));
        };
        let mut changes = Memtable::default();
        for number in &ahead {
            for batch in journal::read(&journals, *number)? {
                changes.absorb(batch, &[]);
            }
        }
        let journal = Journal::begin(&journals, last + 1, None)?;
        let end = FullSegment {
            number: last,
            bytes: 0,
            is_quick: false,
        };
        let AbsorbResult { grown, .. } = base.absorb(&changes, end, &mut values)?;
        values.report_lost();
        let mut free = journal::segments(&journals)?;
        free.retain(|number| *number <= last && !values.holds_segment(*number));
        let spare = free.pop();
        for number in free {
            journal::remove(&journals, number)?;
        }
        Ok(Self {
            base,
            journal,
            values,
            live: live.saturating_add_signed(grown),
            spare,
        })
    }
}

/// Opens the newest generation that was completed, and removes the others; makes the first one where
/// nothing was ever stored.
fn open_base(directory: &Path, journals: &Path, segments: &mut Vec<u64>) -> Result<SledBase, DatabaseError> {
    let mut generations = generations(directory)?;
    if generations.is_empty() {
        for number in &*segments {
            if *number > 1 || !journal::read(journals, *number)?.is_empty() {
                return Err(DatabaseError::Damaged(
                    "the database of the journal is missing".into(),
                ));
            }
        }
        if segments.is_empty() {
            Journal::begin(journals, 1, None)?;
            segments.push(1);
        }
        let first = generation(directory, 1);
        SledBase::create(&first)?;
        return SledBase::open(&first, directory);
    }
    let newest = generations.pop().unwrap_or(1);
    let opened = SledBase::open(&generation(directory, newest), directory);
    let (base, others) = match opened {
        // A rewriting that was cut off: its birth mark comes last.
        Err(DatabaseError::Damaged(_)) if !generations.is_empty() => {
            let before = generations.pop().unwrap_or(1);
            let base = SledBase::open(&generation(directory, before), directory)?;
            generations.push(newest);
            (base, generations)
        }
        opened => (opened?, generations),
    };
    for other in others {
        fs::remove_dir_all(generation(directory, other))?;
    }
    if !base.is_unpacked() {
        return Ok(base);
    }
    let before = base.path().to_owned();
    let packed = base.copy_to(&generation_after(directory, &before))?;
    drop(base);
    fs::remove_dir_all(before)?;
    tracing::info!(path = %packed.path().display(), "the database of an earlier version was packed");
    Ok(packed)
}

/// Moves database, values and journal to `data.corrupt-<time>`.
fn move_aside(directory: &Path) -> io::Result<PathBuf> {
    let aside = directory::free_corrupt_path(directory, CORRUPT_NAME);
    make_private(&aside)?;
    let mut parts = vec![journals(directory), values(directory)];
    parts.extend(
        generations(directory)?
            .into_iter()
            .map(|number| generation(directory, number)),
    );
    for part in parts {
        if let Some(name) = part.file_name()
            && part.exists()
        {
            fs::rename(&part, aside.join(name))?;
        }
    }
    Ok(aside)
}

/// Damaged stores are moved to places of this name.
const CORRUPT_NAME: &str = "data";

/// The places in the directory of a store to which damaged ones were moved, in the order of their names.
pub fn moved_aside(directory: &Path) -> Vec<PathBuf> {
    directory::corrupt_paths(directory, CORRUPT_NAME)
}

fn lock(directory: &Path) -> Result<File, StoreError> {
    let path = directory.to_owned();
    directory::lock(directory, "tasks.lock").map_err(|error| match error {
        TryLockError::WouldBlock => StoreError::Locked { path },
        TryLockError::Error(error) => StoreError::Unusable {
            path,
            cause: error.to_string(),
        },
    })
}

fn explain(failure: &DatabaseError, path: &Path) -> StoreError {
    let path = path.to_owned();
    if failure.is_lock() {
        return StoreError::Locked { path };
    }
    StoreError::Unusable {
        path,
        cause: failure.to_string(),
    }
}
