//! How the peers are doing that tasks are sent to by skill: what is with them, how fast they take it, and who is left
//! out for a while.
//!
//! PURE. The rules: a peer that did not take a task in time, or refused one, is left out for [`FIRST_EJECTION`], twice as
//! long each time in a row up to [`MAX_EJECTION`]; after that one task tries it, and only when that is taken it gets
//! more. How fast a peer was is believed for [`LATENCY_TTL`], then a task may try it again in the same way. Peers that nothing is
//! known of any more are forgotten, the longest unused first.

use std::{num::NonZeroUsize, time::Duration};

use agentanycast_core::RouteOutcome;
use agentanycast_identity::PeerId;
use agentanycast_limits::Backoff;
use lru::LruCache;

/// How long a peer is left out after its first failure: long enough for a restart.
pub(super) const FIRST_EJECTION: Duration = Duration::from_secs(5);
/// The longest that a peer is left out; as long as between two attempts to reach it.
pub(super) const MAX_EJECTION: Duration = Duration::from_mins(5);
const EJECTIONS: Backoff = Backoff::new(FIRST_EJECTION, MAX_EJECTION);
/// How long one task tries a peer before the next may: what a candidate has to take it.
const TRIAL: Duration = Duration::from_secs(3);
/// How long the times of a peer say something of the next one: whoever was slow once may be fast by now, and nobody
/// would know if it got no task any more.
pub(super) const LATENCY_TTL: Duration = Duration::from_mins(1);
/// Weight of the newest acknowledgement in the mean of their times (RFC 6298 takes an eighth for round trips).
const EWMA_WEIGHT: f64 = 0.125;
/// Peers that are remembered: as many as one answer of a registry has, four times.
const MAX_PEERS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// See the module's text.
#[derive(Debug)]
pub(super) struct PeerHealth {
    peers: LruCache<PeerId, PeerStats>,
}

/// How one peer is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PeerStats {
    /// Tasks with it that have not ended.
    pub(super) in_flight: u32,
    /// Mean time that it takes to acknowledge a task, in seconds; None: it was never known.
    pub(super) latency: Option<f64>,
    /// When it acknowledged one last.
    measured: Duration,
    /// Until then a task tries how fast it is.
    pub(super) trial_until: Duration,
    /// Tasks in a row that it did not take.
    pub(super) failures: u32,
    /// Left out until then.
    ejected_until: Duration,
}

impl PeerStats {
    /// The mean time to acknowledge a task while it still says something, in seconds.
    pub(super) fn fresh_latency(&self, now: Duration) -> Option<f64> {
        self.latency
            .filter(|_| now.saturating_sub(self.measured) < LATENCY_TTL)
    }
}

impl PeerHealth {
    pub(super) fn new() -> Self {
        Self {
            peers: LruCache::new(MAX_PEERS),
        }
    }

    /// What the engine says of a task.
    pub(super) fn record(&mut self, now: Duration, news: RouteOutcome) {
        match news {
            RouteOutcome::Assigned(peer) => self.stats_mut(peer).in_flight += 1,
            RouteOutcome::Left(peer) => {
                let standing = self.stats_mut(peer);
                standing.in_flight = standing.in_flight.saturating_sub(1);
            }
            RouteOutcome::Accepted { peer, after } => {
                let standing = self.stats_mut(peer);
                standing.failures = 0;
                standing.ejected_until = Duration::ZERO;
                if let Some(after) = after {
                    let after = after.as_secs_f64();
                    let mean = standing.fresh_latency(now).unwrap_or(after);
                    standing.latency = Some(mean + EWMA_WEIGHT * (after - mean));
                    standing.measured = now;
                }
            }
            RouteOutcome::TimedOut(peer) | RouteOutcome::Refused(peer) => {
                let standing = self.stats_mut(peer);
                // What was sent before the peer was left out says nothing new.
                if now >= standing.ejected_until || standing.failures == 0 {
                    standing.ejected_until = now + EJECTIONS.after(standing.failures);
                    standing.failures = standing.failures.saturating_add(1);
                }
            }
        }
    }

    /// How a peer is doing.
    pub(super) fn stats(&self, peer: PeerId) -> PeerStats {
        self.peers.peek(&peer).copied().unwrap_or_default()
    }

    /// Whether a peer gets tasks now.
    pub(super) fn is_eligible(&self, now: Duration, peer: PeerId) -> bool {
        now >= self.stats(peer).ejected_until
    }

    /// Whether a task may find out a peer's time.
    pub(super) fn needs_trial(&self, now: Duration, peer: PeerId) -> bool {
        let standing = self.stats(peer);
        standing.fresh_latency(now).is_none() && now >= standing.trial_until
    }

