//! What time does: retries, expiry, deadlines, agents that stay away, the collection of old tasks;
//! and what a new connection and a new start do.

use std::{collections::HashSet, time::Duration};

use agentanycast_daemon_kit::duration;
use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{AgentCard, GetTaskPayload, a2a_envelope::Payload};
use agentanycast_store::{self as store, Store as _, StoreError};
use bytes::Bytes;

use super::{
    dispatcher::OfferKind,
    outbound_queue::OutboundQueue,
    schema::{self, OutboxEntryRecord, tag},
    state::Core,
    task_table::{TaskIndexEntry, unless_damaged},
    trace_context::TraceContext,
    transaction::{Effect, EngineError, Now},
};
use crate::{
    delivery::outbox::{EXPIRY_GRACE, EnvelopeKind},
    task::{NetworkPath, Status},
};

/// How often expiry and collection are looked after.
const GC_INTERVAL: Duration = Duration::from_secs(1);

/// How often it is looked which peers that have changed their keys are there; it takes days until that matters.
const KEY_ROTATION_INTERVAL: Duration = Duration::from_mins(1);

/// Tasks removed per turn: bounds the time that one takes. What is left goes in the next one, a tick later,
/// so that 2 000 a second can go: more than come.
const GC_BATCH: usize = 200;

/// Open tasks asked about when their assignee is back.
pub(super) const MAX_QUERIES: usize = 1000;

impl Core {
    /// True when [`Core::tick`] has something to wait for in the next moments.
    pub fn needs_clock(&self) -> bool {
        self.queues.values().any(|queue| queue.outbox.needs_clock())
            || self.tasks.has_deadlines()
            || self.more_to_collect
            || self.attempts.needs_clock()
            || self.claim_debounce.needs_clock()
            || !self.queue_migrations.is_empty()
    }

    /// Looks after everything that depends on time. Called every 100 ms while
    /// [`Core::needs_clock`], and at least once a second.
    pub fn tick(&mut self, now: Now) -> Result<(), StoreError> {
        let waiting: Vec<PeerId> = self
            .queues
            .iter()
            .filter(|(_, queue)| queue.outbox.needs_clock())
            .map(|(peer, _)| *peer)
            .collect();
        self.dirty.extend(waiting.iter().copied());
        self.move_queues(now)?;
        self.reassign_silent(now)?;
        self.send_due_claims(now)?;
        for id in self.tasks.overdue(now.unix) {
            let missed = self.miss_deadline(now, &id);
            if unless_damaged(missed)?.is_none() {
                self.tasks.drop_deadline(&id);
            }
        }
        if self.more_to_collect {
            self.collect(now)?;
        }
        if now.mono.saturating_sub(self.last_collection) < GC_INTERVAL {
            return Ok(());
        }
        self.last_collection = now.mono;
        for peer in waiting {
            self.expire(now, peer)?;
        }
        self.release_expired_held(now)?;
        self.query_connected_peers(now)?;
        self.fail_abandoned(now)?;
        self.fail_declined(now)?;
        self.fail_overlong(now)?;
        let deliveries = self.dispatcher.tick(now.mono, self.limits.agent_grace);
        self.hand_over(now, deliveries)?;
        self.collect(now)?;
        self.clock.save(now, &mut self.transaction.batch);
        if now.mono.saturating_sub(self.last_look_at_successors) >= KEY_ROTATION_INTERVAL {
            self.last_look_at_successors = now.mono;
            let connected = &self.connected;
            let passed = self.clock.now_ms(now);
            self.key_rotations.expire(
                passed,
                |peer| connected.contains(&peer),
                &mut self.transaction.batch,
            );
        }
        self.forget_silent_peers(now)
    }

    /// Both sides know the deadline, but not with the same calendar, and a deployed peer knows none.
    fn miss_deadline(&mut self, now: Now, id: &str) -> Result<(), StoreError> {
        let reason = "its deadline has passed";
        // One that is damaged is told from one that cannot be told about.
        self.tasks.read(id)?;
        match self.tasks.indexed(id) {
            // Its agent has never seen it, and its originator knows the deadline too.
            Some(known) if known.held => self.end(now, id, Status::Failed, reason).map(drop),
            Some(known) if known.is_assignee => self.abandon(now, id, reason),
            Some(known) => {
                let assignee = known.peer;
                self.end(now, id, Status::Failed, reason)?;
                assignee.map_or(Ok(()), |peer| self.notify_legacy_assignee(now, peer, id))
            }
            None => Ok(()),
        }
    }

