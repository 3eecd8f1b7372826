//! Writing tasks: what of a task is new since it was written last, its records, and the index.

use std::sync::Arc;

use super::{
    index::{TaskIndex, TaskIndexEntry},
    records::{self, HeadRecord, StateRecord},
    task_layout::{self, StoredTask, TaskDelta},
};
use crate::{
    mem_size,
    task::{Output, Status, Task},
    transaction::{EngineLimits, Transaction},
};
use agentanycast_store::{Batch, Store, StoreError};

/// What a task takes in memory besides its messages and results, and what each of those takes besides its
/// encoded bytes: structs, ids, and lists with room for four parts. Measured with a heap profile.
const TASK_OVERHEAD: usize = 1280;
const ITEM_OVERHEAD: usize = 1280;

/// What the operator set for tasks.
#[derive(Clone, Copy)]
pub(super) struct TaskLimits {
    /// Milliseconds for which a terminal task is kept.
    pub retention_ms: u64,
    /// How many terminal tasks are kept.
    pub retention_count: usize,
    /// Bytes of messages and results kept.
    pub quota: u64,
    /// Most tasks that have not ended.
    pub max_open: usize,
}

/// A task in memory.
#[derive(Clone, Debug)]
pub(super) struct CachedTask {
    task: Task,
    /// Its place in the store; None: it has none yet.
    number: Option<u64>,
    is_spread: bool,
    saved_messages: usize,
    saved_results: Vec<Arc<Output>>,
    /// Counts against the quota: messages, results, and streamed bytes, which are not in memory.
    bytes: u64,
    /// Bytes in memory, as they were when it was put there.
    memory: usize,
    /// What its messages and results take in memory above `bytes`.
    decoded_extra: u64,
    commit: u64,
}

/// Writes tasks, and keeps the index of what was written.
pub(super) struct TaskWriter {
    index: TaskIndex,
    limits: TaskLimits,
    /// Bytes of the tasks in memory.
    cached_bytes: usize,
    /// The clock of what has passed.
    clock_ms: u64,
    next_number: u64,
}

impl TaskWriter {
    pub(super) fn new(index: TaskIndex, next_number: u64, limits: &EngineLimits) -> Self {
        Self {
            index,
            limits: TaskLimits {
                retention_ms: limits.retention.as_millis() as u64,
                retention_count: limits.retention_count,
                quota: limits.quota,
                max_open: limits.max_open_tasks,
            },
            cached_bytes: 0,
            clock_ms: 0,
            next_number,
        }
    }

    /// What is known of every task.
    pub(super) fn index(&self) -> &TaskIndex {
        &self.index
    }

    /// What the operator set.
    pub(super) fn limits(&self) -> TaskLimits {
        self.limits
    }

    /// Bytes of the tasks in memory.
    pub(super) fn cached_bytes(&self) -> usize {
        self.cached_bytes
    }

    /// The clock of what has passed stands so: what changes from now on is as old.
    pub(super) fn set_clock_ms(&mut self, clock_ms: u64) {
        self.clock_ms = clock_ms;
    }

    /// Forgets the deadline of a task.
    pub(super) fn drop_deadline(&mut self, id: &str) {
        self.index.drop_deadline(id);
    }

    /// A task was read into memory.
    pub(super) fn on_cached(&mut self, slot: &CachedTask) {
        self.cached_bytes += slot.memory;
    }

    /// A task is no longer in memory.
    pub(super) fn on_uncached(&mut self, slot: &CachedTask) {
        self.cached_bytes -= slot.memory;
    }

    /// Removes the records of a task and what is known of it.
    pub(super) fn remove(
        &mut self,
        store: &dyn Store,
        id: &str,
        batch: &mut Batch,
    ) -> Result<(), StoreError> {
        if let Some(known) = self.index.get(id) {
            task_layout::remove(store, known.number(), known.is_spread(), batch)?;
        }
        self.index.unlink(id);
        Ok(())
    }

