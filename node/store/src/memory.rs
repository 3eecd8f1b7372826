//! A store in memory that can lose what was not yet durable: for tests of everything above it.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;

use super::{Batch, KeyValue, Store, StoreError};

/// See the module's text.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    now: BTreeMap<Vec<u8>, Bytes>,
    durable: BTreeMap<Vec<u8>, Bytes>,
    failing: Option<StoreError>,
}

impl MemoryStore {
    /// Forgets whatever no barrier has made durable, as a power cut does.
    pub fn crash(&self) {
        let mut state = self.lock();
        state.now = state.durable.clone();
    }

    /// What a backup of this moment would hold.
    #[must_use]
    pub fn copy(&self) -> Self {
        let durable = self.lock().durable.clone();
        let copy = Self::default();
        let mut state = copy.lock();
        (state.now, state.durable) = (durable.clone(), durable);
        drop(state);
        copy
    }

    /// Makes every write and barrier from now on fail like this; None mends it.
    pub fn fail_with(&self, error: Option<StoreError>) {
        self.lock().failing = error;
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.lock().now.len()
    }

    /// True when it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(self.lock().now.get(key).cloned())
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<KeyValue>, StoreError> {
        let from = after.map_or(Bound::Included(prefix.to_vec()), |after| {
            Bound::Excluded(after.to_vec())
        });
        Ok(self
            .lock()
            .now
            .range((from, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .take(limit)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }

    fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let mut state = self.lock();
        if let Some(error) = &state.failing {
            return Err(error.clone());
        }
        for (key, value) in batch.changes {
            match value {
                Some(value) => state.now.insert(key, value),
                None => state.now.remove(&key),
            };
        }
        Ok(())
    }

    fn barrier(&self) -> Result<(), StoreError> {
        let mut state = self.lock();
        if let Some(error) = &state.failing {
            return Err(error.clone());
        }
        state.durable = state.now.clone();
        Ok(())
    }
}
