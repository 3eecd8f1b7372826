//! Group commit: one thread owns all writing. It takes whatever batches wait, applies them as one,
//! passes one barrier, and reports how far everything is durable. The more comes in at once, the
//! less each pays.
//!
//! A batch that nobody waits for (what an acknowledgement leaves behind) does not begin a barrier of
//! its own: it goes with the next one that somebody waits for, or after `LAZY_DELAY`.
//!
//! Order is kept: batches take effect in the order of [`Committer::submit`], and progress is
//! reported as a count that only grows. After a failed write nothing more is written: the state in
//! memory is ahead of the disk then, and only a restart may go on (fail-stop).

use std::{
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::sync::mpsc as tokio_mpsc;

use super::{Batch, Store, StoreError};

/// Most batches in one group; bounds the time that the first of them waits for the last.
const MAX_GROUP: usize = 1024;

/// Most bytes in one group.
const MAX_GROUP_BYTES: usize = 8 << 20;

/// How long a batch that nobody waits for may wait for company.
const LAZY_DELAY: Duration = Duration::from_millis(50);

/// What the writer reports.
#[derive(Debug, Clone)]
pub enum CommitProgress {
    /// The first batches that were submitted are durable.
    Durable {
        /// How many.
        batches: u64,
        /// How long the barrier of the last ones took; None: they needed none.
        took: Option<Duration>,
    },
    /// A write failed; nothing after the last `Durable` is, and nothing will be.
    Failed(StoreError),
}

/// Whether somebody waits for a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// An answer or an effect is held back until it is durable.
    Awaited,
    /// Nothing is: losing it in a crash costs a repetition at most.
    Lazy,
}

/// The sending side. The caller bounds how many batches it submits ahead of `Durable`.
pub struct Committer {
    batches: mpsc::Sender<(Option<Batch>, Urgency)>,
    submitted: u64,
    thread: Option<thread::JoinHandle<()>>,
}

impl Committer {
    /// Starts the writer. Progress comes on the returned channel; at most a few messages wait
    /// there, since a later one replaces an earlier one in meaning.
    pub fn start(
        store: Arc<dyn Store>,
    ) -> std::io::Result<(Self, tokio_mpsc::UnboundedReceiver<CommitProgress>)> {
        Self::start_with(store, LAZY_DELAY)
    }

    fn start_with(
        store: Arc<dyn Store>,
        lazy: Duration,
    ) -> std::io::Result<(Self, tokio_mpsc::UnboundedReceiver<CommitProgress>)> {
        let (batches, inbox) = mpsc::channel();
        let (progress, reports) = tokio_mpsc::unbounded_channel();
        let thread = thread::Builder::new()
            .name("store".into())
            .spawn(move || run(&*store, lazy, &inbox, &progress))?;
        Ok((
            Self {
                batches,
                submitted: 0,
                thread: Some(thread),
            },
            reports,
        ))
    }

    /// Hands a batch over; returns its number, to compare with [`CommitProgress::Durable`].
    pub fn submit(&mut self, batch: Batch, urgency: Urgency) -> u64 {
        self.submitted += 1;
        // The thread ends only after a failure, which has been reported by then.
        let _ = self.batches.send((Some(batch), urgency));
        self.submitted
    }

    /// Lets what was submitted wait no longer for company: somebody waits for it now.
    pub fn hurry(&self) {
        let _ = self.batches.send((None, Urgency::Awaited));
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        let (closed, _) = mpsc::channel();
        self.batches = closed;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(
    store: &dyn Store,
    lazy: Duration,
    inbox: &mpsc::Receiver<(Option<Batch>, Urgency)>,
    progress: &tokio_mpsc::UnboundedSender<CommitProgress>,
) {
    let mut durable = 0;
    while let Ok((first, mut urgency)) = inbox.recv() {
        let Some(mut group) = first else { continue };
        let began = Instant::now();
        let mut batches = 1;
        let mut bytes = weight(&group);
        while batches < MAX_GROUP && bytes < MAX_GROUP_BYTES {
            let next = match urgency {
                Urgency::Awaited => inbox.try_recv().ok(),
                Urgency::Lazy => inbox.recv_timeout(lazy.saturating_sub(began.elapsed())).ok(),
            };
            let Some((next, its_urgency)) = next else { break };
            if its_urgency == Urgency::Awaited {
                urgency = Urgency::Awaited;
            }
            let Some(next) = next else { continue };
            bytes += weight(&next);
            group.changes.extend(next.changes);
            batches += 1;
        }
        let written = if group.is_empty() {
            Ok(None)
        } else {
            let before = Instant::now();
            let written = store.apply(group).and_then(|()| store.barrier());
            written.map(|()| Some(before.elapsed()))
        };
        match written {
            Ok(took) => {
                durable += batches as u64;
                let news = CommitProgress::Durable {
                    batches: durable,
                    took,
                };
                if progress.send(news).is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::error!(%error, "a write to the store failed; no more tasks are accepted until a restart");
                let _ = progress.send(CommitProgress::Failed(error));
                return;
            }
        }
    }
}

fn weight(batch: &Batch) -> usize {
    batch
        .changes
        .iter()
        .map(|(key, value)| key.len() + value.as_ref().map_or(0, Bytes::len))
        .sum()
}

#[cfg(test)]
mod tests;
