//! A peer has changed its keys: what was the old one's is the new one's, here.
//!
//! The one rule: tasks and marks go over whole, in one batch and before anything else of the new peer is looked at. So its
//! tasks are its own, and what was applied before is not applied again. What waits for it follows in portions, and what is
//! new waits behind that.

use std::collections::HashSet;

use agentanycast_identity::{
    MAX_ROTATIONS, PeerId,
    rotation::{self, Rotation},
};
use agentanycast_proto::v1::{A2aEnvelope, a2a_envelope::Payload};
use agentanycast_store::StoreError;
use prost::Message as _;

use super::{outbound_queue::OutboundQueue, state::Core, transaction::Now};
use crate::{
    delivery::{
        inbox::InboundEnvelope,
        outbox::{OutboxEntry, SendAttempts},
    },
    task::Role,
};

/// Bytes, and number, of envelopes that go from one queue to another in one turn.
const MIGRATION_BYTES: usize = 8 << 20;
const MIGRATION_ENTRIES: usize = 1024;

impl Core {
    /// Who `peer` is now: itself, or who came after it.
    pub fn successor(&self, peer: PeerId) -> PeerId {
        self.key_rotations.current_key(peer)
    }

    /// The next candidates for a task that `first` has, as who they are now: none twice, and not that one again.
    pub(super) fn follow_candidates(&self, first: PeerId, others: &mut Vec<PeerId>) {
        let mut known = HashSet::from([first]);
        let now = others.iter().map(|peer| self.successor(*peer));
        *others = now.filter(|peer| known.insert(*peer)).collect();
    }

    /// Who a peer was before and until when, in Unix milliseconds, the latest first: as both keys say on the card that it
    /// showed last. Without a key that another peer has followed.
    ///
    /// # Errors
    /// The card cannot be read.
    pub fn former_keys(&mut self, now: Now, peer: PeerId) -> Result<Vec<(PeerId, u64)>, StoreError> {
        let card = self.peer_store.card(&*self.store, peer)?;
        let said = card.iter().filter_map(|card| card.p2p_extension.as_ref());
        let said = said.flat_map(|extension| extension.key_rotations.iter().take(MAX_ROTATIONS));
        let rotations: Vec<Rotation> = said.filter_map(|bytes| Rotation::read(bytes).ok()).collect();
        let chain = rotation::chain(peer, &rotations, now.unix).into_iter();
        let is_its_own = |rotation: &&Rotation| {
            let old = rotation.old();
            self.key_rotations.successor(old).is_none() || self.successor(old) == peer
        };
        // What comes after a key that is another one's is that one's too.
        let chain = chain.take_while(is_its_own);
        Ok(chain.map(|rotation| (rotation.old(), rotation.at_ms())).collect())
    }

    /// `new` was `old` before, as both keys say. False: another one has shown that before, and stays it.
    ///
    /// # Errors
    /// The store's.
    pub(super) fn migrate_peer(&mut self, now: Now, old: PeerId, new: PeerId) -> Result<bool, StoreError> {
        if old == self.me || new == self.me || self.successor(new) == old {
            return Ok(false);
        }
        match self.key_rotations.successor(old) {
            // Perhaps over others in between.
            Some(_) if self.successor(old) == new => {}
            Some(known) => {
                if self.rotation_conflicts.put((old, new), ()).is_none() {
                    tracing::warn!(%old, %known, %new, "two peers say that they are one peer now; the first one stays it");
                }
                return Ok(false);
            }
            None => tracing::info!(%old, %new, "a peer has changed its key"),
        }
        let passed = self.clock_ms(now);
        self.key_rotations
            .record(passed, old, new, &mut self.transaction.batch);
        self.migrate_applied(old, new)?;
        self.migrate_tasks(old, new)?;
        if !self.queue_migrations.contains(&(old, new)) {
            self.queue_migrations.push((old, new));
        }
        self.move_queues(now)?;
        Ok(true)
    }

    /// Whom a peer says to follow where another one did so before, and that one.
    pub(super) fn rotation_conflicts_of(&self, peer: PeerId) -> impl Iterator<Item = (PeerId, PeerId)> {
        let said = self
            .rotation_conflicts
            .iter()
            .filter(move |((_, new), ())| *new == peer);
        said.filter_map(|((old, _), ())| Some((*old, self.key_rotations.successor(*old)?)))
    }

    /// What was applied of the old peer's envelopes is not applied again: the new one goes on with its numbers.
    fn migrate_applied(&mut self, old: PeerId, new: PeerId) -> Result<(), StoreError> {
        let applied: Vec<(u64, u64)> = self.dedup_of(old)?.applied.epochs().collect();
        if applied.is_empty() {
            return Ok(());
        }
        let heir = self.dedup_of(new)?;
        for (epoch, sequence) in applied {
            heir.applied.insert(epoch, sequence);
        }
        self.save_dedup(new)
    }