    fn expire(&mut self, now: Now, peer: PeerId) -> Result<(), StoreError> {
        let ttl = self.limits.offline_ttl.unwrap_or(EXPIRY_GRACE);
        let passed = self.clock_ms(now);
        let expired = self
            .queues
            .get_mut(&peer)
            .map(|queue| queue.outbox.expire(now.mono, passed, EXPIRY_GRACE.min(ttl)))
            .unwrap_or_default();
        for (entry, tried) in expired {
            self.on_left_queue(peer, &entry);
            self.on_expired(now, peer, &entry, tried)?;
        }
        Ok(())
    }

    /// Ends what nobody works on any more: tasks whose agent's connection has been gone for the grace
    /// time without another taking over, and every claimed task when no agent at all is there. (One that was answered
    /// meanwhile waits for agents to come, and as long for one of them to take it.)
    fn fail_abandoned(&mut self, now: Now) -> Result<(), StoreError> {
        let grace = self.limits.agent_grace;
        let mut abandoned = self.lost_claims(now, grace);
        abandoned.sort_unstable();
        let idle = self.dispatcher.idle_since();
        if idle.is_some_and(|since| now.mono.saturating_sub(since) > grace) {
            abandoned = self
                .tasks
                .all()
                .filter(|(id, known)| known.is_assignee && (known.claimed || self.is_reoffered(id)))
                .map(|(id, _)| id.to_owned())
                .collect();
            abandoned.sort_unstable();
            if self.offer_back(now)? {
                self.dispatcher.note_activity(now.mono);
            }
        }
        for id in &abandoned {
            let is_over = self.tasks.indexed(id).is_some_and(|known| {
                // Whoever streams an artifact is there, listening or not.
                let is_open = !known.status.is_terminal() && !known.open_streams;
                is_open && (known.claimed || idle.is_none() || self.is_reoffered(id))
            });
            if is_over {
                self.abandon_claimed(now, id)?;
            }
        }
        Ok(())
    }

    /// Ends what agents have had for longer than they may.
    fn fail_overlong(&mut self, now: Now) -> Result<(), StoreError> {
        let Some(limit) = self.limits.max_task_time else {
            return Ok(());
        };
        let is_with_agents = |(id, known): &(&str, &TaskIndexEntry)| {
            let asks = known.status == Status::InputRequired;
            known.is_assignee && !known.held && !asks && (known.claimed || self.dispatcher.is_held(id))
        };
        let with_agents = self.tasks.unended().filter(is_with_agents).map(|(id, _)| id);
        for id in self.task_time.overdue(now.mono, limit, with_agents) {
            let reason = format!(
                "its agent had it for longer than {}, the limit that its node has set (max_task_time)",
                duration::format(limit)
            );
            unless_damaged(self.abandon(now, &id, &reason))?;
        }
        Ok(())
    }

    fn collect(&mut self, now: Now) -> Result<(), StoreError> {
        let passed = self.clock_ms(now);
        let before = passed.saturating_sub(self.limits.retention.as_millis() as u64);
        self.more_to_collect = true;
        for _ in 0..GC_BATCH {
            let oldest = self
                .tasks
                .collectable(before, self.limits.retention_count, self.limits.quota);
            let durable = self.durable();
            let removed = match &oldest {
                Some(id) => self.tasks.remove(id, durable, &mut self.transaction.batch)?,
                None => false,
            };
            let Some(id) = oldest.filter(|_| removed) else {
                self.more_to_collect = false;
                break;
            };
            self.dispatcher.withdraw(&id);
            self.notes.forget(&id, &mut self.transaction.batch);
            self.effect(Effect::Forget { task_id: id });
        }
        self.idempotency.expire(passed, &mut self.transaction.batch);
        // Boxes have times of their senders' calendars; a box whose mark is gone is refused by its time.
        self.sealed.expire(now.unix, &mut self.transaction.batch);
        Ok(())
    }

    /// The first connection to a peer is up.
    pub fn on_connected(&mut self, now: Now, peer: PeerId) -> Result<(), StoreError> {
        self.connected.insert(peer);
        if let Some(seen) = self.dedup.get_mut(&peer) {
            seen.restore_capacity();
        }
        self.queue(peer)?;
        self.dirty.insert(peer);
        self.query_open_tasks(now, peer)
    }

