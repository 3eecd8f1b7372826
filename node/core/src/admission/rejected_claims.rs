//! PURE: what peers say of themselves and does not count, with the reasons, for whoever asks why one was denied.
//!
//! The rule: a bounded list of short texts, whatever is claimed. The peer is told nothing of it.

use std::{num::NonZeroUsize, sync::Arc};

use agentanycast_identity::PeerId;
use lru::LruCache;

/// Peers of whom it is kept, the latest: with the longest reasons some 8 MiB.
const PEERS: NonZeroUsize = NonZeroUsize::new(2048).unwrap();

/// Reasons of each: two names and eight credentials.
const EACH: usize = 10;

/// Longest reason, in bytes.
const MAX_REASON: usize = 400;

/// Of a peer whose tasks do not wait any longer.
pub(crate) const LOOKUP_TIMED_OUT: &str = "what it says of itself was not looked up in time";

/// See the module's text.
#[derive(Debug)]
pub(super) struct RejectedClaims {
    kept: LruCache<PeerId, Arc<[String]>>,
}

impl Default for RejectedClaims {
    fn default() -> Self {
        Self {
            kept: LruCache::new(PEERS),
        }
    }
}

impl RejectedClaims {
    /// This does not count of a peer from now on, and nothing else.
    pub(super) fn set(&mut self, peer: PeerId, reasons: Vec<String>) {
        if reasons.is_empty() {
            self.kept.pop(&peer);
            return;
        }
        let short = |mut reason: String| {
            reason.truncate(reason.floor_char_boundary(MAX_REASON));
            reason
        };
        let reasons = reasons.into_iter().take(EACH).map(short).collect();
        self.kept.put(peer, reasons);
    }

    /// What does not count of a peer.
    pub(super) fn of_peer(&mut self, peer: PeerId) -> Arc<[String]> {
        self.kept.get(&peer).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use agentanycast_identity::{Keypair, peer_id};

    use super::*;

    fn peer(n: u32) -> PeerId {
        let mut seed = [0; 32];
        seed[..4].copy_from_slice(&n.to_be_bytes());
        peer_id(&Keypair::ed25519_from_bytes(seed).unwrap())
    }

    #[test]
    fn the_last_word_on_a_peer_is_kept_and_short() {
        let mut unproven = RejectedClaims::default();
        unproven.set(peer(1), vec!["ä".repeat(MAX_REASON); 2 * EACH]);
        let kept = unproven.of_peer(peer(1));
        assert_eq!(
            (kept.len(), kept.iter().map(String::len).max()),
            (EACH, Some(MAX_REASON))
        );
        unproven.set(peer(1), vec!["no".to_owned()]);
        assert_eq!(*unproven.of_peer(peer(1)), ["no".to_owned()]);
        unproven.set(peer(1), Vec::new());
        assert!(unproven.of_peer(peer(1)).is_empty() && unproven.kept.is_empty());
    }

    #[test]
    fn a_flood_of_peers_is_bounded() {
        let mut unproven = RejectedClaims::default();
        let count = PEERS.get() as u32 + 2;
        for n in 0..count {
            unproven.set(peer(n), vec!["no".to_owned()]);
        }
        assert_eq!(unproven.kept.len(), PEERS.get());
        assert!(unproven.of_peer(peer(0)).is_empty() && !unproven.of_peer(peer(count - 1)).is_empty());
    }
}
