//! PURE store of what this node keeps for the DHT: records of agents, and who provides which skill.
//!
//! The one rule: it never outgrows its bounds. What has expired makes room; beyond that newcomers are
//! refused, so that a flood does not push out what is there.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, hash_map},
    time::Instant,
};

use libp2p::{
    PeerId,
    kad::{
        ProviderRecord, Record, RecordKey,
        store::{Error, RecordStore, Result},
    },
};

use super::record::MAX_RECORD_BYTES;

/// How much is kept for others.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreBounds {
    /// Records, each of at most [`MAX_RECORD_BYTES`].
    pub(super) records: usize,
    /// Provider records in total. Each has a few addresses (see [`super::behaviour`]), 2 KiB at most.
    pub(super) providers: usize,
    /// Providers of one skill: several answers' worth (an answer has 20), since every answer has the newest.
    pub(super) providers_per_key: usize,
    /// Skills of one peer: whoever floods under one name only fills its own share.
    pub(super) keys_per_peer: usize,
}

/// 32 MiB of records and as much of providers at most. Each node keeps what is near to it, some 20 times its share of
/// all there is: enough for ten thousand nodes with ten skills each.
pub(super) const BOUNDS: StoreBounds = StoreBounds {
    records: 4096,
    providers: 16 << 10,
    providers_per_key: 128,
    keys_per_peer: super::record::MAX_SKILLS,
};

/// The store.
pub(super) struct DhtStore {
    local: PeerId,
    bounds: StoreBounds,
    records: HashMap<RecordKey, Record>,
    /// Of each key the providers, the newest last.
    providers: HashMap<RecordKey, Vec<ProviderRecord>>,
    /// How many keys each peer provides; its sum is the number of provider records.
    keys: HashMap<PeerId, usize>,
    count: usize,
    /// What we provide ourselves; not counted.
    own: BTreeMap<Vec<u8>, ProviderRecord>,
}

impl DhtStore {
    pub(super) fn new(local: PeerId, bounds: StoreBounds) -> Self {
        Self {
            local,
            bounds,
            records: HashMap::new(),
            providers: HashMap::new(),
            keys: HashMap::new(),
            count: 0,
            own: BTreeMap::new(),
        }
    }

    /// Drops what has expired by `now`.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.records.retain(|_, record| !record.is_expired(now));
        let Self {
            providers,
            keys,
            count,
            ..
        } = self;
        providers.retain(|_, providers| {
            providers.retain(|provider| {
                let live = !provider.is_expired(now);
                if !live {
                    *count -= 1;
                    forget(keys, &provider.provider);
                }
                live
            });
            !providers.is_empty()
        });
    }

    /// Records and provider records that are kept for others.
    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        (self.records.len(), self.count)
    }
}

/// One key less of `peer`.
fn forget(keys: &mut HashMap<PeerId, usize>, peer: &PeerId) {
    if let Some(count) = keys.get_mut(peer) {
        *count -= 1;
        if *count == 0 {
            keys.remove(peer);
        }
    }
}

