//! The engine's state and the tools that its parts share.
//!
//! No I/O but reading the store, no async, no clock and no randomness of its own: `now` and a seed
//! come in. Every method changes the state and collects a `Transaction`: one batch for the store and the
//! effects that may be let out only once that batch is durable. `client_commands`, `agent_commands`, `inbound`, `outbound`
//! and `timers` hold what can happen; this file holds what they have in common.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    num::NonZeroUsize,
    sync::Arc,
    time::Duration,
};

use agentanycast_identity::{Keypair, PeerId};
use agentanycast_proto::v1::{AckPayload, Message, MessageRole, Part, TextPart, part::Content};
use agentanycast_store::{Batch, Store, StoreError, error_latch::ErrorLatch};
use lru::LruCache;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::{
    counters::EngineCounters,
    dispatcher::{Dispatcher, ListenerDelivery, ListenerId, OfferKind},
    log,
    outbound_queue::OutboundQueue,
    schema::tag,
    task_table::{CachedTask, TaskTable, unless_damaged},
    transaction::{Effect, EngineLimits, Now, RouteOutcome, TaskChange, Transaction},
};
use crate::{
    delivery::{dedup::PeerDedup, outbox::QueueDepths},
    task::{NetworkPath, Output, Role, Status, Task},
};

/// Largest envelope, in bytes: one frame (docs/protocol.md, "Frames").
pub const MAX_ENVELOPE: usize = 16 << 20;

/// Contradictions between peers that have been told.
const MAX_ROTATION_CONFLICTS: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// Peers whose past envelopes are remembered in memory; the rest is on disk. More than turns can wait for the
/// barrier, so that what is dropped from memory is on disk already.
const DEDUP_CACHE_PEERS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// The one authority over tasks.
pub struct Core {
    pub(super) me: PeerId,
    pub(super) limits: EngineLimits,
    pub(super) store: Arc<ErrorLatch>,
    pub(super) tasks: TaskTable,
    pub(super) queues: BTreeMap<PeerId, OutboundQueue>,
    /// Queues to be polled at the end of the turn.
    pub(super) dirty: BTreeSet<PeerId>,
    pub(super) heavy: BTreeSet<PeerId>,
    pub(super) dedup: LruCache<PeerId, PeerDedup>,
    pub(super) dispatcher: Dispatcher,
    /// Tasks sent by skill that nobody has taken yet.
    pub(super) attempts: super::attempts::RoutingAttempts,
    /// Claims that their originators have not been told of yet.
    pub(super) task_time: super::task_time::TaskTimes,
    pub(super) claim_debounce: super::claim_debounce::ClaimDebounce,
    pub(super) claims: HashMap<String, super::agent_commands::TaskClaim>,
    /// The gRPC connection of each listener.
    pub(super) listening_on: HashMap<ListenerId, u64>,
    pub(super) connected: HashSet<PeerId>,
    /// Peers that the network is asked to reach.
    pub(super) wanted: HashSet<PeerId>,
    pub(super) peer_store: super::peer_store::PeerStore,
    pub(super) invites: super::invites::InviteStore,
    pub(super) idempotency: super::idempotency::IdempotencyKeys,
    /// Sealed tasks that came.
    pub(super) sealed: super::idempotency::IdempotencyKeys,
    pub(super) counters: EngineCounters,
    pub(super) refusals: super::refusals::RecentRefusals,
    pub(super) refused_tasks: super::refused_tasks::RefusedTasks,
    /// Who may send tasks; None: everybody, and nothing is written down.
    pub(super) admission: Option<Box<super::admission::Admission>>,
    /// Peers of whom it is not known yet what they prove.
    pub(super) awaiting_identity: HashSet<PeerId>,
    /// Who came after peers that have changed their keys.
    pub(super) key_rotations: super::successors::KeyRotations,
    /// Peers that said that they came after one that another has followed; told once each.
    pub(super) rotation_conflicts: LruCache<(PeerId, PeerId), ()>,
    /// Old and new peers, where what waits for the old one is still to be moved.
    pub(super) queue_migrations: Vec<(PeerId, PeerId)>,
    /// Peers that were settled since somebody asked, and whether the last frame waits for that.
    pub(super) identity_resolved: Vec<PeerId>,
    pub(super) identity_needed: bool,
    /// Acknowledgements of the running turn, which others may still join.
    pub(super) pending_acks: Vec<(PeerId, AckPayload)>,
    /// What the frame that is looked at came over, where that is known.
    pub(super) inbound_path: Option<NetworkPath>,
    pub(super) clock: super::durable_clock::DurableClock,
    pub(super) last_collection: Duration,
    pub(super) last_look_at_successors: Duration,
    /// The last collection had to leave some for the next turn.
    pub(super) more_to_collect: bool,
    pub(super) peer_gc: super::peer_gc::PeerGc,
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
    pub(super) transaction: Transaction,
    transactions: u64,
    durable: u64,
    /// The last turn that hands something over only when it is durable.
    last_late: u64,
    /// Names this run, so that a queue's record of another one is known: see [`OutboundQueue::load`].
    pub(super) run: u64,
}

