//! The database under the store: sled, with what 0.34.7 needs to be durable (flush, then sync the file; no value above
//! 64 KiB; no half-written snapshot at the start; a damaged one is moved aside).
//!
//! A record takes the keys `length of the peer ‖ peer ‖ number of the piece`. sled never gives room back, so a database
//! that is mostly dead is written anew beside it and takes its place (`generation`).

mod generation;

use std::{
    fs::{self, DirBuilder, File, TryLockError},
    io::{self, ErrorKind},
    os::unix::fs::DirBuilderExt as _,
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use generation::GenerationSizes;

use crate::registry::StoredRecord;

/// Largest piece of a record: larger values become files that are never synced.
const PIECE: usize = 48 << 10;

/// Cache of the database; the table is in memory anyway.
const CACHE: u64 = 8 << 20;

const SEGMENT: usize = 8 << 20;

/// Longest wait for sled's own lock.
const LOCK_WAIT: Duration = Duration::from_secs(5);

const RECORDS: &str = "records";

/// The tree of what is not a record.
const METADATA: &str = "marks";
const LAST_VERSION: &str = "last version";

/// In every database from its beginning: one without it has lost its log.
const BIRTH: &str = "born";

#[derive(Debug)]
pub(super) struct Database {
    directory: PathBuf,
    /// None when it could not be opened again; nothing is written then.
    open: Option<OpenDatabase>,
    sizes: GenerationSizes,
    _lock: File,
}

/// A database that is in use.
#[derive(Debug)]
struct OpenDatabase {
    records: sled::Tree,
    marks: sled::Tree,
    db: sled::Db,
    file: File,
}

impl Database {
    pub(super) fn open(directory: &Path) -> Result<Self, String> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|error| format!("{error}; set --store to a directory that can be made or written to"))?;
        let lock = lock(directory)?;
        generation::recover(directory).map_err(|error| with_remedy(&error))?;
        let path = directory.join(generation::NAME);
        let open = match OpenDatabase::open(&path) {
            Ok(open) => open,
            Err(
                error @ (sled::Error::Corruption { .. }
                | sled::Error::ReportableBug(_)
                | sled::Error::Unsupported(_)),
            ) => {
                let aside = corrupt_path(directory);
                fs::rename(&path, &aside).map_err(|error| with_remedy(&error))?;
                tracing::error!(%error, aside = %aside.display(), "the registry's store was damaged and moved there");
                OpenDatabase::open(&path).map_err(|error| error.to_string())?
            }
            Err(sled::Error::Io(error)) => return Err(with_remedy(&error)),
            Err(error) => return Err(error.to_string()),
        };
        Ok(Self {
            directory: directory.to_owned(),
            open: Some(open),
            sizes: GenerationSizes::default(),
            _lock: lock,
        })
    }

    /// Everything. A record that cannot be read is left out, with a line in the log.
    pub(super) fn read(&self) -> Result<(Vec<StoredRecord>, u64), String> {
        self.opened()?.read()
    }

    /// Puts records in the place of those that these peers have; on disk when it returns.
    pub(super) fn write(
        &mut self,
        changes: impl Iterator<Item = (String, Option<StoredRecord>)>,
        last_version: u64,
    ) -> Result<(), String> {
        let open = self.opened()?;
        open.write(changes, last_version)
            .map_err(|error| error.to_string())?;
        let size = open.db.size_on_disk().map_err(|error| error.to_string())?;
        if self.sizes.is_suspect(size) {
            let live = open.live().map_err(|error| error.to_string())?;
            if self.sizes.is_dead(size, live) {
                self.rewrite(size)?;
            }
        }
        Ok(())
    }

    /// Writes these records, which are all, into a database that takes the place of the one that has failed.
    pub(super) fn renew(
        &mut self,
        records: impl Iterator<Item = (String, Option<StoredRecord>)>,
        last_version: u64,
    ) -> Result<(), String> {
        // What it failed with may be what it has open.
        self.open = None;
        let next = self.directory.join(generation::NEXT);
        self.replace(&next, records, last_version).inspect_err(|_| {
            // Half of it is of no use, and takes room.
            let _ = generation::remove(&next);
        })
    }

    fn replace(
        &mut self,
        next: &Path,
        records: impl Iterator<Item = (String, Option<StoredRecord>)>,
        last_version: u64,
    ) -> Result<(), String> {
        generation::recover(&self.directory).map_err(|error| error.to_string())?;
        let written = OpenDatabase::open(next).and_then(|next| {
            next.write(records, last_version)?;
            next.sync(last_version)
        });
        written.map_err(|error| error.to_string())?;
        self.sizes = GenerationSizes::default();
        self.take_next()
    }

    /// The next generation, which is whole and on disk, takes the place of this one, which is closed.
    fn take_next(&mut self) -> Result<(), String> {
        generation::swap(&self.directory).map_err(|error| error.to_string())?;
        let open =
            OpenDatabase::open(&self.directory.join(generation::NAME)).map_err(|error| error.to_string())?;
        self.sizes.rewritten = open.db.size_on_disk().map_err(|error| error.to_string())?;
        self.open = Some(open);
        Ok(())
    }

    /// From here on nothing can be written.
    #[cfg(test)]
    pub(super) fn fail(&mut self) {
        self.open = None;
    }

    fn opened(&self) -> Result<&OpenDatabase, String> {
        self.open
            .as_ref()
            .ok_or_else(|| "could not be opened again".to_owned())
    }

    /// Writes the next generation and takes it in the place of this one.
    fn rewrite(&mut self, size: u64) -> Result<(), String> {
        let next = self.directory.join(generation::NEXT);
        if let Err(error) = self.opened()?.copy_to(&next) {
            // This one is whole. Another try when it has grown as much again.
            tracing::warn!(%error, size, "the registry's store could not be rewritten, and stays as it is");
            self.sizes.rewritten = size;
            return Ok(());
        }
        self.open = None;
        self.take_next()?;
        tracing::info!(
            from = size,
            to = self.sizes.rewritten,
            "the registry's store was rewritten"
        );
        Ok(())
    }
}

