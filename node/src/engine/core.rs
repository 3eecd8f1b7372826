//! The engine's state and the tools that its parts share.
//!
//! No I/O but reading the store, no async, no clock and no randomness of its own: `now` and a seed
//! come in. Every method changes the state and collects a `Turn`: one batch for the store and the
//! effects that may be let out only once that batch is durable. `originate`, `assign`, `receive`, `sending`
//! and `clockwork` hold what can happen; this file holds what they have in common.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    num::NonZeroUsize,
    sync::Arc,
    time::Duration,
};

use agentanycast_identity::{Keypair, PeerId};
use agentanycast_proto::v1::{AckPayload, Message, MessageRole, Part, TextPart, part::Content};
use lru::LruCache;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::{
    feed::{Delivery, Feed, ListenerId, Offered},
    lines,
    queue::Queue,
    records::tag,
    table::{Slot, TaskTable, unless_damaged},
    tally::Tally,
    turn::{Change, Effect, Limits, Now, RouteNews, Turn},
};
use crate::{
    delivery::{dedup::Seen, outbox::Depths},
    store::{Batch, Store, StoreError, watched::Watched},
    task::{Output, Road, Role, Status, Task},
};

/// Largest envelope, in bytes: one frame (docs/protocol.md, "Frames").
pub const MAX_ENVELOPE: usize = 16 << 20;

/// Contradictions between peers that have been told.
const RIVALS: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// Peers whose past envelopes are remembered in memory; the rest is on disk. More than turns can wait for the
/// barrier, so that what is dropped from memory is on disk already.
const SEEN_PEERS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// The one authority over tasks.
pub struct Core {
    pub(super) me: PeerId,
    pub(super) limits: Limits,
    pub(super) store: Arc<Watched>,
    pub(super) tasks: TaskTable,
    pub(super) queues: BTreeMap<PeerId, Queue>,
    /// Queues to be polled at the end of the turn.
    pub(super) dirty: BTreeSet<PeerId>,
    pub(super) heavy: BTreeSet<PeerId>,
    pub(super) seen: LruCache<PeerId, Seen>,
    pub(super) feed: Feed,
    /// Tasks sent by skill that nobody has taken yet.
    pub(super) attempts: super::attempts::Attempts,
    /// Claims that their originators have not been told of yet.
    pub(super) task_time: super::task_time::TaskTime,
    pub(super) unsaid: super::unsaid::Unsaid,
    pub(super) claims: HashMap<String, super::assign::Claim>,
    /// The gRPC connection of each listener.
    pub(super) listening_on: HashMap<ListenerId, u64>,
    pub(super) connected: HashSet<PeerId>,
    /// Peers that the network is asked to reach.
    pub(super) wanted: HashSet<PeerId>,
    pub(super) peers: super::peers::Peers,
    pub(super) invites: super::invites::InviteBook,
    pub(super) idempotency: super::idempotency::Keys,
    /// Sealed tasks that came.
    pub(super) sealed: super::idempotency::Keys,
    pub(super) tally: Tally,
    pub(super) refusals: super::refusals::Refusals,
    pub(super) refused_tasks: super::refused_tasks::RefusedTasks,
    /// Who may send tasks; None: everybody, and nothing is written down.
    pub(super) door: Option<Box<super::door::Door>>,
    /// Peers of whom it is not known yet what they prove.
    pub(super) open: HashSet<PeerId>,
    /// Who came after peers that have changed their keys.
    pub(super) successors: super::successors::Successors,
    /// Peers that said that they came after one that another has followed; told once each.
    pub(super) rivals: LruCache<(PeerId, PeerId), ()>,
    /// Old and new peers, where what waits for the old one is still to be moved.
    pub(super) heirs: Vec<(PeerId, PeerId)>,
    /// Peers that were settled since somebody asked, and whether the last frame waits for that.
    pub(super) settled: Vec<PeerId>,
    pub(super) doubted: bool,
    /// Acknowledgements of the running turn, which others may still join.
    pub(super) owed: Vec<(PeerId, AckPayload)>,
    /// What the frame that is looked at came over, where that is known.
    pub(super) incoming_road: Option<Road>,
    pub(super) age: super::age::Age,
    pub(super) last_collection: Duration,
    pub(super) last_look_at_successors: Duration,
    /// The last collection had to leave some for the next turn.
    pub(super) more_to_collect: bool,
    pub(super) marks: super::marks::Sweep,
    pub(super) notes: super::notes::Notes,
    /// When the peers were last asked about open tasks.
    pub(super) last_asked: Duration,
    pub(super) next_stream: u64,
    pub(super) refusals_logged: HashSet<PeerId>,
    pub(super) rng: StdRng,
    /// With which boxes are made and opened; None: none are.
    pub(super) key: Option<Keypair>,
    /// When the running turn is taken.
    pub(super) now: Now,
    pub(super) turn: Turn,
    turns: u64,
    durable: u64,
    /// The last turn that hands something over only when it is durable.
    last_late: u64,
    /// Names this run, so that a queue's record of another one is known: see [`Queue::load`].
    pub(super) run: u64,
}

