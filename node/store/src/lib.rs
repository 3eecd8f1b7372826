//! The durable side of the daemons: an ordered key-value store with atomic batches and a barrier.
//!
//! Only this crate names sled. What a batch holds is durable when the barrier after it has returned, and not before.
//! [`commit::Committer`] is the one writer; it groups batches so that concurrency makes a barrier cheaper.
//!
//! Feature `disk` (default): [`disk::DiskStore`], and its parts that the relay's own store is made of, too: `database` (sled
//! and its rules), `directory` (the lock, damaged data), `growth` and `replacement` (databases that are written anew).

pub mod commit;
#[cfg(feature = "disk")]
pub mod database;
#[cfg(feature = "disk")]
pub mod directory;
#[cfg(feature = "disk")]
pub mod disk;
pub mod error_latch;
#[cfg(feature = "disk")]
pub mod growth;
pub mod memory;
#[cfg(feature = "disk")]
pub mod replacement;

use std::path::PathBuf;

use bytes::Bytes;

/// Longest value kept under one key, in bytes. Larger ones are split by [`Batch::put_large`], so that a page of a scan
/// has a bound.
pub const MAX_VALUE: usize = 128 << 10;

/// What that was before. In stores of then a piece of this length is followed by another one.
const FORMER_MAX_VALUE: usize = 60 << 10;

/// Why the store could not do it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process has it open.
    #[error("the store {path} is in use by another daemon; stop it or choose another store_path")]
    Locked {
        /// Where it is.
        path: PathBuf,
    },
    /// Reading or writing failed.
    #[error("the store failed: {0}; check the disk, then restart the daemon")]
    Io(String),
    /// A record is not what was written. Only what it belongs to is affected.
    #[error("the stored record of {0} is damaged")]
    Damaged(String),
    /// The directory cannot be made or read.
    #[error("cannot use the store {path}: {cause}")]
    Unusable {
        /// Where it is.
        path: PathBuf,
        /// What the system said.
        cause: String,
    },
}

/// Changes that take effect together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Key, and its new value or None for removal, in order.
    pub changes: Vec<(Vec<u8>, Option<Bytes>)>,
}

impl Batch {
    /// Sets a key. The value must be at most [`MAX_VALUE`] bytes; [`Batch::put_large`] splits.
    pub fn put(&mut self, key: Vec<u8>, value: impl Into<Bytes>) {
        let value = value.into();
        debug_assert!(value.len() <= MAX_VALUE, "{} bytes under one key", value.len());
        self.changes.push((key, Some(value)));
    }

    /// Sets a value of any length: the keys are `key` followed by the number of the piece, two
    /// bytes big-endian. The last piece is of a length that no other has, if need be empty, so that
    /// the end shows whatever an earlier, longer value left behind. Removed by
    /// [`Batch::delete_large`], read by [`get_large`].
    pub fn put_large(&mut self, key: &[u8], value: impl Into<Bytes>) {
        let mut rest = value.into();
        for number in 0.. {
            let piece = rest.split_to(rest.len().min(MAX_VALUE));
            let is_last = !goes_on_after(piece.len());
            self.put(piece_key(key, number), piece);
            if is_last {
                return;
            }
        }
    }

    /// Removes a key.
    pub fn delete(&mut self, key: Vec<u8>) {
        self.changes.push((key, None));
    }

    /// Removes a value of `bytes` bytes that [`Batch::put_large`] set.
    pub fn delete_large(&mut self, key: &[u8], bytes: usize) {
        // It may be in as many pieces as there were before.
        for number in 0..=bytes / FORMER_MAX_VALUE {
            self.delete(piece_key(key, number as u16));
        }
    }

    /// True when there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

/// Whether another piece follows one of so many bytes.
fn goes_on_after(piece: usize) -> bool {
    [MAX_VALUE, FORMER_MAX_VALUE].contains(&piece)
}

fn piece_key(key: &[u8], number: u16) -> Vec<u8> {
    [key, &number.to_be_bytes()].concat()
}

/// An ordered key-value store.
pub trait Store: Send + Sync + 'static {
    /// The value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError>;

    /// At most `limit` keys that start with `prefix`, with their values, in ascending order,
    /// beginning after `after`.
    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<KeyValue>, StoreError>;

    /// Applies a batch, all of it or nothing, also across a crash.
    fn apply(&self, batch: Batch) -> Result<(), StoreError>;

    /// Returns when everything applied before is durable.
    fn barrier(&self) -> Result<(), StoreError>;
}

/// A key and its value.
pub type KeyValue = (Vec<u8>, Bytes);

/// Pairs read at a time by [`for_each`].
const PAGE: usize = 512;

/// Calls `f` with every pair under `prefix`, in ascending order of the keys.
pub fn for_each<E: From<StoreError>>(
    store: &dyn Store,
    prefix: &[u8],
    mut f: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut after: Option<Vec<u8>> = None;
    loop {
        let page = store.scan(prefix, after.as_deref(), PAGE)?;
        for (key, value) in &page {
            f(key, value)?;
        }
        if page.len() < PAGE {
            return Ok(());
        }
        after = page.into_iter().next_back().map(|(key, _)| key);
    }
}

/// Reads a value that [`Batch::put_large`] set.
pub fn get_large(store: &dyn Store, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(first) = store.get(&piece_key(key, 0))? else {
        return Ok(None);
    };
    let mut last = first.len();
    let mut value = Vec::from(first);
    let mut number = 1;
    while goes_on_after(last) {
        let Some(piece) = store.get(&piece_key(key, number))? else {
            break;
        };
        last = piece.len();
        value.extend_from_slice(&piece);
        number += 1;
    }
    Ok(Some(value))
}
