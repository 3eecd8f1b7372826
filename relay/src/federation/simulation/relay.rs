//! A relay of the simulation: a registry with a clock that is wrong, a disk if it has one, and how far it has heard and
//! told its neighbours.

use std::collections::BTreeMap;

use super::{TTL, limits};
use crate::{
    clock::Now,
    federation::{
        merge::{Clock, Nanos},
        progress::Progress,
        record::{self, Teller},
    },
    registry::{Kept, Registry},
};

pub(super) struct Relay {
    pub(super) name: String,
    pub(super) registry: Registry,
    /// What its wall clock is off by, in seconds. It is set now and then, also while the relay runs.
    pub(super) skew: i64,
    pub(super) up: bool,
    /// A table on disk that it comes back with.
    keeps: bool,
    pub(super) epoch: u64,
    /// Of each neighbour.
    progress: BTreeMap<usize, Progress>,
    disk: Vec<Kept>,
}

impl Relay {
    pub(super) fn new(place: usize) -> Self {
        let name = format!("relay-{place}");
        Self {
            registry: Registry::new(&name, limits(), Clock::default()),
            name,
            skew: 0,
            up: true,
            keeps: place.is_multiple_of(2),
            epoch: place as u64 + 1,
            progress: BTreeMap::new(),
            disk: Vec::new(),
        }
    }

    /// Starts it after a stop: with its table, if it keeps one.
    pub(super) fn start(&mut self, time: Nanos, skew: i64) {
        self.up = true;
        self.epoch += 100;
        self.skew = skew;
        self.progress.clear();
        self.registry = Registry::new(&self.name, limits(), Clock::default());
        let now = self.now(time);
        for kept in self.disk.clone() {
            if self.keeps {
                let read = record::read(kept.told.clone(), now.wall, TTL, Teller::default());
                let _ = self.registry.restore(now, read, &kept);
            }
        }
    }

    pub(super) fn now(&self, time: Nanos) -> Now {
        Now {
            passed: time,
            wall: time.saturating_add_signed(self.skew * 1_000_000_000),
        }
    }

    /// How far a neighbour is heard and told.
    pub(super) fn progress(&mut self, neighbour: usize) -> &mut Progress {
        self.progress.entry(neighbour).or_default()
    }

    /// When the last of what it shows of a peer was signed.
    pub(super) fn signed_last(&self, time: Nanos, peer: &str) -> Option<u64> {
        let kept = self.registry.stored(self.now(time), peer)?;
        Some(kept.told.proofs.last()?.time_ms)
    }

    pub(super) fn keep(&mut self, time: Nanos, peer: &str) {
        let now = self.now(time);
        self.disk.retain(|kept| kept.told.peer_id != peer);
        self.disk.extend(self.registry.stored(now, peer));
    }
}