    fn migrate_tasks(&mut self, old: PeerId, new: PeerId) -> Result<(), StoreError> {
        let theirs = self.tasks.all().filter(|(_, known)| known.peer == Some(old));
        let theirs: Vec<String> = theirs.map(|(id, _)| id.to_owned()).collect();
        for id in theirs {
            let mut slot = match self.take(&id) {
                Ok(Some(slot)) => slot,
                Ok(None) => continue,
                // One damaged record must not keep the others from their peer.
                Err(StoreError::Damaged(what)) => {
                    tracing::error!(what, "a stored record is damaged and is not used");
                    continue;
                }
                Err(error) => return Err(error),
            };
            slot.task.role = match slot.task.role {
                Role::Originator(peer) if peer == old => Role::Originator(new),
                Role::Assignee(peer) if peer == old => Role::Assignee(new),
                role => role,
            };
            self.put(slot);
        }
        Ok(())
    }

    /// What waits for old peers goes over to the new ones, in its order, behind what waits for those already; a portion of
    /// each at a time.
    ///
    /// # Errors
    /// The store's.
    pub(super) fn move_queues(&mut self, now: Now) -> Result<(), StoreError> {
        for (old, new) in std::mem::take(&mut self.queue_migrations) {
            self.move_portion(now, old, new)?;
            let is_left = |queue: &OutboundQueue| !queue.outbox.is_empty();
            if self.queues.get(&old).is_some_and(is_left) {
                self.queue_migrations.push((old, new));
            }
        }
        Ok(())
    }

    /// Whose queue an envelope to a peer goes into: behind what is still to be moved to that peer's own.
    pub(super) fn queue_to(&self, peer: PeerId) -> PeerId {
        let heir = self.queue_migrations.iter().find(|(_, new)| *new == peer);
        heir.map_or(peer, |(old, _)| *old)
    }

    fn move_portion(&mut self, now: Now, old: PeerId, new: PeerId) -> Result<(), StoreError> {
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
            .outbox
            .entries()
            .take_while(fits)
            .take(MIGRATION_ENTRIES)
            .cloned()
            .collect();
        for entry in entries {
            let frame = match self.queues.get(&old) {
                Some(queue) => queue.frame(&*self.store, old, entry.sequence)?,
                None => None,
            };
            let envelope = frame.and_then(|frame| A2aEnvelope::decode(frame).ok());
            let tried = self
                .queues
                .get(&old)
                .map(|queue| queue.outbox.attempts(entry.sequence));
            if let Some(envelope) = envelope {
                self.requeue(now, new, &entry, tried.unwrap_or_default(), envelope)?;
            }
            let gone = self
                .queues
                .get_mut(&old)
                .and_then(|queue| queue.outbox.remove(entry.sequence));
            if let Some(gone) = gone {
                self.on_left_queue(old, &gone);
            }
        }
        Ok(())
    }

    /// Whether this is of a task that is another peer's, of a peer that may yet show that it was that one.
    pub(super) fn may_be_migrated(&self, peer: PeerId, inbound: &InboundEnvelope) -> bool {
        let task = match &inbound.payload {
            Payload::SendTask(payload) => &payload.task_id,
            Payload::TaskStatusUpdate(payload) => &payload.task_id,
            Payload::TaskComplete(payload) => &payload.task_id,
            Payload::TaskFail(payload) => &payload.task_id,
            Payload::TaskCancel(payload) => &payload.task_id,
            Payload::TaskConfirm(payload) => &payload.task_id,
            Payload::GetTask(payload) => &payload.task_id,
            Payload::StreamStart(payload) => &payload.task_id,
            Payload::StreamEnd(payload) => &payload.task_id,
            _ => return false,
        };
        let known = self.tasks.indexed(task).and_then(|known| known.peer);
        known.is_some_and(|known| known != peer)
    }

    /// Puts an envelope that waited for another peer into this one's queue.
    fn requeue(
        &mut self,
        now: Now,
        peer: PeerId,
        entry: &OutboxEntry,
        tried: SendAttempts,
        envelope: A2aEnvelope,
    ) -> Result<(), StoreError> {
        self.queue(peer)?;
        let commit = self.commit();
        let is_away = !self.connected.contains(&peer);
        let passed = self.clock_ms(now);
        let Some(queue) = self.queues.get_mut(&peer) else {
            return Ok(());
        };
        let first = queue.outbox.is_empty();
        let sequence = queue.outbox.next_sequence();
        let envelope = A2aEnvelope {
            timestamp: Some(super::timestamp(now.unix)),
            ..envelope
        };
        let OutboxEntry {
            task_id,
            kind,
            expires_at,
            ..
        } = entry;
        queue.push(
            peer,
            task_id,
            *kind,
            envelope,
            (passed, *expires_at),
            commit,
            &mut self.transaction.batch,
        );
        queue.outbox.set_attempts(sequence, tried);
        if queue.is_heavy() {
            self.heavy.insert(peer);
        }
        self.dirty.insert(peer);
        if first && is_away {
            self.set_wanted(peer, true);
        }
        Ok(())
    }
}
