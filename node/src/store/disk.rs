//! The store on disk: sled 0.34, with what it takes to make it durable (docs/design.md, "Store").
//!
//! The rules it keeps: a barrier flushes sled and then syncs the database file, since sled's flush
//! does not reach through the disk's cache on Linux; segments of 8 MiB; half-written snapshots are
//! deleted before opening; a corrupt database is moved aside, never repaired in silence.

use std::{
    fs::{self, File},
    io,
    ops::Bound,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use super::{Batch, Pair, Store, StoreError};

/// sled's page cache, in bytes.
const CACHE: u64 = 64 << 20;

/// sled's segment size, in bytes; fixed when the database is made.
const SEGMENT: usize = 8 << 20;

/// The database in `<directory>/db`.
pub struct DiskStore {
    db: sled::Db,
    file: File,
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
        let path = directory.join("tasks");
        remove_half_written_snapshots(&path).map_err(unusable)?;
        match open_at(&path) {
            Ok(store) => Ok(Opened {
                store,
                moved_aside: None,
            }),
            Err(sled::Error::Corruption { .. }) => {
                let seconds = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .map_or(0, |since| since.as_secs());
                let aside = directory.join(format!("data.corrupt-{seconds}"));
                fs::rename(&path, &aside).map_err(unusable)?;
                let store = open_at(&path).map_err(|error| explain(&error, directory))?;
                Ok(Opened {
                    store,
                    moved_aside: Some(aside),
                })
            }
            Err(error) => Err(explain(&error, directory)),
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

fn open_at(path: &Path) -> sled::Result<DiskStore> {
    let db = sled::Config::new()
        .path(path)
        .cache_capacity(CACHE)
        .segment_size(SEGMENT)
        .flush_every_ms(None)
        .mode(sled::Mode::HighThroughput)
        .open()?;
    let file = File::open(path.join("db"))?;
    Ok(DiskStore { db, file })
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

fn explain(error: &sled::Error, path: &Path) -> StoreError {
    let locked = match error {
        sled::Error::Io(error) => {
            error.kind() == io::ErrorKind::WouldBlock || error.to_string().contains("could not acquire lock")
        }
        _ => false,
    };
    if locked {
        StoreError::Locked {
            path: path.to_owned(),
        }
    } else {
        StoreError::Unusable {
            path: path.to_owned(),
            cause: error.to_string(),
        }
    }
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
