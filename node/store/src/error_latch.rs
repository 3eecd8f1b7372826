//! A store that remembers its first failure, so that whoever reads through many layers need not
//! carry it up through each: one look after a turn tells.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::{Batch, KeyValue, Store, StoreError};

/// See the module's text.
pub struct ErrorLatch {
    inner: Arc<dyn Store>,
    failure: Mutex<Option<StoreError>>,
}

impl ErrorLatch {
    /// Around this store.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            failure: Mutex::new(None),
        }
    }

    /// The first failure, once.
    pub fn take_failure(&self) -> Option<StoreError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn watch<T>(&self, done: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error) = &done {
            self.failure
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get_or_insert_with(|| error.clone());
        }
        done
    }
}

impl Store for ErrorLatch {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.watch(self.inner.get(key))
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<KeyValue>, StoreError> {
        self.watch(self.inner.scan(prefix, after, limit))
    }

    fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.watch(self.inner.apply(batch))
    }

    fn barrier(&self) -> Result<(), StoreError> {
        self.watch(self.inner.barrier())
    }
}
