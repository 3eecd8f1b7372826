//! Artifacts that came as a stream, each in an append-only file below one directory.
//!
//! A receiver writes chunks through a [`SpoolWriter`] and any number of [`SpoolReader`]s follow it: replay
//! first, then live. A killed process resumes after the last whole chunk; an ended artifact is durable. It
//! touches its own directory only and knows nothing of tasks beyond their ids, which are hostile text.
//! Each file in use costs one descriptor, shared by its writer and its readers and closed with the last of
//! them. The rule: what [`SpoolWriter::next_sequence`] names is whole in the file and stays so.

mod error;
mod layout;
mod open_artifact;
mod reader;
mod reader_positions;
mod record;
#[cfg(test)]
mod tests;
mod writer;

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use agentanycast_proto::v1::{StreamEnd, StreamStart};
use bytes::{Bytes, BytesMut};
use prost::Message;

pub use error::{OpenError, ReadError, WriteError};
pub use reader::{SpoolEvent, SpoolReader};
pub use writer::SpoolWriter;

use crate::delivery::artifact::MAX_START;
use layout::ArtifactPath;
use open_artifact::{ArtifactPhase, OpenArtifact, io_error, open_error};
use record::{BlockRecords, HEAD, Kind, NextRecord};

/// Artifacts that may be in use at once, each with one open file: half of the 1024 descriptors that a
/// process usually has, as connections need some too.
pub const MAX_OPEN: usize = 512;

/// Readers of one artifact, each with a block of 1 MiB.
pub const MAX_READERS: usize = 64;

/// Artifacts of one task that may be stored; keeps its directory, which is listed for every new one, small.
pub const MAX_ARTIFACTS_PER_TASK: usize = 1024;

/// Slots of artifacts that are no longer in use are cleared away above this number.
const MAX_SLOTS: usize = 2 * MAX_OPEN;

/// An artifact's size.
#[derive(Clone, Debug, PartialEq)]
pub struct ArtifactSize {
    /// Bytes of data.
    pub bytes: u64,
    /// Number of chunks.
    pub chunks: u32,
    /// How it ended, if it has.
    pub end: Option<StreamEnd>,
}

/// An artifact on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredArtifact {
    /// The task it belongs to.
    pub task_id: String,
    /// Its own id.
    pub artifact_id: String,
    /// Bytes that its file takes, records and all.
    pub disk_bytes: u64,
    /// Whether its end is durable.
    pub finished: bool,
}

/// All artifacts below one directory. Cheap to clone. One process at a time may use a directory.
#[derive(Clone, Debug)]
pub struct Spool {
    shared: Arc<SpoolShared>,
}

