//! Which envelopes were applied before: the marks, in memory and in the batch of the envelope's
//! effect.

use std::{sync::Arc, time::Duration};

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::a2a_envelope::Payload;
use agentanycast_store::{self as store, Store as _, StoreError};

use super::{
    schema::{self, AppliedIdRecord, AppliedRecord, tag},
    state::Core,
    transaction::Now,
};
use crate::{
    delivery::{
        dedup::{self, AppliedSequences, PeerDedup},
        inbox::InboundEnvelope,
    },
    task::Role,
};

/// How long a deployed peer keeps an envelope to send it again (docs/protocol.md, "Envelopes").
const DEPLOYED_TTL: Duration = Duration::from_hours(24);

impl Core {
    /// True when the peer numbers its envelopes: it runs this implementation.
    pub(super) fn is_sequenced(&mut self, peer: PeerId) -> Result<bool, StoreError> {
        Ok(self.dedup_of(peer)?.applied.epochs().next().is_some())
    }

    /// True when the envelope was applied, or refused, before.
    pub(super) fn is_duplicate(
        &mut self,
        peer: PeerId,
        inbound: &InboundEnvelope,
    ) -> Result<bool, StoreError> {
        let seen = self.dedup_of(peer)?;
        Ok(match inbound.queue_position {
            Some((epoch, sequence)) => seen.applied.contains(epoch, sequence),
            // One that was refused without a place has no mark; it stays refused while that is remembered.
            None => {
                seen.is_recent(&inbound.id)
                    || seen.refusal(&inbound.id).is_some()
                    || self.id_is_on_disk(peer, &inbound.id)?
            }
        })
    }

    fn id_is_on_disk(&self, peer: PeerId, envelope_id: &str) -> Result<bool, StoreError> {
        Ok(self.store.get(&applied_id_key(peer, envelope_id))?.is_some())
    }

    /// A duplicate SEND_TASK whose task, or whose message, is not here was refused the first time.
    pub(super) fn refused_before(
        &mut self,
        peer: PeerId,
        payload: &Payload,
    ) -> Result<Option<String>, StoreError> {
        let Payload::SendTask(send) = payload else {
            return Ok(None);
        };
        let message = send
            .message
            .as_ref()
            .map_or("", |message| message.message_id.as_str());
        Ok(match self.tasks.read(&send.task_id)? {
            Some(task)
                if task.role == Role::Assignee(peer)
                    && (message.is_empty() || task.has_message_id(message)) =>
            {
                None
            }
            // It was collected; how it ended is on its way.
            None if self.has_queued_about(peer, &send.task_id) => None,
            _ => Some("it was refused before, or its task was collected".into()),
        })
    }

    /// What is remembered of a peer.
    pub(super) fn dedup_of(&mut self, peer: PeerId) -> Result<&mut PeerDedup, StoreError> {
        if !self.dedup.contains(&peer) {
            let record = self.store.get(&schema::key(tag::APPLIED, &peer.to_bytes()))?;
            let record: AppliedRecord = record
                .and_then(|bytes| schema::decode(&bytes))
                .unwrap_or_default();
            let applied = AppliedSequences::restore(record.epochs.into_iter().zip(record.highest));
            self.dedup.put(peer, PeerDedup::new(applied, record.next_slot));
        }
        Ok(self
            .dedup
            .get_or_insert_mut(peer, || PeerDedup::new(AppliedSequences::default(), 0)))
    }

    /// Marks an envelope as applied, in the batch of its effect. A refused one without a place in a
    /// queue leaves no mark: it had no effect, and is refused again.
    pub(super) fn mark_applied(
        &mut self,
        now: Now,
        peer: PeerId,
        envelope_id: &str,
        place: Option<(u64, u64)>,
        refused: bool,
    ) -> Result<(), StoreError> {
        let seen = self.dedup_of(peer)?;
        let slot = match place {
            Some((epoch, sequence)) => {
                seen.applied.insert(epoch, sequence);
                None
            }
            None if refused => return Ok(()),
            None => Some(seen.insert(envelope_id)),
        };
        self.save_dedup(peer)?;
        let name = peer.to_bytes();
        let Some(slot) = slot else { return Ok(()) };
        if let Some(old) = slot.checked_sub(dedup::WINDOW) {
            let old_key = schema::numbered(tag::APPLIED_SLOT, &name, old);
            let old_slot: Option<AppliedIdRecord> =
                self.store.get(&old_key)?.and_then(|bytes| schema::decode(&bytes));
            if let Some(old_slot) = old_slot {
                self.batch().delete(applied_id_key(peer, &old_slot.envelope_id));
            }
            self.batch().delete(old_key);
        }
        let record = AppliedIdRecord {
            envelope_id: envelope_id.to_owned(),
            at: self.clock_ms(now),
        };
        self.batch().put(
            schema::numbered(tag::APPLIED_SLOT, &name, slot),
            schema::encode(&record),
        );
        self.batch().put(applied_id_key(peer, envelope_id), Vec::new());
        Ok(())
    }

    /// Forgets the ids of envelopes that no deployed peer sends again: those older than the time
    /// that an envelope is kept for a peer, here or there. Done at the start, over the whole store.
    pub(super) fn forget_old_ids(&mut self, now: Now) -> Result<(), StoreError> {
        let Some(ttl) = self.limits.offline_ttl else {
            return Ok(());
        };
        let kept = ttl.max(DEPLOYED_TTL);
        let before = self.clock_ms(now).saturating_sub(kept.as_millis() as u64);
        let store = Arc::clone(&self.store);
        let batch = &mut self.transaction.batch;
        store::for_each(&*store, &[tag::APPLIED_SLOT], |key, value| {
            let peer = schema::split(key).and_then(|(name, _)| PeerId::from_bytes(name).ok());
            let slot: Option<AppliedIdRecord> = schema::decode(value);
            if let (Some(peer), Some(slot)) = (peer, slot)
                && slot.at < before
            {
                batch.delete(applied_id_key(peer, &slot.envelope_id));
                batch.delete(key.to_vec());
            }
            Ok(())
        })
    }

    /// Writes down what is remembered of a peer.
    pub(super) fn save_dedup(&mut self, peer: PeerId) -> Result<(), StoreError> {
        let at = self.clock_ms(self.now);
        let seen = self.dedup_of(peer)?;
        let next_slot = seen.next_slot;
        let (epochs, highest) = seen.applied.epochs().unzip();
        let record = AppliedRecord {
            epochs,
            highest,
            next_slot,
            at,
        };
        self.batch().put(
            schema::key(tag::APPLIED, &peer.to_bytes()),
            schema::encode(&record),
        );
        Ok(())
    }
}

pub(super) fn applied_id_key(peer: PeerId, envelope_id: &str) -> Vec<u8> {
    [
        schema::key(tag::APPLIED_ID, &peer.to_bytes()),
        envelope_id.as_bytes().to_vec(),
    ]
    .concat()
}
