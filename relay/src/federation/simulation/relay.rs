//! A relay of the simulation: a registry with a clock that is wrong, a disk if it has one, and how far it has heard and
//! told its neighbours.

use std::collections::BTreeMap;

use super::{TTL, limits};
use crate::{
    clock::{HybridClock, Nanos, Now},
    federation::sync_cursor::SyncCursor,
    registry::{RecordSender, RemoteRecord, SkillRegistry, StoredRecord},
};

pub(super) struct SimulatedRelay {
    pub(super) name: String,
    pub(super) registry: SkillRegistry,
    /// What its wall clock is off by, in seconds. It is set now and then, also while the relay runs.
    pub(super) skew: i64,
    pub(super) up: bool,
    /// A table on disk that it comes back with.
    keeps: bool,
    pub(super) epoch: u64,
    /// Of each neighbour.
    progress: BTreeMap<usize, SyncCursor>,
    disk: Vec<StoredRecord>,
}

impl SimulatedRelay {
    pub(super) fn new(place: usize) -> Self {
        let name = format!("relay-{place}");
        Self {
            registry: SkillRegistry::new(&name, limits(), HybridClock::default()),
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
        self.registry = SkillRegistry::new(&self.name, limits(), HybridClock::default());
        let now = self.now(time);
        for kept in self.disk.clone() {
            if self.keeps {
                let read = RemoteRecord::from_registration(
                    kept.registration.clone(),
                    now.wall,
                    TTL,
                    RecordSender::default(),
                );
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
    pub(super) fn progress(&mut self, neighbour: usize) -> &mut SyncCursor {
        self.progress.entry(neighbour).or_default()
    }

    /// When the last of what it shows of a peer was signed.
    pub(super) fn signed_last(&self, time: Nanos, peer: &str) -> Option<u64> {
        let kept = self.registry.stored(self.now(time), peer)?;
        Some(kept.registration.proofs.last()?.time_ms)
    }

    pub(super) fn keep(&mut self, time: Nanos, peer: &str) {
        let now = self.now(time);
        self.disk.retain(|kept| kept.registration.peer_id != peer);
        self.disk.extend(self.registry.stored(now, peer));
    }
}
