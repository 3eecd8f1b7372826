//! What is kept of other nodes between runs: their cards and their addresses. Bounded: the newest
//! [`MAX_PEERS`] stay.

use std::{num::NonZeroUsize, sync::Arc};

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::AgentCard;
use agentanycast_store::{Batch, Store, StoreError};
use bytes::Bytes;
use lru::LruCache;
use prost::Message as _;

use super::records::TextsRecord;
use crate::schema::{self, tag};

/// Most peers whose card, or whose addresses, are kept (docs/protocol.md, "Agent cards").
pub(super) const MAX_PEERS: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// Cards in memory; the rest is read from the store. At their largest, decoded, they take 2 MiB each.
const CARDS_IN_MEMORY: NonZeroUsize = NonZeroUsize::new(32).unwrap();

/// Longest name of a card that is kept beside it, in bytes: what is longer is no name to be called by.
const MAX_NAME: usize = 128;

/// What is known of a kept card without reading it.
struct StoredCard {
    /// Its size in bytes, encoded.
    size: usize,
    /// Its name, as far as it is kept; empty in a record of an older version, until the card comes again.
    name: String,
}

impl StoredCard {
    fn from_card(card: &AgentCard, size: usize) -> Self {
        let name = if card.name.len() <= MAX_NAME {
            card.name.clone()
        } else {
            String::new()
        };
        Self { size, name }
    }

    /// Eight bytes of size, then the name.
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = (self.size as u64).to_be_bytes().to_vec();
        bytes.extend_from_slice(self.name.as_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (size, name) = bytes.split_first_chunk::<8>()?;
        Some(Self {
            size: u64::from_be_bytes(*size) as usize,
            name: String::from_utf8_lossy(name).into_owned(),
        })
    }
}

/// See the module's text.
pub(super) struct PeerStore {
    own: Option<Arc<AgentCard>>,
    cards: LruCache<PeerId, Arc<AgentCard>>,
    with_card: LruCache<PeerId, StoredCard>,
    addresses: LruCache<PeerId, Vec<String>>,
    listen: Vec<String>,
}

impl PeerStore {
    /// As the store has it.
    pub(super) fn load(store: &dyn Store) -> Result<Self, StoreError> {
        let own = agentanycast_store::get_large(store, &schema::key(tag::OWN_CARD, b""))?;
        let listen = store.get(&schema::key(tag::LISTEN, b""))?;
        let mut peers = Self {
            own: own.and_then(|bytes| schema::decode(&bytes)).map(Arc::new),
            cards: LruCache::new(CARDS_IN_MEMORY),
            with_card: LruCache::new(MAX_PEERS),
            addresses: LruCache::new(MAX_PEERS),
            listen: texts(listen.as_deref()),
        };
        agentanycast_store::for_each(store, &[tag::CARD_SIZE], |key, value| {
            if let (Some(peer), Some(entry)) = (peer_of(key), StoredCard::read(value)) {
                peers.with_card.put(peer, entry);
            } else {
                tracing::warn!("the size of a peer's card is damaged; the card is asked for again");
            }
            Ok::<(), StoreError>(())
        })?;
        agentanycast_store::for_each(store, &[tag::ADDRESSES], |key, value| {
            if let Some(peer) = peer_of(key) {
                peers.addresses.put(peer, texts(Some(value)));
            } else {
                tracing::warn!("the record of a peer's addresses is damaged; they are looked up again");
            }
            Ok::<(), StoreError>(())
        })?;
        Ok(peers)
    }

    /// The card of the local agent.
    pub(super) fn own(&self) -> Option<&Arc<AgentCard>> {
        self.own.as_ref()
    }

    /// Sets the card of the local agent.
    pub(super) fn set_own(&mut self, card: AgentCard, batch: &mut Batch) {
        batch.put_large(&schema::key(tag::OWN_CARD, b""), card.encode_to_vec());
        self.own = Some(Arc::new(card));
    }

    /// The local agent has no card any more.
    pub(super) fn clear_own(&mut self, batch: &mut Batch) {
        if let Some(card) = self.own.take() {
            batch.delete_large(&schema::key(tag::OWN_CARD, b""), card.encoded_len());
        }
    }