impl Spool {
    /// The spool in `dir`, which is made for this user only if need be. Walks the tree once to count the
    /// bytes in it, so it blocks: call it at start-up.
    pub fn open(dir: impl Into<PathBuf>) -> io::Result<Self> {
        let root = dir.into();
        layout::make_dir(&root)?;
        let mut used = 0;
        for task in layout::tasks(&root)? {
            for path in layout::artifacts(&task)? {
                used += layout::size_of(&path)?;
            }
        }
        let shared = SpoolShared {
            root,
            used: AtomicU64::new(used),
            ..SpoolShared::default()
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Begins an artifact.
    ///
    /// # Errors
    /// `Exists` when there is one with these ids, however much of it; over a limit; or the disk.
    pub async fn create(&self, start: &StreamStart) -> Result<SpoolWriter, WriteError> {
        let (size, start) = (start.encoded_len(), start.clone());
        if size > MAX_START {
            return Err(WriteError::StartTooLarge(size));
        }
        let place = self.place(&start.task_id, &start.artifact_id);
        let slot = self.shared.slot(&place);
        let shared = Arc::clone(&self.shared);
        let made = blocking(move || {
            let mut slot = lock(&slot);
            if shared.load(&mut slot, &place)?.is_some() {
                return Err(WriteError::Exists);
            }
            let live = Arc::new(OpenArtifact::create(shared, place, start)?);
            *slot = Arc::downgrade(&live);
            SpoolWriter::claim(live)
        });
        made.await.map_err(|source| io_error("create", source))?
    }

    /// Goes on with an artifact after its last whole chunk; none when there is none. An ended one is given
    /// as well: its writer knows the [end](SpoolWriter::end). Reads the file once, to check it.
    pub async fn resume(&self, task: &str, artifact: &str) -> Result<Option<SpoolWriter>, WriteError> {
        let Some(live) = self.live(task, artifact).await? else {
            return Ok(None);
        };
        let claimed = blocking(move || SpoolWriter::claim(live));
        claimed
            .await
            .map_err(|source| io_error("open", source))?
            .map(Some)
    }

    /// Reads an artifact from chunk `from` on, START first. If there are not so many yet, it waits.
    pub async fn reader(&self, task: &str, artifact: &str, from: u32) -> Result<SpoolReader, ReadError> {
        let live = self.live(task, artifact).await?.ok_or(ReadError::NotFound)?;
        SpoolReader::new(live, from)
    }

    /// The whole data of an ended artifact of at most `max` bytes, whatever the reason it ended with.
    pub async fn assemble(&self, task: &str, artifact: &str, max: u64) -> Result<Bytes, ReadError> {
        let live = self.live(task, artifact).await?.ok_or(ReadError::NotFound)?;
        blocking(move || assemble(&live, max)).await?
    }

    /// How large an artifact is by now; none when there is none.
    pub async fn size(&self, task: &str, artifact: &str) -> Result<Option<ArtifactSize>, ReadError> {
        let Some(live) = self.live(task, artifact).await? else {
            return Ok(None);
        };
        let progress = live.progress();
        let end = match progress.phase {
            ArtifactPhase::Removed => return Ok(None),
            ArtifactPhase::Ended(end) => Some(end.as_ref().clone()),
            ArtifactPhase::Open => None,
        };
        Ok(Some(ArtifactSize {
            bytes: progress.bytes,
            chunks: progress.chunks,
            end,
        }))
    }

    /// Removes an artifact, also while it is written or read, which then fails with `Removed`. Returns
    /// whether there was one.
    pub async fn remove(&self, task: &str, artifact: &str) -> io::Result<bool> {
        let place = self.place(task, artifact);
        let shared = Arc::clone(&self.shared);
        blocking(move || shared.remove(&place)).await?
    }

    /// Removes all artifacts of these tasks, one after the other; returns how many there were. What cannot
    /// be removed stops nothing else; the last such error is returned.
    pub async fn remove_tasks(&self, tasks: Vec<String>) -> io::Result<usize> {
        let shared = Arc::clone(&self.shared);
        let removed = blocking(move || {
            let dirs = tasks.iter().map(|task| layout::task_dir(&shared.root, task));
            shared.remove_dirs(dirs)
        });
        removed.await?
    }

    /// Removes what belongs to none of these tasks: what a crash left between a task's end in the database
    /// and that of its files. Blocks: call it at start-up.
    pub fn keep_only<'a>(&self, tasks: impl Iterator<Item = &'a str>) -> io::Result<usize> {
        let dirs = layout::tasks(&self.shared.root)?;
        if dirs.is_empty() {
            return Ok(0);
        }
        let known: HashSet<PathBuf> = tasks
            .map(|task| layout::task_dir(&self.shared.root, task))
            .collect();
        self.shared
            .remove_dirs(dirs.into_iter().filter(|dir| !known.contains(dir)))
    }

    /// All artifacts on disk, in no order. A file that was killed before its START was whole, or holds
    /// something else than its name says, belongs to nobody and is removed here.
    pub async fn list(&self) -> io::Result<Vec<StoredArtifact>> {
        let shared = Arc::clone(&self.shared);
        blocking(move || shared.list()).await?
    }

    /// Bytes that all files take, records and all.
    pub fn used(&self) -> u64 {
        self.shared.used.load(Ordering::Relaxed)
    }

    fn place(&self, task: &str, artifact: &str) -> ArtifactPath {
        ArtifactPath::new(&self.shared.root, task, artifact)
    }

    async fn live(&self, task: &str, artifact: &str) -> Result<Option<Arc<OpenArtifact>>, OpenError> {
        let place = self.place(task, artifact);
        let slot = self.shared.slot(&place);
        if let Ok(slot) = slot.try_lock()
            && let Some(live) = slot.upgrade()
        {
            return Ok(Some(live).filter(|live| !live.is_removed()));
        }
        let shared = Arc::clone(&self.shared);
        let loaded = blocking(move || shared.load(&mut lock(&slot), &place));
        loaded.await.map_err(|source| open_error("open", source))?
    }
}

/// What is known of one place while anybody uses it. Its lock is held while the file is made, loaded or
/// removed, so that two never do so at once.
type ArtifactSlot = Arc<Mutex<Weak<OpenArtifact>>>;

/// What all artifacts of a spool share. Locks are taken in this order: a slot's, a file's, the tree's.
#[derive(Debug, Default)]
struct SpoolShared {
    root: PathBuf,
    used: AtomicU64,
    open: AtomicUsize,
    slots: Mutex<HashMap<ArtifactPath, ArtifactSlot>>,
    /// Held while directories are made and removed.
    layout_lock: Mutex<()>,
}

impl SpoolShared {
    fn slot(&self, place: &ArtifactPath) -> ArtifactSlot {
        let mut slots = lock(&self.slots);
        if slots.len() >= MAX_SLOTS && !slots.contains_key(place) {
            // Nobody else can get hold of a slot while the map is locked.
            slots.retain(|_, slot| Arc::strong_count(slot) > 1 || lock(slot).strong_count() > 0);
        }
        Arc::clone(slots.entry(place.clone()).or_default())
    }