    /// A task is about to be given to a peer: one that was left out, or whose time is not known, is tried with this one
    /// only.
    pub(super) fn on_chosen(&mut self, now: Duration, peer: PeerId) {
        let standing = self.stats_mut(peer);
        if standing.fresh_latency(now).is_none() && now >= standing.trial_until {
            standing.trial_until = now + TRIAL;
        }
        if standing.failures > 0 && now >= standing.ejected_until {
            standing.ejected_until = now + TRIAL;
        }
    }

    fn stats_mut(&mut self, peer: PeerId) -> &mut PeerStats {
        self.peers.get_or_insert_mut(peer, PeerStats::default)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn peer(number: u8) -> PeerId {
        PeerId::from_bytes(&[&[0x00, 0x24, 0x08, 0x01, 0x12, 0x20][..], &[number; 32]].concat()).unwrap()
    }

    #[test]
    fn failures_in_a_row_rest_longer_and_one_task_tries_again() {
        let mut board = PeerHealth::new();
        let mut now = Duration::from_secs(100);
        for expected in [5, 10, 20, 40, 80, 160, 300, 300] {
            assert!(board.is_eligible(now, peer(1)));
            board.on_chosen(now, peer(1));
            // A burst of failures counts once.
            for _ in 0..10 {
                now += Duration::from_millis(1);
                board.record(now, RouteOutcome::TimedOut(peer(1)));
                if board.stats(peer(1)).failures > 1 {
                    // The trial ends with its own failure.
                    now = now.max(
                        board
                            .stats(peer(1))
                            .ejected_until
                            .saturating_sub(Duration::from_secs(expected)),
                    );
                }
            }
            now += Duration::from_secs(expected + 3);
        }
    }

    #[test]
    fn what_is_taken_makes_it_whole() {
        let mut board = PeerHealth::new();
        let now = Duration::from_secs(1);
        board.record(now, RouteOutcome::Refused(peer(1)));
        assert!(!board.is_eligible(now, peer(1)));
        let after = Some(Duration::from_millis(80));
        board.record(now, RouteOutcome::Accepted { peer: peer(1), after });
        assert!(board.is_eligible(now, peer(1)));
        assert_eq!(board.stats(peer(1)).latency, Some(0.08));
        let after = Some(Duration::from_millis(160));
        board.record(now, RouteOutcome::Accepted { peer: peer(1), after });
        assert_eq!(board.stats(peer(1)).latency, Some(0.09));
    }

    #[test]
    fn how_fast_it_was_is_believed_for_a_while() {
        let mut board = PeerHealth::new();
        let taken = |ms| RouteOutcome::Accepted {
            peer: peer(1),
            after: Some(Duration::from_millis(ms)),
        };
        assert!(board.needs_trial(Duration::ZERO, peer(1)));
        board.record(Duration::from_secs(1), taken(2000));
        let late = Duration::from_secs(1) + LATENCY_TTL;
        assert!(!board.needs_trial(late.saturating_sub(Duration::from_nanos(1)), peer(1)));
        assert!(board.needs_trial(late, peer(1)));
        board.on_chosen(late, peer(1));
        assert!(!board.needs_trial(late, peer(1)), "one task tries it");
        assert!(board.needs_trial(late + TRIAL, peer(1)));
        // What it was before does not count any more.
        board.record(late + TRIAL, taken(10));
        assert_eq!(board.stats(peer(1)).fresh_latency(late + TRIAL), Some(0.01));
    }

    #[test]
    fn one_task_tries_a_peer_that_was_left_out() {
        let mut board = PeerHealth::new();
        board.record(Duration::from_secs(1), RouteOutcome::TimedOut(peer(1)));
        let now = Duration::from_secs(7);
        assert!(board.is_eligible(now, peer(1)));
        board.on_chosen(now, peer(1));
        assert!(!board.is_eligible(now, peer(1)), "until the trial is over");
        assert!(board.is_eligible(now + TRIAL, peer(1)));
    }

    proptest! {
        /// What is in flight is what was given and has not left.
        #[test]
        fn what_is_with_a_peer(given in prop::collection::vec(any::<bool>(), 0..100)) {
            let mut board = PeerHealth::new();
            let mut model = 0_u32;
            for given in given {
                let news = if given { RouteOutcome::Assigned(peer(1)) } else { RouteOutcome::Left(peer(1)) };
                model = if given { model + 1 } else { model.saturating_sub(1) };
                board.record(Duration::ZERO, news);
                prop_assert_eq!(board.stats(peer(1)).in_flight, model);
            }
        }
    }
}
