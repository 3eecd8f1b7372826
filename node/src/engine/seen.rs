//! Which envelopes were applied before: the marks, in memory and in the batch of the envelope's
//! effect.

use std::{sync::Arc, time::Duration};

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::a2a_envelope::Payload;

use super::{
    core::Core,
    records::{self, SeenRecord, SlotRecord, tag},
    turn::Now,
};
use crate::{
    delivery::{
        dedup::{self, Applied, Seen},
        inbox::Inbound,
    },
    store::{self, Store as _, StoreError},
    task::Role,
};

/// How long a deployed peer keeps an envelope to send it again (docs/protocol.md, "Envelopes").
const DEPLOYED_TTL: Duration = Duration::from_hours(24);

impl Core {
    /// True when the peer numbers its envelopes: it runs this implementation.
    pub(super) fn is_ours(&mut self, peer: PeerId) -> Result<bool, StoreError> {
        Ok(self.seen(peer)?.applied.epochs().next().is_some())
    }

    /// True when the envelope was applied, or refused, before.
    pub(super) fn is_duplicate(&mut self, peer: PeerId, inbound: &Inbound) -> Result<bool, StoreError> {
        let seen = self.seen(peer)?;
        Ok(match inbound.place {
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
        Ok(self.store.get(&seen_id_key(peer, envelope_id))?.is_some())
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
                    && (message.is_empty() || task.knows_message(message)) =>
            {
                None
            }
            // It was collected; how it ended is on its way.
            None if self.waits_for(peer, &send.task_id) => None,
            _ => Some("it was refused before, or its task was collected".into()),
        })
    }

    /// What is remembered of a peer.
    pub(super) fn seen(&mut self, peer: PeerId) -> Result<&mut Seen, StoreError> {
        if !self.seen.contains(&peer) {
            let record = self.store.get(&records::key(tag::SEEN, &peer.to_bytes()))?;
            let record: SeenRecord = record
                .and_then(|bytes| records::decode(&bytes))
                .unwrap_or_default();
            let applied = Applied::restore(record.epochs.into_iter().zip(record.highest));
            self.seen.put(peer, Seen::new(applied, record.next_slot));
        }
        Ok(self
            .seen
            .get_or_insert_mut(peer, || Seen::new(Applied::default(), 0)))
    }

    /// Marks an envelope as applied, in the batch of its effect. A refused one without a place in a
    /// queue leaves no mark: it had no effect, and is refused again.
    pub(super) fn mark(
        &mut self,
        now: Now,
        peer: PeerId,
        envelope_id: &str,
        place: Option<(u64, u64)>,
        refused: bool,
    ) -> Result<(), StoreError> {
        let seen = self.seen(peer)?;
        let slot = match place {
            Some((epoch, sequence)) => {
                seen.applied.insert(epoch, sequence);
                None
            }
            None if refused => return Ok(()),
            None => Some(seen.insert(envelope_id)),
        };
        self.keep_seen(peer)?;
        let name = peer.to_bytes();
        let Some(slot) = slot else { return Ok(()) };
        if let Some(old) = slot.checked_sub(dedup::WINDOW) {
            let old_key = records::numbered(tag::SEEN_SLOT, &name, old);
            let old_slot: Option<SlotRecord> = self
                .store
                .get(&old_key)?
                .and_then(|bytes| records::decode(&bytes));
            if let Some(old_slot) = old_slot {
                self.batch().delete(seen_id_key(peer, &old_slot.envelope_id));
            }
            self.batch().delete(old_key);
        }
        let record = SlotRecord {
            envelope_id: envelope_id.to_owned(),
            at: self.passed(now),
        };
        self.batch().put(
            records::numbered(tag::SEEN_SLOT, &name, slot),
            records::encode(&record),
        );
        self.batch().put(seen_id_key(peer, envelope_id), Vec::new());
        Ok(())
    }

    /// Forgets the ids of envelopes that no deployed peer sends again: those older than the time
    /// that an envelope is kept for a peer, here or there. Done at the start, over the whole store.
    pub(super) fn forget_old_ids(&mut self, now: Now) -> Result<(), StoreError> {
        let Some(ttl) = self.limits.offline_ttl else {
            return Ok(());
        };
        let kept = ttl.max(DEPLOYED_TTL);
        let before = self.passed(now).saturating_sub(kept.as_millis() as u64);
        let store = Arc::clone(&self.store);
        let batch = &mut self.turn.batch;
        store::for_each(&*store, &[tag::SEEN_SLOT], |key, value| {
            let peer = records::split(key).and_then(|(name, _)| PeerId::from_bytes(name).ok());
            let slot: Option<SlotRecord> = records::decode(value);
            if let (Some(peer), Some(slot)) = (peer, slot)
                && slot.at < before
            {
                batch.delete(seen_id_key(peer, &slot.envelope_id));
                batch.delete(key.to_vec());
            }
            Ok(())
        })
    }

    /// Writes down what is remembered of a peer.
    pub(super) fn keep_seen(&mut self, peer: PeerId) -> Result<(), StoreError> {
        let at = self.passed(self.now);
        let seen = self.seen(peer)?;
        let next_slot = seen.next_slot;
        let (epochs, highest) = seen.applied.epochs().unzip();
        let record = SeenRecord {
            epochs,
            highest,
            next_slot,
            at,
        };
        self.batch().put(
            records::key(tag::SEEN, &peer.to_bytes()),
            records::encode(&record),
        );
        Ok(())
    }
}

pub(super) fn seen_id_key(peer: PeerId, envelope_id: &str) -> Vec<u8> {
    [
        records::key(tag::SEEN_ID, &peer.to_bytes()),
        envelope_id.as_bytes().to_vec(),
    ]
    .concat()
}
