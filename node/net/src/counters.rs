//! What the network floor has done, counted. Each figure only grows; readers take a relaxed snapshot.
//! The one rule: whatever is refused or dropped on this floor is counted here, so nothing is lost
//! without a trace.

use std::{
    num::NonZeroUsize,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use agentanycast_identity::PeerId;
use lru::LruCache;

/// Peers whose faults have been logged; a fault of the longest forgotten one is logged again.
const LOGGED_PEERS: NonZeroUsize = NonZeroUsize::new(10_000).expect("not zero");

/// One figure that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// The figure so far.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    pub(crate) fn increment(&self) {
        self.add(1);
    }
}

/// Who has been complained about in the log: each peer once, or a hostile one could fill the disk with lines.
#[derive(Debug)]
pub(super) struct LoggedPeers(Mutex<LruCache<PeerId, ()>>);

impl Default for LoggedPeers {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(LOGGED_PEERS)))
    }
}

impl LoggedPeers {
    /// Whether this is the first complaint about `peer`.
    pub(super) fn is_first(&self, peer: PeerId) -> bool {
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        logged.put(peer, ()).is_none()
    }
}

/// The figures of one node since its start.
#[derive(Debug, Default)]
pub struct Counters {
    /// Envelope frames received whole.
    pub frames_in: Counter,
    /// Envelope frames written and flushed.
    pub frames_out: Counter,
    /// Payload bytes of `frames_in`.
    pub bytes_in: Counter,
    /// Payload bytes of `frames_out`.
    pub bytes_out: Counter,
    /// Inbound streams reset because a queue or a peer's share of streams was full.
    pub refused_streams: Counter,
    /// Inbound streams reset because a frame was over the limit.
    pub oversized_frames: Counter,
    /// Inbound streams reset because a frame did not arrive in time or ended half way.
    pub broken_frames: Counter,
    /// Cards dropped because they claim another peer.
    pub wrong_cards: Counter,
    /// Cards dropped because they are too large or no card at all.
    pub bad_cards: Counter,
    /// Connections made by this node.
    pub connections_out: Counter,
    /// Connections made by others.
    pub connections_in: Counter,
    /// Direct connections that hole punching made out of relayed ones.
    pub holes_punched: Counter,
    /// Attempts of hole punching that came to nothing.
    pub holes_missed: Counter,
    /// Dials that reached nobody.
    pub dial_failures: Counter,
    /// Inbound connections that failed or were refused before they stood.
    pub refused_connections: Counter,
    /// Peers that were to be redialled but not taken, because the list of wanted peers was full.
    pub refused_wanted: Counter,
    /// Records of agents in the DHT that were not believed or not kept: forged, expired, too long, older, or no room.
    pub refused_records: Counter,
    /// Announcements of skills in the DHT that were not kept: no room, or no skill.
    pub refused_providers: Counter,
    pub(super) complaints: LoggedPeers,
}