    /// Writes what is new of a task. The status that it was known with; None: it is new.
    pub(super) fn write(&mut self, slot: &mut CachedTask, transaction: &mut Transaction) -> Option<Status> {
        let task = &slot.task;
        let batch = transaction.batch();
        let is_new = slot.number.is_none();
        let number = slot.number.unwrap_or(self.next_number);
        if is_new {
            self.next_number += 1;
            slot.number = Some(number);
        }
        let head = is_new.then(|| HeadRecord::from_task(task));
        slot.bytes += head.as_ref().map_or(0, records::weight);
        for message in task.messages.iter().skip(slot.saved_messages) {
            slot.bytes += records::weight(&**message);
            slot.decoded_extra += mem_size::message_extra(message);
        }
        let mut changed = Vec::new();
        for (at, result) in task.results.iter().enumerate() {
            let saved = slot.saved_results.get(at);
            if saved.is_some_and(|saved| Arc::ptr_eq(saved, result)) {
                continue;
            }
            if let Some(saved) = saved {
                let old = records::weight_of_result(saved) + saved.streamed_bytes();
                slot.bytes = slot.bytes.saturating_sub(old);
                slot.decoded_extra = slot.decoded_extra.saturating_sub(mem_size::result_extra(saved));
            }
            slot.bytes += records::weight_of_result(result) + result.streamed_bytes();
            slot.decoded_extra += mem_size::result_extra(result);
            changed.push((at, saved.cloned()));
        }
        let mut state = StateRecord::from_task(task, slot.bytes);
        state.changed_clock_ms = self.clock_ms;
        let streamed: u64 = task.results.iter().map(|result| result.streamed_bytes()).sum();
        let is_whole = !slot.is_spread && slot.bytes.saturating_sub(streamed) <= task_layout::MAX_WHOLE;
        let known = TaskIndexEntry::from_state(&state, task.status, number, !is_whole);
        if is_whole {
            let head = head.unwrap_or_else(|| HeadRecord::from_task(task));
            task_layout::write_whole(number, task, head, state, batch);
        } else {
            let news = TaskDelta {
                task,
                state: &state,
                messages_from: slot.saved_messages,
                results: &changed,
            };
            task_layout::write_spread(number, &news, !slot.is_spread, batch);
            slot.is_spread = true;
        }
        slot.saved_messages = task.messages.len();
        slot.saved_results.clone_from(&task.results);
        slot.commit = transaction.commit();
        self.cached_bytes -= slot.memory;
        slot.memory = slot.mem_size();
        self.cached_bytes += slot.memory;
        self.index.set(&slot.task.id, known)
    }
}

impl CachedTask {
    /// A task that the store does not know.
    pub(super) fn new(task: Task) -> Box<Self> {
        Box::new(Self {
            task,
            number: None,
            is_spread: false,
            saved_messages: 0,
            saved_results: Vec::new(),
            bytes: 0,
            memory: 0,
            decoded_extra: 0,
            commit: 0,
        })
    }

    /// A task that was read from the store, where it has this number.
    pub(super) fn from_store(found: StoredTask, number: u64) -> Box<Self> {
        let mut slot = Self::new(found.task);
        slot.number = Some(number);
        slot.is_spread = found.is_spread;
        slot.saved_messages = slot.task.messages.len();
        slot.saved_results.clone_from(&slot.task.results);
        slot.bytes = found.bytes;
        slot.decoded_extra = mem_size::task_extra(&slot.task);
        slot.memory = slot.mem_size();
        slot
    }

    /// The task.
    pub(super) fn task(&self) -> &Task {
        &self.task
    }

    /// The task, to be changed. Only [`TaskWriter::write`] writes the change.
    pub(super) fn task_mut(&mut self) -> &mut Task {
        &mut self.task
    }

    /// Bytes in memory, as they were when it was written or read.
    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    /// Whether it is more than one record in the store.
    pub(super) fn is_spread(&self) -> bool {
        self.is_spread
    }

    /// Whether its last change is among the first `batches` batches.
    pub(super) fn is_written(&self, batches: u64) -> bool {
        self.commit <= batches
    }

    /// Bytes that the task takes in memory, about.
    fn mem_size(&self) -> usize {
        let (messages, results) = (&self.task.messages, &self.task.results);
        let streamed: u64 = results.iter().map(|result| result.streamed_bytes()).sum();
        let items = (messages.len() + results.len()) * ITEM_OVERHEAD;
        let outside = self.task.external.as_ref();
        let outside = outside.map_or(0, |outside| {
            let grown: usize = outside.grown.keys().map(|id| id.len() + ITEM_OVERHEAD).sum();
            outside.checkpoint.len() + outside.log.weight() + grown
        });
        TASK_OVERHEAD + outside + items + (self.bytes.saturating_sub(streamed) + self.decoded_extra) as usize
    }
}
