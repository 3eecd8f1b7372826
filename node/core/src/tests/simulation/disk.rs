//! A disk in memory: what no barrier has made durable can be lost, and writes, barriers and reads fail
//! when they are told to. The rule: a lost write never takes a durable one with it.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Mutex, MutexGuard, PoisonError},
};

use agentanycast_store::{Batch, KeyValue, Store, StoreError};
use bytes::Bytes;

#[derive(Default)]
pub(super) struct SimDisk {
    state: Mutex<DiskState>,
}

#[derive(Default)]
struct DiskState {
    now: BTreeMap<Vec<u8>, Bytes>,
    /// How to take back what no barrier has confirmed, oldest first.
    undo: Vec<(Vec<u8>, Option<Bytes>)>,
    /// Reads that still succeed before one fails.
    reads_left: Option<usize>,
    broken: DiskFault,
}

/// Which writing step fails.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum DiskFault {
    #[default]
    Nothing,
    Writes,
    Barriers,
}

impl SimDisk {
    fn lock(&self) -> MutexGuard<'_, DiskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what no barrier has made durable.
    pub(super) fn lose_power(&self) {
        let mut state = self.lock();
        while let Some((key, old)) = state.undo.pop() {
            match old {
                Some(value) => state.now.insert(key, value),
                None => state.now.remove(&key),
            };
        }
    }

    pub(super) fn fail(&self, broken: DiskFault) {
        self.lock().broken = broken;
    }

    /// The `reads`-th read from now on fails, once.
    pub(super) fn fail_a_read(&self, reads: usize) {
        self.lock().reads_left = Some(reads);
    }

    pub(super) fn mend(&self) {
        let mut state = self.lock();
        (state.broken, state.reads_left) = (DiskFault::Nothing, None);
    }
}

impl DiskState {
    fn read(&mut self) -> Result<(), StoreError> {
        match &mut self.reads_left {
            None => Ok(()),
            Some(0) => {
                self.reads_left = None;
                Err(StoreError::Io("a read failed".into()))
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }
}

impl Store for SimDisk {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let mut state = self.lock();
        state.read()?;
        Ok(state.now.get(key).cloned())
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<KeyValue>, StoreError> {
        let mut state = self.lock();
        state.read()?;
        let from = after.map_or(Bound::Included(prefix), Bound::Excluded);
        Ok(state
            .now
            .range::<[u8], _>((from, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .take(limit)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }

    fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let mut state = self.lock();
        if state.broken == DiskFault::Writes {
            return Err(StoreError::Io("a write failed".into()));
        }
        for (key, value) in batch.changes {
            let old = match value {
                Some(value) => state.now.insert(key.clone(), value),
                None => state.now.remove(&key),
            };
            state.undo.push((key, old));
        }
        Ok(())
    }

    fn barrier(&self) -> Result<(), StoreError> {
        let mut state = self.lock();
        if state.broken == DiskFault::Barriers {
            return Err(StoreError::Io("a sync failed".into()));
        }
        state.undo.clear();
        Ok(())
    }
}
