//! The store on disk: a journal over a database (docs/design.md, "Store").
//!
//! A barrier writes the journal alone. What is in the journal is in memory too, in the *active* table;
//! when the journal's segment is full, that table is *frozen* and the checkpoint thread takes it into
//! the database while the next segment fills. Reading goes through the layers from the top. Whatever
//! cannot be read as it was written is moved aside, never repaired in silence.

mod block;
mod block_tree;
mod checkpoint;
mod journal;
mod layout;
mod memtable;
mod recovery;
mod sled_base;
mod value_log;

use std::{
    fs::File,
    ops::Bound,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::{Duration, Instant},
};

use bytes::Bytes;

pub use self::recovery::moved_aside;
use self::{
    checkpoint::Checkpoints,
    journal::{FullSegment, Journal},
    memtable::{Memtable, MergeIter},
    sled_base::{LayerValue, SledBase},
};
use super::{Batch, KeyValue, Store, StoreError};

/// When what has to be done; smaller ones in tests.
#[derive(Clone, Copy, Debug)]
struct StoreThresholds {
    /// Bytes after which a segment of the journal is full.
    segment: u64,
    /// Bytes that a segment may grow to while the one before is still being taken in; at the bound
    /// the writer waits.
    longest_segment: u64,
    /// Databases up to this many bytes are not rewritten.
    small: u64,
    values: value_log::ValueLimits,
    /// A segment that fills up within this time stays with its large values.
    quick: Duration,
}

const THRESHOLDS: StoreThresholds = StoreThresholds {
    segment: 8 << 20,
    longest_segment: 32 << 20,
    small: 64 << 20,
    values: value_log::ValueLimits {
        large: 8 << 10,
        file: 64 << 20,
        small: 64 << 20,
    },
    // 107 MiB/s.
    quick: Duration::from_millis(75),
};

/// The store under one directory.
pub struct DiskStore {
    layers: Arc<Layers>,
    writing: Mutex<WriterState>,
    /// Held as long as the store is open; declared last, so that it is released last.
    _lock: File,
}

/// What the one writer has.
struct WriterState {
    journal: Journal,
    /// Since when its segment is written to.
    began: Instant,
    checkpoints: Checkpoints,
    sizes: StoreThresholds,
}

/// What opening found.
pub struct OpenedStore {
    /// The store.
    pub store: DiskStore,
    /// Where a damaged store was moved, if there was one; the store is empty then.
    pub moved_aside: Option<PathBuf>,
}

/// What is read from, from the top down.
struct Layers(RwLock<LayerStack>);

struct LayerStack {
    active: Memtable,
    frozen: Option<Arc<Memtable>>,
    base: Arc<SledBase>,
}

impl Layers {
    fn read(&self) -> RwLockReadGuard<'_, LayerStack> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, LayerStack> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DiskStore {
    /// Opens the store under `directory` (made with mode 0700 when missing), or makes one.
    pub fn open(directory: &Path) -> Result<OpenedStore, StoreError> {
        recovery::open(directory, THRESHOLDS)
    }

    /// Bytes that it takes on disk.
    pub fn size_on_disk(&self) -> u64 {
        let base = Arc::clone(&self.layers.read().base);
        base.size_on_disk().unwrap_or(0) + base.size_of_files().unwrap_or(0)
    }

    fn writing(&self) -> std::sync::MutexGuard<'_, WriterState> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WriterState {
    /// When the segment is full: freezes what it holds and goes on in the next one.
    fn turn_over(&mut self, layers: &Layers) -> Result<(), StoreError> {
        let full = self.journal.len();
        if full < self.sizes.segment || !self.checkpoints.ready(full >= self.sizes.longest_segment)? {
            return Ok(());
        }
        let number = self.journal.number();
        // A segment may have grown longer while it waited for the checkpoint of the one before.
        let (took, allowed) = (self.began.elapsed().as_nanos(), self.sizes.quick.as_nanos());
        let is_quick = took.saturating_mul(self.sizes.segment.into()) <= allowed.saturating_mul(full.into());
        self.journal
            .rotate(self.checkpoints.take_spare())
            .map_err(failed)?;
        self.began = Instant::now();
        {
            let mut layers = layers.write();
            let active = std::mem::take(&mut layers.active);
            layers.frozen = Some(Arc::new(active));
        }
        self.checkpoints.begin(FullSegment {
            number,
            bytes: full,
            is_quick,
        })
    }
}

fn failed(error: impl std::fmt::Display) -> StoreError {
    StoreError::Io(error.to_string())
}

impl Store for DiskStore {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let layers = self.layers.read();
        let frozen = layers.frozen.as_deref();
        match layers
            .active
            .get(key)
            .or_else(|| frozen.and_then(|frozen| frozen.get(key)))
        {
            Some(change) => Ok(change.clone()),
            None => layers.base.get(key),
        }
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<KeyValue>, StoreError> {
        let from = after.map_or(Bound::Included(prefix), Bound::Excluded);
        let layers = self.layers.read();
        let above = |(key, change)| (key, LayerValue::Above(change));
        let frozen = layers.frozen.iter().flat_map(|frozen| frozen.from(from));
        let below = MergeIter::new(frozen.map(above), layers.base.from(from)?);
        let merged = MergeIter::new(layers.active.from(from).map(above), below);
        memtable::page(merged, prefix, limit, |key, found| layers.base.value(key, found))
    }

    fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let mut writing = self.writing();
        let large = writing.sizes.values.large;
        let spots = writing.journal.add(&batch, large);
        self.layers.write().active.absorb(batch, &spots);
        Ok(())
    }

    fn barrier(&self) -> Result<(), StoreError> {
        let mut writing = self.writing();
        writing.journal.sync().map_err(failed)?;
        writing.turn_over(&self.layers)
    }
}

#[cfg(test)]
mod tests;
