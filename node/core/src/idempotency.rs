//! Idempotency keys: the same key within a day names the same task, so that a client that lost an
//! answer may ask again. Sealed tasks that came are remembered in the same way, by themselves; of those that are no
//! more it is known up to when they were sealed, so that none comes a second time.
//!
//! The one rule of sealed ones: none is forgotten before the time has come at which it was sealed, however far its maker's
//! clock is ahead. So what is forgotten holds up nothing that is sealed now.

use std::collections::{BTreeMap, HashMap};

use sha2::{Digest as _, Sha256};

use super::schema;
use agentanycast_store::{Batch, Store, StoreError};

/// How long a key is remembered, in milliseconds (24 h, contract of SendTask).
const LIFETIME: u64 = 24 * 60 * 60 * 1000;

/// Most keys remembered; the oldest go first. 100 000 tasks a day come to more than one a second.
const MAX_KEYS: usize = 100_000;

/// The share of them that may be sealed ahead of this node's clock at all, and by more than [`NEAR`]: whoever fills places
/// with far ones leaves some to those whose clocks are only a little off.
const SHARE_AHEAD: usize = 2;
const SHARE_FAR: usize = 4;

/// How far clocks are apart that are kept in step, in milliseconds.
const NEAR: u64 = 10_000;

type KeyHash = [u8; 32];

#[derive(Clone, PartialEq, prost::Message)]
struct IdempotencyRecord {
    #[prost(string, tag = "1")]
    task_id: String,
    #[prost(uint64, tag = "2")]
    at: u64,
    #[prost(bytes = "vec", tag = "3")]
    hash: Vec<u8>,
    /// When the task was sealed, of one that was.
    #[prost(uint64, optional, tag = "4")]
    sealed_at: Option<u64>,
}

/// See the module's text.
pub(crate) struct IdempotencyKeys {
    /// Of their records in the store.
    tag: u8,
    tasks: HashMap<KeyHash, String>,
    /// Those that may be forgotten, the first one first.
    oldest_first: BTreeMap<KeyOrder, RememberedKey>,
    /// Those that were sealed at times which are still to come.
    ahead: BTreeMap<KeyOrder, RememberedKey>,
    next_slot: u64,
    /// What was sealed until then may have been here and is forgotten; 0: nothing was.
    evicted_until: u64,
    capacity: usize,
}

/// When what a key names was sealed (0: it was not), and the key's place in the store, which grows.
type KeyOrder = (u64, u64);

/// A key that is remembered.
#[derive(Clone, Copy, Debug)]
struct RememberedKey {
    /// From when on its day is counted: since when it is known, or when what it names was sealed.
    since: u64,
    hash: KeyHash,
}

fn report_damaged() {
    tracing::error!(
        "the record of an idempotency key is damaged; a task that is sent again with that key is a new one"
    );
}

impl IdempotencyKeys {
    /// As the store has those with this tag.
    pub(crate) fn load(store: &dyn Store, tag: u8) -> Result<Self, StoreError> {
        let mut keys = Self {
            tag,
            tasks: HashMap::new(),
            oldest_first: BTreeMap::new(),
            ahead: BTreeMap::new(),
            next_slot: 0,
            evicted_until: 0,
            capacity: MAX_KEYS,
        };
        agentanycast_store::for_each(store, &[tag], |key, value| {
            let Some(record) = schema::decode::<IdempotencyRecord>(value) else {
                report_damaged();
                return Ok(());
            };
            let (at, sealed_at) = (record.at, record.sealed_at);
            match (schema::number_in_name(key), KeyHash::try_from(record.hash)) {
                (Some(place), Ok(hash)) => {
                    keys.next_slot = place + 1;
                    keys.tasks.insert(hash, record.task_id);
                    // Those that are ahead are found with the first use.
                    keys.oldest_first
                        .insert(order(sealed_at, place), RememberedKey::new(at, sealed_at, hash));
                }
                _ if key == keys.key_of_forgotten() => keys.evicted_until = sealed_at.unwrap_or(0),
                _ => report_damaged(),
            }
            Ok::<(), StoreError>(())
        })?;
        Ok(keys)
    }

