//! Peers that have been silent for long are forgotten: where the numbers of their envelopes stood, and where
//! ours to them do. Else the store would keep a little of every peer that ever came.
//!
//! The rule: a peer is forgotten only when nothing can be on its way any more. Envelopes wait a day for
//! their peer unless the operator sets another time (`offline_queue_ttl`).

use std::time::Duration;

use agentanycast_identity::PeerId;
use agentanycast_store::StoreError;

use super::{
    Peers,
    applied::applied_id_key,
    records::{AppliedIdRecord, AppliedRecord, OutboxRecord},
};
use crate::{
    clock::Now,
    schema::{self, tag},
    transaction::Transaction,
};

/// How long a peer has to be silent, in milliseconds: 30 days.
const SILENCE: u64 = 30 * 24 * 60 * 60 * 1000;

/// How often some peers are looked at.
const EVERY: Duration = Duration::from_secs(10);

/// How many: a hundred thousand take an hour.
const AT_ONCE: usize = 256;

/// How far the round through all peers has come.
pub(super) struct PeerGc {
    last: Duration,
    tag: u8,
    after: Option<Vec<u8>>,
}

impl PeerGc {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            last: now,
            tag: tag::APPLIED,
            after: None,
        }
    }
}

impl Peers {
    /// Looks at some peers, and forgets those that have been silent for [`SILENCE`].
    pub(crate) fn forget_silent(
        &mut self,
        transaction: &mut Transaction,
        now: Now,
    ) -> Result<(), StoreError> {
        if now.mono.saturating_sub(self.gc.last) < EVERY {
            return Ok(());
        }
        self.gc.last = now.mono;
        let passed = transaction.clock_ms(now);
        let (kind, after) = (self.gc.tag, self.gc.after.take());
        let page = transaction.store().scan(&[kind], after.as_deref(), AT_ONCE)?;
        for (key, value) in &page {
            let peer = schema::split(key).and_then(|(name, _)| PeerId::from_bytes(name).ok());
            let written = match kind {
                tag::APPLIED => schema::decode(value).map(|record: AppliedRecord| record.at),
                _ => schema::decode(value).map(|record: OutboxRecord| record.at),
            };
            if let (Some(peer), Some(written)) = (peer, written)
                && written.saturating_add(SILENCE) < passed
                && !self.connected.contains(&peer)
                // A queue is in memory while anything is in it.
                && !self.queues.contains_key(&peer)
            {
                self.forget_peer(transaction, kind, peer, key)?;
            }
        }
        if page.len() < AT_ONCE {
            self.gc.tag = if kind == tag::APPLIED {
                tag::OUTBOX
            } else {
                tag::APPLIED
            };
        } else {
            self.gc.after = page.into_iter().next_back().map(|(key, _)| key);
        }
        Ok(())
    }

    fn forget_peer(
        &mut self,
        transaction: &mut Transaction,
        kind: u8,
        peer: PeerId,
        key: &[u8],
    ) -> Result<(), StoreError> {
        transaction.batch().delete(key.to_vec());
        if kind != tag::APPLIED {
            return Ok(());
        }
        self.dedup.pop(&peer);
        let (store, batch) = transaction.store_and_batch();
        agentanycast_store::for_each(
            store,
            &schema::key(tag::APPLIED_SLOT, &peer.to_bytes()),
            |key, value| {
                if let Some(slot) = schema::decode::<AppliedIdRecord>(value) {
                    batch.delete(applied_id_key(peer, &slot.envelope_id));
                }
                batch.delete(key.to_vec());
                Ok(())
            },
        )
    }
}
