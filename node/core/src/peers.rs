//! Other nodes: what waits for each, which of their envelopes were applied, what is acknowledged to them, who is
//! connected, their cards and addresses, and who followed whom by a change of keys.

mod acks;
mod applied;
mod gc;
mod key_rotation;
mod log;
mod outbound;
mod outbound_queue;
mod peer_store;
mod records;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    num::NonZeroUsize,
    sync::Arc,
    time::Duration,
};

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{AckPayload, AgentCard};
use agentanycast_store::StoreError;
use bytes::Bytes;
use lru::LruCache;

#[cfg(test)]
pub(crate) use self::outbound::MAX_ANSWERS;
pub(crate) use self::outbound::{OutgoingEnvelope, PolledEnvelope};
use self::{gc::PeerGc, key_rotation::KeyRotations, outbound_queue::OutboundQueue, peer_store::PeerStore};
use super::{
    clock::Now,
    transaction::{EngineLimits, Transaction},
};

use crate::{delivery::dedup::PeerDedup, task::NetworkPath};

/// Peers whose past envelopes are remembered in memory; the rest is on disk. More than transactions can wait for the
/// barrier, so that what is dropped from memory is on disk already.
const DEDUP_CACHE_PEERS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// See the module's text.
pub(crate) struct Peers {
    /// Names this run, so that a queue's record of another one is known: see [`OutboundQueue::load`].
    run: u64,
    /// Waits before an un-acknowledged envelope is sent again.
    retry_delays: Vec<Duration>,
    /// How long an envelope waits for its peer; None: for ever.
    offline_ttl: Option<Duration>,
    queues: BTreeMap<PeerId, OutboundQueue>,
    /// Queues to be polled at the end of the transaction.
    dirty: BTreeSet<PeerId>,
    /// Queues with more bytes in memory than should stay there.
    heavy: BTreeSet<PeerId>,
    dedup: LruCache<PeerId, PeerDedup>,
    connected: HashSet<PeerId>,
    /// Peers that the network is asked to reach.
    wanted: HashSet<PeerId>,
    next_stream: u64,
    /// Acknowledgements of the running transaction, which others may still join.
    pending_acks: Vec<(PeerId, AckPayload)>,
    store: PeerStore,
    rotations: KeyRotations,
    gc: PeerGc,
    /// When the connected peers were last asked about open tasks.
    last_query: Duration,
}

impl Peers {
    /// What the store knows of peers.
    pub(crate) fn load(
        transaction: &mut Transaction,
        limits: &EngineLimits,
        now: Now,
    ) -> Result<Self, StoreError> {
        let mut peers = Self {
            run: transaction.new_epoch(),
            retry_delays: limits.retry_delays.clone(),
            offline_ttl: limits.offline_ttl,
            queues: BTreeMap::new(),
            dirty: BTreeSet::new(),
            heavy: BTreeSet::new(),
            dedup: LruCache::new(DEDUP_CACHE_PEERS),
            connected: HashSet::new(),
            wanted: HashSet::new(),
            next_stream: 1,
            pending_acks: Vec::new(),
            store: PeerStore::load(transaction.store())?,
            rotations: KeyRotations::load(transaction.store(), now)?,
            gc: PeerGc::new(now.mono),
            last_query: now.mono,
        };
        peers.load_queues(transaction)?;
        peers.forget_old_ids(transaction, now)?;
        Ok(peers)
    }

    /// The first connection to a peer is up.
    pub(crate) fn on_connected(
        &mut self,
        transaction: &mut Transaction,
        peer: PeerId,
    ) -> Result<(), StoreError> {
        self.connected.insert(peer);
        if let Some(seen) = self.dedup.get_mut(&peer) {
            seen.restore_capacity();
        }
        self.queue(transaction, peer)?;
        self.dirty.insert(peer);
        Ok(())
    }

    /// A newer connection to a peer is there: its envelope stream starts again on that one.
    pub(crate) fn on_renewed(&mut self, transaction: &mut Transaction, peer: PeerId) {
        if let Some(stream) = self.queues.get(&peer).map(OutboundQueue::stream) {
            self.on_stream_closed(transaction, peer, stream);
        }
    }

    /// The last connection to a peer is gone.
    pub(crate) fn on_disconnected(&mut self, transaction: &mut Transaction, peer: PeerId) {
        self.connected.remove(&peer);
        if let Some(seen) = self.dedup.get_mut(&peer) {
            seen.trim();
        }
        let Some(stream) = self.queues.get(&peer).map(OutboundQueue::stream) else {
            return;
        };
        self.on_stream_closed(transaction, peer, stream);
        let durable = transaction.durable();
        match self.queues.get(&peer) {
            Some(queue) if !queue.outbox().is_empty() => self.set_wanted(transaction, peer, true),
            // An empty queue is in the store; in memory it would stay for every peer that ever came.
            Some(queue) if queue.is_written(durable) => drop(self.queues.remove(&peer)),
            _ => {}
        }
    }

