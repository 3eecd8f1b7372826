//! PURE: frames of peers that wait until it is known who else they are.
//!
//! A task that a peer may not send by its key alone may be allowed by a name that the peer has not proven yet. So it is
//! not denied at once: it waits here, and what the peer sends behind it too, for [`MAX_WAIT`] at most. What waits holds
//! its claim on memory, so the bounds of the network bound it.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use agentanycast_identity::PeerId;

/// How long frames wait: a card, then a document from a slow server.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// See the module's text; `F` is a frame.
#[derive(Debug)]
pub(super) struct PendingIdentity<F> {
    waiting: HashMap<PeerId, (Duration, VecDeque<F>)>,
}

impl<F> Default for PendingIdentity<F> {
    fn default() -> Self {
        Self {
            waiting: HashMap::new(),
        }
    }
}

impl<F> PendingIdentity<F> {
    /// A frame has come. It is given back unless others of its peer wait: then it waits behind them.
    pub(super) fn pass(&mut self, peer: PeerId, frame: F) -> Option<F> {
        match self.waiting.get_mut(&peer) {
            Some((_, frames)) => {
                frames.push_back(frame);
                None
            }
            None => Some(frame),
        }
    }

    /// This frame, and all of its peer that come behind it, wait.
    pub(super) fn park(&mut self, now: Duration, peer: PeerId, frame: F) {
        self.waiting
            .insert(peer, (now + MAX_WAIT, VecDeque::from([frame])));
    }

    /// Whether something of the peer waits.
    pub(super) fn holds(&self, peer: PeerId) -> bool {
        self.waiting.contains_key(&peer)
    }

    /// Whether anything waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What has waited, in its order. Nothing of the peer waits from now on.
    pub(super) fn release(&mut self, peer: PeerId) -> VecDeque<F> {
        self.waiting
            .remove(&peer)
            .map(|(_, frames)| frames)
            .unwrap_or_default()
    }

    /// Peers that have waited long enough.
    pub(super) fn due(&self, now: Duration) -> Vec<PeerId> {
        let due = self.waiting.iter().filter(|(_, (until, _))| *until <= now);
        due.map(|(peer, _)| *peer).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn peer(n: u8) -> PeerId {
        let mut bytes = vec![0x00, 0x24, 0x08, 0x01, 0x12, 0x20];
        bytes.extend_from_slice(&[n; 32]);
        PeerId::from_bytes(&bytes).unwrap()
    }

    proptest! {
        /// Whatever waits and is let go when: each peer's frames come out once and in their order.
        #[test]
        fn frames_keep_their_order(steps in prop::collection::vec((0_u8..3, 0_u8..4, 0_u64..8), 0..80)) {
            let mut lobby = PendingIdentity::default();
            let mut out: HashMap<u8, Vec<usize>> = HashMap::new();
            let mut now = Duration::ZERO;
            for (number, (n, step, seconds)) in steps.into_iter().enumerate() {
                now += Duration::from_secs(seconds);
                for late in lobby.due(now) {
                    let n = (0..3).find(|n| peer(*n) == late).unwrap();
                    out.entry(n).or_default().extend(lobby.release(late));
                }
                match lobby.pass(peer(n), number) {
                    None => prop_assert!(lobby.holds(peer(n))),
                    Some(frame) if step == 0 => lobby.park(now, peer(n), frame),
                    Some(frame) => out.entry(n).or_default().push(frame),
                }
                if step == 1 {
                    out.entry(n).or_default().extend(lobby.release(peer(n)));
                }
            }
            for late in lobby.due(now + MAX_WAIT) {
                let n = (0..3).find(|n| peer(*n) == late).unwrap();
                out.entry(n).or_default().extend(lobby.release(late));
            }
            prop_assert!(lobby.is_empty());
            for frames in out.values() {
                prop_assert!(frames.is_sorted());
            }
        }
    }
}
