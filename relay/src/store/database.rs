//! The database under the store: its records and the last version, in a database that keeps the rules of
//! `agentanycast_store::database`.
//!
//! A record takes the keys `length of the peer ‖ peer ‖ number of the piece`. A database that is mostly dead is written anew
//! beside it and takes its place.

use std::{
    fs::{self, File, TryLockError},
    io::{self, ErrorKind},
    path::Path,
};

use agentanycast_store::{
    database::{Database, DatabaseError, DatabaseMode, DatabaseOptions, MAX_DATABASE_VALUE, Tree, TreeBatch},
    directory,
    growth::DatabaseGrowth,
    replacement::DatabasePlace,
};

use crate::registry::StoredRecord;

/// Largest piece of a record.
const PIECE: usize = 48 << 10;
const _: () = assert!(PIECE <= MAX_DATABASE_VALUE);

const OPTIONS: DatabaseOptions = DatabaseOptions {
    // The table is in memory anyway.
    cache: 8 << 20,
    mode: DatabaseMode::LowSpace,
    birth_tree: "marks",
    birth_key: "born",
};

/// The birth mark says nothing but that it is there.
const BIRTH_MARK: &[u8] = &[];

/// The database, and the first part of the names of damaged ones.
const NAME: &str = "registry";

const RECORDS: &str = "records";

/// The key of the last version, in the tree of the birth mark.
const LAST_VERSION: &str = "last version";

/// Databases up to this many bytes are not rewritten.
const SMALL: u64 = 64 << 20;

/// Bytes on disk per byte of live data before the database is rewritten.
const MAX_SIZE_PER_LIVE: u64 = 4;

#[derive(Debug)]
pub(super) struct RegistryDatabase {
    place: DatabasePlace,
    /// None when it could not be opened again; nothing is written then.
    open: Option<OpenDatabase>,
    growth: DatabaseGrowth,
    _lock: File,
}

/// A database that is in use.
#[derive(Debug)]
struct OpenDatabase {
    records: Tree,
    database: Database,
}

