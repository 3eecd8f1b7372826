//! What the network floor has done, counted. Each figure only grows; readers take a relaxed snapshot.
//! The one rule: whatever is refused or dropped on this floor is counted here, so nothing is lost
//! without a trace.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
    /// Dials that reached nobody.
    pub dial_failures: Counter,
    /// Inbound connections that failed or were refused before they stood.
    pub refused_connections: Counter,
    /// Peers that were to be redialled but not taken, because the list of wanted peers was full.
    pub refused_wanted: Counter,
}
