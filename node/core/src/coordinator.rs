//! The one that decides about tasks: it holds the parts of the engine, and makes each input one sequence of their steps.
//!
//! No I/O but reading the store, no async, no clock and no randomness of its own: `now` and a seed come in. Each part has
//! its own state and adds to the running transaction; only this module knows several parts. `client_commands`,
//! `agent_commands`, `inbound` and `timers` hold what can happen; this file holds what they have in common.

mod access;
mod ack_outcome;
mod admission;
mod agent_commands;
pub(crate) mod client_commands;
mod external_tasks;
mod failover;
mod inbound;
mod inspection;
pub(crate) mod invite_on_card;
mod key_rotation;
mod node_agents;
mod reject;
mod served_agents;
mod skill_waits;
mod startup;
#[cfg(test)]
mod test_access;
mod timers;

use std::{sync::Arc, time::Duration};

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{EnvelopeType, Message, a2a_envelope::Payload};
use agentanycast_store::StoreError;
use bytes::Bytes;

use super::{
    admission::Admission,
    agents::Agents,
    clock::Now,
    dispatch::{Dispatch, ListenerDelivery, OfferKind},
    external::External,
    observe::{Observe, log},
    peers::{OutgoingEnvelope, Peers, PolledEnvelope},
    routing::Routing,
    tasks::{SavedTask, Tasks, unless_damaged},
    trace_context::TraceContext,
    transaction::{Effect, EngineError, EngineLimits, FinishedTransaction, TaskChange, Transaction},
    types::{Direction, Note},
};
use crate::{
    delivery::{inbox, outbox::EnvelopeKind},
    task::{Output, Role, Status, Task},
};

pub use self::{
    access::TrustScope,
    agent_commands::{CompleteOutcome, StreamRoute},
    client_commands::SendTask,
    external_tasks::ExternalUpdate,
    inspection::{Activity, PendingEnvelope, TaskInspection},
    node_agents::{CardUse, ListenRequest},
};

/// See the module's text.
pub(crate) struct Coordinator {
    limits: EngineLimits,
    transaction: Transaction,
    tasks: Tasks,
    peers: Peers,
    agents: Agents,
    dispatch: Dispatch,
    routing: Routing,
    admission: Admission,
    external: External,
    observe: Observe,
    /// Counts what may have changed who may use which agent, for all peers at once.
    rights: u64,
    /// When what happens once a second was last looked after.
    last_slow_tick: Duration,
}

impl Coordinator {
    /// What the inputs since the last call came to. Exactly one batch has to be submitted for each
    /// transaction whose batch is not empty, in order.
    pub(crate) fn finish_transaction(&mut self, now: Now) -> FinishedTransaction {
        self.transaction.set_time(now);
        self.tasks.set_clock_ms(self.transaction.clock_ms(now));
        self.tell_node_card();
        self.tell_peers_their_cards();
        let deliveries = self.dispatch.due_deliveries(now);
        if let Err(error) = self.hand_over(now, deliveries) {
            // What was read wrongly is noticed by `take_store_failure`.
            tracing::debug!(%error, "a task could not be read to be handed over");
        }
        for _ in 0..self.peers.flush_acks(&mut self.transaction, now) {
            self.observe
                .count_envelope(Direction::Outbound, EnvelopeType::Ack);
        }
        for polled in self.peers.poll(&mut self.transaction, now) {
            match polled {
                PolledEnvelope::TaskSent { peer, task, mark } => self.tasks.note_sent(&task, peer, mark),
                PolledEnvelope::Missing { task } => self.on_envelope_missing(now, &task),
            }
        }
        self.transaction.finish()
    }

    /// The envelope about a task is gone: the task must not wait for it in silence.
    fn on_envelope_missing(&mut self, now: Now, task: &str) {
        if let Err(error) = self.end(now, task, Status::Failed, "lost by this node's damaged store") {
            tracing::error!(task, %error, "its task could not be ended");
        }
    }