    /// Envelope stream number `stream` to the peer is open, and goes over this path.
    pub(crate) fn on_stream_opened(&mut self, peer: PeerId, stream: u64, path: NetworkPath) {
        if let Some(queue) = self.queue_on(peer, stream) {
            queue.on_stream_open(path);
            self.dirty.insert(peer);
        }
    }

    /// Envelope stream number `stream` to the peer is gone, or could not be opened.
    pub(crate) fn on_stream_closed(&mut self, transaction: &mut Transaction, peer: PeerId, stream: u64) {
        let Some(queue) = self.queue_on(peer, stream) else {
            return;
        };
        let lost = queue.outbox_mut().on_stream_closed();
        for entry in lost {
            self.on_left_queue(transaction, peer, &entry);
        }
        self.dirty.insert(peer);
    }

    fn queue_on(&mut self, peer: PeerId, stream: u64) -> Option<&mut OutboundQueue> {
        self.queues
            .get_mut(&peer)
            .filter(|queue| queue.stream() == stream)
    }

    /// Whether a connection to the peer is up.
    pub(crate) fn is_connected(&self, peer: PeerId) -> bool {
        self.connected.contains(&peer)
    }

    /// The peers to which a connection is up, in no order.
    pub(crate) fn connected(&self) -> impl Iterator<Item = PeerId> {
        self.connected.iter().copied()
    }

    /// The connected peers, if it is time to ask them about open tasks: once in the time after which their reports
    /// expire, since a report may have expired without the connection having been lost.
    pub(crate) fn due_for_query(&mut self, now: Now) -> Vec<PeerId> {
        let Some(ttl) = self.offline_ttl else {
            return Vec::new();
        };
        if now.mono.saturating_sub(self.last_query) < ttl {
            return Vec::new();
        }
        self.last_query = now.mono;
        let mut peers: Vec<PeerId> = self.connected().collect();
        peers.sort_unstable();
        peers
    }

    /// The first `batches` batches are durable: what they hold need not stay in memory.
    pub(crate) fn on_durable(&mut self, batches: u64) {
        let queues = &mut self.queues;
        self.heavy.retain(|peer| match queues.get_mut(peer) {
            Some(queue) if !queue.is_written(batches) => true,
            Some(queue) => {
                queue.trim();
                false
            }
            None => false,
        });
    }

    /// The card of the local agent.
    pub(crate) fn own_card(&self) -> Option<&Arc<AgentCard>> {
        self.store.own()
    }

    /// Sets the card of the local agent.
    pub(crate) fn set_own_card(&mut self, transaction: &mut Transaction, card: AgentCard) {
        self.store.set_own(card, transaction.batch());
    }

    /// The local agent has no card any more.
    pub(crate) fn clear_own_card(&mut self, transaction: &mut Transaction) {
        self.store.clear_own(transaction.batch());
    }

    /// The newest card that a peer has shown.
    pub(crate) fn card(
        &mut self,
        transaction: &Transaction,
        peer: PeerId,
    ) -> Result<Option<Arc<AgentCard>>, StoreError> {
        let card = self.store.card(transaction.store(), peer)?;
        Ok(card.filter(|card| {
            !card
                .p2p_extension
                .as_ref()
                .is_some_and(|extension| extension.no_agent)
        }))
    }

    /// The peers that have shown a card, the latest first, with the names on them; an empty name is none.
    pub(crate) fn names(&self) -> impl Iterator<Item = (PeerId, &str)> {
        self.store.names()
    }

    /// A peer has shown its card; encoded, as it came.
    pub(crate) fn put_card(&mut self, transaction: &mut Transaction, peer: PeerId, card: &Bytes) {
        self.store.put_card(peer, card, transaction.batch());
    }

    /// The addresses of all peers, as kept.
    pub(crate) fn addresses(&self) -> Vec<(PeerId, Vec<String>)> {
        self.store.all_addresses()
    }

    /// A peer's addresses are known.
    pub(crate) fn put_addresses(
        &mut self,
        transaction: &mut Transaction,
        peer: PeerId,
        addresses: Vec<String>,
    ) {
        self.store.put_addresses(peer, addresses, transaction.batch());
    }

    /// Where the last run, or this one, listens.
    pub(crate) fn listen_addresses(&self) -> &[String] {
        self.store.listen()
    }

    /// Where this run listens.
    pub(crate) fn set_listen_addresses(&mut self, transaction: &mut Transaction, addresses: Vec<String>) {
        self.store.set_listen(addresses, transaction.batch());
    }
}
