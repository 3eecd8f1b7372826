//! All tasks: the ones in memory, the index over the ones on disk, and what has to be written when
//! one changes.
//!
//! The store is the truth; memory is a cache of it, bounded in bytes and number. A task that was
//! changed stays in memory until the change is durable. Old terminal tasks are collected here.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::Message;
use lru::LruCache;
use prost::Message as _;

use super::{
    records::{self, HeadRecord, ResultRecord, StateRecord, tag},
    weight,
};
use crate::{
    store::{self, Batch, Store, StoreError},
    task::{Output, Status, Task},
};

/// Most bytes of tasks in memory.
const CACHE_BYTES: u64 = 256 << 20;

/// Most tasks in memory.
const CACHE_TASKS: usize = 50_000;

/// What is known of every task without reading it.
#[derive(Clone, Debug)]
pub(super) struct Indexed {
    pub(super) status: Status,
    pub(super) updated_at: u64,
    pub(super) bytes: u64,
    pub(super) is_assignee: bool,
    pub(super) claimed: bool,
    pub(super) open_streams: bool,
    pub(super) deadline: Option<u64>,
    pub(super) peer: Option<PeerId>,
}

/// A task taken out of the table; [`TaskTable::put`] brings it back.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) task: Task,
    saved_messages: usize,
    saved_results: Vec<Arc<Output>>,
    is_new: bool,
    bytes: u64,
    /// What its messages and results take in memory above `bytes`.
    unfolded: u64,
    commit: u64,
}

/// See the module's text.
pub(super) struct TaskTable {
    store: Arc<dyn Store>,
    cache: LruCache<String, Box<Slot>>,
    cached_bytes: u64,
    index: HashMap<String, Indexed>,
    by_time: BTreeSet<(u64, String)>,
    deadlines: BTreeSet<(u64, String)>,
    open: usize,
    /// Open tasks that other nodes sent here, and their bytes.
    assigned: HashMap<PeerId, (usize, u64)>,
    total_bytes: u64,
    /// Of these, what open tasks take: it cannot be collected.
    open_bytes: u64,
}

impl TaskTable {
    /// Reads the index from the store.
    pub(super) fn load(store: &Arc<dyn Store>) -> Result<Self, StoreError> {
        let mut table = Self {
            store: Arc::clone(store),
            cache: LruCache::unbounded(),
            cached_bytes: 0,
            index: HashMap::new(),
            by_time: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            open: 0,
            assigned: HashMap::new(),
            total_bytes: 0,
            open_bytes: 0,
        };
        store::for_each(&**store, &[tag::STATE], |key, value| {
            let id = records::split(key).and_then(|(id, _)| std::str::from_utf8(id).ok());
            let state: Option<StateRecord> = records::decode(value);
            if let (Some(id), Some((state, status))) = (
                id,
                state.as_ref().and_then(|state| Some((state, state.status()?))),
            ) {
                table.set_index(id, indexed(state, status));
            } else {
                tracing::warn!("a task record in the store is damaged and was left out");
            }
            Ok::<(), StoreError>(())
        })?;
        Ok(table)
    }

    /// Number of tasks that have not ended.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// Number of tasks from this peer that have not ended, and their bytes on disk.
    pub(super) fn open_from(&self, peer: PeerId) -> (usize, u64) {
        self.assigned.get(&peer).copied().unwrap_or_default()
    }

    /// Bytes of all messages and results of open tasks, on disk.
    pub(super) fn open_bytes(&self) -> u64 {
        self.open_bytes
    }

    /// Bytes that a task takes in memory, as far as is known without reading it.
    pub(super) fn weight(&self, id: &str) -> usize {
        let cached = self.cache.peek(id).map(|slot| slot.weight());
        let known = cached.or_else(|| Some(self.index.get(id)?.bytes));
        known.map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// What is known without reading it.
    pub(super) fn indexed(&self, id: &str) -> Option<&Indexed> {
        self.index.get(id)
    }

    /// All tasks with what is known without reading them, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = (&String, &Indexed)> {
        self.index.iter()
    }

    /// Ids by last change, newest first, beginning before `before`.
    pub(super) fn newest(&self, before: Option<&(u64, String)>) -> impl Iterator<Item = &(u64, String)> {
        let range = match before {
            Some(before) => self.by_time.range(..before.clone()),
            None => self.by_time.range(..),
        };
        range.rev()
    }

    /// Open tasks whose deadline has passed.
    pub(super) fn overdue(&self, now: u64) -> Vec<String> {
        self.deadlines
            .range(..=(now, String::from(char::MAX)))
            .map(|(_, id)| id.clone())
            .collect()
    }

