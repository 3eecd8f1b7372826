//! The table of this relay on disk (`--store`), so that it survives a restart: one writer thread, one flush for all
//! that wait.
//!
//! It keeps no copy of anything: who has changed something marks the peer, and the writer asks for its record then. So
//! it is bounded by the table, and many changes of one peer are one write. The one rule: [`Store::written`]
//! resolves when what was marked is on disk; a store that failed says so until everything could be written anew, which is
//! tried every few seconds.

mod database;

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use tokio::sync::watch;

use crate::registry::StoredRecord;
use database::RegistryDatabase;

/// Longest wait of a heartbeat before it is written.
const MAX_WRITE_DELAY: Duration = Duration::from_millis(500);

/// Pause before everything is written anew after a failure.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The store cannot be used, or not now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the registry's store {}: {cause}", .path.display())]
pub struct StoreError {
    path: PathBuf,
    cause: String,
}

/// What was in the store.
#[derive(Debug)]
pub struct OpenedRegistryStore {
    /// The store.
    pub store: Store,
    /// Every record.
    pub records: Vec<StoredRecord>,
    /// The last version that was given before.
    pub last_version: u64,
}

/// A handle on the store; clones are of the same one.
#[derive(Clone, Debug)]
pub struct Store(Arc<StoreState>);

#[derive(Debug)]
struct StoreState {
    path: PathBuf,
    database: Mutex<RegistryDatabase>,
    pending: Mutex<PendingWrites>,
    writer_wakeup: Condvar,
    /// The last batch on disk, or why there is none now.
    written: watch::Sender<Result<u64, StoreError>>,
}

#[derive(Debug)]
struct PendingWrites {
    peers: HashSet<String>,
    /// The batch that these peers will be written in.
    batch: u64,
    /// Somebody waits for it.
    urgent: bool,
    stopping: bool,
}

impl Store {
    /// Opens the store in `directory`, made if it is missing; one that is damaged is moved aside. Blocks.
    ///
    /// # Errors
    /// When the directory cannot be used, or another relay uses it.
    pub fn open(directory: &Path) -> Result<OpenedRegistryStore, StoreError> {
        let error = |cause| StoreError {
            path: directory.to_owned(),
            cause,
        };
        let database = RegistryDatabase::open(directory).map_err(error)?;
        let (records, last_version) = database.read().map_err(error)?;
        let store = Self(Arc::new(StoreState {
            path: directory.to_owned(),
            database: Mutex::new(database),
            pending: Mutex::new(PendingWrites {
                peers: HashSet::new(),
                batch: 1,
                urgent: false,
                stopping: false,
            }),
            writer_wakeup: Condvar::new(),
            written: watch::Sender::new(Ok(0)),
        }));
        Ok(OpenedRegistryStore {
            store,
            records,
            last_version,
        })
    }

    /// Says that the record of a peer has changed; the batch that it will be written in.
    pub fn mark(&self, peer: &str) -> u64 {
        let mut marked = self.pending();
        if !marked.peers.contains(peer) {
            marked.peers.insert(peer.to_owned());
        }
        marked.batch
    }