    /// The task that this key names.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.tasks.get(&hash(key)).map(String::as_str)
    }

    /// What was sealed until then may have come and been forgotten, in milliseconds since 1970.
    pub(crate) fn forgotten_until(&self) -> u64 {
        self.evicted_until
    }

    /// Whether one more may be remembered that was sealed then. One whose time has come always may.
    pub(crate) fn has_room_for(&mut self, now: u64, sealed_at: u64) -> bool {
        self.part(now);
        let share = match sealed_at.saturating_sub(now) {
            0 => return true,
            ahead if ahead <= NEAR => SHARE_AHEAD,
            _ => SHARE_FAR,
        };
        self.ahead.len() < self.capacity / share
    }

    /// Another bound than [`MAX_KEYS`].
    #[cfg(test)]
    pub(crate) fn set_capacity(&mut self, most: usize) {
        self.capacity = most;
    }

    /// Lets a key name a task, which was sealed at a time if it was; one for which there is room.
    pub(crate) fn insert(
        &mut self,
        now: u64,
        sealed_at: Option<u64>,
        key: &str,
        task: &str,
        batch: &mut Batch,
    ) {
        let (hash, place) = (hash(key), self.next_slot);
        self.next_slot += 1;
        let record = IdempotencyRecord {
            task_id: task.to_owned(),
            at: now,
            hash: hash.to_vec(),
            sealed_at,
        };
        batch.put(self.key_at(place), schema::encode(&record));
        self.tasks.insert(hash, task.to_owned());
        self.oldest_first
            .insert(order(sealed_at, place), RememberedKey::new(now, sealed_at, hash));
        self.part(now);
        while self.oldest_first.len() + self.ahead.len() > self.capacity && self.drop_oldest(batch) {}
    }

    /// Forgets keys whose day is over.
    pub(crate) fn expire(&mut self, now: u64, batch: &mut Batch) {
        self.part(now);
        while self
            .oldest_first
            .first_key_value()
            .is_some_and(|(_, kept)| kept.since.saturating_add(LIFETIME) < now)
        {
            self.drop_oldest(batch);
        }
    }

    /// Puts each where it belongs at this time. Clocks are also set back.
    fn part(&mut self, now: u64) {
        while let Some(entry) = self.ahead.first_entry().filter(|entry| entry.key().0 <= now) {
            let (order, kept) = entry.remove_entry();
            self.oldest_first.insert(order, kept);
        }
        while let Some(entry) = self.oldest_first.last_entry().filter(|entry| entry.key().0 > now) {
            let (order, kept) = entry.remove_entry();
            self.ahead.insert(order, kept);
        }
    }

    /// Forgets one; false: there is none that may be forgotten.
    fn drop_oldest(&mut self, batch: &mut Batch) -> bool {
        let Some(((sealed_at, place), kept)) = self.oldest_first.pop_first() else {
            return false;
        };
        self.tasks.remove(&kept.hash);
        batch.delete(self.key_at(place));
        if sealed_at > self.evicted_until {
            self.evicted_until = sealed_at;
            let record = IdempotencyRecord {
                sealed_at: Some(sealed_at),
                ..IdempotencyRecord::default()
            };
            batch.put(self.key_of_forgotten(), schema::encode(&record));
        }
        true
    }

    /// Where [`Self::forgotten_until`] is kept: at no place.
    fn key_of_forgotten(&self) -> Vec<u8> {
        schema::key(self.tag, &[])
    }

    fn key_at(&self, place: u64) -> Vec<u8> {
        schema::key(self.tag, &place.to_be_bytes())
    }
}

impl RememberedKey {
    fn new(at: u64, sealed_at: Option<u64>, hash: KeyHash) -> Self {
        let since = sealed_at.unwrap_or(at);
        Self { since, hash }
    }
}

fn order(sealed_at: Option<u64>, place: u64) -> KeyOrder {
    (sealed_at.unwrap_or(0), place)
}