    /// True when some task has a deadline.
    pub(super) fn has_deadlines(&self) -> bool {
        !self.deadlines.is_empty()
    }

    /// A copy for reading.
    pub(super) fn read(&mut self, id: &str) -> Result<Option<Task>, StoreError> {
        let Some(slot) = self.take(id)? else {
            return Ok(None);
        };
        let task = slot.task.clone();
        self.keep(slot);
        Ok(Some(task))
    }

    /// Takes a task out to change it; None: no such task. It must be brought back with
    /// [`TaskTable::put`] (changed) or [`TaskTable::keep`] (not changed).
    pub(super) fn take(&mut self, id: &str) -> Result<Option<Box<Slot>>, StoreError> {
        if !self.index.contains_key(id) {
            return Ok(None);
        }
        if let Some(slot) = self.cache.pop(id) {
            self.cached_bytes -= slot.weight();
            return Ok(Some(slot));
        }
        self.read_from_store(id)
    }

    /// Brings back a task that was not changed.
    pub(super) fn keep(&mut self, slot: Box<Slot>) {
        self.cached_bytes += slot.weight();
        self.cache.put(slot.task.id.clone(), slot);
    }

    /// Brings a new task in, or a changed one back, and writes down what is new. `commit` is the
    /// number that the batch will have.
    pub(super) fn put(&mut self, mut slot: Box<Slot>, batch: &mut Batch, commit: u64) {
        let task = &slot.task;
        let name = task.id.as_bytes();
        if slot.is_new {
            let head = HeadRecord::of(task);
            slot.bytes += records::weight(&head);
            batch.put_large(&records::key(tag::HEAD, name), &records::encode(&head));
            slot.is_new = false;
        }
        for (at, message) in task.messages.iter().enumerate().skip(slot.saved_messages) {
            slot.bytes += records::weight(&**message);
            slot.unfolded += weight::unfolded(message);
            batch.put_large(
                &records::numbered(tag::MESSAGE, name, at as u64),
                &records::encode(&**message),
            );
        }
        for (at, result) in task.results.iter().enumerate() {
            let saved = slot.saved_results.get(at);
            if saved.is_some_and(|saved| Arc::ptr_eq(saved, result)) {
                continue;
            }
            let key = records::numbered(tag::RESULT, name, at as u64);
            if let Some(saved) = saved {
                // A shorter result must not keep pieces of the longer one that it replaces.
                let old = ResultRecord::of(saved);
                batch.delete_large(&key, old.encoded_len());
                slot.bytes = slot
                    .bytes
                    .saturating_sub(records::weight(&old) + saved.streamed_bytes());
                slot.unfolded = slot.unfolded.saturating_sub(weight::unfolded_result(saved));
            }
            let record = ResultRecord::of(result);
            slot.bytes += records::weight(&record) + result.streamed_bytes();
            slot.unfolded += weight::unfolded_result(result);
            batch.put_large(&key, &records::encode(&record));
        }
        slot.saved_messages = task.messages.len();
        slot.saved_results.clone_from(&task.results);
        slot.commit = commit;
        let state = StateRecord::of(task, slot.bytes);
        batch.put(records::key(tag::STATE, name), records::encode(&state));
        self.set_index(&slot.task.id, indexed(&state, slot.task.status));
        self.keep(slot);
    }

    /// Drops tasks from memory that are over the cache's bounds and durable.
    pub(super) fn shrink(&mut self, durable: u64) {
        while self.cached_bytes > CACHE_BYTES || self.cache.len() > CACHE_TASKS {
            match self.cache.peek_lru() {
                Some((_, slot)) if slot.commit <= durable => {
                    if let Some((_, slot)) = self.cache.pop_lru() {
                        self.cached_bytes -= slot.weight();
                    }
                }
                _ => return,
            }
        }
    }

    /// Removes a task whole. False: not yet, since its last change is not durable.
    pub(super) fn remove(&mut self, id: &str, durable: u64, batch: &mut Batch) -> Result<bool, StoreError> {
        if self.cache.peek(id).is_some_and(|slot| slot.commit > durable) {
            return Ok(false);
        }
        if let Some(slot) = self.cache.pop(id) {
            self.cached_bytes -= slot.weight();
        }
        if let Some(old) = self.index.remove(id) {
            self.unlink(id, &old);
        }
        for kind in [tag::HEAD, tag::STATE, tag::MESSAGE, tag::RESULT] {
            store::for_each(&*self.store, &records::key(kind, id.as_bytes()), |key, _| {
                batch.delete(key.to_vec());
                Ok::<(), StoreError>(())
            })?;
        }
        Ok(true)
    }