    /// The first `batches` batches are durable; `took`: how long the barrier for that took, if there was one.
    pub(crate) fn on_durable(&mut self, batches: u64, took: Option<Duration>) {
        if let Some(took) = took {
            self.observe.count_barrier(took);
        }
        self.transaction.set_durable(batches);
        self.tasks.evict(batches);
        self.peers.on_durable(batches);
    }

    /// The running transaction: what it holds so far, and what of it may be let out.
    pub(crate) fn transaction(&mut self) -> &mut Transaction {
        &mut self.transaction
    }

    /// The tasks, to look at.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// The tasks, to read those that are not in memory. Without the transaction nothing can be written.
    pub(crate) fn tasks_mut(&mut self) -> &mut Tasks {
        &mut self.tasks
    }

    /// The peers, to look at.
    pub(crate) fn peers(&self) -> &Peers {
        &self.peers
    }

    /// Tells the peers, and no other part, of something.
    pub(crate) fn with_peers<T>(&mut self, tell: impl FnOnce(&mut Peers, &mut Transaction) -> T) -> T {
        tell(&mut self.peers, &mut self.transaction)
    }

    /// Who is let in, to look at.
    pub(crate) fn admission(&self) -> &Admission {
        &self.admission
    }

    /// The same, to tell it what is known of peers. Without the transaction nothing can be written.
    pub(crate) fn admission_mut(&mut self) -> &mut Admission {
        &mut self.admission
    }

    /// What is beyond this network, to look at.
    pub(crate) fn external(&self) -> &External {
        &self.external
    }

    /// The same, to set it up.
    pub(crate) fn external_mut(&mut self) -> &mut External {
        &mut self.external
    }

    /// What was counted and refused since the start.
    pub(crate) fn observe(&self) -> &Observe {
        &self.observe
    }

    /// What the operator set.
    pub(crate) fn limits(&self) -> &EngineLimits {
        &self.limits
    }

    /// A peer has shown its card; encoded, as it came. What others may see of it, if there is more on it than who shows
    /// it: the secret of an invite is for this node alone.
    pub(crate) fn on_card(&mut self, now: Now, peer: PeerId, card: Bytes) -> Option<Bytes> {
        let (card, invite) = invite_on_card::split(card);
        self.on_invite(now, peer, &invite);
        if let Some(card) = &card {
            self.peers.put_card(&mut self.transaction, peer, card);
        }
        card
    }

    /// Writes a note of a task, over this version or over whatever there is; its new version.
    pub(crate) fn put_note(
        &mut self,
        task: &str,
        note: Note,
        if_version: Option<u64>,
    ) -> Result<u64, EngineError> {
        self.check_exists(task)?;
        self.external
            .put_note(&mut self.transaction, task, note, if_version)
    }

    /// Removes a note, if there is one.
    pub(crate) fn delete_note(&mut self, task: &str, name: &str) {
        self.external.delete_note(&mut self.transaction, task, name);
    }

    /// The notes of a task, by name.
    pub(crate) fn notes_of(&self, task: &str) -> Result<Vec<Note>, EngineError> {
        self.check_exists(task)?;
        Ok(self.external.notes_of(task))
    }

    fn check_exists(&self, task: &str) -> Result<(), EngineError> {
        let known = self.tasks.indexed(task);
        known
            .map(drop)
            .ok_or_else(|| EngineError::NotFound(task.to_owned()))
    }

    /// Acknowledges an envelope of an artifact's stream; `next` is the chunk needed next.
    pub(crate) fn ack_stream(
        &mut self,
        now: Now,
        peer: PeerId,
        envelope_id: String,
        refused: Option<&str>,
        next: Option<i32>,
    ) {
        self.observe
            .count_envelope(Direction::Outbound, EnvelopeType::Ack);
        self.peers
            .ack_stream(&mut self.transaction, now, peer, envelope_id, refused, next);
    }

