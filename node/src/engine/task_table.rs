//! All tasks: the ones in memory, the index over the ones on disk, and what has to be written when
//! one changes.
//!
//! The store is the truth; memory is a cache of it, bounded in bytes and number. A task that was
//! changed stays in memory until the change is durable. Old terminal tasks are collected here.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use agentanycast_identity::PeerId;
use agentanycast_store::{self as store, Batch, Store, StoreError};
use lru::LruCache;

use super::{
    mem_size,
    schema::{self, HeadRecord, StateRecord, TaskSummary, tag},
    task_layout::{self, TaskDelta},
};
use crate::task::{GroupKey, Output, Role, SentMark, Status, Task};

/// Most bytes of tasks in memory, as [`CachedTask::mem_size`] counts them. What is open and what has just ended is
/// asked for again soon; 64 MiB are some 15 000 tasks of a kilobyte each.
const CACHE_BYTES: usize = 64 << 20;

/// What a task takes in memory besides its messages and results, and what each of those takes besides its
/// encoded bytes: structs, ids, and lists with room for four parts. Measured with a heap profile.
const TASK_OVERHEAD: usize = 1280;
const ITEM_OVERHEAD: usize = 1280;

/// Numbers of statuses on the wire are below this.
const STATUSES: usize = 8;

/// The other side of an open task, which has its share of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TaskParty {
    /// The node that sent the task here.
    From(PeerId),
    /// The node that the task was sent to.
    To(PeerId),
    /// The agents beyond the network, all together.
    External,
    /// The local agent, for its own tasks.
    Local,
}

/// What is known of every task without reading it.
#[derive(Clone, Debug)]
pub(super) struct TaskIndexEntry {
    /// Its place in the store.
    number: u64,
    is_spread: bool,
    pub(super) status: Status,
    pub(super) updated_at: u64,
    /// When it changed last, by the clock of what has passed.
    pub(super) changed_clock_ms: u64,
    pub(super) bytes: u64,
    pub(super) is_assignee: bool,
    pub(super) claimed: bool,
    /// How many agents ended while they had it.
    pub(super) agent_ends: u32,
    pub(super) open_streams: bool,
    pub(super) deadline: Option<u64>,
    pub(super) peer: Option<PeerId>,
    /// Held back from the agent until its originator confirms it.
    pub(super) held: bool,
    /// May be given back; see [`crate::task::Task::returnable`].
    pub(super) returnable: bool,
    /// Sent by skill, and not acknowledged by anybody yet.
    pub(super) awaits_assignee: bool,
    /// Sent by skill.
    pub(super) routed: bool,
    /// With an agent beyond this network, to whom something is left to be said.
    pub(super) external: bool,
    /// [`schema::context_mark`] of the id that it has where it was sealed; None: it is not sealed.
    pub(super) sealed: Option<u64>,
    /// By which a gateway lists it.
    group: Option<GroupKey>,
    /// [`schema::context_mark`] of its conversation.
    pub(super) context: u64,
}

impl TaskIndexEntry {
    fn party(&self) -> TaskParty {
        match self.peer {
            Some(peer) if self.is_assignee => TaskParty::From(peer),
            Some(peer) => TaskParty::To(peer),
            None if self.is_assignee => TaskParty::Local,
            None => TaskParty::External,
        }
    }

    /// Whether another node sent it here.
    pub(super) fn is_from_peer(&self) -> bool {
        self.is_assignee && self.peer.is_some()
    }
}