impl RecordStore for DhtStore {
    type RecordsIter<'a> =
        std::iter::Map<hash_map::Values<'a, RecordKey, Record>, fn(&'a Record) -> Cow<'a, Record>>;
    type ProvidedIter<'a> = std::iter::Map<
        std::collections::btree_map::Values<'a, Vec<u8>, ProviderRecord>,
        fn(&'a ProviderRecord) -> Cow<'a, ProviderRecord>,
    >;

    fn get(&self, key: &RecordKey) -> Option<Cow<'_, Record>> {
        self.records.get(key).map(Cow::Borrowed)
    }

    fn put(&mut self, record: Record) -> Result<()> {
        if record.value.len() > MAX_RECORD_BYTES {
            return Err(Error::ValueTooLarge);
        }
        // Our own always has a place.
        let own = record.publisher == Some(self.local);
        if !own && !self.records.contains_key(&record.key) && self.records.len() >= self.bounds.records {
            return Err(Error::MaxRecords);
        }
        self.records.insert(record.key.clone(), record);
        Ok(())
    }

    fn remove(&mut self, key: &RecordKey) {
        self.records.remove(key);
    }

    fn records(&self) -> Self::RecordsIter<'_> {
        self.records.values().map(Cow::Borrowed)
    }

    fn add_provider(&mut self, record: ProviderRecord) -> Result<()> {
        if record.provider == self.local {
            self.own.insert(record.key.to_vec(), record);
            return Ok(());
        }
        let bounds = self.bounds;
        let held = self.providers.get_mut(&record.key);
        let full = held
            .as_ref()
            .is_some_and(|held| held.len() >= bounds.providers_per_key);
        if let Some(held) = held
            && let Some(known) = held.iter().position(|known| known.provider == record.provider)
        {
            held.remove(known);
            held.push(record);
            return Ok(());
        }
        let of_peer = self.keys.get(&record.provider).copied().unwrap_or_default();
        if full || self.count >= bounds.providers || of_peer >= bounds.keys_per_peer {
            return Err(Error::MaxProvidedKeys);
        }
        *self.keys.entry(record.provider).or_default() += 1;
        self.count += 1;
        self.providers.entry(record.key.clone()).or_default().push(record);
        Ok(())
    }

    /// The newest first: an answer has room for some of them only.
    fn providers(&self, key: &RecordKey) -> Vec<ProviderRecord> {
        let others = self.providers.get(key).into_iter().flatten().rev();
        self.own
            .get(key.as_ref())
            .into_iter()
            .chain(others)
            .cloned()
            .collect()
    }

    fn provided(&self) -> Self::ProvidedIter<'_> {
        self.own.values().map(Cow::Borrowed)
    }

    fn remove_provider(&mut self, key: &RecordKey, peer: &PeerId) {
        if *peer == self.local {
            self.own.remove(key.as_ref());
            return;
        }
        let Some(held) = self.providers.get_mut(key) else {
            return;
        };
        if let Some(at) = held.iter().position(|known| known.provider == *peer) {
            held.remove(at);
            self.count -= 1;
            forget(&mut self.keys, peer);
        }
        if held.is_empty() {
            self.providers.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{super::key, *};

    const SMALL: StoreBounds = StoreBounds {
        records: 3,
        providers: 5,
        providers_per_key: 3,
        keys_per_peer: 2,
    };

    fn record(peer: PeerId, expires: Instant) -> Record {
        Record {
            expires: Some(expires),
            ..Record::new(key::of_agent(peer), vec![0; 10])
        }
    }

    fn provider(skill: &str, peer: PeerId, expires: Instant) -> ProviderRecord {
        ProviderRecord {
            expires: Some(expires),
            ..ProviderRecord::new(key::of_skill(skill), peer, Vec::new())
        }
    }

    fn peers(store: &DhtStore, skill: &str) -> Vec<PeerId> {
        let found = store.providers(&key::of_skill(skill));
        found.into_iter().map(|provider| provider.provider).collect()
    }

    #[test]
    fn a_full_store_refuses_newcomers_until_something_expires() {
        let (now, local) = (Instant::now(), PeerId::random());
        let (soon, late) = (now + Duration::from_secs(1), now + Duration::from_mins(1));
        let mut store = DhtStore::new(local, SMALL);
        let first = PeerId::random();
        store.put(record(first, soon)).unwrap();
        for _ in 0..2 {
            store.put(record(PeerId::random(), late)).unwrap();
        }
        let newcomer = record(PeerId::random(), late);
        assert!(matches!(store.put(newcomer.clone()), Err(Error::MaxRecords)));
        store.put(record(first, soon)).unwrap();
        let mut own = record(local, late);
        own.publisher = Some(local);
        store.put(own).unwrap();
        assert_eq!(store.len(), (4, 0));
        store.remove(&key::of_agent(local));
        store.sweep(soon);
        store.put(newcomer).unwrap();
        let long = Record::new(key::of_agent(first), vec![0; MAX_RECORD_BYTES + 1]);
        assert!(matches!(store.put(long), Err(Error::ValueTooLarge)));
    }

    #[test]
    fn providers_are_bounded_per_skill_per_peer_and_in_total() {
        let (now, local) = (Instant::now(), PeerId::random());
        let (soon, late) = (now + Duration::from_secs(1), now + Duration::from_mins(1));
        let mut store = DhtStore::new(local, SMALL);
        let [a, b, c, d] = std::array::from_fn(|_| PeerId::random());
        let full = |result| matches!(result, Err(Error::MaxProvidedKeys));
        for peer in [a, b, c] {
            store.add_provider(provider("echo", peer, late)).unwrap();
        }
        assert!(
            full(store.add_provider(provider("echo", d, late))),
            "three of a skill"
        );
        store.add_provider(provider("echo", a, late)).unwrap();
        assert_eq!(peers(&store, "echo"), [a, c, b], "the newest first");
        store.add_provider(provider("sum", a, soon)).unwrap();
        assert!(
            full(store.add_provider(provider("sort", a, late))),
            "two of a peer"
        );
        store.add_provider(provider("sum", b, late)).unwrap();
        assert!(full(store.add_provider(provider("sum", d, late))), "five in all");
        store.add_provider(provider("echo", local, late)).unwrap();
        assert_eq!(peers(&store, "echo"), [local, a, c, b], "our own have a place");
        assert_eq!((store.len(), store.provided().count()), ((0, 5), 1));

        store.sweep(soon);
        assert_eq!(peers(&store, "sum"), [b]);
        store.add_provider(provider("sort", a, late)).unwrap();
        for peer in [a, b, c, local] {
            store.remove_provider(&key::of_skill("echo"), &peer);
        }
        store.remove_provider(&key::of_skill("sum"), &b);
        store.remove_provider(&key::of_skill("sort"), &a);
        assert_eq!((store.len(), store.provided().count()), ((0, 0), 0));
        assert!(store.keys.is_empty() && store.providers.is_empty());
    }
}
