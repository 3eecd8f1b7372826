//! What leaves for other peers: envelopes into their queues, and what the queues ask for.

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{A2aEnvelope, a2a_envelope::Payload};
use agentanycast_store::{Store as _, StoreError};

use super::{
    counters::Direction,
    log,
    outbound_queue::OutboundQueue,
    schema::{self, tag},
    state::Core,
    trace_context::TraceContext,
    transaction::{Effect, Now},
};
use crate::{
    delivery::{
        inbox,
        outbox::{EnvelopeKind, OutboxAction, OutboxEntry},
    },
    task::{SentMark, Status},
};

impl Core {
    /// Puts an envelope into the peer's queue. It was checked to fit.
    pub(super) fn send(
        &mut self,
        now: Now,
        peer: PeerId,
        task: &str,
        kind: EnvelopeKind,
        payload: Payload,
        trace: TraceContext<'_>,
    ) -> Result<(), StoreError> {
        let peer = self.queue_to(peer);
        let id = self.new_id();
        self.counters
            .message(Direction::Outbound, inbox::type_of(&payload));
        self.queue(peer)?;
        let commit = self.commit();
        let (ttl, passed) = (self.limits.offline_ttl, self.clock_ms(now));
        let envelope = envelope(id, now, payload, trace);
        let expires_at = ttl.map(|ttl| passed + ttl.as_millis() as u64);
        if let Some(queue) = self.queues.get_mut(&peer) {
            let first = queue.outbox.is_empty();
            queue.push(
                peer,
                task,
                kind,
                envelope,
                (passed, expires_at),
                commit,
                &mut self.transaction.batch,
            );
            if let Some(entry) = queue.outbox.entries().next_back() {
                log::queued(peer, entry);
            }
            if queue.is_heavy() {
                self.heavy.insert(peer);
            }
            self.dirty.insert(peer);
            if first && !self.connected.contains(&peer) {
                self.set_wanted(peer, true);
            }
        }
        Ok(())
    }

    /// The peer's queue, made or read from the store when it is not in memory.
    pub(super) fn queue(&mut self, peer: PeerId) -> Result<&mut OutboundQueue, StoreError> {
        if !self.queues.contains_key(&peer) {
            let kept = self.store.get(&schema::key(tag::OUTBOX, &peer.to_bytes()))?;
            let epoch = self.new_epoch();
            let queue = OutboundQueue::load(
                kept.as_deref(),
                Vec::new(),
                self.run,
                epoch,
                self.limits.retry_delays.clone(),
            );
            self.queues.insert(peer, queue);
        }
        let retry_delays = &self.limits.retry_delays;
        Ok(self
            .queues
            .entry(peer)
            .or_insert_with(|| OutboundQueue::load(None, Vec::new(), 0, 1, retry_delays.clone())))
    }

    /// Asks for a peer to be reached, or lets it go.
    pub(super) fn set_wanted(&mut self, peer: PeerId, wanted: bool) {
        let changed = if wanted {
            self.wanted.insert(peer)
        } else {
            self.wanted.remove(&peer)
        };
        if changed {
            self.effect(Effect::Wanted { peer, wanted });
        }
    }

    /// Makes sure that a stream to the peer is open or opening, for acknowledgements.
    pub(super) fn want_stream(&mut self, peer: PeerId) {
        if self.connected.contains(&peer)
            && let Ok(queue) = self.queue(peer)
            && queue.outbox.want_stream()
        {
            self.open_stream(peer);
        }
    }

    fn open_stream(&mut self, peer: PeerId) {
        let stream = self.next_stream;
        self.next_stream += 1;
        if let Some(queue) = self.queues.get_mut(&peer) {
            queue.stream = stream;
            queue.path = None;
        }
        self.effect(Effect::OpenStream { peer, stream });
    }

    pub(super) fn poll_queues(&mut self, now: Now) {
        for peer in std::mem::take(&mut self.dirty) {
            let connected = self.connected.contains(&peer);
            let actions = self
                .queues
                .get_mut(&peer)
                .map(|queue| queue.outbox.poll(now.mono, connected));
            for action in actions.unwrap_or_default() {
                self.act(peer, action);
            }
        }
    }

    fn act(&mut self, peer: PeerId, action: OutboxAction) {
        match action {
            OutboxAction::OpenStream => self.open_stream(peer),
            OutboxAction::Send(sequence) => {
                let Some(queue) = self.queues.get_mut(&peer) else {
                    return;
                };
                let stream = queue.stream;
                match queue.frame(&*self.store, peer, sequence) {
                    Ok(Some(frame)) => {
                        if let Some(entry) = queue.outbox.get(sequence) {
                            log::sent(peer, entry, queue.path);
                            if let (EnvelopeKind::SendTask, Some(over)) = (entry.kind, queue.path) {
                                let at = self.now.unix;
                                self.tasks
                                    .note_sent(&entry.task_id, peer, SentMark { at, via: over });
                            }
                        }
                        self.effect(Effect::Send { peer, stream, frame });
                    }
                    Ok(None) => self.on_missing(peer, sequence),
                    // The failure is remembered by the store's watch, and stops everything.
                    Err(error) => tracing::error!(%peer, sequence, %error, "an envelope cannot be read"),
                }
            }
            OutboxAction::GiveUp(entry) => {
                tracing::debug!(%peer, task = entry.task_id, envelope = entry.id, "the peer did not answer a question; it is dropped");
                self.on_left_queue(peer, &entry);
            }
        }
    }

    /// The bytes of an envelope that waits are gone from the store: it can never be delivered, and
    /// its task must not wait for it in silence.
    fn on_missing(&mut self, peer: PeerId, sequence: u64) {
        let entry = self
            .queues
            .get_mut(&peer)
            .and_then(|queue| queue.outbox.remove(sequence));
        let Some(entry) = entry else { return };
        tracing::error!(%peer, task = entry.task_id, envelope = entry.id, "an envelope that waits is missing in the store");
        self.on_left_queue(peer, &entry);
        let now = self.now;
        if let Err(error) = self.end(
            now,
            &entry.task_id,
            Status::Failed,
            "lost by this node's damaged store",
        ) {
            tracing::error!(task = entry.task_id, %error, "its task could not be ended");
        }
    }

    /// Cleans up behind an entry that left its queue.
    pub(super) fn on_left_queue(&mut self, peer: PeerId, entry: &OutboxEntry) {
        if let Some(queue) = self.queues.get_mut(&peer) {
            queue.forget(peer, entry, &mut self.transaction.batch);
            self.dirty.insert(peer);
            if queue.outbox.is_empty() {
                self.set_wanted(peer, false);
            }
        }
    }
}

/// An envelope around a payload, without a place in a queue.
pub(super) fn envelope(id: String, now: Now, payload: Payload, trace: TraceContext<'_>) -> A2aEnvelope {
    A2aEnvelope {
        envelope_id: id,
        r#type: inbox::type_of(&payload) as i32,
        timestamp: Some(super::timestamp(now.unix)),
        payload: Some(payload),
        trace_parent: trace.parent.to_owned(),
        trace_state: trace.state.to_owned(),
        ..A2aEnvelope::default()
    }
}
