//! All tasks: the ones in memory, the index over the ones on disk, and what has to be written when one changes.
//!
//! The store is the truth; memory is a cache of it, bounded in bytes. A task that was changed stays in memory until the
//! change is durable. A task is changed through an edit ([`Tasks::edit`]), which puts it back when it is dropped. Old
//! terminal tasks are collected here.

mod capacity;
mod edit;
mod index;
mod listing;
mod records;
mod task_layout;
mod writer;

use std::sync::Arc;

use agentanycast_identity::PeerId;
use agentanycast_store::{Batch, Store, StoreError};
use lru::LruCache;

pub(crate) use self::{
    edit::{SavedTask, TaskEdit},
    index::{TaskIndex, TaskIndexEntry, TaskParty},
    records::context_mark,
};
use self::{
    records::TaskSummary,
    writer::{CachedTask, TaskLimits, TaskWriter},
};
use super::{
    clock::Now,
    idempotency::IdempotencyKeys,
    schema::{self, tag},
    transaction::{EngineLimits, Transaction},
};
use crate::task::{Role, SentMark, Task};

/// Most bytes of tasks in memory, as [`CachedTask::mem_size`] counts them. What is open and what has just ended is
/// asked for again soon; 64 MiB are some 15 000 tasks of a kilobyte each.
const CACHE_BYTES: usize = 64 << 20;

/// Tasks removed per transaction: bounds the time that one takes. What is left goes in the next one, a tick later,
/// so that 2 000 a second can go: more than come.
const GC_BATCH: usize = 200;

/// See the module's text.
pub(crate) struct Tasks {
    store: Arc<dyn Store>,
    cache: LruCache<String, Box<CachedTask>>,
    writer: TaskWriter,
    /// Which task was sent with which key of its client.
    idempotency: IdempotencyKeys,
    /// The last collection had to leave some for the next transaction.
    has_more_to_collect: bool,
}

impl Tasks {
    /// Reads the index from the store.
    pub(crate) fn load(transaction: &Transaction, limits: &EngineLimits) -> Result<Self, StoreError> {
        let store = transaction.shared_store();
        let (mut index, mut next_number) = (TaskIndex::new(), 0);
        agentanycast_store::for_each(&*store, &[tag::TASK], |key, value| {
            let number = schema::number_in_name(key);
            next_number = next_number.max(number.unwrap_or(0) + 1);
            let summary: Option<TaskSummary> = schema::decode(value);
            let known = summary.and_then(|summary| {
                let state = summary.state.as_ref()?;
                let known = TaskIndexEntry::from_state(state, state.status()?, number?, summary.spread);
                Some((summary.id, known))
            });
            if let Some((id, known)) = known {
                index.set(&id, known);
            } else {
                tracing::warn!(number, "a task record in the store is damaged and was left out");
            }
            Ok::<(), StoreError>(())
        })?;
        Ok(Self {
            idempotency: IdempotencyKeys::load(&*store, tag::IDEMPOTENCY)?,
            store,
            cache: LruCache::unbounded(),
            writer: TaskWriter::new(index, next_number, limits),
            has_more_to_collect: false,
        })
    }

    /// What is known of every task without reading it.
    pub(crate) fn index(&self) -> &TaskIndex {
        self.writer.index()
    }

    /// The same of one task.
    pub(crate) fn indexed(&self, id: &str) -> Option<&TaskIndexEntry> {
        self.writer.index().get(id)
    }

    /// The clock of what has passed stands so: what changes from now on is as old.
    pub(crate) fn set_clock_ms(&mut self, clock_ms: u64) {
        self.writer.set_clock_ms(clock_ms);
    }

    /// Whether a collection waits for the next tick.
    pub(crate) fn has_more_to_collect(&self) -> bool {
        self.has_more_to_collect
    }

    /// Bytes that a task takes in memory, as far as is known without reading it.
    pub(crate) fn weight(&self, id: &str) -> usize {
        let on_disk = || Some(self.writer.index().get(id)?.bytes as usize);
        self.cache
            .peek(id)
            .map(|slot| slot.memory())
            .or_else(on_disk)
            .unwrap_or(0)
    }

    /// Forgets the deadline of a task that cannot be read and hence not be ended.
    pub(crate) fn drop_deadline(&mut self, id: &str) {
        self.writer.drop_deadline(id);
    }

    /// The task, if it is in memory: one that was just written is.
    pub(crate) fn cached(&self, id: &str) -> Option<&Task> {
        self.cache.peek(id).map(|slot| slot.task())
    }

    /// A task that is in memory, has ended, and is one record in the store: some 4 KiB.
    pub(crate) fn small_ended(&self, id: &str) -> Option<Box<Task>> {
        let slot = self.cache.peek(id).filter(|slot| !slot.is_spread())?;
        slot.task()
            .status
            .is_terminal()
            .then(|| Box::new(slot.task().clone()))
    }

    /// A copy for reading.
    pub(crate) fn read(&mut self, id: &str) -> Result<Option<Task>, StoreError> {
        Ok(self.slot(id)?.map(|slot| slot.task().clone()))
    }