impl RegistryDatabase {
    pub(super) fn open(directory: &Path) -> Result<Self, String> {
        directory::make_private(directory)
            .map_err(|error| format!("{error}; set --store to a directory that can be made or written to"))?;
        let lock = lock(directory)?;
        let place = DatabasePlace::new(directory, NAME);
        place.recover().map_err(|error| with_remedy(&error))?;
        let open = match OpenDatabase::open_or_create(&place) {
            Ok(open) => open,
            Err(DatabaseError::Damaged(error)) => {
                let aside = directory::free_corrupt_path(directory, NAME);
                fs::rename(place.current(), &aside).map_err(|error| with_remedy(&error))?;
                tracing::error!(%error, aside = %aside.display(), "the registry's store was damaged and moved there");
                OpenDatabase::open_or_create(&place).map_err(|error| error.to_string())?
            }
            Err(DatabaseError::Io(error)) => return Err(with_remedy(&error)),
            Err(error) => return Err(error.to_string()),
        };
        Ok(Self {
            place,
            open: Some(open),
            growth: new_growth(),
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
        let size = open.database.size_on_disk().map_err(|error| error.to_string())?;
        if self.growth.is_suspect(size) {
            let live = open.live().map_err(|error| error.to_string())?;
            if self.growth.is_mostly_dead(size, live) {
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
        self.replace(records, last_version).inspect_err(|_| {
            // Half of it is of no use, and takes room.
            let _ = directory::remove_if_there(&self.place.next());
        })
    }

    fn replace(
        &mut self,
        records: impl Iterator<Item = (String, Option<StoredRecord>)>,
        last_version: u64,
    ) -> Result<(), String> {
        self.place.recover().map_err(|error| error.to_string())?;
        let written = OpenDatabase::begin(&self.place.next()).and_then(|next| {
            next.write(records, last_version)?;
            next.sync(last_version)?;
            next.database.mark(BIRTH_MARK)
        });
        written.map_err(|error| error.to_string())?;
        self.growth = new_growth();
        self.take_next().map(drop)
    }

    /// The next generation, which is whole and on disk, takes the place of this one, which is closed. The bytes that it
    /// takes.
    fn take_next(&mut self) -> Result<u64, String> {
        self.place.take_next().map_err(|error| error.to_string())?;
        let opened = OpenDatabase::open(&self.place.current()).and_then(|open| {
            let size = open.database.size_on_disk()?;
            Ok((open, size))
        });
        let (open, size) = opened.map_err(|error| error.to_string())?;
        self.growth.rewritten(size);
        self.open = Some(open);
        Ok(size)
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
        if let Err(error) = self.opened()?.copy_to(&self.place.next()) {
            // This one is whole. Another try when it has grown as much again.
            tracing::warn!(%error, size, "the registry's store could not be rewritten, and stays as it is");
            self.growth.rewritten(size);
            return Ok(());
        }
        self.open = None;
        let to = self.take_next()?;
        tracing::info!(from = size, to, "the registry's store was rewritten");
        Ok(())
    }
}

fn new_growth() -> DatabaseGrowth {
    DatabaseGrowth::new(SMALL, MAX_SIZE_PER_LIVE)
}

impl OpenDatabase {
    fn open_or_create(place: &DatabasePlace) -> Result<Self, DatabaseError> {
        let path = place.current();
        if !path.exists() {
            Database::create(&path, OPTIONS, BIRTH_MARK)?;
        }
        Self::open(&path)
    }

    fn open(path: &Path) -> Result<Self, DatabaseError> {
        Self::around(Database::open(path, OPTIONS)?)
    }

    /// An empty one at a path where there is nothing; it needs its birth mark in the end.
    fn begin(path: &Path) -> Result<Self, DatabaseError> {
        Self::around(Database::begin(path, OPTIONS)?)
    }

    fn around(database: Database) -> Result<Self, DatabaseError> {
        Ok(Self {
            records: database.tree(RECORDS)?,
            database,
        })
    }

    /// Bytes of all keys and values.
    fn live(&self) -> Result<u64, DatabaseError> {
        let mut bytes = 0;
        for pair in &self.records {
            let (key, value) = pair?;
            bytes += (key.len() + value.len()) as u64;
        }
        Ok(bytes)
    }

    /// Makes a database of the same content at a path where there is nothing that matters; on disk when it returns.
    fn copy_to(&self, path: &Path) -> Result<(), DatabaseError> {
        directory::remove_if_there(path)?;
        let next = Self::begin(path)?;
        let marks = (self.database.birth_tree(), next.database.birth_tree());
        for (from, to) in [(&self.records, &next.records), marks] {
            for pair in from {
                let (key, value) = pair?;
                to.insert(key, value)?;
            }
        }
        next.database.sync()
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
        let last = self.database.birth_tree().get(LAST_VERSION);
        let last = last.map_err(|error| error.to_string())?;
        let last = last.and_then(|bytes| Some(u64::from_be_bytes(bytes.as_ref().try_into().ok()?)));
        Ok((pieces.into_iter().filter_map(read).collect(), last.unwrap_or(0)))
    }

    fn write(
        &self,
        changes: impl Iterator<Item = (String, Option<StoredRecord>)>,
        last_version: u64,
    ) -> Result<(), DatabaseError> {
        let mut any = false;
        for (peer, record) in changes {
            any = true;
            let bytes = record.map(|record| record.encode()).unwrap_or_default();
            let mut batch = TreeBatch::default();
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
    fn sync(&self, last_version: u64) -> Result<(), DatabaseError> {
        let marks = self.database.birth_tree();
        marks.insert(LAST_VERSION, &last_version.to_be_bytes())?;
        self.database.sync()
    }
}

fn key(peer: &str, piece: u32) -> Vec<u8> {
    let mut key = (peer.len() as u16).to_be_bytes().to_vec();
    key.extend_from_slice(peer.as_bytes());
    key.extend_from_slice(&piece.to_be_bytes());
    key
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
    directory::lock(directory, "registry.lock").map_err(|error| match error {
        TryLockError::WouldBlock => "in use by another relay; give each its own".into(),
        TryLockError::Error(error) => with_remedy(&error),
    })
}