    /// Resolves when this batch is on disk.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn written(&self, batch: u64) -> Result<(), StoreError> {
        {
            let mut marked = self.pending();
            marked.urgent |= marked.batch == batch;
        }
        self.0.writer_wakeup.notify_one();
        let mut written = self.0.written.subscribe();
        let outcome =
            written.wait_for(|written| written.as_ref().is_ok_and(|last| *last >= batch) || written.is_err());
        let gone = || StoreError {
            path: self.0.path.clone(),
            cause: "its writer has ended".into(),
        };
        let outcome = outcome.await.map_err(|_| gone())?.clone();
        outcome.map(|_| ())
    }

    /// Runs the writer until [`Store::stop`]. `record` gives the record of a peer, if it still has one, `everybody` all peers
    /// that have one, and `last_version` the clock.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn run(
        &self,
        record: impl Fn(&str) -> Option<StoredRecord> + Send + 'static,
        everybody: impl Fn() -> Vec<String> + Send + 'static,
        last_version: impl Fn() -> u64 + Send + 'static,
    ) -> std::io::Result<thread::JoinHandle<()>> {
        let store = self.clone();
        thread::Builder::new()
            .name("registry-store".into())
            .spawn(move || {
                while let Some((peers, batch)) = store.next_batch() {
                    let recorded = |peer: String| {
                        let record = record(&peer);
                        (peer, record)
                    };
                    let worked = store.works();
                    let outcome = if worked {
                        let changes = peers.into_iter().map(recorded);
                        store.database().write(changes, last_version())
                    } else {
                        let all = everybody().into_iter().map(recorded);
                        store.database().renew(all, last_version())
                    };
                    let outcome = outcome.map(|()| batch).map_err(|cause| StoreError {
                        path: store.0.path.clone(),
                        cause,
                    });
                    let failed = outcome.as_ref().err().cloned();
                    let _ = store.0.written.send_replace(outcome);
                    match failed {
                        Some(error) if worked => {
                            tracing::error!(%error, "registrations are not kept over a restart until the store can be written again, which is tried every 5 s");
                        }
                        Some(error) => tracing::debug!(%error, "the store still fails"),
                        None if !worked => tracing::info!("registrations are kept over a restart again"),
                        None => {}
                    }
                }
            })
    }

    /// Writes what is marked and ends the writer.
    pub fn stop(&self) {
        self.pending().stopping = true;
        self.0.writer_wakeup.notify_one();
    }

    /// Whether it still writes.
    pub fn works(&self) -> bool {
        self.0.written.borrow().is_ok()
    }

    /// Waits for the next batch, after a failure for some time; none after the last one.
    fn next_batch(&self) -> Option<(HashSet<String>, u64)> {
        let works = self.works();
        let patience = if works { MAX_WRITE_DELAY } else { RETRY_AFTER };
        let marked = self.pending();
        let idle = |marked: &mut PendingWrites| !(marked.stopping || marked.urgent && works);
        let (mut marked, _) = self
            .0
            .writer_wakeup
            .wait_timeout_while(marked, patience, idle)
            .unwrap_or_else(PoisonError::into_inner);
        if marked.stopping && (marked.peers.is_empty() || !works) {
            return None;
        }
        let batch = marked.batch;
        marked.batch += 1;
        marked.urgent = false;
        Some((std::mem::take(&mut marked.peers), batch))
    }

    /// Only the writer has it for long.
    fn database(&self) -> MutexGuard<'_, RegistryDatabase> {
        self.0.database.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pending(&self) -> MutexGuard<'_, PendingWrites> {
        self.0.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use agentanycast_proto::v1::FederatedRegistration;
    use prost::Message as _;

    use super::*;

    type Table = Arc<Mutex<HashMap<String, StoredRecord>>>;

    fn run(store: &Store, table: &Table) -> thread::JoinHandle<()> {
        let (table, all) = (Arc::clone(table), Arc::clone(table));
        store
            .run(
                move |peer| table.lock().unwrap().get(peer).cloned(),
                move || all.lock().unwrap().keys().cloned().collect(),
                || 7,
            )
            .unwrap()
    }

    fn record(peer: &str, bytes: usize) -> StoredRecord {
        let told = FederatedRegistration {
            peer_id: peer.into(),
            agent_description: "x".repeat(bytes),
            ..FederatedRegistration::default()
        };
        StoredRecord::decode(&told.encode_to_vec()).unwrap()
    }

    #[tokio::test]
    async fn what_was_written_is_there_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let table = Table::default();
        let opened = Store::open(directory.path()).unwrap();
        assert!(opened.records.is_empty() && opened.last_version == 0);
        let writer = run(&opened.store, &table);
        // Larger than what the database takes in one piece, then smaller again.
        for (peer, bytes) in [("a", 200_000), ("b", 10), ("c", 3), ("a", 70_000)] {
            table.lock().unwrap().insert(peer.into(), record(peer, bytes));
            let batch = opened.store.mark(peer);
            opened.store.written(batch).await.unwrap();
        }
        table.lock().unwrap().remove("c");
        opened.store.mark("c");
        assert!(Store::open(directory.path()).is_err());
        opened.store.stop();
        writer.join().unwrap();
        drop(opened);
        let opened = Store::open(directory.path()).unwrap();
        let mut sizes: Vec<_> = opened
            .records
            .iter()
            .map(|kept| {
                (
                    kept.registration.peer_id.as_str(),
                    kept.registration.agent_description.len(),
                )
            })
            .collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [("a", 70_000), ("b", 10)]);
        assert_eq!(opened.last_version, 7);
    }

    #[tokio::test]
    async fn a_store_that_failed_has_everything_when_it_can_be_written_again() {
        let directory = tempfile::tempdir().unwrap();
        let table = Table::default();
        let opened = Store::open(directory.path()).unwrap();
        let writer = run(&opened.store, &table);
        let written = async |peer: &str| {
            table.lock().unwrap().insert(peer.into(), record(peer, 10));
            let batch = opened.store.mark(peer);
            opened.store.written(batch).await
        };
        for peer in ["a", "gone"] {
            written(peer).await.unwrap();
        }
        // Nor can the next one be made there, for a while.
        let next = directory.path().join("registry.next");
        opened.store.database().fail();
        std::fs::write(&next, "in the way").unwrap();
        table.lock().unwrap().remove("gone");
        written("b").await.unwrap_err();
        assert!(!opened.store.works());
        written("c").await.unwrap_err();
        std::fs::remove_file(&next).unwrap();
        let healed = opened
            .store
            .0
            .written
            .subscribe()
            .wait_for(Result::is_ok)
            .await
            .is_ok();
        assert!(healed);
        written("d").await.unwrap();
        opened.store.stop();
        writer.join().unwrap();
        drop(opened);
        let opened = Store::open(directory.path()).unwrap();
        let mut peers: Vec<_> = opened
            .records
            .iter()
            .map(|kept| &*kept.registration.peer_id)
            .collect();
        peers.sort_unstable();
        assert_eq!(peers, ["a", "b", "c", "d"]);
        assert_eq!(opened.last_version, 7);
    }

    #[tokio::test]
    async fn a_store_that_is_mostly_dead_is_rewritten() {
        let directory = tempfile::tempdir().unwrap();
        let table = Table::default();
        let opened = Store::open(directory.path()).unwrap();
        let writer = run(&opened.store, &table);
        table.lock().unwrap().insert("stays".into(), record("stays", 10));
        opened.store.mark("stays");
        // Twice what may be dead, a little of it live at a time.
        for n in 0..160 {
            let peer = format!("p{n}");
            table.lock().unwrap().insert(peer.clone(), record(&peer, 1 << 20));
            let batch = opened.store.mark(&peer);
            opened.store.written(batch).await.unwrap();
            table.lock().unwrap().remove(&peer);
            opened.store.mark(&peer);
        }
        opened.store.stop();
        writer.join().unwrap();
        drop(opened);
        let size = std::fs::metadata(directory.path().join("registry/db"))
            .unwrap()
            .len();
        assert!(size < 96 << 20, "{size}");
        let opened = Store::open(directory.path()).unwrap();
        let peers: Vec<_> = opened
            .records
            .iter()
            .map(|kept| &*kept.registration.peer_id)
            .collect();
        assert_eq!(peers, ["stays"]);
        assert_eq!(opened.last_version, 7);
    }

    #[test]
    fn a_database_that_is_still_being_closed_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        drop(Store::open(directory.path()).unwrap());
        let database = std::fs::File::open(directory.path().join("registry/db")).unwrap();
        // As sled's threads do.
        database.lock().unwrap();
        let closing = thread::spawn(move || {
            thread::sleep(Duration::from_millis(300));
            drop(database);
        });
        Store::open(directory.path()).unwrap();
        closing.join().unwrap();
    }

    #[test]
    fn a_damaged_store_is_moved_aside() {
        let directory = tempfile::tempdir().unwrap();
        drop(Store::open(directory.path()).unwrap());
        let database = directory.path().join("registry");
        let length = std::fs::metadata(database.join("db")).unwrap().len();
        std::fs::write(database.join("db"), vec![0xFF; length as usize]).unwrap();
        for entry in std::fs::read_dir(&database).unwrap() {
            let path = entry.unwrap().path();
            if path.to_string_lossy().contains("snap.") {
                std::fs::remove_file(path).unwrap();
            }
        }
        let opened = Store::open(directory.path()).unwrap();
        assert!(opened.records.is_empty());
        let names = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        assert!(
            names
                .into_iter()
                .any(|name| name.to_string_lossy().starts_with("registry.corrupt-"))
        );
    }
}