fn hash(key: &str) -> KeyHash {
    Sha256::digest(key.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use agentanycast_store::memory::MemoryStore;

    use crate::schema::tag;

    #[derive(Clone, Debug)]
    enum KeyStep {
        /// One comes that was sealed so many milliseconds before, or after; it may have come already.
        Comes(u8, i64),
        /// Time goes by, or the clock is set back, in seconds.
        Clock(i64),
        Restart,
    }

    fn step() -> impl Strategy<Value = KeyStep> {
        prop_oneof![
            4 => (any::<u8>(), -50_000_000i64..=0).prop_map(|(name, ahead)| KeyStep::Comes(name, ahead)),
            4 => (any::<u8>(), 0i64..=600_000).prop_map(|(name, ahead)| KeyStep::Comes(name, ahead)),
            1 => (-600i64..100_000).prop_map(KeyStep::Clock),
            1 => (0i64..600).prop_map(KeyStep::Clock),
            1 => Just(KeyStep::Restart),
        ]
    }

    proptest! {
        #[test]
        fn what_came_is_known_or_was_sealed_before_what_is_known(
            steps in proptest::collection::vec(step(), 1..80),
            most in 1usize..12,
        ) {
            let store = MemoryStore::default();
            let load = || {
                let mut keys = IdempotencyKeys::load(&store, tag::SEALED).unwrap();
                keys.set_capacity(most);
                keys
            };
            let mut keys = load();
            let mut now = 100 * LIFETIME;
            let mut came: HashMap<String, u64> = HashMap::new();
            for step in steps {
                let mut batch = Batch::default();
                let before = keys.forgotten_until();
                match step {
                    KeyStep::Comes(name, ahead) => {
                        now += 1;
                        let name = name.to_string();
                        let sealed_at = now.saturating_add_signed(ahead);
                        let ahead = came.values().filter(|sealed_at| **sealed_at > now).count();
                        let room = keys.has_room_for(now, sealed_at);
                        prop_assert_eq!(room, sealed_at <= now || ahead < most / if sealed_at - now > NEAR { 4 } else { 2 });
                        if room && !came.contains_key(&name) {
                            keys.insert(now, Some(sealed_at), &name, &name, &mut batch);
                            came.insert(name, sealed_at);
                        }
                    }
                    KeyStep::Clock(seconds) => now = now.saturating_add_signed(seconds * 1000),
                    KeyStep::Restart => keys = load(),
                }
                keys.expire(now, &mut batch);
                store.apply(batch).unwrap();
                prop_assert!(keys.tasks.len() <= most);
                for (name, sealed_at) in &came {
                    match keys.get(name) {
                        Some(task) => prop_assert_eq!(task, name),
                        // It holds up nothing that is sealed later than now.
                        None => prop_assert!(*sealed_at <= keys.forgotten_until()),
                    }
                }
                let moved = keys.forgotten_until() != before;
                prop_assert!(!moved || keys.forgotten_until() <= now);
            }
        }

        #[test]
        fn keys_of_what_is_not_sealed_are_forgotten_in_their_order(
            hours in proptest::collection::vec(-2i64..10, 1..60),
            most in 1usize..6,
        ) {
            let store = MemoryStore::default();
            let mut keys = IdempotencyKeys::load(&store, tag::IDEMPOTENCY).unwrap();
            keys.set_capacity(most);
            let mut now = 100 * LIFETIME;
            for (number, hours) in hours.into_iter().enumerate() {
                now = now.saturating_add_signed(hours * 3_600_000);
                let mut batch = Batch::default();
                keys.insert(now, None, &number.to_string(), "t", &mut batch);
                keys.expire(now, &mut batch);
                store.apply(batch).unwrap();
                // The newest ones are known, and no others.
                let known = keys.tasks.len();
                prop_assert!((1..=most).contains(&known));
                for newest in 0..known {
                    prop_assert_eq!(keys.get(&(number - newest).to_string()), Some("t"));
                }
                prop_assert_eq!(keys.forgotten_until(), 0);
            }
        }
    }

    /// Whoever fills all the places that there are for clocks that are ahead holds up nobody whose clock is right.
    #[test]
    fn boxes_of_the_future_hold_up_nobody_else() {
        const MOST: usize = 40;
        const FAR: u64 = 10 * 60 * 1000;
        let store = MemoryStore::default();
        let mut keys = IdempotencyKeys::load(&store, tag::SEALED).unwrap();
        keys.set_capacity(MOST);
        let (mut now, mut batch) = (100 * LIFETIME, Batch::default());
        let mut far = 0;
        for number in 0..2 * MOST {
            if keys.has_room_for(now, now + FAR) {
                keys.insert(now, Some(now + FAR), &format!("far {number}"), "t", &mut batch);
                far += 1;
            }
        }
        assert_eq!(far, MOST / SHARE_FAR);
        for number in 0..2 * MOST {
            assert!(keys.has_room_for(now, now), "its time has come");
            keys.insert(now, Some(now), &format!("right {number}"), "t", &mut batch);
            now += 1;
            assert!(keys.forgotten_until() < now);
        }
        assert!(
            keys.has_room_for(now, now + NEAR),
            "clocks that are a little ahead have places of their own"
        );
        assert!(keys.get("far 0").is_some(), "none of them comes twice");
        // They are like all others once their time has come.
        now += FAR;
        assert!(keys.has_room_for(now, now + FAR));
    }
}
