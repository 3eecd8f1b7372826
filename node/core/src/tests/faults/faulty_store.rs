//! A store in memory that fails once it is told to: at the n-th write, barrier or read, for good or once.
//! A power cut takes what no barrier has passed. It can be asked what is durable at any moment.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use agentanycast_store::{Batch, KeyValue, Store, StoreError};
use bytes::Bytes;

use crate::{schema::tag, task::Status, tasks::tests::stored_status};

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultPoint {
    Apply,
    Barrier,
    Read,
}

/// When and how a store fails.
#[derive(Clone, Debug)]
pub(super) struct StoreFault {
    pub(super) moment: FaultPoint,
    /// How many of these succeed before.
    pub(super) at: usize,
    /// Only that one fails: a disk that forgets that it lost something, as a second sync does.
    pub(super) once: bool,
    /// How long each barrier takes.
    pub(super) slow: Duration,
}

impl StoreFault {
    pub(super) fn at(moment: FaultPoint, at: usize) -> Self {
        Self {
            moment,
            at,
            once: false,
            slow: Duration::ZERO,
        }
    }
}

#[derive(Debug, Default)]
struct FaultyState {
    now: BTreeMap<Vec<u8>, Bytes>,
    durable: BTreeMap<Vec<u8>, Bytes>,
    armed: bool,
    seen: usize,
    failed: bool,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct FaultyStore {
    fault: StoreFault,
    state: Mutex<FaultyState>,
}

impl FaultyStore {
    pub(super) fn new(fault: StoreFault) -> Self {
        Self {
            fault,
            state: Mutex::default(),
        }
    }

    /// One that never fails.
    pub(super) fn sound() -> Self {
        Self::new(StoreFault::at(FaultPoint::Apply, usize::MAX))
    }

    /// From now on it counts.
    pub(super) fn arm(&self) {
        self.lock().armed = true;
    }

    pub(super) fn has_failed(&self) -> bool {
        self.lock().failed
    }

    /// What no barrier has passed is gone.
    pub(super) fn crash(&self) {
        let mut state = self.lock();
        state.now = state.durable.clone();
    }

    /// It does not fail any more.
    pub(super) fn mend(&self) {
        self.lock().armed = false;
    }

    pub(super) fn durable_status(&self, id: &str) -> Option<Status> {
        let state = self.lock();
        let mut tasks = state.durable.iter().filter(|(key, _)| key[0] == tag::TASK);
        tasks.find_map(|(_, value)| {
            let (task, status) = stored_status(value)?;
            (task == id).then_some(status)
        })
    }

    pub(super) fn durable_tasks(&self) -> usize {
        let state = self.lock();
        state.durable.keys().filter(|key| key[0] == tag::TASK).count()
    }

    fn lock(&self) -> MutexGuard<'_, FaultyState> {
        self.state.lock().unwrap()
    }

    fn count(&self, state: &mut FaultyState, moment: FaultPoint) -> Result<(), StoreError> {
        if !state.armed || self.fault.moment != moment {
            return Ok(());
        }
        let number = state.seen;
        state.seen += 1;
        if number == self.fault.at || (number > self.fault.at && !self.fault.once) {
            state.failed = true;
            return Err(StoreError::Io(format!("{moment:?} {number} failed")));
        }
        Ok(())
    }
}

impl Store for FaultyStore {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let mut state = self.lock();
        self.count(&mut state, FaultPoint::Read)?;
        Ok(state.now.get(key).cloned())
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<KeyValue>, StoreError> {
        let mut state = self.lock();
        self.count(&mut state, FaultPoint::Read)?;
        let from = after.map_or(Bound::Included(prefix), Bound::Excluded);
        let pairs = state.now.range::<[u8], _>((from, Bound::Unbounded));
        let under = pairs.take_while(|(key, _)| key.starts_with(prefix)).take(limit);
        Ok(under.map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let mut state = self.lock();
        self.count(&mut state, FaultPoint::Apply)?;
        for (key, value) in batch.changes {
            match value {
                Some(value) => state.now.insert(key, value),
                None => state.now.remove(&key),
            };
        }
        Ok(())
    }

    fn barrier(&self) -> Result<(), StoreError> {
        // The disk works while others read.
        std::thread::sleep(self.fault.slow);
        let mut state = self.lock();
        self.count(&mut state, FaultPoint::Barrier)?;
        state.durable = state.now.clone();
        Ok(())
    }
}
