//! What leaves for other peers: envelopes into their queues, and what the queues ask for.

use std::collections::HashSet;

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{A2aEnvelope, a2a_envelope::Payload};
use agentanycast_store::StoreError;

use super::{Peers, log, outbound_queue::OutboundQueue, records::OutboxEntryRecord};
use crate::{
    clock::Now,
    delivery::outbox::{
        DeliveryProgress, EXPIRY_GRACE, EnvelopeKind, OutboxAction, OutboxEntry, QueueDepths, SendAttempts,
        WINDOW,
    },
    schema::{self, tag},
    task::SentMark,
    trace_context::TraceContext,
    transaction::{Effect, Transaction},
    wire::envelope,
};

/// Answers to questions about tasks that wait for one peer.
pub(crate) const MAX_ANSWERS: usize = 1000;

/// Bytes of such answers, unless a single one is larger: they are in memory only.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// What is to be put into a peer's queue. It was checked to fit.
pub(crate) struct OutgoingEnvelope<'a> {
    pub(crate) peer: PeerId,
    /// The task that it is about.
    pub(crate) task: &'a str,
    pub(crate) kind: EnvelopeKind,
    pub(crate) payload: Payload,
    pub(crate) trace: TraceContext<'a>,
}

/// What became of an envelope when its queue was polled, as far as its task is concerned.
#[derive(Debug)]
pub(crate) enum PolledEnvelope {
    /// A task, or a message of one, goes over the wire.
    TaskSent {
        peer: PeerId,
        task: String,
        mark: SentMark,
    },
    /// The bytes of an envelope about this task are gone from the store: it can never be delivered.
    Missing { task: String },
}

impl Peers {
    /// Puts an envelope into its peer's queue.
    pub(crate) fn send(
        &mut self,
        transaction: &mut Transaction,
        now: Now,
        outgoing: OutgoingEnvelope<'_>,
    ) -> Result<(), StoreError> {
        let OutgoingEnvelope {
            peer,
            task,
            kind,
            payload,
            trace,
        } = outgoing;
        let peer = self.queue_to(peer);
        let id = transaction.new_id();
        let ttl = self.offline_ttl.map(|ttl| ttl.as_millis() as u64);
        let expires_at = ttl.map(|ttl| transaction.clock_ms(now) + ttl);
        let envelope = envelope(id, now, payload, trace);
        self.push(transaction, now, peer, task, kind, envelope, expires_at)?;
        let queue = self.queues.get(&peer);
        if let Some(entry) = queue.and_then(|queue| queue.outbox().entries().next_back()) {
            log::queued(peer, entry);
        }
        Ok(())
    }

