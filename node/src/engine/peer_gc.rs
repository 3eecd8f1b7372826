//! Peers that have been silent for long are forgotten: where the numbers of their envelopes stood, and where
//! ours to them do. Else the store would keep a little of every peer that ever came.
//!
//! The rule: a peer is forgotten only when nothing can be on its way any more. Envelopes wait a day for
//! their peer unless the operator sets another time (`offline_queue_ttl`).

use std::{sync::Arc, time::Duration};

use agentanycast_identity::PeerId;
use agentanycast_store::{self as store, Store as _, StoreError};

use super::{
    applied::applied_id_key,
    schema::{self, AppliedIdRecord, AppliedRecord, OutboxRecord, tag},
    state::Core,
    transaction::Now,
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

impl Core {
    /// Looks at some peers, and forgets those that have been silent for [`SILENCE`].
    pub(super) fn forget_silent_peers(&mut self, now: Now) -> Result<(), StoreError> {
        if now.mono.saturating_sub(self.peer_gc.last) < EVERY {
            return Ok(());
        }
        self.peer_gc.last = now.mono;
        let passed = self.clock_ms(now);
        let (kind, after) = (self.peer_gc.tag, self.peer_gc.after.take());
        let page = self.store.scan(&[kind], after.as_deref(), AT_ONCE)?;
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
                self.forget_peer(kind, peer, key)?;
            }
        }
        if page.len() < AT_ONCE {
            self.peer_gc.tag = if kind == tag::APPLIED {
                tag::OUTBOX
            } else {
                tag::APPLIED
            };
        } else {
            self.peer_gc.after = page.into_iter().next_back().map(|(key, _)| key);
        }
        Ok(())
    }

    fn forget_peer(&mut self, kind: u8, peer: PeerId, key: &[u8]) -> Result<(), StoreError> {
        self.transaction.batch.delete(key.to_vec());
        if kind != tag::APPLIED {
            return Ok(());
        }
        self.dedup.pop(&peer);
        let store = Arc::clone(&self.store);
        let batch = &mut self.transaction.batch;
        store::for_each(
            &*store,
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