impl OpenDatabase {
    fn open(path: &Path) -> sled::Result<Self> {
        let db = open_sled(path)?;
        Ok(Self {
            records: db.open_tree(RECORDS)?,
            marks: db.open_tree(METADATA)?,
            file: File::open(path.join("db"))?,
            db,
        })
    }

    /// Bytes of all keys and values.
    fn live(&self) -> sled::Result<u64> {
        let mut bytes = 0;
        for pair in &self.records {
            let (key, value) = pair?;
            bytes += (key.len() + value.len()) as u64;
        }
        Ok(bytes)
    }

    /// Makes a database of the same content at a path where there is nothing that matters; on disk when it returns.
    fn copy_to(&self, path: &Path) -> sled::Result<()> {
        generation::remove(path)?;
        let next = Self::open(path)?;
        for (from, to) in [(&self.records, &next.records), (&self.marks, &next.marks)] {
            for pair in from {
                let (key, value) = pair?;
                to.insert(key, value)?;
            }
        }
        next.db.flush()?;
        next.file.sync_data()?;
        Ok(())
    }

    fn read(&self) -> Result<(Vec<StoredRecord>, u64), String> {
        let mut pieces: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for pair in &self.records {
            let (key, value) = pair.map_err(|error| error.to_string())?;
            let peer = key.get(2..key.len().saturating_sub(4)).unwrap_or_default();
            match pieces.last_mut() {
                Some((last, bytes)) if last == peer => bytes.extend_from_slice(&value),
                _ => pieces.push((peer.to_vec(), value.to_vec())),
            }
        }
        let read = |(peer, bytes): (Vec<u8>, Vec<u8>)| match StoredRecord::decode(&bytes) {
            Ok(record) if record.registration.peer_id.as_bytes() == peer => Some(record),
            _ => {
                tracing::error!(peer = %String::from_utf8_lossy(&peer), "a damaged record of the store is left out");
                None
            }
        };
        let last = self.marks.get(LAST_VERSION).map_err(|error| error.to_string())?;
        let last = last.and_then(|bytes| Some(u64::from_be_bytes(bytes.as_ref().try_into().ok()?)));
        Ok((pieces.into_iter().filter_map(read).collect(), last.unwrap_or(0)))
    }