    /// The newest card of a peer.
    pub(super) fn card(
        &mut self,
        store: &dyn Store,
        peer: PeerId,
    ) -> Result<Option<Arc<AgentCard>>, StoreError> {
        if let Some(card) = self.cards.get(&peer) {
            return Ok(Some(Arc::clone(card)));
        }
        if self.with_card.get(&peer).is_none() {
            return Ok(None);
        }
        let card: Option<AgentCard> =
            agentanycast_store::get_large(store, &schema::key(tag::CARD, &peer.to_bytes()))?
                .and_then(|bytes| schema::decode(&bytes));
        let card = card.map(Arc::new);
        if let Some(card) = &card {
            self.cards.put(peer, Arc::clone(card));
        }
        Ok(card)
    }

    /// The peers that have shown a card, the latest first, with the names on them.
    pub(super) fn names(&self) -> impl Iterator<Item = (PeerId, &str)> {
        self.with_card
            .iter()
            .map(|(peer, entry)| (*peer, entry.name.as_str()))
    }

    /// Keeps a peer's card; the oldest peer's goes when there are too many.
    pub(super) fn put_card(&mut self, peer: PeerId, bytes: &Bytes, batch: &mut Batch) {
        let Some(card) = schema::decode::<AgentCard>(bytes) else {
            return; // Whoever passed it on has decoded it.
        };
        // It is shown again on each connection; `get` makes it the latest.
        if self.with_card.get(&peer).is_some() && self.cards.peek(&peer).is_some_and(|known| **known == card)
        {
            return;
        }
        let name = peer.to_bytes();
        let entry = StoredCard::from_card(&card, bytes.len());
        let kept_entry = entry.to_bytes();
        if let Some((gone, StoredCard { size, .. })) = self.with_card.push(peer, entry) {
            let gone_name = gone.to_bytes();
            batch.delete_large(&schema::key(tag::CARD, &gone_name), size);
            if gone != peer {
                batch.delete(schema::key(tag::CARD_SIZE, &gone_name));
                self.cards.pop(&gone);
            }
        }
        batch.put_large(&schema::key(tag::CARD, &name), bytes.clone());
        batch.put(schema::key(tag::CARD_SIZE, &name), kept_entry);
        self.cards.put(peer, Arc::new(card));
    }

    /// The addresses of all peers, for the network's start.
    pub(super) fn all_addresses(&self) -> Vec<(PeerId, Vec<String>)> {
        self.addresses
            .iter()
            .map(|(peer, addresses)| (*peer, addresses.clone()))
            .collect()
    }

    /// Keeps a peer's addresses.
    pub(super) fn put_addresses(&mut self, peer: PeerId, addresses: Vec<String>, batch: &mut Batch) {
        if self.addresses.get(&peer) == Some(&addresses) {
            return;
        }
        if let Some((gone, _)) = self.addresses.push(peer, addresses.clone())
            && gone != peer
        {
            batch.delete(schema::key(tag::ADDRESSES, &gone.to_bytes()));
        }
        let record = TextsRecord { texts: addresses };
        batch.put(
            schema::key(tag::ADDRESSES, &peer.to_bytes()),
            schema::encode(&record),
        );
    }

    /// Where the last run listened.
    pub(super) fn listen(&self) -> &[String] {
        &self.listen
    }

    /// Keeps where this run listens.
    pub(super) fn set_listen(&mut self, addresses: Vec<String>, batch: &mut Batch) {
        let record = TextsRecord {
            texts: addresses.clone(),
        };
        batch.put(schema::key(tag::LISTEN, b""), schema::encode(&record));
        self.listen = addresses;
    }
}

fn peer_of(key: &[u8]) -> Option<PeerId> {
    PeerId::from_bytes(schema::split(key)?.0).ok()
}

fn texts(bytes: Option<&[u8]>) -> Vec<String> {
    let record: Option<TextsRecord> = bytes.and_then(schema::decode);
    record.unwrap_or_default().texts
}