    /// A task to be changed; None: no such task. Only [`TaskEdit::save`] writes the change.
    pub(crate) fn edit(&mut self, id: &str) -> Result<Option<TaskEdit<'_>>, StoreError> {
        self.bring_into_memory(id)?;
        let slot = self.cache.get_mut(id);
        Ok(slot.map(|slot| TaskEdit::new(slot, &mut self.writer)))
    }

    fn slot(&mut self, id: &str) -> Result<Option<&mut CachedTask>, StoreError> {
        self.bring_into_memory(id)?;
        Ok(self.cache.get_mut(id).map(|slot| &mut **slot))
    }

    fn bring_into_memory(&mut self, id: &str) -> Result<(), StoreError> {
        if !self.cache.contains(id)
            && let Some(known) = self.writer.index().get(id)
        {
            let found = task_layout::read(&*self.store, known.number(), id)?;
            let slot = CachedTask::from_store(found, known.number());
            self.writer.on_cached(&slot);
            self.cache.put(id.to_owned(), slot);
        }
        Ok(())
    }

    /// Writes a new task.
    pub(crate) fn insert(&mut self, transaction: &mut Transaction, task: Task) -> SavedTask {
        let id = task.id.clone();
        let mut slot = CachedTask::new(task);
        let before = self.writer.write(&mut slot, transaction);
        self.cache.put(id.clone(), slot);
        SavedTask { id, before }
    }

    fn cached_mut(&mut self, id: &str) -> Option<&mut Task> {
        self.cache.peek_mut(id).map(|slot| slot.task_mut())
    }

    /// Notes that a task has arrived at its assignee. It is written with the task's next change, so it costs nothing;
    /// of a task that is not in memory it is not noted.
    pub(crate) fn note_arrival(&mut self, id: &str, peer: PeerId, at: u64) {
        if let Some(task) = self.cached_mut(id)
            && task.role == Role::Originator(peer)
        {
            task.arrived_at.get_or_insert(at);
        }
    }

    /// Notes, in the same way, that a task has left for its assignee: the last time before that one had it.
    pub(crate) fn note_sent(&mut self, id: &str, peer: PeerId, sent: SentMark) {
        if let Some(task) = self.cached_mut(id)
            && task.role == Role::Originator(peer)
            && (task.arrived_at.is_none() || task.timeline.sent.is_none())
        {
            task.timeline.sent = Some(sent);
        }
    }

    /// Notes, in the same way, that an agent was given a task.
    pub(crate) fn note_offered(&mut self, id: &str, at: u64) {
        if let Some(task) = self.cached_mut(id) {
            task.timeline.offered_at.get_or_insert(at);
        }
    }

    /// Drops tasks from memory that are over the cache's bounds and durable.
    pub(crate) fn evict(&mut self, durable: u64) {
        while self.writer.cached_bytes() > CACHE_BYTES {
            match self.cache.peek_lru() {
                Some((_, slot)) if slot.is_written(durable) => {
                    if let Some((_, slot)) = self.cache.pop_lru() {
                        self.writer.on_uncached(&slot);
                    }
                }
                _ => return,
            }
        }
    }

    /// The task that was sent with this idempotency key of its client.
    pub(crate) fn read_by_key(&mut self, key: &str) -> Result<Option<Task>, StoreError> {
        let known = self.idempotency.get(key).filter(|_| !key.is_empty());
        match known.map(str::to_owned) {
            Some(id) => self.read(&id),
            None => Ok(None),
        }
    }

    /// The task was sent with this idempotency key of its client.
    pub(crate) fn remember_key(&mut self, transaction: &mut Transaction, now: Now, key: &str, id: &str) {
        let passed = transaction.clock_ms(now);
        self.idempotency
            .insert(passed, None, key, id, transaction.batch());
    }

    /// Removes terminal tasks that are too old or too many, and old idempotency keys. The tasks that were removed.
    pub(crate) fn collect(
        &mut self,
        transaction: &mut Transaction,
        now: Now,
    ) -> Result<Vec<String>, StoreError> {
        let TaskLimits {
            retention_ms,
            retention_count,
            quota,
            ..
        } = self.writer.limits();
        let passed = transaction.clock_ms(now);
        let before = passed.saturating_sub(retention_ms);
        let durable = transaction.durable();
        let mut removed = Vec::new();
        self.has_more_to_collect = true;
        for _ in 0..GC_BATCH {
            let oldest = self.writer.index().collectable(before, retention_count, quota);
            let is_removed = match &oldest {
                Some(id) => self.remove(id, durable, transaction.batch())?,
                None => false,
            };
            let Some(id) = oldest.filter(|_| is_removed) else {
                self.has_more_to_collect = false;
                break;
            };
            removed.push(id);
        }
        self.idempotency.expire(passed, transaction.batch());
        Ok(removed)
    }

    /// Removes a task whole. False: not yet, since its last change is not durable.
    fn remove(&mut self, id: &str, durable: u64, batch: &mut Batch) -> Result<bool, StoreError> {
        if self.cache.peek(id).is_some_and(|slot| !slot.is_written(durable)) {
            return Ok(false);
        }
        if let Some(slot) = self.cache.pop(id) {
            self.writer.on_uncached(&slot);
        }
        self.writer.remove(&*self.store, id, batch)?;
        Ok(true)
    }
}

/// For whoever goes over many tasks: one that is damaged is left out, and stops nothing else.
pub(crate) fn unless_damaged<T>(done: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match done {
        Err(StoreError::Damaged(what)) => {
            tracing::error!(what, "a stored record is damaged and is left out");
            Ok(None)
        }
        done => done.map(Some),
    }
}

#[cfg(test)]
pub(crate) mod tests;