impl Core {
    /// The state as the store has it. `seed` feeds ids and epochs: random in a daemon, fixed in a
    /// simulation.
    pub fn load(
        me: PeerId,
        limits: Limits,
        store: Arc<dyn Store>,
        now: Now,
        seed: u64,
    ) -> Result<Self, StoreError> {
        let store = Arc::new(Watched::new(store));
        let as_store: Arc<dyn Store> = Arc::clone(&store) as Arc<dyn Store>;
        let tasks = TaskTable::load(&as_store)?;
        let notes = super::notes::Notes::load(&*store, |task| tasks.indexed(task).is_some())?;
        let mut core = Self {
            me,
            tasks,
            notes,
            queues: BTreeMap::new(),
            dirty: BTreeSet::new(),
            heavy: BTreeSet::new(),
            seen: LruCache::new(SEEN_PEERS),
            feed: Feed::new(now.mono),
            attempts: super::attempts::Attempts::default(),
            task_time: super::task_time::TaskTime::default(),
            unsaid: super::unsaid::Unsaid::default(),
            claims: HashMap::new(),
            listening_on: HashMap::new(),
            connected: HashSet::new(),
            wanted: HashSet::new(),
            peers: super::peers::Peers::load(&*store)?,
            invites: super::invites::InviteBook::load(&*store)?,
            idempotency: super::idempotency::Keys::load(&*store, tag::IDEMPOTENCY)?,
            sealed: super::idempotency::Keys::load(&*store, tag::SEALED)?,
            tally: Tally::default(),
            refusals: super::refusals::Refusals::default(),
            refused_tasks: super::refused_tasks::RefusedTasks::default(),
            door: None,
            open: HashSet::new(),
            successors: super::successors::Successors::load(&*store)?,
            rivals: LruCache::new(RIVALS),
            heirs: Vec::new(),
            settled: Vec::new(),
            doubted: false,
            owed: Vec::new(),
            incoming_road: None,
            age: super::age::Age::load(&*store, now)?,
            last_collection: now.mono,
            last_look_at_successors: now.mono,
            more_to_collect: false,
            marks: super::marks::Sweep::new(now.mono),
            last_asked: now.mono,
            next_stream: 1,
            refusals_logged: HashSet::new(),
            rng: StdRng::seed_from_u64(seed),
            key: None,
            now,
            turn: Turn::default(),
            turns: 0,
            durable: 0,
            last_late: 0,
            run: 0,
            limits,
            store,
        };
        core.run = core.new_epoch();
        core.tasks.set_age(core.passed(now));
        core.age.save(now, &mut core.turn.batch);
        core.load_queues()?;
        core.forget_old_ids(now)?;
        core.resume(now)?;
        core.resume_attempts(now);
        Ok(core)
    }

    /// What the inputs since the last call came to. Exactly one batch has to be submitted for each
    /// turn whose batch is not empty, in order.
    pub fn take_turn(&mut self, now: Now) -> Turn {
        self.now = now;
        self.tasks.set_age(self.passed(now));
        if self.feed.is_due() {
            let deliveries = self.feed.hand_out();
            if let Err(error) = self.hand_over(now, deliveries) {
                // What was read wrongly is noticed by `take_store_failure`.
                tracing::debug!(%error, "a task could not be read to be handed over");
            }
        }
        self.settle_acks(now);
        self.poll_queues(now);
        if !self.turn.batch.is_empty() {
            self.turns += 1;
        }
        std::mem::take(&mut self.turn)
    }

    /// An error when reading the store has failed since the last call: the state may be incomplete
    /// then, and nothing more may be let out.
    pub fn take_store_failure(&self) -> Result<(), StoreError> {
        self.store.take_failure().map_or(Ok(()), Err)
    }

    /// The next frame came over this road.
    pub fn comes_over(&mut self, road: Road) {
        self.incoming_road = Some(road);
    }

