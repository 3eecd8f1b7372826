//! Which envelopes were applied before: the marks, in memory and in the batch of the envelope's
//! effect.

use std::time::Duration;

use agentanycast_identity::PeerId;
use agentanycast_store::StoreError;

use super::{
    Peers,
    records::{AppliedIdRecord, AppliedRecord},
};
use crate::delivery::{
    dedup::{self, AppliedSequences, PeerDedup},
    inbox::InboundEnvelope,
};
use crate::{
    clock::Now,
    schema::{self, tag},
    transaction::Transaction,
};

/// How long a deployed peer keeps an envelope to send it again (docs/protocol.md, "Envelopes").
const DEPLOYED_TTL: Duration = Duration::from_hours(24);

impl Peers {
    /// True when the peer numbers its envelopes: it runs this implementation.
    pub(crate) fn is_sequenced(
        &mut self,
        transaction: &Transaction,
        peer: PeerId,
    ) -> Result<bool, StoreError> {
        Ok(self
            .dedup_of(transaction, peer)?
            .applied
            .epochs()
            .next()
            .is_some())
    }

    /// True when the envelope was applied, or refused, before.
    pub(crate) fn is_duplicate(
        &mut self,
        transaction: &Transaction,
        peer: PeerId,
        inbound: &InboundEnvelope,
    ) -> Result<bool, StoreError> {
        let seen = self.dedup_of(transaction, peer)?;
        Ok(match inbound.queue_position {
            Some((epoch, sequence)) => seen.applied.contains(epoch, sequence),
            // One that was refused without a place has no mark; it stays refused while that is remembered.
            None => {
                seen.is_recent(&inbound.id)
                    || seen.refusal(&inbound.id).is_some()
                    || transaction
                        .store()
                        .get(&applied_id_key(peer, &inbound.id))?
                        .is_some()
            }
        })
    }

    /// Why this envelope was refused before, if it was and that is remembered.
    pub(crate) fn refusal_of(
        &mut self,
        transaction: &Transaction,
        peer: PeerId,
        envelope_id: &str,
    ) -> Result<Option<String>, StoreError> {
        let seen = self.dedup_of(transaction, peer)?;
        Ok(seen.refusal(envelope_id).map(str::to_owned))
    }

    /// Remembers that this envelope was refused, and why.
    pub(crate) fn remember_refusal(
        &mut self,
        transaction: &Transaction,
        peer: PeerId,
        envelope_id: &str,
        reason: &str,
    ) -> Result<(), StoreError> {
        self.dedup_of(transaction, peer)?.refuse(envelope_id, reason);
        Ok(())
    }

    /// The peer numbers its envelopes, as one of its envelopes says: known from now on, also if nothing but
    /// acknowledgements ever comes.
    pub(crate) fn note_epoch(
        &mut self,
        transaction: &mut Transaction,
        peer: PeerId,
        epoch: u64,
    ) -> Result<(), StoreError> {
        if epoch == 0 || self.is_sequenced(transaction, peer)? {
            return Ok(());
        }
        self.dedup_of(transaction, peer)?.applied.insert(epoch, 0);
        self.save_dedup(transaction, peer)
    }

    /// What is remembered of a peer.
    pub(super) fn dedup_of(
        &mut self,
        transaction: &Transaction,
        peer: PeerId,
    ) -> Result<&mut PeerDedup, StoreError> {
        if !self.dedup.contains(&peer) {
            let record = transaction
                .store()
                .get(&schema::key(tag::APPLIED, &peer.to_bytes()))?;
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
    pub(crate) fn mark_applied(
        &mut self,
        transaction: &mut Transaction,
        now: Now,
        peer: PeerId,
        envelope_id: &str,
        place: Option<(u64, u64)>,
        refused: bool,
    ) -> Result<(), StoreError> {
        let seen = self.dedup_of(transaction, peer)?;
        let slot = match place {
            Some((epoch, sequence)) => {
                seen.applied.insert(epoch, sequence);
                None
            }
            None if refused => return Ok(()),
            None => Some(seen.insert(envelope_id)),
        };
        self.save_dedup(transaction, peer)?;
        let name = peer.to_bytes();
        let Some(slot) = slot else { return Ok(()) };
        if let Some(old) = slot.checked_sub(dedup::WINDOW) {
            let old_key = schema::numbered(tag::APPLIED_SLOT, &name, old);
            let old_slot: Option<AppliedIdRecord> = transaction
                .store()
                .get(&old_key)?
                .and_then(|bytes| schema::decode(&bytes));
            if let Some(old_slot) = old_slot {
                transaction
                    .batch()
                    .delete(applied_id_key(peer, &old_slot.envelope_id));
            }
            transaction.batch().delete(old_key);
        }
        let record = AppliedIdRecord {
            envelope_id: envelope_id.to_owned(),
            at: transaction.clock_ms(now),
        };
        transaction.batch().put(
            schema::numbered(tag::APPLIED_SLOT, &name, slot),
            schema::encode(&record),
        );
        transaction
            .batch()
            .put(applied_id_key(peer, envelope_id), Vec::new());
        Ok(())
    }

    /// Forgets the ids of envelopes that no deployed peer sends again: those older than the time
    /// that an envelope is kept for a peer, here or there. Done at the start, over the whole store.
    pub(super) fn forget_old_ids(&self, transaction: &mut Transaction, now: Now) -> Result<(), StoreError> {
        let Some(ttl) = self.offline_ttl else {
            return Ok(());
        };
        let kept = ttl.max(DEPLOYED_TTL);
        let before = transaction.clock_ms(now).saturating_sub(kept.as_millis() as u64);
        let (store, batch) = transaction.store_and_batch();
        agentanycast_store::for_each(store, &[tag::APPLIED_SLOT], |key, value| {
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
    pub(super) fn save_dedup(
        &mut self,
        transaction: &mut Transaction,
        peer: PeerId,
    ) -> Result<(), StoreError> {
        let at = transaction.clock_ms(transaction.time());
        let seen = self.dedup_of(transaction, peer)?;
        let next_slot = seen.next_slot;
        let (epochs, highest) = seen.applied.epochs().unzip();
        let record = AppliedRecord {
            epochs,
            highest,
            next_slot,
            at,
        };
        transaction.batch().put(
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