/// A task taken out of the table; [`TaskTable::put`] brings it back.
#[derive(Clone, Debug)]
pub(super) struct CachedTask {
    pub(super) task: Task,
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

/// A moment, and the task that it is of.
type ByTime = (u64, Arc<str>);

/// See the module's text.
pub(super) struct TaskTable {
    store: Arc<dyn Store>,
    cache: LruCache<String, Box<CachedTask>>,
    cached_bytes: usize,
    index: HashMap<Arc<str>, TaskIndexEntry>,
    /// Those that have not ended, by when they changed last.
    unended: BTreeSet<ByTime>,
    /// Of both, what gateways list.
    groups: HashMap<GroupKey, BTreeSet<ByTime>>,
    /// Those that have ended, by when they did.
    ended: BTreeSet<ByTime>,
    /// The same by the clock of what has passed: the oldest go first.
    collectable: BTreeSet<ByTime>,
    /// The clock of what has passed.
    clock_ms: u64,
    deadlines: BTreeSet<ByTime>,
    open: usize,
    by_status: [usize; STATUSES],
    /// Open tasks and their bytes, by who is on their other side.
    parties: HashMap<TaskParty, (usize, u64)>,
    /// Of them, those that are held for a peer's confirmation.
    held: HashMap<PeerId, HashSet<Arc<str>>>,
    next_number: u64,
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
            unended: BTreeSet::new(),
            groups: HashMap::new(),
            ended: BTreeSet::new(),
            collectable: BTreeSet::new(),
            clock_ms: 0,
            deadlines: BTreeSet::new(),
            open: 0,
            by_status: [0; STATUSES],
            parties: HashMap::new(),
            held: HashMap::new(),
            next_number: 0,
            total_bytes: 0,
            open_bytes: 0,
        };
        store::for_each(&**store, &[tag::TASK], |key, value| {
            let number = schema::number_in_name(key);
            table.next_number = table.next_number.max(number.unwrap_or(0) + 1);
            let summary: Option<TaskSummary> = schema::decode(value);
            let known = summary.and_then(|summary| {
                let state = summary.state.as_ref()?;
                let known = indexed(state, state.status()?, number?, summary.spread);
                Some((summary.id, known))
            });
            if let Some((id, known)) = known {
                table.set_index(&id, known);
            } else {
                tracing::warn!(number, "a task record in the store is damaged and was left out");
            }
            Ok::<(), StoreError>(())
        })?;
        Ok(table)
    }

    /// The clock of what has passed stands so: what changes from now on is as old.
    pub(super) fn set_clock_ms(&mut self, age: u64) {
        self.clock_ms = age;
    }

    /// Number of tasks that have not ended.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// Number of tasks with this other side that have not ended, and their bytes on disk.
    pub(super) fn open_with(&self, party: TaskParty) -> (usize, u64) {
        self.parties.get(&party).copied().unwrap_or_default()
    }

    /// Number of tasks that are held for this peer's confirmation.
    pub(super) fn held_for(&self, peer: PeerId) -> usize {
        self.held.get(&peer).map_or(0, HashSet::len)
    }

    /// Tasks that are held since before `before`, by the clock of what has passed, in no order.
    pub(super) fn held_since(&self, before: u64) -> Vec<String> {
        let held = self.held.values().flatten();
        let is_old = |id: &&Arc<str>| {
            self.index
                .get(&***id)
                .is_some_and(|known| known.changed_clock_ms < before)
        };
        held.filter(is_old).map(ToString::to_string).collect()
    }

    /// Bytes of all messages and results of open tasks, on disk.
    pub(super) fn open_bytes(&self) -> u64 {
        self.open_bytes
    }

    /// Bytes that a task takes in memory, as far as is known without reading it.
    pub(super) fn weight(&self, id: &str) -> usize {
        let on_disk = || Some(self.index.get(id)?.bytes as usize);
        self.cache
            .peek(id)
            .map(|slot| slot.memory)
            .or_else(on_disk)
            .unwrap_or(0)
    }

    /// What is known without reading it.
    pub(super) fn indexed(&self, id: &str) -> Option<&TaskIndexEntry> {
        self.index.get(id)
    }

    /// All tasks with what is known without reading them, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &TaskIndexEntry)> {
        self.index.iter().map(|(id, known)| (&**id, known))
    }

    /// Those that have not ended, with what is known without reading them; the oldest change first.
    pub(super) fn unended(&self) -> impl Iterator<Item = (&str, &TaskIndexEntry)> {
        let known = |(_, id): &'_ ByTime| self.index.get_key_value(&**id);
        self.unended
            .iter()
            .filter_map(known)
            .map(|(id, known)| (&**id, known))
    }

    /// When tasks, of this group or all, changed last, and their ids; newest first, beginning before `before`.
    pub(super) fn newest(
        &self,
        group: Option<&GroupKey>,
        before: Option<&(u64, String)>,
    ) -> impl Iterator<Item = (u64, &str)> {
        let sets = match group {
            Some(group) => [self.groups.get(group), None],
            None => [Some(&self.unended), Some(&self.ended)],
        };
        let newest = sets.map(|set| {
            let range = set.map(|set| match before {
                Some((at, id)) => set.range(..(*at, Arc::from(id.as_str()))),
                None => set.range(..),
            });
            range.into_iter().flat_map(Iterator::rev)
        });
        let [unended, ended] = newest;
        merged(unended, ended).map(|(at, id)| (*at, &**id))
    }

    /// Open tasks whose deadline has passed.
    pub(super) fn overdue(&self, now: u64) -> Vec<String> {
        let passed = self.deadlines.iter().take_while(|(at, _)| *at <= now);
        passed.map(|(_, id)| id.to_string()).collect()
    }

    /// Forgets the deadline of a task that cannot be read and hence not be ended.
    pub(super) fn drop_deadline(&mut self, id: &str) {
        if let Some(known) = self.index.get(id).cloned() {
            self.set_index(
                id,
                TaskIndexEntry {
                    deadline: None,
                    ..known
                },
            );
        }
    }

    /// True when some task has a deadline.
    pub(super) fn has_deadlines(&self) -> bool {
        !self.deadlines.is_empty()
    }

    /// A task that is in memory and is one record in the store: some 4 KiB.
    pub(super) fn small(&self, id: &str) -> Option<&Task> {
        let slot = self.cache.peek(id).filter(|slot| !slot.is_spread);
        slot.map(|slot| &slot.task)
    }

    /// A copy for reading.
    pub(super) fn read(&mut self, id: &str) -> Result<Option<Task>, StoreError> {
        if let Some(slot) = self.cache.get(id) {
            return Ok(Some(slot.task.clone()));
        }
        let Some(slot) = self.take(id)? else {
            return Ok(None);
        };
        let task = slot.task.clone();
        self.put_unchanged(slot);
        Ok(Some(task))
    }

    /// Takes a task out to change it; None: no such task. It must be brought back with
    /// [`TaskTable::put`] (changed) or [`TaskTable::put_unchanged`] (not changed).
    pub(super) fn take(&mut self, id: &str) -> Result<Option<Box<CachedTask>>, StoreError> {
        if let Some(slot) = self.cache.pop(id) {
            self.cached_bytes -= slot.memory;
            return Ok(Some(slot));
        }
        let Some(known) = self.index.get(id) else {
            return Ok(None);
        };
        self.read_from_store(id, known.number).map(Some)
    }

    /// Notes that a task has arrived at its assignee. It is written with the task's next change, so it costs nothing;
    /// of a task that is not in memory it is not noted.
    pub(super) fn note_arrival(&mut self, id: &str, peer: PeerId, at: u64) {
        if let Some(slot) = self.cache.peek_mut(id)
            && slot.task.role == Role::Originator(peer)
        {
            slot.task.arrived_at.get_or_insert(at);
        }
    }

    /// Notes, in the same way, that a task has left for its assignee: the last time before that one had it.
    pub(super) fn note_sent(&mut self, id: &str, peer: PeerId, sent: SentMark) {
        if let Some(slot) = self.cache.peek_mut(id)
            && slot.task.role == Role::Originator(peer)
            && (slot.task.arrived_at.is_none() || slot.task.timeline.sent.is_none())
        {
            slot.task.timeline.sent = Some(sent);
        }
    }

    /// Notes, in the same way, that an agent was given a task.
    pub(super) fn note_offered(&mut self, id: &str, at: u64) {
        if let Some(slot) = self.cache.peek_mut(id) {
            slot.task.timeline.offered_at.get_or_insert(at);
        }
    }

    /// Number of tasks in each status, by its number on the wire.
    pub(super) fn by_status(&self) -> &[usize; STATUSES] {
        &self.by_status
    }

    /// Brings back a task that was not changed.
    pub(super) fn put_unchanged(&mut self, slot: Box<CachedTask>) {
        self.cached_bytes += slot.memory;
        self.cache.put(slot.task.id.clone(), slot);
    }

    /// Brings a new task in, or a changed one back, and writes down what is new. `commit` is the
    /// number that the batch will have. Returns the status that it was known with; None: it is new.
    pub(super) fn put(
        &mut self,
        mut slot: Box<CachedTask>,
        batch: &mut Batch,
        commit: u64,
    ) -> Option<Status> {
        let task = &slot.task;
        let is_new = slot.number.is_none();
        let number = slot.number.unwrap_or(self.next_number);
        if is_new {
            self.next_number += 1;
            slot.number = Some(number);
        }
        let head = is_new.then(|| HeadRecord::from_task(task));
        slot.bytes += head.as_ref().map_or(0, schema::weight);
        for message in task.messages.iter().skip(slot.saved_messages) {
            slot.bytes += schema::weight(&**message);
            slot.decoded_extra += mem_size::message_extra(message);
        }
        let mut changed = Vec::new();
        for (at, result) in task.results.iter().enumerate() {
            let saved = slot.saved_results.get(at);
            if saved.is_some_and(|saved| Arc::ptr_eq(saved, result)) {
                continue;
            }
            if let Some(saved) = saved {
                let old = schema::weight_of_result(saved) + saved.streamed_bytes();
                slot.bytes = slot.bytes.saturating_sub(old);
                slot.decoded_extra = slot.decoded_extra.saturating_sub(mem_size::result_extra(saved));
            }
            slot.bytes += schema::weight_of_result(result) + result.streamed_bytes();
            slot.decoded_extra += mem_size::result_extra(result);
            changed.push((at, saved.cloned()));
        }
        let mut state = StateRecord::from_task(task, slot.bytes);
        state.changed_clock_ms = self.clock_ms;
        let streamed: u64 = task.results.iter().map(|result| result.streamed_bytes()).sum();
        let is_whole = !slot.is_spread && slot.bytes.saturating_sub(streamed) <= task_layout::MAX_WHOLE;
        let known = indexed(&state, task.status, number, !is_whole);
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
        slot.commit = commit;
        slot.memory = slot.mem_size();
        let before = self.set_index(&slot.task.id, known);
        self.put_unchanged(slot);
        before
    }

    /// Drops tasks from memory that are over the cache's bounds and durable.
    pub(super) fn evict(&mut self, durable: u64) {
        while self.cached_bytes > CACHE_BYTES {
            match self.cache.peek_lru() {
                Some((_, slot)) if slot.commit <= durable => {
                    if let Some((_, slot)) = self.cache.pop_lru() {
                        self.cached_bytes -= slot.memory;
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
            self.cached_bytes -= slot.memory;
        }
        if let Some(known) = self.index.get(id) {
            task_layout::remove(&*self.store, known.number, known.is_spread, batch)?;
        }
        self.unlink(id);
        Ok(true)
    }

    /// The oldest terminal task, if it ended before `before`, by the clock of what has passed, or more than
    /// `most` tasks are there.
    pub(super) fn collectable(&self, before: u64, most: usize, most_bytes: u64) -> Option<String> {
        let over = self.ended.len() > most || self.total_bytes > most_bytes;
        let (at, id) = self.collectable.first()?;
        (over || *at < before).then(|| id.to_string())
    }

    fn read_from_store(&self, id: &str, number: u64) -> Result<Box<CachedTask>, StoreError> {
        let found = task_layout::read(&*self.store, number, id)?;
        let mut slot = CachedTask::new(found.task);
        slot.number = Some(number);
        slot.is_spread = found.is_spread;
        slot.saved_messages = slot.task.messages.len();
        slot.saved_results.clone_from(&slot.task.results);
        slot.bytes = found.bytes;
        slot.decoded_extra = mem_size::task_extra(&slot.task);
        slot.memory = slot.mem_size();
        Ok(slot)
    }

    /// The status that was known before.
    fn set_index(&mut self, id: &str, new: TaskIndexEntry) -> Option<Status> {
        let (kept, before) = self.unlink(id).unzip();
        let id = kept.unwrap_or_else(|| Arc::from(id));
        if let Some(group) = new.group {
            let of_group = self.groups.entry(group).or_default();
            of_group.insert((new.updated_at, Arc::clone(&id)));
        }
        self.total_bytes += new.bytes;
        if let Some(count) = self.by_status.get_mut(new.status.to_wire() as usize) {
            *count += 1;
        }
        if new.status.is_terminal() {
            self.ended.insert((new.updated_at, Arc::clone(&id)));
            self.collectable.insert((new.changed_clock_ms, Arc::clone(&id)));
        } else {
            self.unended.insert((new.updated_at, Arc::clone(&id)));
            self.open += 1;
            self.open_bytes += new.bytes;
            let (tasks, bytes) = self.parties.entry(new.party()).or_default();
            *tasks += 1;
            *bytes += new.bytes;
            if let Some(peer) = new.peer.filter(|_| new.is_assignee && new.held) {
                self.held.entry(peer).or_default().insert(Arc::clone(&id));
            }
            if let Some(deadline) = new.deadline {
                self.deadlines.insert((deadline, Arc::clone(&id)));
            }
        }
        self.index.insert(id, new);
        before
    }

    /// Takes a task out of the index; its id, to be used again, and its status. None: it is not there.
    fn unlink(&mut self, id: &str) -> Option<(Arc<str>, Status)> {
        let (id, old) = self.index.remove_entry(id)?;
        let mut by_time = (old.updated_at, id);
        if let Some(group) = old.group
            && let Some(of_group) = self.groups.get_mut(&group)
        {
            of_group.remove(&by_time);
            if of_group.is_empty() {
                self.groups.remove(&group);
            }
        }
        self.total_bytes -= old.bytes;
        if let Some(count) = self.by_status.get_mut(old.status.to_wire() as usize) {
            *count -= 1;
        }
        if old.status.is_terminal() {
            self.ended.remove(&by_time);
            by_time.0 = old.changed_clock_ms;
            self.collectable.remove(&by_time);
        } else {
            self.unended.remove(&by_time);
            self.open -= 1;
            self.open_bytes -= old.bytes;
            let party = old.party();
            if let Some((tasks, bytes)) = self.parties.get_mut(&party) {
                *tasks -= 1;
                *bytes -= old.bytes;
                if *tasks == 0 {
                    self.parties.remove(&party);
                }
            }
            if let Some(peer) = old.peer.filter(|_| old.is_assignee && old.held)
                && let Some(held) = self.held.get_mut(&peer)
            {
                held.remove(&by_time.1);
                if held.is_empty() {
                    self.held.remove(&peer);
                }
            }
            if let Some(deadline) = old.deadline {
                by_time.0 = deadline;
                self.deadlines.remove(&by_time);
            }
        }
        Some((by_time.1, old.status))
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

    /// Bytes that the task takes in memory, about.
    fn mem_size(&self) -> usize {
        let (messages, results) = (&self.task.messages, &self.task.results);
        let streamed: u64 = results.iter().map(|result| result.streamed_bytes()).sum();
        let items = (messages.len() + results.len()) * ITEM_OVERHEAD;
        let outside = self.task.external.as_ref();
        let outside = outside.map_or(0, |outside| outside.checkpoint.len() + outside.log.weight());
        TASK_OVERHEAD + outside + items + (self.bytes.saturating_sub(streamed) + self.decoded_extra) as usize
    }
}

/// Two runs from the newest to the oldest, as one.
fn merged<'a>(
    left: impl Iterator<Item = &'a ByTime>,
    right: impl Iterator<Item = &'a ByTime>,
) -> impl Iterator<Item = &'a ByTime> {
    let (mut left, mut right) = (left.peekable(), right.peekable());
    std::iter::from_fn(move || match (left.peek(), right.peek()) {
        (Some(one), Some(other)) if other > one => right.next(),
        (Some(_), _) => left.next(),
        (None, _) => right.next(),
    })
}

/// For whoever goes over many tasks: one that is damaged is left out, and stops nothing else.
pub(super) fn unless_damaged<T>(done: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match done {
        Err(StoreError::Damaged(what)) => {
            tracing::error!(what, "a stored record is damaged and is left out");
            Ok(None)
        }
        done => done.map(Some),
    }
}

fn indexed(state: &StateRecord, status: Status, number: u64, is_spread: bool) -> TaskIndexEntry {
    TaskIndexEntry {
        number,
        is_spread,
        status,
        updated_at: state.updated_at,
        changed_clock_ms: if state.changed_clock_ms == 0 {
            state.updated_at
        } else {
            state.changed_clock_ms
        },
        bytes: state.bytes,
        is_assignee: state.is_assignee,
        claimed: state.claimed,
        agent_ends: state.agent_ends,
        open_streams: state.open_streams,
        deadline: state.deadline,
        peer: state.peer(),
        held: state.held,
        returnable: state.returnable,
        awaits_assignee: state.awaits_assignee(),
        routed: state.is_routed(),
        external: state.has_external_work(),
        sealed: state.sealed_mark(),
        group: state.group(),
        context: state.context,
    }
}