    /// The effects of the running turn so far. What its batch holds must be durable before they are let out,
    /// like those that come with [`Core::take_turn`], which go after them.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.turn.effects)
    }

    /// What may be let out at once, whether the running turn becomes durable or not.
    pub fn take_early(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.turn.early)
    }

    /// Number of changes of the running turn so far.
    pub fn changes(&self) -> usize {
        self.turn.batch.changes.len()
    }

    /// The first `turns` batches are durable.
    pub fn on_durable(&mut self, turns: u64) {
        self.durable = turns;
        self.tasks.shrink(turns);
        let queues = &mut self.queues;
        self.heavy.retain(|peer| match queues.get_mut(peer) {
            Some(queue) if queue.commit > turns => true,
            Some(queue) => {
                queue.trim();
                false
            }
            None => false,
        });
    }

    /// What the operator set.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What was done since the start.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The store has passed a barrier, which took so long.
    pub fn on_barrier(&mut self, took: Duration) {
        self.tally.barrier(took);
    }

    /// Number of tasks that have not ended.
    pub fn open_tasks(&self) -> usize {
        self.tasks.open()
    }

    /// Number of envelopes that wait for their peers.
    pub fn queued(&self) -> usize {
        self.queues.values().map(|queue| queue.outbox.len()).sum()
    }

    /// Those envelopes by how far they are.
    pub fn depths(&self) -> Depths {
        let depths = self.queues.values().map(|queue| queue.outbox.depths());
        depths.fold(Depths::default(), Depths::plus)
    }

    /// The time by which things are kept: see [`super::age`].
    pub(super) fn passed(&self, now: Now) -> u64 {
        self.age.at(now)
    }

    /// The number that the batch of the running turn will have.
    pub(super) fn commit(&self) -> u64 {
        self.turns + 1
    }

    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    pub(super) fn batch(&mut self) -> &mut Batch {
        &mut self.turn.batch
    }

    pub(super) fn effect(&mut self, effect: Effect) {
        self.turn.effects.push(effect);
    }

    pub(super) fn rng(&mut self) -> &mut StdRng {
        &mut self.rng
    }

    pub(super) fn new_id(&mut self) -> String {
        uuid::Builder::from_random_bytes(self.rng.random())
            .into_uuid()
            .to_string()
    }

    pub(super) fn new_epoch(&mut self) -> u64 {
        self.rng.random_range(1..=u64::MAX)
    }

    /// A message of the node itself: why it ended a task.
    pub(super) fn note(&mut self, now: Now, text: impl Into<String>) -> Message {
        Message {
            message_id: self.new_id(),
            role: MessageRole::Agent as i32,
            parts: vec![Part {
                content: Some(Content::TextPart(TextPart { text: text.into() })),
                ..Part::default()
            }],
            created_at: Some(super::timestamp(now.unix)),
        }
    }

    pub(super) fn take(&mut self, id: &str) -> Result<Option<Box<Slot>>, StoreError> {
        self.tasks.take(id)
    }

    pub(super) fn put(&mut self, slot: Box<Slot>) {
        let commit = self.commit();
        let (role, status) = (slot.task.role, slot.task.status);
        let took = slot.task.updated_at.saturating_sub(slot.task.created_at);
        let ended = slot
            .task
            .traced
            .filter(|_| status.is_terminal())
            .map(|_| slot.task.clone());
        let stage = lines::stage(&slot.task);
        let before = self.tasks.put(slot, &mut self.turn.batch, commit);
        if before != Some(status) {
            if let Some(stage) = stage {
                lines::reached(&stage);
            }
            if let Some(task) = ended {
                self.trace_end(&task);
            }
            self.tally.task(role, status, Duration::from_millis(took));
        }
    }

    /// Writes a changed task down and tells its subscribers. `new` are its new results.
    pub(super) fn put_changed(&mut self, slot: Box<Slot>, new: Vec<Arc<Output>>) {
        let message = slot.task.status_message.clone();
        self.put_with(slot, message, new);
    }

    /// The same for a task of which only the streams changed: what came with its status is no news.
    pub(super) fn put_streams(&mut self, slot: Box<Slot>, new: Vec<Arc<Output>>) {
        self.put_with(slot, None, new);
    }

    /// The same with this message as what came with it.
    pub(super) fn put_with(&mut self, slot: Box<Slot>, message: Option<Arc<Message>>, new: Vec<Arc<Output>>) {
        let task = &slot.task;
        let ended = task.status.is_terminal();
        let change = Change {
            task_id: task.id.clone(),
            status: task.status,
            message,
            results: if ended { task.results.clone() } else { new },
        };
        let id = task.id.clone();
        let streaming = task.open_streams().next().is_some();
        let routed_to = task.route.as_ref().and(task.role.peer());
        let outside = task.outside.as_ref().is_some_and(|outside| !outside.settled);
        self.put(slot);
        if self.door.is_some() {
            self.count_changed(&id);
        }
        self.effect(Effect::Changed(Arc::new(change)));
        if self.notes.is_open(&id) {
            self.effect(Effect::Noted { task_id: id.clone() });
        }
        if ended {
            self.claims.remove(&id);
            self.unsaid.said(&id);
            if let Some(peer) = routed_to {
                self.attempts.end(&id);
                self.effect(Effect::Routed(RouteNews::Left(peer)));
            }
            if outside {
                self.effect(Effect::Outside { task_id: id.clone() });
            }
            if streaming {
                self.effect(Effect::StopStreams { task_id: id });
            }
        }
    }

    /// Ends a task on this node's own authority, and lets its agent and its subscribers know.
    /// False when it had ended already.
    pub(super) fn end(
        &mut self,
        now: Now,
        id: &str,
        status: Status,
        reason: &str,
    ) -> Result<bool, StoreError> {
        let Some(mut slot) = self.take(id)? else {
            return Ok(false);
        };
        let note = (!reason.is_empty()).then(|| self.note(now, reason));
        if !slot.task.end(now.unix, status, note) {
            self.tasks.keep(slot);
            return Ok(false);
        }
        lines::ended(id, slot.task.role.peer(), status, reason);
        let tell_agent = slot.task.role.is_assignee();
        self.put_changed(slot, Vec::new());
        if tell_agent {
            self.tell_agent(now, id)?;
        }
        Ok(true)
    }

    /// Lets the agents that listen know of a task's new state.
    pub(super) fn tell_agent(&mut self, now: Now, id: &str) -> Result<(), StoreError> {
        self.tell_agent_of(now, id, false)
    }

    /// The same of a task that an agent may have seen before.
    pub(super) fn tell_agent_again(&mut self, now: Now, id: &str) -> Result<(), StoreError> {
        self.tell_agent_of(now, id, true)
    }

    fn tell_agent_of(&mut self, now: Now, id: &str, is_known: bool) -> Result<(), StoreError> {
        let Some(known) = self.tasks.indexed(id) else {
            return Ok(());
        };
        let as_what = match known.status {
            Status::Submitted if !is_known && known.agent_ends == 0 => Offered::New,
            Status::Submitted => Offered::Again {
                ends: known.agent_ends,
            },
            status if status.is_terminal() => Offered::News,
            _ => Offered::Further,
        };
        if known.held {
            return Ok(()); // It may go to another agent yet, or has.
        }
        let news = as_what == Offered::News;
        if news && !known.claimed && self.feed.idle_since().is_some() {
            self.feed.withdraw(id);
            return Ok(());
        }
        let weight = self.tasks.weight(id);
        let deliveries = self.feed.offer(id, as_what, weight);
        self.hand_over(now, deliveries)
    }

    pub(super) fn hand_over(&mut self, now: Now, deliveries: Vec<Delivery>) -> Result<(), StoreError> {
        // Listeners share what they are given.
        let mut last: Option<Arc<Task>> = None;
        for Delivery {
            listener,
            task: id,
            exclusive,
        } in deliveries
        {
            let task = match last.take().filter(|task| task.id == id) {
                Some(task) => task,
                None => match unless_damaged(self.tasks.read(&id))?.flatten() {
                    Some(task) => Arc::new(as_handed_over(task)),
                    None => continue,
                },
            };
            last = Some(Arc::clone(&task));
            let sender_card = match task.role {
                Role::Assignee(peer) => self.peers.card(&*self.store, peer)?,
                _ => self.peers.own().cloned(),
            };
            if !task.status.is_terminal() {
                self.tasks.note_given(&id, now.unix);
            }
            let is_new = task.status == Status::Submitted && task.agent_ends == 0;
            // What was handed over before it goes first.
            let is_early = is_new && self.last_late <= self.durable;
            let incoming = Effect::Incoming {
                listener,
                task,
                sender_card,
                exclusive_since: exclusive.then_some(now.unix),
            };
            if is_early {
                // It need not wait: whoever acts on it makes calls whose answers wait for what came before. A crash
                // in between loses a task of which nobody was told that it is here; who sent it has no answer, and
                // sends it again.
                self.turn.early.push(incoming);
            } else {
                self.last_late = self.commit();
                self.effect(incoming);
            }
        }
        Ok(())
    }
}

/// A task that an agent's library had claimed, and whose agent ended without a word, is new to the next one.
/// Its originator was told that it is worked on, so it stays WORKING otherwise.
fn as_handed_over(mut task: Task) -> Task {
    if task.status == Status::Working && !task.claimed && task.agent_ends > 0 && task.is_untold() {
        task.status = Status::Submitted;
    }
    task
}