    /// Acknowledges an envelope, once this transaction is durable.
    fn ack(&mut self, now: Now, peer: PeerId, envelope_id: String, refused: Option<&str>) {
        self.observe
            .count_envelope(Direction::Outbound, EnvelopeType::Ack);
        self.peers
            .ack(&mut self.transaction, now, peer, envelope_id, refused);
    }

    /// Acknowledges an envelope that is accepted; together with others if its peer knows how to read that.
    fn ack_accepted(&mut self, now: Now, peer: PeerId, envelope_id: String, joint_ack: bool) {
        if joint_ack {
            self.peers.ack_joined(peer, envelope_id);
        } else {
            self.ack(now, peer, envelope_id, None);
        }
    }

    /// Acknowledges a task that is held here until its originator confirms it.
    fn ack_held(&mut self, now: Now, peer: PeerId, envelope_id: String) {
        self.observe
            .count_envelope(Direction::Outbound, EnvelopeType::Ack);
        self.peers.ack_held(&mut self.transaction, now, peer, envelope_id);
    }

    /// Puts an envelope into the peer's queue. It was checked to fit.
    fn send(
        &mut self,
        now: Now,
        peer: PeerId,
        task: &str,
        kind: EnvelopeKind,
        payload: Payload,
        trace: TraceContext<'_>,
    ) -> Result<(), StoreError> {
        let outgoing = OutgoingEnvelope {
            peer,
            task,
            kind,
            payload,
            trace,
        };
        send_envelope(
            &mut self.observe,
            &mut self.peers,
            &mut self.transaction,
            now,
            outgoing,
        )
    }

    /// Writes a new task.
    fn insert_task(&mut self, task: Task) {
        if task.role.is_assignee() {
            self.agents.on_task_begun(task.agent.as_deref());
        }
        let saved = self.tasks.insert(&mut self.transaction, task);
        self.on_saved(&saved);
    }

    /// A task was written.
    fn on_saved(&mut self, saved: &SavedTask) {
        if let Some(task) = self.tasks.cached(&saved.id) {
            self.observe.task_saved(&mut self.transaction, task, saved.before);
        }
    }

    /// A changed task was written: its subscribers are told. `new` are its new results.
    fn on_changed(&mut self, saved: &SavedTask, new: Vec<Arc<Output>>) {
        let task = self.tasks.cached(&saved.id);
        let message = task.and_then(|task| task.status_message.clone());
        self.on_changed_with(saved, message, new);
    }

    /// The same with this message as what came with the change; None: what came with its status is no news.
    fn on_changed_with(&mut self, saved: &SavedTask, message: Option<Arc<Message>>, new: Vec<Arc<Output>>) {
        self.on_saved(saved);
        let Some(task) = self.tasks.cached(&saved.id) else {
            return;
        };
        let id = task.id.clone();
        let has_ended = task.status.is_terminal();
        let stopped_streams = inbound::stop_streams(task);
        let routed_to = task.route.as_ref().and(task.role.peer());
        let (is_assignee, agent) = (task.role.is_assignee(), task.agent.clone());
        let has_failed = task.status == Status::Failed;
        let is_carried = task.external.as_ref().is_some_and(|delivery| !delivery.settled);
        let change = TaskChange {
            task_id: id.clone(),
            status: task.status,
            message,
            results: if has_ended { task.results.clone() } else { new },
        };
        if self.admission.is_enabled() {
            let known = self.tasks.indexed(&id);
            let open = known.filter(|known| !known.status.is_terminal());
            self.admission.set_task_bytes(&id, open.map(|known| known.bytes));
        }
        self.transaction.effect(Effect::Changed(Arc::new(change)));
        self.external.on_task_changed(&mut self.transaction, &id);
        if !has_ended {
            return;
        }
        self.dispatch.on_task_ended(agent.as_deref(), &id);
        if is_assignee {
            self.agents.on_task_ended(agent.as_deref(), has_failed);
        }
        if let Some(peer) = routed_to {
            self.routing.on_left(&mut self.transaction, peer, &id);
        }
        if is_carried {
            self.transaction.effect(Effect::External { task_id: id.clone() });
        }
        if let Some(stop) = stopped_streams {
            self.transaction.effect(stop);
        }
    }

