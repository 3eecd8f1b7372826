//! Which runs of the registered agents' nodes have asked of late: whether two daemons run with one key.
//!
//! PURE: the time is an argument. The one rule: two runs are two daemons only when each has asked, signed, after the other
//! first did, and both did so within the life of a registration, in which each asks three times. A daemon that was started
//! again is one: its old run never asks again.

use std::num::NonZeroUsize;

use agentanycast_identity::Instance;
use lru::LruCache;

use crate::clock::Nanos;

/// Peers that are remembered, those that asked last.
const PEERS: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();
/// Runs of one peer that are remembered, those that asked last.
const RUNS: usize = 4;

/// A run and when it asked first and last.
#[derive(Clone, Copy, Debug)]
struct InstanceRun {
    instance: Instance,
    first: Nanos,
    last: Nanos,
}

/// What a request has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DuplicateInstance {
    /// The run that asks too.
    pub other: Instance,
    /// Nobody was told of this pair before.
    pub is_new: bool,
}

/// See the module's text.
#[derive(Debug)]
pub struct InstanceTracker {
    /// How long a request shows that its run is there.
    life: Nanos,
    peers: LruCache<String, SeenInstances>,
}

#[derive(Debug, Default)]
struct SeenInstances {
    runs: Vec<InstanceRun>,
    is_doubled: bool,
}

impl InstanceTracker {
    /// Of registrations that hold for so long.
    pub fn new(life: Nanos) -> Self {
        Self {
            life,
            peers: LruCache::new(PEERS),
        }
    }

    /// A run of `peer` asks, in passed time; the other run that is there too.
    pub fn note_request(&mut self, now: Nanos, peer: &str, instance: Instance) -> Option<DuplicateInstance> {
        let life = self.life;
        let known = self
            .peers
            .get_or_insert_mut(peer.to_owned(), SeenInstances::default);
        known.runs.retain(|run| now.saturating_sub(run.last) <= life);
        let first = known.runs.iter().find(|run| run.instance == instance);
        let first = first.map_or(now, |run| run.first);
        known.runs.retain(|run| run.instance != instance);
        // The newest last.
        known.runs.push(InstanceRun {
            instance,
            first,
            last: now,
        });
        if known.runs.len() > RUNS {
            known.runs.remove(0);
        }
        let mut others = known.runs.iter().rev().skip(1);
        let other = others.find(|other| other.last > first && now > other.first);
        let is_new = other.is_some() && !known.is_doubled;
        known.is_doubled = other.is_some();
        other.map(|other| DuplicateInstance {
            other: other.instance,
            is_new,
        })
    }
}

#[cfg(test)]
mod tests {
    use agentanycast_identity::Keypair;
    use proptest::prelude::*;

    use super::*;

    fn runs() -> [Instance; 3] {
        let key = Keypair::generate_ed25519();
        [0; 3].map(|_| Instance::new(&key).unwrap())
    }

    #[test]
    fn a_daemon_that_was_started_again_is_one() {
        let [first, second, _] = runs();
        let mut instances = InstanceTracker::new(30);
        for now in [0, 10, 20] {
            assert_eq!(instances.note_request(now, "p", first), None);
        }
        for now in [21, 31, 41, 51] {
            assert_eq!(instances.note_request(now, "p", second), None);
        }
    }

    #[test]
    fn two_that_ask_in_turns_are_two_until_one_is_gone() {
        let [first, second, _] = runs();
        let mut instances = InstanceTracker::new(30);
        assert_eq!(instances.note_request(0, "p", first), None);
        assert_eq!(instances.note_request(5, "p", second), None);
        assert_eq!(instances.note_request(6, "q", first), None, "another peer");
        let double = |other, is_new| Some(DuplicateInstance { other, is_new });
        assert_eq!(instances.note_request(10, "p", first), double(second, true));
        assert_eq!(instances.note_request(15, "p", second), double(first, false));
        for now in [25, 35] {
            assert_eq!(instances.note_request(now, "p", second), double(first, false));
        }
        assert_eq!(instances.note_request(45, "p", second), None);
        assert_eq!(instances.note_request(46, "p", first), None);
        assert_eq!(instances.note_request(50, "p", second), double(first, true));
    }

    proptest! {
        /// Against the whole history of requests.
        #[test]
        fn it_says_what_the_history_says(steps in prop::collection::vec((1..20_u64, 0..3_usize), 0..60)) {
            const LIFE: u64 = 30;
            let all = runs();
            let mut instances = InstanceTracker::new(LIFE);
            let mut history: Vec<(u64, usize)> = Vec::new();
            let mut now = 0;
            for (wait, run) in steps {
                now += wait;
                history.push((now, run));
                let double = instances.note_request(now, "p", all[run]);
                // When a run asked first since it was last silent for longer than a life.
                let span = |of: usize| {
                    let mut span: Option<(u64, u64)> = None;
                    for (at, _) in history.iter().filter(|(_, other)| *other == of) {
                        let first = span.filter(|(_, last)| at - last <= LIFE).map_or(*at, |(first, _)| first);
                        span = Some((first, *at));
                    }
                    span.filter(|(_, last)| now - last <= LIFE)
                };
                let own = span(run).unwrap();
                let expected = (0..3).filter(|other| *other != run).any(|other| {
                    span(other).is_some_and(|(first, last)| last > own.0 && now > first)
                });
                prop_assert_eq!(double.is_some(), expected);
            }
        }
    }
}
