//! PURE state of second tries: peers that are reached through a relay only, and when a direct way is looked for
//! again. DCUtR tries when a circuit is made, and never again by itself; but a lost packet or a NAT in between may
//! be all that was in the way.
//!
//! Only the side that made the circuit tries, so that the two do not do it at once. `now` and the jitter are
//! arguments. The one rule: a peer is tried less and less often, and forgotten when it is direct or gone.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use agentanycast_identity::PeerId;
use agentanycast_limits::{Backoff, jittered};

use super::dialer::JITTER;

/// First wait after a circuit was made: DCUtR's own three attempts are over by then.
const FIRST_DELAY: Duration = Duration::from_mins(1);
/// Longest wait: a try costs a circuit at the relay, which allows a peer 1024 in an hour and from one address.
const LAST_DELAY: Duration = Duration::from_mins(30);
const DELAYS: Backoff = Backoff::new(FIRST_DELAY, LAST_DELAY);
/// Peers that are tried again; more stay relayed.
const MAX_PEERS: usize = 256;

/// When a direct way to whom is looked for again.
#[derive(Debug, Default)]
pub(super) struct DirectUpgrades {
    peers: HashMap<PeerId, RetryTime>,
}

#[derive(Debug)]
struct RetryTime {
    until: Instant,
    /// The waits that come, without jitter.
    delays: Backoff,
}

impl DirectUpgrades {
    /// We made a circuit to a peer that has no direct connection. `jitter` is uniform in 0..1.
    pub(super) fn relayed(&mut self, peer: PeerId, now: Instant, jitter: f64) {
        if self.peers.len() < MAX_PEERS || self.peers.contains_key(&peer) {
            let mut delays = DELAYS;
            let until = now + jittered(delays.next_wait(), JITTER, jitter);
            self.peers.entry(peer).or_insert(RetryTime { until, delays });
        }
    }

    /// The peer has a direct connection, or none at all.
    pub(super) fn settled(&mut self, peer: PeerId) {
        self.peers.remove(&peer);
    }

    /// Whom to try now; each is tried again after twice the time.
    pub(super) fn due(&mut self, now: Instant, jitter: f64) -> Vec<PeerId> {
        let due = self.peers.iter_mut().filter(|(_, wait)| wait.until <= now);
        due.map(|(peer, wait)| {
            wait.until = now + jittered(wait.delays.next_wait(), JITTER, jitter);
            *peer
        })
        .collect()
    }

    /// When [`Self::due`] has something next.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.peers.values().map(|wait| wait.until).min()
    }

    /// The network has changed: everybody is tried at once, and the waits begin anew.
    pub(super) fn retry_now(&mut self, now: Instant) {
        for wait in self.peers.values_mut() {
            *wait = RetryTime {
                until: now,
                delays: DELAYS,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn peer(n: u16) -> PeerId {
        let mut bytes = vec![0x00, 0x24, 0x08, 0x01, 0x12, 0x20];
        bytes.extend_from_slice(&[0; 30]);
        bytes.extend_from_slice(&n.to_be_bytes());
        PeerId::from_bytes(&bytes).unwrap()
    }

    #[test]
    fn waits_double_until_the_network_changes() {
        let mut now = Instant::now();
        let mut upgrades = DirectUpgrades::default();
        upgrades.relayed(peer(1), now, 0.5);
        let mut waits = Vec::new();
        for round in 0..8 {
            let next = upgrades.next_at().unwrap();
            waits.push((next - now).as_secs() / 60);
            now = next;
            assert_eq!(upgrades.due(now, 0.5), [peer(1)]);
            // The circuit of the try itself begins nothing anew.
            upgrades.relayed(peer(1), now, 0.5);
            if round == 6 {
                upgrades.retry_now(now);
            }
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 0]);
        upgrades.settled(peer(1));
        assert_eq!(upgrades.next_at(), None);
    }

    proptest! {
        #[test]
        fn at_most_so_many_and_never_sooner_than_they_should(
            steps in prop::collection::vec((0..300u16, 0..3u8, 0..600u64, 0.0..1.0f64), 1..200)
        ) {
            let mut now = Instant::now();
            let mut upgrades = DirectUpgrades::default();
            let mut tried: HashMap<PeerId, Instant> = HashMap::new();
            for (n, what, seconds, jitter) in steps {
                match what {
                    0 => upgrades.relayed(peer(n), now, jitter),
                    1 => {
                        upgrades.settled(peer(n));
                        tried.remove(&peer(n));
                    }
                    _ => now += Duration::from_secs(seconds),
                }
                for peer in upgrades.due(now, jitter) {
                    let before = tried.insert(peer, now);
                    prop_assert!(before.is_none_or(|at| now - at >= FIRST_DELAY.mul_f64(1.0 - JITTER)));
                }
                prop_assert!(upgrades.peers.len() <= MAX_PEERS);
                prop_assert!(upgrades.next_at().is_none_or(|at| at > now));
            }
        }
    }
}