    fn load(
        self: &Arc<Self>,
        slot: &mut Weak<OpenArtifact>,
        place: &ArtifactPath,
    ) -> Result<Option<Arc<OpenArtifact>>, OpenError> {
        if let Some(live) = slot.upgrade().filter(|live| !live.is_removed()) {
            return Ok(Some(live));
        }
        let live = OpenArtifact::load(Arc::clone(self), place.clone())?.map(Arc::new);
        *slot = live.as_ref().map(Arc::downgrade).unwrap_or_default();
        Ok(live)
    }

    fn remove(&self, place: &ArtifactPath) -> io::Result<bool> {
        let slot = self.slot(place);
        let mut slot = lock(&slot);
        if let Some(live) = slot.upgrade() {
            live.mark_removed();
        }
        *slot = Weak::new();
        self.unlink(place)
    }

    fn remove_dirs(&self, dirs: impl Iterator<Item = PathBuf>) -> io::Result<usize> {
        let (mut removed, mut outcome) = (0, Ok(()));
        for dir in dirs {
            let paths = layout::artifacts(&dir).unwrap_or_else(|error| {
                outcome = Err(error);
                Vec::new()
            });
            if paths.is_empty() {
                let _tree = lock(&self.layout_lock);
                let _ = fs::remove_dir(&dir); // Most tasks have none.
            }
            for place in paths
                .iter()
                .filter_map(|path| ArtifactPath::from_path(path))
                .map(|(place, _)| place)
            {
                match self.remove(&place) {
                    Ok(there_was) => removed += usize::from(there_was),
                    Err(error) => outcome = Err(error),
                }
            }
        }
        outcome.map(|()| removed)
    }

    fn list(&self) -> io::Result<Vec<StoredArtifact>> {
        let mut stored = Vec::new();
        for task in layout::tasks(&self.root)? {
            for path in layout::artifacts(&task)? {
                stored.extend(self.examine(&path)?);
            }
        }
        Ok(stored)
    }