    /// Asks the peers that are connected, once in the time after which their reports expire: a report may
    /// have expired without the connection having been lost.
    fn query_connected_peers(&mut self, now: Now) -> Result<(), StoreError> {
        let Some(ttl) = self.limits.offline_ttl else {
            return Ok(());
        };
        if now.mono.saturating_sub(self.last_asked) < ttl {
            return Ok(());
        }
        self.last_asked = now.mono;
        let mut peers: Vec<PeerId> = self.connected.iter().copied().collect();
        peers.sort_unstable();
        for peer in peers {
            self.query_open_tasks(now, peer)?;
        }
        Ok(())
    }

    /// Asks a peer about the open tasks that were sent to it, unless something about them waits for it.
    fn query_open_tasks(&mut self, now: Now, peer: PeerId) -> Result<(), StoreError> {
        if !self.is_sequenced(peer)? {
            return Ok(());
        }
        let waiting: HashSet<String> = self
            .queues
            .get(&peer)
            .map(|queue| {
                queue
                    .outbox
                    .entries()
                    .map(|entry| entry.task_id.clone())
                    .collect()
            })
            .unwrap_or_default();
        let mut open: Vec<String> = self
            .tasks
            .all()
            .filter(|(_, known)| {
                !known.is_assignee && known.peer == Some(peer) && !known.status.is_terminal()
            })
            .map(|(id, _)| id.to_owned())
            .filter(|id| !waiting.contains(id))
            .collect();
        open.sort_unstable();
        if open.len() > MAX_QUERIES {
            // Another part of them each time, so that none is never asked about.
            let first = self.new_epoch() as usize % open.len();
            open.rotate_left(first);
        }
        for id in open.into_iter().take(MAX_QUERIES) {
            let payload = Payload::GetTask(GetTaskPayload { task_id: id.clone() });
            self.send(
                now,
                peer,
                &id,
                EnvelopeKind::Ephemeral,
                payload,
                TraceContext::default(),
            )?;
        }
        Ok(())
    }

    /// A newer connection to a peer is there: its envelope stream starts again on that one.
    pub fn on_renewed(&mut self, peer: PeerId) {
        if let Some(stream) = self.queues.get(&peer).map(|queue| queue.stream) {
            self.on_stream_closed(peer, stream);
        }
    }

    /// The last connection to a peer is gone.
    pub fn on_disconnected(&mut self, peer: PeerId) {
        self.connected.remove(&peer);
        if let Some(seen) = self.dedup.get_mut(&peer) {
            seen.trim();
        }
        let Some(stream) = self.queues.get(&peer).map(|queue| queue.stream) else {
            return;
        };
        self.on_stream_closed(peer, stream);
        let durable = self.durable();
        match self.queues.get(&peer) {
            Some(queue) if !queue.outbox.is_empty() => self.set_wanted(peer, true),
            // An empty queue is in the store; in memory it would stay for every peer that ever came.
            Some(queue) if queue.commit <= durable => drop(self.queues.remove(&peer)),
            _ => {}
        }
    }

    /// Envelope stream number `stream` to the peer is open, over this road.
    pub fn on_stream_opened(&mut self, peer: PeerId, stream: u64, over: NetworkPath) {
        if let Some(queue) = self.queues.get_mut(&peer).filter(|queue| queue.stream == stream) {
            queue.path = Some(over);
            queue.outbox.on_stream_open();
            self.dirty.insert(peer);
        }
    }

    /// Envelope stream number `stream` to the peer is gone, or could not be opened.
    pub fn on_stream_closed(&mut self, peer: PeerId, stream: u64) {
        let Some(queue) = self.queues.get_mut(&peer).filter(|queue| queue.stream == stream) else {
            return;
        };
        let lost = queue.outbox.on_stream_closed();
        for entry in lost {
            self.on_left_queue(peer, &entry);
        }
        self.dirty.insert(peer);
    }

    /// Sets the card of the local agent.
    pub fn set_card(&mut self, card: AgentCard) {
        self.peer_store.set_own(card, &mut self.transaction.batch);
    }

    /// The card of the local agent.
    pub fn card(&self) -> Option<AgentCard> {
        self.peer_store.own().map(|card| (**card).clone())
    }

    /// The newest card that a peer has shown.
    pub fn peer_card(&mut self, peer: PeerId) -> Result<Option<AgentCard>, EngineError> {
        let card = self.peer_store.card(&*self.store, peer)?;
        Ok(card.map(|card| (*card).clone()))
    }