impl Core {
    /// The state as the store has it. `seed` feeds ids and epochs: random in a daemon, fixed in a
    /// simulation.
    pub fn load(
        me: PeerId,
        limits: EngineLimits,
        store: Arc<dyn Store>,
        now: Now,
        seed: u64,
    ) -> Result<Self, StoreError> {
        let store = Arc::new(ErrorLatch::new(store));
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
            dedup: LruCache::new(DEDUP_CACHE_PEERS),
            dispatcher: Dispatcher::new(now.mono),
            attempts: super::attempts::RoutingAttempts::default(),
            task_time: super::task_time::TaskTimes::default(),
            claim_debounce: super::claim_debounce::ClaimDebounce::default(),
            claims: HashMap::new(),
            listening_on: HashMap::new(),
            connected: HashSet::new(),
            wanted: HashSet::new(),
            peer_store: super::peer_store::PeerStore::load(&*store)?,
            invites: super::invites::InviteStore::load(&*store)?,
            idempotency: super::idempotency::IdempotencyKeys::load(&*store, tag::IDEMPOTENCY)?,
            sealed: super::idempotency::IdempotencyKeys::load(&*store, tag::SEALED)?,
            counters: EngineCounters::default(),
            refusals: super::refusals::RecentRefusals::default(),
            refused_tasks: super::refused_tasks::RefusedTasks::default(),
            admission: None,
            awaiting_identity: HashSet::new(),
            key_rotations: super::successors::KeyRotations::load(&*store)?,
            rotation_conflicts: LruCache::new(MAX_ROTATION_CONFLICTS),
            queue_migrations: Vec::new(),
            identity_resolved: Vec::new(),
            identity_needed: false,
            pending_acks: Vec::new(),
            inbound_path: None,
            clock: super::durable_clock::DurableClock::load(&*store, now)?,
            last_collection: now.mono,
            last_look_at_successors: now.mono,
            more_to_collect: false,
            peer_gc: super::peer_gc::PeerGc::new(now.mono),
            last_asked: now.mono,
            next_stream: 1,
            refusals_logged: HashSet::new(),
            rng: StdRng::seed_from_u64(seed),
            key: None,
            now,
            transaction: Transaction::default(),
            transactions: 0,
            durable: 0,
            last_late: 0,
            run: 0,
            limits,
            store,
        };
        core.run = core.new_epoch();
        core.tasks.set_clock_ms(core.clock_ms(now));
        core.clock.save(now, &mut core.transaction.batch);
        core.load_queues()?;
        core.forget_old_ids(now)?;
        core.resume(now)?;
        core.resume_attempts(now);
        Ok(core)
    }

    /// What the inputs since the last call came to. Exactly one batch has to be submitted for each
    /// turn whose batch is not empty, in order.
    pub fn take_transaction(&mut self, now: Now) -> Transaction {
        self.now = now;
        self.tasks.set_clock_ms(self.clock_ms(now));
        if self.dispatcher.is_due() {
            let deliveries = self.dispatcher.dispatch();
            if let Err(error) = self.hand_over(now, deliveries) {
                // What was read wrongly is noticed by `take_store_failure`.
                tracing::debug!(%error, "a task could not be read to be handed over");
            }
        }
        self.flush_acks(now);
        self.poll_queues(now);
        if !self.transaction.batch.is_empty() {
            self.transactions += 1;
        }
        std::mem::take(&mut self.transaction)
    }

    /// An error when reading the store has failed since the last call: the state may be incomplete
    /// then, and nothing more may be let out.
    pub fn take_store_failure(&self) -> Result<(), StoreError> {
        self.store.take_failure().map_or(Ok(()), Err)
    }

    /// The next frame came over this road.
    pub fn set_inbound_path(&mut self, road: NetworkPath) {
        self.inbound_path = Some(road);
    }

    /// The effects of the running turn so far. What its batch holds must be durable before they are let out,
    /// like those that come with [`Core::take_transaction`], which go after them.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.transaction.effects)
    }

    /// What may be let out at once, whether the running turn becomes durable or not.
    pub fn take_early(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.transaction.early)
    }

    /// Number of changes of the running turn so far.
    pub fn changes(&self) -> usize {
        self.transaction.batch.changes.len()
    }

    /// The first `turns` batches are durable.
    pub fn on_durable(&mut self, turns: u64) {
        self.durable = turns;
        self.tasks.evict(turns);
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
    pub fn limits(&self) -> &EngineLimits {
        &self.limits
    }

    /// What was done since the start.
    pub fn tally(&self) -> &EngineCounters {
        &self.counters
    }

    /// The store has passed a barrier, which took so long.
    pub fn on_barrier(&mut self, took: Duration) {
        self.counters.barrier(took);
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
    pub fn depths(&self) -> QueueDepths {
        let depths = self.queues.values().map(|queue| queue.outbox.depths());
        depths.fold(QueueDepths::default(), QueueDepths::plus)
    }

    /// The time by which things are kept: see [`super::durable_clock`].
    pub(super) fn clock_ms(&self, now: Now) -> u64 {
        self.clock.now_ms(now)
    }

    /// The number that the batch of the running turn will have.
    pub(super) fn commit(&self) -> u64 {
        self.transactions + 1
    }

    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    pub(super) fn batch(&mut self) -> &mut Batch {
        &mut self.transaction.batch
    }

    pub(super) fn effect(&mut self, effect: Effect) {
        self.transaction.effects.push(effect);
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

    pub(super) fn take(&mut self, id: &str) -> Result<Option<Box<CachedTask>>, StoreError> {
        self.tasks.take(id)
    }

    pub(super) fn put(&mut self, slot: Box<CachedTask>) {
        let commit = self.commit();
        let (role, status) = (slot.task.role, slot.task.status);
        let took = slot.task.updated_at.saturating_sub(slot.task.created_at);
        let ended = slot
            .task
            .traced
            .filter(|_| status.is_terminal())
            .map(|_| slot.task.clone());
        let stage = log::status_change(&slot.task);
        let before = self.tasks.put(slot, &mut self.transaction.batch, commit);
        if before != Some(status) {
            if let Some(stage) = stage {
                log::status_reached(&stage);
            }
            if let Some(task) = ended {
                self.trace_end(&task);
            }
            self.counters.task(role, status, Duration::from_millis(took));
        }
    }

    /// Writes a changed task down and tells its subscribers. `new` are its new results.
    pub(super) fn put_changed(&mut self, slot: Box<CachedTask>, new: Vec<Arc<Output>>) {
        let message = slot.task.status_message.clone();
        self.put_with(slot, message, new);
    }

    /// The same for a task of which only the streams changed: what came with its status is no news.
    pub(super) fn put_streams(&mut self, slot: Box<CachedTask>, new: Vec<Arc<Output>>) {
        self.put_with(slot, None, new);
    }

    /// The same with this message as what came with it.
    pub(super) fn put_with(
        &mut self,
        slot: Box<CachedTask>,
        message: Option<Arc<Message>>,
        new: Vec<Arc<Output>>,
    ) {
        let task = &slot.task;
        let ended = task.status.is_terminal();
        let change = TaskChange {
            task_id: task.id.clone(),
            status: task.status,
            message,
            results: if ended { task.results.clone() } else { new },
        };
        let id = task.id.clone();
        let streaming = task.open_streams().next().is_some();
        let routed_to = task.route.as_ref().and(task.role.peer());
        let outside = task.external.as_ref().is_some_and(|outside| !outside.settled);
        self.put(slot);
        if self.admission.is_some() {
            self.update_usage(&id);
        }
        self.effect(Effect::Changed(Arc::new(change)));
        if self.notes.is_open(&id) {
            self.effect(Effect::NotesChanged { task_id: id.clone() });
        }
        if ended {
            self.claims.remove(&id);
            self.claim_debounce.on_update_sent(&id);
            if let Some(peer) = routed_to {
                self.attempts.end(&id);
                self.effect(Effect::Routed(RouteOutcome::Left(peer)));
            }
            if outside {
                self.effect(Effect::External { task_id: id.clone() });
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
            self.tasks.put_unchanged(slot);
            return Ok(false);
        }
        log::ended(id, slot.task.role.peer(), status, reason);
        let tell_agent = slot.task.role.is_assignee();
        self.put_changed(slot, Vec::new());
        if tell_agent {
            self.notify_agent(now, id)?;
        }
        Ok(true)
    }

    /// Lets the agents that listen know of a task's new state.
    pub(super) fn notify_agent(&mut self, now: Now, id: &str) -> Result<(), StoreError> {
        self.offer_to_agent(now, id, false)
    }

    /// The same of a task that an agent may have seen before.
    pub(super) fn notify_agent_again(&mut self, now: Now, id: &str) -> Result<(), StoreError> {
        self.offer_to_agent(now, id, true)
    }

    fn offer_to_agent(&mut self, now: Now, id: &str, is_known: bool) -> Result<(), StoreError> {
        let Some(known) = self.tasks.indexed(id) else {
            return Ok(());
        };
        let as_what = match known.status {
            Status::Submitted if !is_known && known.agent_ends == 0 => OfferKind::New,
            Status::Submitted => OfferKind::Again {
                ends: known.agent_ends,
            },
            status if status.is_terminal() => OfferKind::Ended,
            _ => OfferKind::InProgress,
        };
        if known.held {
            return Ok(()); // It may go to another agent yet, or has.
        }
        let news = as_what == OfferKind::Ended;
        if news && !known.claimed && self.dispatcher.idle_since().is_some() {
            self.dispatcher.withdraw(id);
            return Ok(());
        }
        let weight = self.tasks.weight(id);
        let deliveries = self.dispatcher.offer(id, as_what, weight);
        self.hand_over(now, deliveries)
    }

    pub(super) fn hand_over(
        &mut self,
        now: Now,
        deliveries: Vec<ListenerDelivery>,
    ) -> Result<(), StoreError> {
        // Listeners share what they are given.
        let mut last: Option<Arc<Task>> = None;
        for ListenerDelivery {
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
                Role::Assignee(peer) => self.peer_store.card(&*self.store, peer)?,
                _ => self.peer_store.own().cloned(),
            };
            if !task.status.is_terminal() {
                self.tasks.note_offered(&id, now.unix);
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
                self.transaction.early.push(incoming);
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
    if task.status == Status::Working && !task.claimed && task.agent_ends > 0 && task.has_no_report() {
        task.status = Status::Submitted;
    }
    task
}