    /// Ends a task on this node's own authority, and lets its agent and its subscribers know.
    /// False when it had ended already.
    fn end(&mut self, now: Now, id: &str, status: Status, reason: &str) -> Result<bool, StoreError> {
        let Some(mut task) = self.tasks.edit(id)? else {
            return Ok(false);
        };
        let message = (!reason.is_empty()).then(|| self.transaction.node_message(now, reason));
        if !task.end(now.unix, status, message) {
            return Ok(false);
        }
        log::ended(id, task.role.peer(), status, reason);
        let tell_agent = task.role.is_assignee();
        let saved = task.save(&mut self.transaction);
        self.on_changed(&saved, Vec::new());
        if tell_agent {
            self.notify_agent(now, id)?;
        }
        Ok(true)
    }

    /// The agent that a task is for; None: the primary one.
    fn agent_of(&self, id: &str) -> Option<Arc<str>> {
        self.tasks.indexed(id)?.agent.clone()
    }

    /// Takes a task off what is offered to its agent.
    fn withdraw(&mut self, id: &str) {
        let agent = self.agent_of(id);
        self.dispatch.withdraw(agent.as_deref(), id);
    }

    /// Lets the agents that listen know of a task's new state.
    fn notify_agent(&mut self, now: Now, id: &str) -> Result<(), StoreError> {
        self.offer_to_agent(now, id, false)
    }

    /// The same of a task that an agent may have seen before.
    fn notify_agent_again(&mut self, now: Now, id: &str) -> Result<(), StoreError> {
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
        if known.held || known.awaits_skill {
            return Ok(()); // It may go to another agent yet, or has; or no agent can have it now.
        }
        let agent = known.agent.clone();
        let agent = agent.as_deref();
        if as_what == OfferKind::Ended && !known.claimed && !self.dispatch.has_listeners_of(agent) {
            self.dispatch.withdraw(agent, id);
            return Ok(());
        }
        let weight = self.tasks.weight(id);
        let deliveries = self.dispatch.offer(now, agent, id, as_what, weight);
        self.hand_over(now, deliveries)
    }

    fn hand_over(&mut self, now: Now, deliveries: Vec<ListenerDelivery>) -> Result<(), StoreError> {
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
                Role::Assignee(peer) => self.peers.card(&self.transaction, peer)?,
                _ => self.node_card(),
            };
            if !task.status.is_terminal() {
                self.tasks.note_offered(&id, now.unix);
            }
            let is_new = task.status == Status::Submitted && task.agent_ends == 0;
            let delivery = Effect::Incoming {
                listener,
                task,
                sender_card,
                exclusive_since: exclusive.then_some(now.unix),
            };
            self.transaction.deliver(is_new, delivery);
        }
        Ok(())
    }
}

/// Puts an envelope into its peer's queue, and counts it. It was checked to fit.
fn send_envelope(
    observe: &mut Observe,
    peers: &mut Peers,
    transaction: &mut Transaction,
    now: Now,
    outgoing: OutgoingEnvelope<'_>,
) -> Result<(), StoreError> {
    observe.count_envelope(Direction::Outbound, inbox::type_of(&outgoing.payload));
    peers.send(transaction, now, outgoing)
}

/// A task that an agent's library had claimed, and whose agent ended without a word, is new to the next one.
/// Its originator was told that it is worked on, so it stays WORKING otherwise.
fn as_handed_over(mut task: Task) -> Task {
    if task.status == Status::Working && !task.claimed && task.agent_ends > 0 && task.has_no_report() {
        task.status = Status::Submitted;
    }
    task
}

/// As much of a peer's reason as is kept and shown.
fn shortened(reason: &str) -> String {
    reason.chars().take(1000).collect()
}
