//! How far the readers of one artifact are, for the flow control of its sender.
//!
//! Positions are bytes of data handed out, counted from the artifact's beginning also for a reader that
//! began in the middle. Only the furthest one is published, and not for every chunk.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use tokio::sync::watch;

use super::{MAX_READERS, ReadError, lock};
use crate::delivery::artifact::READ_AHEAD;

/// A reader tells of itself after this many bytes, or when it has caught up: often enough against
/// [`READ_AHEAD`] that the sender never waits for it, seldom enough that telling costs nothing.
const PUBLISH_STEP: u64 = READ_AHEAD / 16;

#[derive(Debug, Default)]
pub(super) struct ReaderPositions {
    positions: Mutex<PositionTable>,
    furthest: watch::Sender<Option<u64>>,
}

#[derive(Debug, Default)]
struct PositionTable {
    next: u64,
    of: BTreeMap<u64, u64>,
}

impl ReaderPositions {
    /// The position of the furthest reader; none when nobody reads.
    pub(super) fn furthest(&self) -> watch::Receiver<Option<u64>> {
        self.furthest.subscribe()
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<u64, u64>)) {
        let mut positions = lock(&self.positions);
        change(&mut positions.of);
        let furthest = positions.of.values().max().copied();
        // Still under the lock, so that an older position never overtakes a newer one.
        self.furthest
            .send_if_modified(|known| std::mem::replace(known, furthest) != furthest);
    }
}

/// One reader's place among the readers; leaves it when dropped.
#[derive(Debug)]
pub(super) struct ReaderPosition {
    readers: Arc<ReaderPositions>,
    id: u64,
    published: u64,
}

impl ReaderPosition {
    pub(super) fn register(readers: Arc<ReaderPositions>) -> Result<Self, ReadError> {
        let id = {
            let mut positions = lock(&readers.positions);
            if positions.of.len() >= MAX_READERS {
                return Err(ReadError::TooManyReaders);
            }
            positions.next += 1;
            positions.next
        };
        readers.change(|positions| {
            positions.insert(id, 0);
        });
        Ok(Self {
            readers,
            id,
            published: 0,
        })
    }

    /// The reader has handed out `position` bytes. `idle`: it has caught up with the writer.
    pub(super) fn update(&mut self, position: u64, idle: bool) {
        if position - self.published >= PUBLISH_STEP || (idle && position > self.published) {
            self.published = position;
            self.readers.change(|positions| {
                positions.insert(self.id, position);
            });
        }
    }
}

impl Drop for ReaderPosition {
    fn drop(&mut self) {
        self.readers.change(|positions| {
            positions.remove(&self.id);
        });
    }
}
