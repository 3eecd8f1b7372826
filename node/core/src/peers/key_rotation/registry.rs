//! Which peers were followed by which: kept over restarts, so that whoever has a retired key cannot lead its name elsewhere
//! once we have followed its owner.
//!
//! A change is kept for as long as its statement may count, and for as long after the new key was there. The one that was seen
//! longest ago goes when there are too many, and those that begin with a key that the rules name go last.

use std::collections::HashSet;

use agentanycast_identity::{PeerId, rotation::HONOURED_FOR};
use agentanycast_store::{Batch, Store, StoreError};
use lru::LruCache;

use crate::schema::{self, tag};

/// Peers whose successors are remembered, some 150 bytes each.
const MAX_KEPT_ROTATIONS: usize = 65_536;

/// Milliseconds for which a change is kept after the new key was seen.
const KEPT_MS: u64 = HONOURED_FOR.as_millis() as u64;

/// How much later its end has to be before it is written down again, in milliseconds.
const STEP_MS: u64 = 24 * 60 * 60 * 1000;

/// Links that are followed from one key to the last one, and those that lead to one.
const MAX_CHAIN: usize = 8;

/// Who followed, and how long that is kept, in Unix milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeyRotation {
    new: PeerId,
    until: u64,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct RotationRegistry {
    /// By old peer, in the order in which they were seen last.
    links: LruCache<PeerId, KeyRotation>,
    /// Keys that the rules name.
    named: HashSet<PeerId>,
    capacity: usize,
}

#[derive(Clone, PartialEq, prost::Message)]
struct KeyRotationRecord {
    #[prost(bytes = "vec", tag = "1")]
    new: Vec<u8>,
    #[prost(uint64, tag = "2")]
    until: u64,
}

impl RotationRegistry {
    /// As the store has them.
    pub(super) fn load(store: &dyn Store) -> Result<Self, StoreError> {
        let mut kept = Vec::new();
        agentanycast_store::for_each(store, &[tag::KEY_ROTATION], |key, value| {
            let old = schema::split(key).and_then(|(name, _)| PeerId::from_bytes(name).ok());
            let record: Option<KeyRotationRecord> = schema::decode(value);
            if let (Some(old), Some(record)) = (old, record)
                && let Ok(new) = PeerId::from_bytes(&record.new)
            {
                let until = record.until;
                kept.push((old, KeyRotation { new, until }));
            } else {
                tracing::error!(peer = ?old, "the record of a replaced key is damaged; the key counts as it did before");
            }
            Ok::<(), StoreError>(())
        })?;
        kept.sort_unstable_by_key(|(_, followed)| followed.until);
        let mut links = LruCache::unbounded();
        for (old, followed) in kept {
            links.put(old, followed);
        }
        Ok(Self {
            links,
            named: HashSet::new(),
            capacity: MAX_KEPT_ROTATIONS,
        })
    }

    /// The rules name these keys from now on.
    pub(super) fn set_named(&mut self, keys: HashSet<PeerId>) {
        self.named = keys;
    }

    /// Who came after it, if anybody did.
    pub(super) fn successor(&self, peer: PeerId) -> Option<PeerId> {
        self.links.peek(&peer).map(|followed| followed.new)
    }

    /// Who it is now: itself, or the last one that came after it.
    pub(super) fn current_key(&self, peer: PeerId) -> PeerId {
        // Each link was made once, towards a peer that had no successor then; a circle ends at its bound.
        let mut last = peer;
        for _ in 0..MAX_CHAIN {
            match self.successor(last) {
                Some(next) => last = next,
                None => break,
            }
        }
        last
    }

    /// `new` came after `old`, or was seen again, at this time in Unix milliseconds. Nobody else did.
    pub(super) fn record(&mut self, now: u64, old: PeerId, new: PeerId, batch: &mut Batch) {
        let until = now.saturating_add(KEPT_MS);
        match self.links.get_mut(&old) {
            Some(known) if until < known.until.saturating_add(STEP_MS) => return,
            Some(known) => known.until = until,
            None => {
                self.make_room(new, batch);
                self.links.put(old, KeyRotation { new, until });
            }
        }
        let new = self.successor(old).unwrap_or(new);
        let record = KeyRotationRecord {
            new: new.to_bytes(),
            until,
        };
        batch.put(key(old), schema::encode(&record));
    }

    /// One more may come. Nobody takes the places of others with many former keys.
    fn make_room(&mut self, new: PeerId, batch: &mut Batch) {
        while self.links.len() >= self.capacity {
            let needed = self.needed();
            let mut oldest_first = self.links.iter().rev().map(|(old, _)| *old);
            let oldest = oldest_first.find(|old| !needed.contains(old));
            let Some(gone) = oldest.or_else(|| self.links.peek_lru().map(|(old, _)| *old)) else {
                break;
            };
            self.forget(gone, batch);
        }
        let own = self.links.iter().filter(|(_, followed)| followed.new == new);
        let own: Vec<(u64, PeerId)> = own.map(|(old, followed)| (followed.until, *old)).collect();
        if own.len() >= MAX_CHAIN
            && let Some((_, oldest)) = own.into_iter().min_by_key(|(until, _)| *until)
        {
            self.forget(oldest, batch);
        }
    }

    /// The changes that lead on from a key that the rules name.
    fn needed(&self) -> HashSet<PeerId> {
        let mut needed = HashSet::new();
        for name in &self.named {
            let mut last = *name;
            for _ in 0..MAX_CHAIN {
                let Some(next) = self.successor(last) else { break };
                needed.insert(last);
                last = next;
            }
        }
        needed
    }

    fn forget(&mut self, old: PeerId, batch: &mut Batch) {
        self.links.pop(&old);
        batch.delete(key(old));
    }