    fn write(
        &self,
        changes: impl Iterator<Item = (String, Option<StoredRecord>)>,
        last_version: u64,
    ) -> sled::Result<()> {
        let mut any = false;
        for (peer, record) in changes {
            any = true;
            let bytes = record.map(|record| record.encode()).unwrap_or_default();
            let mut batch = sled::Batch::default();
            let mut pieces = 0_u32;
            for piece in bytes.chunks(PIECE) {
                batch.insert(key(&peer, pieces), piece);
                pieces += 1;
            }
            for old in self
                .records
                .range(key(&peer, pieces)..=key(&peer, u32::MAX))
                .keys()
            {
                batch.remove(old?);
            }
            self.records.apply_batch(batch)?;
        }
        if any { self.sync(last_version) } else { Ok(()) }
    }

    /// Brings everything to the disk.
    fn sync(&self, last_version: u64) -> sled::Result<()> {
        self.marks.insert(LAST_VERSION, &last_version.to_be_bytes())?;
        self.db.flush()?;
        self.file.sync_data()?;
        Ok(())
    }
}

fn key(peer: &str, piece: u32) -> Vec<u8> {
    let mut key = (peer.len() as u16).to_be_bytes().to_vec();
    key.extend_from_slice(peer.as_bytes());
    key.extend_from_slice(&piece.to_be_bytes());
    key
}

/// Opens sled, and waits a little for a lock that sled's own threads let go of late: no other relay is here, since ours is
/// the outer lock.
fn open_sled(path: &Path) -> sled::Result<sled::Db> {
    let deadline = Instant::now() + LOCK_WAIT;
    loop {
        match open_sled_once(path) {
            Err(error) if is_lock(&error) && Instant::now() < deadline => thread::sleep(LOCK_WAIT / 100),
            opened => return opened,
        }
    }
}

fn is_lock(error: &sled::Error) -> bool {
    matches!(error, sled::Error::Io(cause) if cause.to_string().contains("could not acquire lock"))
}

/// On damaged files sled may panic instead of answering; nothing of it is used after that.
fn open_sled_once(path: &Path) -> sled::Result<sled::Db> {
    let was_there = path.exists();
    remove_half_written_snapshots(path)?;
    let opened = panic::catch_unwind(AssertUnwindSafe(|| {
        let config = sled::Config::new()
            .path(path)
            .cache_capacity(CACHE)
            .segment_size(SEGMENT)
            .flush_every_ms(None);
        let db = config.open()?;
        let marks = db.open_tree(METADATA)?;
        if was_there && marks.get(BIRTH)?.is_none() {
            // What cannot be read at the end of its log, sled takes for never written.
            return Err(sled::Error::Corruption { at: None, bt: () });
        }
        if !was_there {
            marks.insert(BIRTH, &[])?;
            db.flush()?;
        }
        Ok(db)
    }));
    opened.unwrap_or_else(|_| Err(sled::Error::ReportableBug("sled panicked while opening".into())))
}

fn remove_half_written_snapshots(path: &Path) -> io::Result<()> {
    if !path.exists() {
        return Ok(());
    }
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

/// What the system says of a directory that it lets nobody use, with what to do about it.
fn with_remedy(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::NotADirectory => {
            format!("{error}; set --store to a directory that this user may write to")
        }
        _ => error.to_string(),
    }
}

fn lock(directory: &Path) -> Result<File, String> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(directory.join("registry.lock"))
        .map_err(|error| with_remedy(&error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err("in use by another relay; give each its own".into()),
        Err(TryLockError::Error(error)) => Err(with_remedy(&error)),
    }
}

/// `registry.corrupt-<time>`, numbered when two are moved within a second.
fn corrupt_path(directory: &Path) -> PathBuf {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let plain = directory.join(format!("registry.corrupt-{seconds}"));
    let numbered = (1..1000).map(|number| directory.join(format!("registry.corrupt-{seconds}-{number}")));
    let mut names = std::iter::once(plain.clone()).chain(numbered);
    names.find(|name| !name.exists()).unwrap_or(plain)
}
