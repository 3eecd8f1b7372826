//! Checkpoints: a thread that takes frozen tables into the database, and rewrites the database when
//! most of it is dead.
//!
//! When the database takes more than `MAX_SIZE_PER_LIVE` times its live data (see `growth`), the next generation is
//! written beside it and takes its place.

use std::{
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
};

use super::{
    Layers, StoreThresholds, failed,
    journal::{self, FullSegment},
    layout,
    sled_base::{AbsorbResult, SledBase},
    value_log::ValueLog,
};
use crate::{StoreError, directory::remove_if_there, growth::DatabaseGrowth};

/// Bytes on disk per byte of live data before the database is rewritten.
const MAX_SIZE_PER_LIVE: u64 = 3;

/// The checkpoint thread, as the writer sees it. At most one checkpoint is under way.
pub(super) struct Checkpoints {
    journals: PathBuf,
    orders: Option<mpsc::Sender<FullSegment>>,
    /// Each time, the segment, unless it stays with what is in it.
    done: mpsc::Receiver<Result<Option<u64>, StoreError>>,
    under_way: bool,
    /// A segment whose content is in the database: its file can be used again.
    spare: Option<u64>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Checkpoints {
    /// Starts the thread over the store in `directory`.
    pub(super) fn start(
        directory: &Path,
        layers: Arc<Layers>,
        sizes: StoreThresholds,
        values: ValueLog,
        live: u64,
        spare: Option<u64>,
    ) -> std::io::Result<Self> {
        let (orders, inbox) = mpsc::channel();
        let (report, done) = mpsc::channel();
        let mut keeper = Checkpointer {
            directory: directory.to_owned(),
            layers,
            growth: DatabaseGrowth::new(sizes.small, MAX_SIZE_PER_LIVE),
            values,
            live,
        };
        let thread = thread::Builder::new().name("checkpoint".into()).spawn(move || {
            while let Ok(segment) = inbox.recv() {
                // sled may panic where it meets what it does not expect; nothing of this
                // checkpoint counts then, and the journal has it all.
                let outcome = panic::catch_unwind(AssertUnwindSafe(|| keeper.checkpoint(segment)));
                let outcome = outcome.unwrap_or_else(|_| Err(failed("the database panicked")));
                if report.send(outcome).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self {
            journals: layout::journals(directory),
            orders: Some(orders),
            done,
            under_way: false,
            spare,
            thread: Some(thread),
        })
    }

    /// Whether another checkpoint may begin; waits for the one under way if `wait`.
    pub(super) fn ready(&mut self, wait: bool) -> Result<bool, StoreError> {
        if !self.under_way {
            return Ok(true);
        }
        let done = if wait {
            self.done
                .recv()
                .map_err(|_| failed("the checkpoint thread has ended"))?
        } else {
            match self.done.try_recv() {
                Err(mpsc::TryRecvError::Empty) => return Ok(false),
                done => done.map_err(|_| failed("the checkpoint thread has ended"))?,
            }
        };
        self.under_way = false;
        if let Some(free) = done?
            && let Some(unused) = self.spare.replace(free)
        {
            journal::remove(&self.journals, unused).map_err(failed)?;
        }
        Ok(true)
    }

    /// A segment whose file can be used again.
    pub(super) fn take_spare(&mut self) -> Option<u64> {
        self.spare.take()
    }

    /// Has the frozen table, which ends with this segment, taken in.
    pub(super) fn begin(&mut self, segment: FullSegment) -> Result<(), StoreError> {
        let sent = self
            .orders
            .as_ref()
            .is_some_and(|orders| orders.send(segment).is_ok());
        self.under_way = sent;
        if sent {
            Ok(())
        } else {
            Err(failed("the checkpoint thread has ended"))
        }
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the thread has.
struct Checkpointer {
    directory: PathBuf,
    layers: Arc<Layers>,
    growth: DatabaseGrowth,
    values: ValueLog,
    /// Bytes of keys and cells in the database.
    live: u64,
}

impl Checkpointer {
    /// Takes in the frozen table, which ends with this segment. The segment, unless it stays with what is in it: then
    /// it is no spare one, whether or not it has been emptied since.
    fn checkpoint(&mut self, segment: FullSegment) -> Result<Option<u64>, StoreError> {
        let (frozen, base) = {
            let layers = self.layers.read();
            (layers.frozen.clone(), Arc::clone(&layers.base))
        };
        let Some(frozen) = frozen else {
            return Ok(Some(segment.number));
        };
        let taken = base.absorb(&frozen, segment, &mut self.values);
        let AbsorbResult { grown, stays } = taken.map_err(failed)?;
        self.live = self.live.saturating_add_signed(grown);
        while let Some(file) = self.values.next_to_empty() {
            base.empty(file, &mut self.values).map_err(failed)?;
        }
        let next = self.rewrite(&base)?;
        let mut layers = self.layers.write();
        layers.frozen = None;
        if let Some(next) = next {
            layers.base = Arc::new(next);
            drop(layers);
            let old = base.path().to_owned();
            drop(base);
            remove_generation(&old);
        }
        Ok((!stays).then_some(segment.number))
    }

    /// The next generation of the database, when most of it is dead.
    fn rewrite(&mut self, base: &SledBase) -> Result<Option<SledBase>, StoreError> {
        let size = base.size_on_disk().map_err(failed)?;
        let live = self.live;
        if !self.growth.is_mostly_dead(size, live) {
            return Ok(None);
        }
        let path = layout::generation_after(&self.directory, base.path());
        match base.copy_to(&path) {
            Ok(next) => {
                let to = next.size_on_disk().map_err(failed)?;
                self.growth.rewritten(to);
                tracing::info!(from = size, to, live, "the database was rewritten");
                Ok(Some(next))
            }
            Err(error) => {
                // The old one is whole. Another try when it has grown as much again.
                tracing::warn!(%error, size, live, "the database could not be rewritten, and stays as it is");
                self.growth.rewritten(size);
                remove_generation(&path);
                Ok(None)
            }
        }
    }
}

/// Removes a database that is no longer used; what stays of it is removed at the next start.
fn remove_generation(path: &Path) {
    if let Err(error) = remove_if_there(path) {
        tracing::warn!(path = %path.display(), %error, "an old database could not be removed");
    }
}