    /// The peers that have shown a card, the latest first, with the names on them; an empty name is none.
    pub fn named_peers(&self) -> impl Iterator<Item = (PeerId, &str)> {
        self.peer_store.names()
    }

    /// A peer has shown its card; encoded, as it came.
    pub fn put_peer_card(&mut self, peer: PeerId, card: &Bytes) {
        self.peer_store.put_card(peer, card, &mut self.transaction.batch);
    }

    /// A peer's addresses are known.
    pub fn put_addresses(&mut self, peer: PeerId, addresses: Vec<String>) {
        self.peer_store
            .put_addresses(peer, addresses, &mut self.transaction.batch);
    }

    /// The addresses of all peers, as kept.
    pub fn addresses(&self) -> Vec<(PeerId, Vec<String>)> {
        self.peer_store.all_addresses()
    }

    /// The ids of all tasks, in no order.
    pub fn task_ids(&self) -> impl Iterator<Item = &str> {
        self.tasks.all().map(|(id, _)| id)
    }

    /// Where the last run listened.
    pub fn last_listen_addresses(&self) -> Vec<String> {
        self.peer_store.listen().to_vec()
    }

    /// Where this run listens.
    pub fn set_listen_addresses(&mut self, addresses: Vec<String>) {
        self.peer_store.set_listen(addresses, &mut self.transaction.batch);
    }

    /// Reads the queues from the store.
    pub(super) fn load_queues(&mut self) -> Result<(), StoreError> {
        let mut entries: Vec<(PeerId, crate::delivery::outbox::OutboxEntry)> = Vec::new();
        store::for_each(&*self.store, &[tag::ENTRY], |key, value| {
            let peer = schema::split(key).and_then(|(name, _)| PeerId::from_bytes(name).ok());
            let record: Option<OutboxEntryRecord> = schema::decode(value);
            if let (Some(peer), Some(sequence), Some(record)) = (peer, schema::number_of(key), record) {
                entries.push((peer, record.entry(sequence)));
            }
            Ok::<(), StoreError>(())
        })?;
        let mut entries = entries.into_iter().peekable();
        while let Some((peer, first)) = entries.next() {
            let mut waiting = vec![first];
            while let Some((_, entry)) = entries.next_if(|(next, _)| *next == peer) {
                waiting.push(entry);
            }
            let kept = self.store.get(&schema::key(tag::OUTBOX, &peer.to_bytes()))?;
            let epoch = self.new_epoch();
            let retry_delays = self.limits.retry_delays.clone();
            let queue = OutboundQueue::load(kept.as_deref(), waiting, self.run, epoch, retry_delays);
            self.queues.insert(peer, queue);
        }
        Ok(())
    }

    /// What an unclaimed task is to the agents after a start.
    fn offered_after_start(&mut self, id: &str) -> Result<OfferKind, StoreError> {
        let Some(known) = self.tasks.indexed(id) else {
            return Ok(OfferKind::InProgress);
        };
        let ends = known.agent_ends;
        let is_new = match known.status {
            Status::Submitted => true,
            Status::Working if ends > 0 => unless_damaged(self.tasks.read(id))?
                .flatten()
                .is_some_and(|task| task.has_no_report()),
            _ => false,
        };
        Ok(if is_new {
            OfferKind::Again { ends }
        } else {
            OfferKind::InProgress
        })
    }

    /// Takes up what the last run left: streams broken off, tasks to hand over, peers to reach.
    pub(super) fn resume(&mut self, now: Now) -> Result<(), StoreError> {
        self.break_off_streams(now)?;
        self.mark_claims_lost(now);
        let mut unclaimed: Vec<(u64, String)> = self
            .tasks
            .all()
            .filter(|(_, known)| {
                known.is_assignee && !known.claimed && !known.held && !known.status.is_terminal()
            })
            .map(|(id, known)| (known.updated_at, id.to_owned()))
            .collect();
        unclaimed.sort();
        for (_, id) in unclaimed {
            let weight = self.tasks.weight(&id);
            let as_what = self.offered_after_start(&id)?;
            self.dispatcher.offer(&id, as_what, weight);
        }
        self.resume_external();
        let waited_for: Vec<PeerId> = self.queues.keys().copied().collect();
        for peer in waited_for {
            self.set_wanted(peer, true);
        }
        Ok(())
    }
}
