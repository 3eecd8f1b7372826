//! Idempotency keys: the same key within a day names the same task, so that a client that lost an
//! answer may ask again. Sealed tasks that came are remembered in the same way, by themselves; of those that are no
//! more it is known up to when they were sealed, so that none comes a second time.

use std::collections::{HashMap, VecDeque};

use sha2::{Digest as _, Sha256};

use super::records::{self, IdempotencyRecord};
use crate::store::{self, Batch, Store, StoreError};

/// How long a key is remembered, in milliseconds (24 h, contract of SendTask).
const LIFETIME: u64 = 24 * 60 * 60 * 1000;

/// Most keys remembered; the oldest go first. 100 000 tasks a day come to more than one a second.
const MAX_KEYS: usize = 100_000;

type Hash = [u8; 32];

/// See the module's text.
pub(super) struct Keys {
    /// Of their records in the store.
    tag: u8,
    tasks: HashMap<Hash, String>,
    oldest_first: VecDeque<Kept>,
    next_place: u64,
    /// What was sealed until then may have been here and is forgotten; 0: nothing was.
    forgotten_until: u64,
    most: usize,
}

/// A key that is remembered: since when, what it names was sealed when, and its place in the store, which grows.
#[derive(Clone, Copy, Debug)]
struct Kept {
    at: u64,
    sealed_at: Option<u64>,
    place: u64,
    hash: Hash,
}

impl Keys {
    /// As the store has those with this tag.
    pub(super) fn load(store: &dyn Store, tag: u8) -> Result<Self, StoreError> {
        let mut keys = Self {
            tag,
            tasks: HashMap::new(),
            oldest_first: VecDeque::new(),
            next_place: 0,
            forgotten_until: 0,
            most: MAX_KEYS,
        };
        store::for_each(store, &[tag], |key, value| {
            let Some(record) = records::decode::<IdempotencyRecord>(value) else {
                return Ok(());
            };
            let (at, sealed_at) = (record.at, record.sealed_at);
            match (records::number_in_name(key), Hash::try_from(record.hash)) {
                (Some(place), Ok(hash)) => {
                    keys.next_place = place + 1;
                    keys.tasks.insert(hash, record.task_id);
                    keys.oldest_first.push_back(Kept {
                        at,
                        sealed_at,
                        place,
                        hash,
                    });
                }
                _ if key == keys.key_of_forgotten() => keys.forgotten_until = sealed_at.unwrap_or(0),
                _ => {}
            }
            Ok::<(), StoreError>(())
        })?;
        Ok(keys)
    }

    /// The task that this key names.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.tasks.get(&hash(key)).map(String::as_str)
    }

    /// What was sealed until then may have come and been forgotten, in milliseconds since 1970.
    pub(super) fn forgotten_until(&self) -> u64 {
        self.forgotten_until
    }

    /// Another bound than [`MAX_KEYS`].
    #[cfg(test)]
    pub(super) fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// Lets a key name a task, which was sealed at a time if it was.
    pub(super) fn insert(
        &mut self,
        now: u64,
        sealed_at: Option<u64>,
        key: &str,
        task: &str,
        batch: &mut Batch,
    ) {
        let (hash, place) = (hash(key), self.next_place);
        self.next_place += 1;
        let record = IdempotencyRecord {
            task_id: task.to_owned(),
            at: now,
            hash: hash.to_vec(),
            sealed_at,
        };
        batch.put(self.key_at(place), records::encode(&record));
        self.tasks.insert(hash, task.to_owned());
        self.oldest_first.push_back(Kept {
            at: now,
            sealed_at,
            place,
            hash,
        });
        while self.oldest_first.len() > self.most {
            self.drop_oldest(batch);
        }
    }

    /// Forgets keys whose day is over.
    pub(super) fn expire(&mut self, now: u64, batch: &mut Batch) {
        while self
            .oldest_first
            .front()
            .is_some_and(|kept| kept.at + LIFETIME < now)
        {
            self.drop_oldest(batch);
        }
    }

    fn drop_oldest(&mut self, batch: &mut Batch) {
        if let Some(kept) = self.oldest_first.pop_front() {
            self.tasks.remove(&kept.hash);
            batch.delete(self.key_at(kept.place));
            if let Some(sealed_at) = kept.sealed_at.filter(|at| *at > self.forgotten_until) {
                self.forgotten_until = sealed_at;
                let record = IdempotencyRecord {
                    sealed_at: Some(sealed_at),
                    ..IdempotencyRecord::default()
                };
                batch.put(self.key_of_forgotten(), records::encode(&record));
            }
        }
    }

    /// Where [`Self::forgotten_until`] is kept: at no place.
    fn key_of_forgotten(&self) -> Vec<u8> {
        records::key(self.tag, &[])
    }

    fn key_at(&self, place: u64) -> Vec<u8> {
        records::key(self.tag, &place.to_be_bytes())
    }
}

fn hash(key: &str) -> Hash {
    Sha256::digest(key.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{engine::records::tag, store::memory::MemoryStore};

    #[derive(Clone, Debug)]
    enum Step {
        /// One comes that was sealed so many milliseconds before; it may have come already.
        Comes(u8, u64),
        /// Time goes by, in hours.
        Later(u64),
        Restart,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (any::<u8>(), 0u64..50_000_000).prop_map(|(name, ago)| Step::Comes(name, ago)),
            1 => (0u64..30).prop_map(Step::Later),
            1 => Just(Step::Restart),
        ]
    }

    proptest! {
        #[test]
        fn what_came_is_known_or_was_sealed_before_what_is_known(
            steps in proptest::collection::vec(step(), 1..80),
            most in 1usize..6,
        ) {
            let store = MemoryStore::default();
            let load = || {
                let mut keys = Keys::load(&store, tag::SEALED).unwrap();
                keys.set_most(most);
                keys
            };
            let mut keys = load();
            let mut now = 100 * LIFETIME;
            let mut came = HashMap::new();
            for step in steps {
                let mut batch = Batch::default();
                match step {
                    Step::Comes(name, ago) => {
                        now += 1;
                        let name = name.to_string();
                        came.entry(name.clone()).or_insert_with(|| {
                            keys.insert(now, Some(now - ago), &name, &name, &mut batch);
                            now - ago
                        });
                    }
                    Step::Later(hours) => now += hours * 3_600_000,
                    Step::Restart => keys = load(),
                }
                keys.expire(now, &mut batch);
                store.apply(batch).unwrap();
                prop_assert!(keys.oldest_first.len() <= most);
                for (name, sealed_at) in &came {
                    match keys.get(name) {
                        Some(task) => prop_assert_eq!(task, name),
                        None => prop_assert!(*sealed_at <= keys.forgotten_until()),
                    }
                }
                let newest = came.values().max().copied().unwrap_or(0);
                prop_assert!(keys.forgotten_until() <= newest);
            }
        }
    }
}