    /// The oldest terminal task, if it ended before `before` or more than `most` tasks are there.
    pub(super) fn collectable(&self, before: u64, most: usize, most_bytes: u64) -> Option<String> {
        let over = self.index.len().saturating_sub(self.open) > most || self.total_bytes > most_bytes;
        self.by_time
            .iter()
            .take_while(|(at, _)| over || *at < before)
            .find(|(_, id)| self.index.get(id).is_some_and(|known| known.status.is_terminal()))
            .map(|(_, id)| id.clone())
    }

    fn read_from_store(&self, id: &str) -> Result<Option<Box<Slot>>, StoreError> {
        let name = id.as_bytes();
        let store = &*self.store;
        let damaged = || StoreError::Damaged(format!("task {id}"));
        let head = store::get_large(store, &records::key(tag::HEAD, name))?.ok_or_else(damaged)?;
        let state = store.get(&records::key(tag::STATE, name))?.ok_or_else(damaged)?;
        let head: HeadRecord = records::decode(&head).ok_or_else(damaged)?;
        let state: StateRecord = records::decode(&state).ok_or_else(damaged)?;
        let messages = self.read_numbered::<Message>(tag::MESSAGE, name)?;
        let results = self.read_numbered::<ResultRecord>(tag::RESULT, name)?;
        let messages = messages.into_iter().map(Arc::new).collect();
        let results = results
            .into_iter()
            .map(|record| Arc::new(record.result()))
            .collect();
        let bytes = state.bytes;
        let mut task = head.task(id, &state).ok_or_else(damaged)?;
        state.fill(&mut task, messages, results);
        Ok(Some(Box::new(Slot {
            saved_messages: task.messages.len(),
            saved_results: task.results.clone(),
            is_new: false,
            unfolded: weight::unfolded_task(&task),
            task,
            bytes,
            commit: 0,
        })))
    }

    fn read_numbered<M: prost::Message + Default>(
        &self,
        kind: u8,
        name: &[u8],
    ) -> Result<Vec<M>, StoreError> {
        let mut whole: Vec<Vec<u8>> = Vec::new();
        store::for_each(&*self.store, &records::key(kind, name), |key, value| {
            let first_piece = key.ends_with(&[0, 0]);
            match whole.last_mut() {
                Some(last) if !first_piece => last.extend_from_slice(value),
                _ => whole.push(value.to_vec()),
            }
            Ok::<(), StoreError>(())
        })?;
        Ok(whole.iter().filter_map(|bytes| records::decode(bytes)).collect())
    }

    fn set_index(&mut self, id: &str, new: Indexed) {
        if let Some(old) = self.index.remove(id) {
            self.unlink(id, &old);
        }
        self.by_time.insert((new.updated_at, id.to_owned()));
        self.total_bytes += new.bytes;
        if !new.status.is_terminal() {
            self.open += 1;
            self.open_bytes += new.bytes;
            if let Some(peer) = new.peer.filter(|_| new.is_assignee) {
                let (tasks, bytes) = self.assigned.entry(peer).or_default();
                *tasks += 1;
                *bytes += new.bytes;
            }
            if let Some(deadline) = new.deadline {
                self.deadlines.insert((deadline, id.to_owned()));
            }
        }
        self.index.insert(id.to_owned(), new);
    }

    fn unlink(&mut self, id: &str, old: &Indexed) {
        self.by_time.remove(&(old.updated_at, id.to_owned()));
        self.total_bytes -= old.bytes;
        if !old.status.is_terminal() {
            self.open -= 1;
            self.open_bytes -= old.bytes;
            if let Some(peer) = old.peer.filter(|_| old.is_assignee)
                && let Some((tasks, bytes)) = self.assigned.get_mut(&peer)
            {
                *tasks -= 1;
                *bytes -= old.bytes;
                if *tasks == 0 {
                    self.assigned.remove(&peer);
                }
            }
            if let Some(deadline) = old.deadline {
                self.deadlines.remove(&(deadline, id.to_owned()));
            }
        }
    }
}

impl Slot {
    /// A task that the store does not know.
    pub(super) fn new(task: Task) -> Box<Self> {
        Box::new(Self {
            task,
            saved_messages: 0,
            saved_results: Vec::new(),
            is_new: true,
            bytes: 0,
            unfolded: 0,
            commit: 0,
        })
    }

    /// Bytes in memory, about.
    fn weight(&self) -> u64 {
        self.bytes + self.unfolded
    }
}

fn indexed(state: &StateRecord, status: Status) -> Indexed {
    Indexed {
        status,
        updated_at: state.updated_at,
        bytes: state.bytes,
        is_assignee: state.is_assignee,
        claimed: state.claimed,
        open_streams: state.open_streams,
        deadline: state.deadline,
        peer: state.peer(),
    }
}