    /// The artifact at `path`; none when it has gone or was nobody's.
    fn examine(&self, path: &Path) -> io::Result<Option<StoredArtifact>> {
        let Some((place, finished)) = ArtifactPath::from_path(path) else {
            return Ok(None);
        };
        let slot = self.slot(&place);
        let slot = lock(&slot);
        let file = match fs::File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let disk_bytes = file.metadata()?.len();
        match open_artifact::read_start(&file, disk_bytes)? {
            Some((start, _)) if place.matches(&start) => {
                let StreamStart {
                    task_id, artifact_id, ..
                } = start;
                Ok(Some(StoredArtifact {
                    task_id,
                    artifact_id,
                    disk_bytes,
                    finished,
                }))
            }
            _ => {
                if slot.strong_count() == 0 {
                    tracing::warn!(path = %path.display(), "removed a file that begins no artifact");
                    self.unlink(&place)?;
                }
                Ok(None)
            }
        }
    }

    /// Makes the file of a new artifact.
    fn make_file(&self, place: &ArtifactPath) -> Result<fs::File, WriteError> {
        let _tree = lock(&self.layout_lock);
        let made = || {
            layout::make_dir(place.task_dir())?;
            let full = layout::artifacts(place.task_dir())?.len() >= MAX_ARTIFACTS_PER_TASK;
            if full {
                Ok(None)
            } else {
                layout::make_file(&place.unfinished()).map(Some)
            }
        };
        let made = made();
        if !matches!(made, Ok(Some(_))) {
            // Goes only if it is empty, and then it was made in vain.
            let _in_use = fs::remove_dir(place.task_dir());
        }
        made.map_err(|source| io_error("create", source))?
            .ok_or(WriteError::TooManyArtifacts)
    }

    /// Gives a synced file its final name, durably.
    fn publish_finished(&self, place: &ArtifactPath) -> io::Result<()> {
        let _tree = lock(&self.layout_lock);
        fs::rename(place.unfinished(), place.finished())?;
        layout::sync_dir(place.task_dir())?;
        layout::sync_dir(&self.root)
    }

    /// Removes an artifact's file, and its task's directory with the last one.
    fn unlink(&self, place: &ArtifactPath) -> io::Result<bool> {
        let _tree = lock(&self.layout_lock);
        let mut removed = false;
        for path in [place.unfinished(), place.finished()] {
            let size = layout::size_of(&path)?;
            match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                done => {
                    done?;
                    removed = true;
                    self.shrink(size);
                }
            }
        }
        match fs::remove_dir(place.task_dir()) {
            Err(error) if is_in_use(&error) => Ok(removed),
            done => done.map(|()| removed),
        }
    }

    fn grow(&self, by: u64) {
        self.used.fetch_add(by, Ordering::Relaxed);
    }

    fn shrink(&self, by: u64) {
        let less = |used: u64| Some(used.saturating_sub(by));
        let _before = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

fn is_in_use(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty
    )
}

fn assemble(live: &OpenArtifact, max: u64) -> Result<Bytes, ReadError> {
    let progress = live.progress();
    if !matches!(progress.phase, ArtifactPhase::Ended(_)) {
        return Err(ReadError::NotEnded);
    }
    if progress.bytes > max {
        return Err(ReadError::TooLarge {
            bytes: progress.bytes,
            max,
        });
    }
    let mut data = BytesMut::new();
    let (mut offset, mut sequence) = (live.first(), 0);
    while offset < progress.offset {
        let mut records = BlockRecords::new(
            record::read_block(live.file(), offset, progress.offset)?,
            sequence,
        );
        if !records.has_whole() {
            return Err(ReadError::Corrupt(sequence));
        }
        while records.has_whole() {
            let NextRecord::Record {
                kind: Kind::Chunk | Kind::Last,
                payload,
            } = records.next()
            else {
                return Err(ReadError::Corrupt(sequence));
            };
            data.extend_from_slice(&payload);
            offset += (HEAD + payload.len()) as u64;
            sequence += 1;
        }
    }
    Ok(data.freeze())
}

/// A lock whose holder panicked guards nothing that could be half done: what counts is published last.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work`, which waits for the disk, on a thread that may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::from)
}