    /// Forgets what is not kept any longer at this time in Unix milliseconds. What leads to a peer that is there is kept on.
    pub(super) fn expire(&mut self, now: u64, is_there: impl Fn(PeerId) -> bool, batch: &mut Batch) {
        let seen = self
            .links
            .iter()
            .filter(|(old, _)| is_there(self.current_key(**old)));
        let seen: Vec<(PeerId, PeerId)> = seen.map(|(old, followed)| (*old, followed.new)).collect();
        for (old, new) in seen {
            self.record(now, old, new, batch);
        }
        let over = self.links.iter().filter(|(_, followed)| followed.until <= now);
        let over: Vec<PeerId> = over.map(|(old, _)| *old).collect();
        for old in over {
            self.forget(old, batch);
        }
    }
}

fn key(old: PeerId) -> Vec<u8> {
    schema::key(tag::KEY_ROTATION, &old.to_bytes())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use agentanycast_store::memory::MemoryStore;

    fn peer(number: u8) -> PeerId {
        let key = agentanycast_identity::Keypair::ed25519_from_bytes([number; 32]).unwrap();
        agentanycast_identity::peer_id(&key)
    }

    proptest! {
        /// A restart at any moment changes nothing, and what is kept is what a simple list keeps.
        #[test]
        fn it_is_as_a_list_over_restarts(
            steps in proptest::collection::vec((0u8..6, 6u8..9, 0u64..10, any::<bool>(), any::<bool>()), 1..60),
        ) {
            let store = MemoryStore::default();
            let mut successors = RotationRegistry::load(&store).unwrap();
            let mut model: BTreeMap<PeerId, (PeerId, u64)> = BTreeMap::new();
            let mut now = 1_700_000_000_000;
            for (old, new, days, expires, restarts) in steps {
                now += days * STEP_MS;
                let (old, new) = (peer(old + 1), peer(new + 1));
                let mut batch = Batch::default();
                if successors.successor(old).is_none_or(|known| known == new) {
                    successors.record(now, old, new, &mut batch);
                    let until = now + KEPT_MS;
                    let known = model.entry(old).or_insert((new, until));
                    if until >= known.1 + STEP_MS {
                        known.1 = until;
                    }
                }
                if expires {
                    successors.expire(now, |_| false, &mut batch);
                    model.retain(|_, (_, until)| *until > now);
                }
                store.apply(batch).unwrap();
                if restarts {
                    successors = RotationRegistry::load(&store).unwrap();
                }
                for old in 1..7 {
                    prop_assert_eq!(successors.successor(peer(old)), model.get(&peer(old)).map(|known| known.0));
                }
            }
        }
    }

    #[test]
    fn what_leads_to_a_peer_that_is_there_is_kept() {
        for is_there in [true, false] {
            let store = MemoryStore::default();
            let mut successors = RotationRegistry::load(&store).unwrap();
            let mut batch = Batch::default();
            successors.record(0, peer(1), peer(2), &mut batch);
            successors.record(0, peer(2), peer(3), &mut batch);
            for day in 1..100 {
                successors.expire(day * STEP_MS, |seen| is_there && seen == peer(3), &mut batch);
            }
            let last = if is_there { peer(3) } else { peer(1) };
            assert_eq!(successors.current_key(peer(1)), last);
            store.apply(batch).unwrap();
            assert_eq!(RotationRegistry::load(&store).unwrap().current_key(peer(1)), last);
        }
    }

    #[test]
    fn one_peer_has_a_few_places() {
        let mut successors = RotationRegistry::load(&MemoryStore::default()).unwrap();
        let mut batch = Batch::default();
        successors.record(0, peer(200), peer(201), &mut batch);
        for old in 1..100 {
            successors.record(u64::from(old), peer(old), peer(101), &mut batch);
        }
        assert_eq!(successors.links.len(), MAX_CHAIN + 1);
        assert_eq!(successors.successor(peer(200)), Some(peer(201)));
        assert_eq!(successors.successor(peer(99)), Some(peer(101)));
    }

    /// Whoever makes many keys pushes out what was followed long ago, but not what the rules need.
    #[test]
    fn what_begins_with_a_key_that_rules_name_goes_last() {
        let store = MemoryStore::default();
        let mut successors = RotationRegistry::load(&store).unwrap();
        successors.capacity = 10;
        successors.set_named(HashSet::from([peer(1)]));
        let mut batch = Batch::default();
        for (old, new) in [(1, 2), (2, 3), (101, 102), (102, 103)] {
            successors.record(u64::from(old), peer(old), peer(new), &mut batch);
        }
        for old in 10..90 {
            successors.record(u64::from(old) * 10, peer(old), peer(old + 100), &mut batch);
        }
        store.apply(batch).unwrap();
        let stored = RotationRegistry::load(&store).unwrap();
        for kept in [&successors, &stored] {
            assert_eq!(kept.links.len(), 10);
            assert_eq!(
                (kept.current_key(peer(1)), kept.current_key(peer(101))),
                (peer(3), peer(101))
            );
        }
        // Without such rules the oldest one goes.
        successors.set_named(HashSet::new());
        successors.record(10_000, peer(5), peer(6), &mut Batch::default());
        assert_eq!(successors.current_key(peer(1)), peer(1));
    }

    #[test]
    fn a_circle_ends() {
        let mut successors = RotationRegistry::load(&MemoryStore::default()).unwrap();
        let mut batch = Batch::default();
        successors.record(0, peer(1), peer(2), &mut batch);
        successors.record(0, peer(2), peer(1), &mut batch);
        assert!([peer(1), peer(2)].contains(&successors.current_key(peer(1))));
    }
}
