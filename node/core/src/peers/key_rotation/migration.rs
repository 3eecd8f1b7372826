//! A peer has changed its keys: what was the old one's is the new one's, here.
//!
//! The rule: marks of applied envelopes go over whole, in one batch with the tasks and before anything else of the new
//! peer is looked at. So its tasks are its own, and what was applied before is not applied again. What waits for it
//! follows in portions, and what is new waits behind that.

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::A2aEnvelope;
use agentanycast_store::StoreError;
use prost::Message as _;

use super::super::{Peers, outbound_queue::OutboundQueue};
use crate::{
    clock::Now,
    delivery::outbox::{OutboxEntry, SendAttempts},
    transaction::Transaction,
    wire,
};

/// Bytes, and number, of envelopes that go from one queue to another in one transaction.
const MIGRATION_BYTES: usize = 8 << 20;
const MIGRATION_ENTRIES: usize = 1024;

impl Peers {
    /// What waits for `old` is to be moved to `new` from now on.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn begin_queue_migration(
        &mut self,
        transaction: &mut Transaction,
        now: Now,
        old: PeerId,
        new: PeerId,
    ) -> Result<(), StoreError> {
        if !self.rotations.queue_migrations.contains(&(old, new)) {
            self.rotations.queue_migrations.push((old, new));
        }
        self.migrate_queues(transaction, now)
    }

    /// What was applied of the old peer's envelopes is not applied again: the new one goes on with its numbers.
    pub(super) fn migrate_applied(
        &mut self,
        transaction: &mut Transaction,
        old: PeerId,
        new: PeerId,
    ) -> Result<(), StoreError> {
        let applied: Vec<(u64, u64)> = self.dedup_of(transaction, old)?.applied.epochs().collect();
        if applied.is_empty() {
            return Ok(());
        }
        let heir = self.dedup_of(transaction, new)?;
        for (epoch, sequence) in applied {
            heir.applied.insert(epoch, sequence);
        }
        self.save_dedup(transaction, new)
    }

    /// What waits for old peers goes over to the new ones, in its order, behind what waits for those already; a portion of
    /// each at a time.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn migrate_queues(
        &mut self,
        transaction: &mut Transaction,
        now: Now,
    ) -> Result<(), StoreError> {
        for (old, new) in std::mem::take(&mut self.rotations.queue_migrations) {
            self.migrate_portion(transaction, now, old, new)?;
            let is_left = |queue: &OutboundQueue| !queue.outbox().is_empty();
            if self.queues.get(&old).is_some_and(is_left) {
                self.rotations.queue_migrations.push((old, new));
            }
        }
        Ok(())
    }

    /// Whose queue an envelope to a peer goes into: behind what is still to be moved to that peer's own.
    pub(in crate::peers) fn queue_to(&self, peer: PeerId) -> PeerId {
        let heir = self
            .rotations
            .queue_migrations
            .iter()
            .find(|(_, new)| *new == peer);
        heir.map_or(peer, |(old, _)| *old)
    }

    fn migrate_portion(
        &mut self,
        transaction: &mut Transaction,
        now: Now,
        old: PeerId,
        new: PeerId,
    ) -> Result<(), StoreError> {
        let Some(queue) = self.queues.get(&old) else {
            return Ok(());
        };
        let mut bytes = 0;
        let fits = |entry: &&OutboxEntry| {
            let fits = bytes < MIGRATION_BYTES;
            bytes += entry.bytes;
            fits
        };
        let entries: Vec<OutboxEntry> = queue
            .outbox()
            .entries()
            .take_while(fits)
            .take(MIGRATION_ENTRIES)
            .cloned()
            .collect();
        for entry in entries {
            let frame = match self.queues.get(&old) {
                Some(queue) => queue.frame(transaction.store(), old, entry.sequence)?,
                None => None,
            };
            let envelope = frame.and_then(|frame| A2aEnvelope::decode(frame).ok());
            let tried = self
                .queues
                .get(&old)
                .map(|queue| queue.outbox().attempts(entry.sequence));
            if let Some(envelope) = envelope {
                self.requeue(transaction, now, new, &entry, tried.unwrap_or_default(), envelope)?;
            }
            let gone = self
                .queues
                .get_mut(&old)
                .and_then(|queue| queue.outbox_mut().remove(entry.sequence));
            if let Some(gone) = gone {
                self.on_left_queue(transaction, old, &gone);
            }
        }
        Ok(())
    }

    /// Puts an envelope that waited for another peer into this one's queue.
    fn requeue(
        &mut self,
        transaction: &mut Transaction,
        now: Now,
        peer: PeerId,
        entry: &OutboxEntry,
        tried: SendAttempts,
        envelope: A2aEnvelope,
    ) -> Result<(), StoreError> {
        let envelope = A2aEnvelope {
            timestamp: Some(wire::timestamp(now.unix)),
            ..envelope
        };
        let OutboxEntry {
            task_id,
            kind,
            expires_at,
            ..
        } = entry;
        let sequence = self.push(transaction, now, peer, task_id, *kind, envelope, *expires_at)?;
        if let Some(queue) = self.queues.get_mut(&peer) {
            queue.outbox_mut().set_attempts(sequence, tried);
        }
        Ok(())
    }
}