    /// Puts an envelope at the end of a peer's queue; its number there.
    #[allow(
        clippy::too_many_arguments,
        reason = "two callers; a struct would only rename them"
    )]
    pub(super) fn push(
        &mut self,
        transaction: &mut Transaction,
        now: Now,
        peer: PeerId,
        task: &str,
        kind: EnvelopeKind,
        envelope: A2aEnvelope,
        expires_at: Option<u64>,
    ) -> Result<u64, StoreError> {
        let (commit, at) = (transaction.commit(), transaction.clock_ms(now));
        let queue = self.queue(transaction, peer)?;
        let first = queue.outbox().is_empty();
        let sequence = queue.outbox().next_sequence();
        queue.push(
            peer,
            task,
            kind,
            envelope,
            (at, expires_at),
            commit,
            transaction.batch(),
        );
        if queue.is_heavy() {
            self.heavy.insert(peer);
        }
        self.dirty.insert(peer);
        if first && !self.connected.contains(&peer) {
            self.set_wanted(transaction, peer, true);
        }
        Ok(sequence)
    }

    /// The peer's queue, made or read from the store when it is not in memory.
    pub(super) fn queue(
        &mut self,
        transaction: &mut Transaction,
        peer: PeerId,
    ) -> Result<&mut OutboundQueue, StoreError> {
        if !self.queues.contains_key(&peer) {
            let queue = self.read_queue(transaction, peer, Vec::new())?;
            self.queues.insert(peer, queue);
        }
        let retry_delays = &self.retry_delays;
        Ok(self
            .queues
            .entry(peer)
            .or_insert_with(|| OutboundQueue::load(None, Vec::new(), 0, 1, retry_delays.clone())))
    }

    fn read_queue(
        &self,
        transaction: &mut Transaction,
        peer: PeerId,
        waiting: Vec<OutboxEntry>,
    ) -> Result<OutboundQueue, StoreError> {
        let kept = transaction
            .store()
            .get(&schema::key(tag::OUTBOX, &peer.to_bytes()))?;
        let epoch = transaction.new_epoch();
        Ok(OutboundQueue::load(
            kept.as_deref(),
            waiting,
            self.run,
            epoch,
            self.retry_delays.clone(),
        ))
    }

    /// Reads the queues in which something waits from the store.
    pub(super) fn load_queues(&mut self, transaction: &mut Transaction) -> Result<(), StoreError> {
        let mut entries: Vec<(PeerId, OutboxEntry)> = Vec::new();
        agentanycast_store::for_each(transaction.store(), &[tag::ENTRY], |key, value| {
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
            let queue = self.read_queue(transaction, peer, waiting)?;
            self.queues.insert(peer, queue);
        }
        Ok(())
    }

    /// Asks for all peers to be reached for whom something waits.
    pub(crate) fn want_all(&mut self, transaction: &mut Transaction) {
        let waited_for: Vec<PeerId> = self.queues.keys().copied().collect();
        for peer in waited_for {
            self.set_wanted(transaction, peer, true);
        }
    }

    /// Asks for a peer to be reached, or lets it go.
    pub(super) fn set_wanted(&mut self, transaction: &mut Transaction, peer: PeerId, wanted: bool) {
        let changed = if wanted {
            self.wanted.insert(peer)
        } else {
            self.wanted.remove(&peer)
        };
        if changed {
            transaction.effect(Effect::Wanted { peer, wanted });
        }
    }

    /// Makes sure that a stream to the peer is open or opening, for acknowledgements.
    pub(super) fn want_stream(&mut self, transaction: &mut Transaction, peer: PeerId) {
        if self.connected.contains(&peer)
            && let Ok(queue) = self.queue(transaction, peer)
            && queue.outbox_mut().want_stream()
        {
            self.open_stream(transaction, peer);
        }
    }

    fn open_stream(&mut self, transaction: &mut Transaction, peer: PeerId) {
        let stream = self.next_stream;
        self.next_stream += 1;
        if let Some(queue) = self.queues.get_mut(&peer) {
            queue.set_stream(stream);
        }
        transaction.effect(Effect::OpenStream { peer, stream });
    }

    /// True when a queue has something to wait for in the next moments.
    pub(crate) fn needs_clock(&self) -> bool {
        let waits = |queue: &OutboundQueue| queue.outbox().needs_clock();
        self.queues.values().any(waits) || self.rotations.is_migrating()
    }

    /// The queues that wait for time are polled at the end of the transaction; the peers that they are for.
    pub(crate) fn poll_waiting(&mut self) -> Vec<PeerId> {
        let waiting = self
            .queues
            .iter()
            .filter(|(_, queue)| queue.outbox().needs_clock());
        let waiting: Vec<PeerId> = waiting.map(|(peer, _)| *peer).collect();
        self.dirty.extend(waiting.iter().copied());
        waiting
    }

    /// Lets out what the queues that have changed ask for.
    pub(crate) fn poll(&mut self, transaction: &mut Transaction, now: Now) -> Vec<PolledEnvelope> {
        let mut polled = Vec::new();
        for peer in std::mem::take(&mut self.dirty) {
            let is_connected = self.connected.contains(&peer);
            let Some(queue) = self.queues.get_mut(&peer) else {
                continue;
            };
            for action in queue.outbox_mut().poll(now.mono, is_connected) {
                polled.extend(self.act(transaction, peer, action));
            }
        }
        polled
    }

    fn act(
        &mut self,
        transaction: &mut Transaction,
        peer: PeerId,
        action: OutboxAction,
    ) -> Option<PolledEnvelope> {
        match action {
            OutboxAction::OpenStream => self.open_stream(transaction, peer),
            OutboxAction::Send(sequence) => return self.send_queued(transaction, peer, sequence),
            OutboxAction::GiveUp(entry) => {
                tracing::debug!(%peer, task = entry.task_id, envelope = entry.id, "the peer did not answer a question; it is dropped");
                self.on_left_queue(transaction, peer, &entry);
            }
        }
        None
    }

    fn send_queued(
        &mut self,
        transaction: &mut Transaction,
        peer: PeerId,
        sequence: u64,
    ) -> Option<PolledEnvelope> {
        let queue = self.queues.get_mut(&peer)?;
        let frame = match queue.frame(transaction.store(), peer, sequence) {
            Ok(Some(frame)) => frame,
            Ok(None) => {
                let entry = queue.outbox_mut().remove(sequence)?;
                tracing::error!(%peer, task = entry.task_id, envelope = entry.id, "an envelope that waits is missing in the store");
                self.on_left_queue(transaction, peer, &entry);
                return Some(PolledEnvelope::Missing { task: entry.task_id });
            }
            Err(error) => {
                // The failure is remembered by the store's latch, and stops everything.
                tracing::error!(%peer, sequence, %error, "an envelope cannot be read");
                return None;
            }
        };
        let (stream, path) = (queue.stream(), queue.path());
        let mut sent = None;
        if let Some(entry) = queue.outbox().get(sequence) {
            log::sent(peer, entry, path);
            if let (EnvelopeKind::SendTask, Some(via)) = (entry.kind, path) {
                let (task, at) = (entry.task_id.clone(), transaction.time().unix);
                let mark = SentMark { at, via };
                sent = Some(PolledEnvelope::TaskSent { peer, task, mark });
            }
        }
        transaction.effect(Effect::Send { peer, stream, frame });
        sent
    }

    /// Takes the envelope that a peer acknowledged out of its queue; None: it is not there.
    pub(crate) fn acknowledged(
        &mut self,
        transaction: &mut Transaction,
        peer: PeerId,
        envelope_id: &str,
    ) -> Option<OutboxEntry> {
        let entry = self.queues.get_mut(&peer)?.outbox_mut().on_ack(envelope_id)?;
        self.on_left_queue(transaction, peer, &entry);
        log::acknowledged(peer, &entry);
        Some(entry)
    }

    /// The envelopes of a peer whose time is over. Each has to be passed to [`Peers::on_left_queue`].
    pub(crate) fn expire(
        &mut self,
        transaction: &Transaction,
        now: Now,
        peer: PeerId,
    ) -> Vec<(OutboxEntry, SendAttempts)> {
        let ttl = self.offline_ttl.unwrap_or(EXPIRY_GRACE);
        let passed = transaction.clock_ms(now);
        let queue = self.queues.get_mut(&peer);
        let expired = queue.map(|queue| queue.outbox_mut().expire(now.mono, passed, EXPIRY_GRACE.min(ttl)));
        expired.unwrap_or_default()
    }

    /// Cleans up behind an entry that left its queue.
    pub(crate) fn on_left_queue(&mut self, transaction: &mut Transaction, peer: PeerId, entry: &OutboxEntry) {
        if let Some(queue) = self.queues.get_mut(&peer) {
            queue.forget(peer, entry, transaction.batch());
            self.dirty.insert(peer);
            if queue.outbox().is_empty() {
                self.set_wanted(transaction, peer, false);
            }
        }
    }

    /// Takes a SEND_TASK out of a peer's queue. True: the peer may have got it all the same.
    pub(crate) fn withdraw_task(&mut self, transaction: &mut Transaction, peer: PeerId, task: &str) -> bool {
        let withdrawn = self
            .queues
            .get_mut(&peer)
            .and_then(|queue| queue.outbox_mut().withdraw(task));
        let Some((entry, was_sent)) = withdrawn else {
            return false; // The peer has refused it, or has no queue.
        };
        self.on_left_queue(transaction, peer, &entry);
        was_sent
    }

    /// Something came back for a task: its deployed peer has it, even if the acknowledgement, which
    /// such a peer sends only once, got lost.
    pub(crate) fn on_task_arrived(&mut self, transaction: &mut Transaction, peer: PeerId, task: &str) {
        let is_its = |entry: &&OutboxEntry| entry.kind == EnvelopeKind::SendTask && entry.task_id == task;
        let arrived = self.queued(peer).take(WINDOW).find(is_its);
        let arrived = arrived.map(|entry| entry.sequence);
        let queue = self.queues.get_mut(&peer);
        let entry = queue
            .zip(arrived)
            .and_then(|(queue, sequence)| queue.outbox_mut().remove(sequence));
        if let Some(entry) = entry {
            self.on_left_queue(transaction, peer, &entry);
        }
    }

    /// True when something about this task waits for the peer.
    pub(crate) fn has_queued_about(&self, peer: PeerId, task: &str) -> bool {
        self.queued(peer).any(|entry| entry.task_id == task)
    }

    /// The tasks about which something waits for the peer.
    pub(crate) fn queued_tasks(&self, peer: PeerId) -> HashSet<String> {
        self.queued(peer).map(|entry| entry.task_id.clone()).collect()
    }

    /// Durable envelopes about a task that wait for the peer, counted up to `most`.
    pub(crate) fn count_durable_about(&self, peer: PeerId, task: &str, most: usize) -> usize {
        let is_about = |entry: &&OutboxEntry| entry.task_id == task && entry.kind == EnvelopeKind::Durable;
        self.queued(peer).filter(is_about).take(most).count()
    }

    /// The id of the envelope that was queued last for the peer.
    pub(crate) fn last_queued_id(&self, peer: PeerId) -> Option<&str> {
        let queue = self.queues.get(&peer)?;
        queue
            .outbox()
            .entries()
            .next_back()
            .map(|entry| entry.id.as_str())
    }

    /// True when no answer about this task waits for the peer, and not too many others do.
    pub(crate) fn has_room_to_answer(&self, peer: PeerId, task: &str, bytes: usize) -> bool {
        let (mut count, mut total) = (0, bytes);
        for entry in self
            .queued(peer)
            .filter(|entry| entry.kind == EnvelopeKind::Ephemeral)
        {
            if entry.task_id == task {
                return false;
            }
            count += 1;
            total += entry.bytes;
        }
        count < MAX_ANSWERS && (total <= MAX_ANSWER_BYTES || count == 0)
    }

    /// How far the envelopes about a task are that wait for the peer.
    pub(crate) fn progress_of<'a>(
        &'a self,
        peer: PeerId,
        task: &'a str,
    ) -> impl Iterator<Item = DeliveryProgress<'a>> {
        let queue = self.queues.get(&peer);
        queue
            .into_iter()
            .flat_map(|queue| queue.outbox().entries_of_task(task))
    }

    /// The envelopes that wait for their peers, by how far they are.
    pub(crate) fn depths(&self) -> QueueDepths {
        let depths = self.queues.values().map(|queue| queue.outbox().depths());
        depths.fold(QueueDepths::default(), QueueDepths::plus)
    }

    /// The peers for whom something waits: how much, and whether each is connected.
    pub(crate) fn waited_for(&self) -> impl Iterator<Item = (PeerId, usize, bool)> {
        let waiting = self.queues.iter().filter(|(_, queue)| !queue.outbox().is_empty());
        waiting.map(|(peer, queue)| (*peer, queue.outbox().len(), self.connected.contains(peer)))
    }

    /// Number of queues in memory, empty ones too.
    #[cfg(test)]
    pub(crate) fn queues_in_memory(&self) -> usize {
        self.queues.len()
    }

    /// The entries that wait for a peer.
    pub(crate) fn queued(&self, peer: PeerId) -> impl Iterator<Item = &OutboxEntry> {
        let queue = self.queues.get(&peer);
        queue.into_iter().flat_map(|queue| queue.outbox().entries())
    }
}
