//! Idempotency keys: the same key within a day names the same task, so that a client that lost an
//! answer may ask again. Sealed tasks that came are remembered in the same way, by themselves.

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
}

/// A key that is remembered: since when, and its place in the store, which grows.
#[derive(Clone, Copy, Debug)]
struct Kept {
    at: u64,
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
        };
        store::for_each(store, &[tag], |key, value| {
            let place = records::number_in_name(key);
            let record: Option<IdempotencyRecord> = records::decode(value);
            if let (Some(place), Some(record)) = (place, record)
                && let Ok(hash) = Hash::try_from(record.hash)
            {
                keys.next_place = place + 1;
                keys.tasks.insert(hash, record.task_id);
                let at = record.at;
                keys.oldest_first.push_back(Kept { at, place, hash });
            }
            Ok::<(), StoreError>(())
        })?;
        Ok(keys)
    }

    /// The task that this key names.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.tasks.get(&hash(key)).map(String::as_str)
    }

    /// Lets a key name a task.
    pub(super) fn insert(&mut self, now: u64, key: &str, task: &str, batch: &mut Batch) {
        let (hash, place) = (hash(key), self.next_place);
        self.next_place += 1;
        let record = IdempotencyRecord {
            task_id: task.to_owned(),
            at: now,
            hash: hash.to_vec(),
        };
        batch.put(self.key_at(place), records::encode(&record));
        self.tasks.insert(hash, task.to_owned());
        let at = now;
        self.oldest_first.push_back(Kept { at, place, hash });
        while self.oldest_first.len() > MAX_KEYS {
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
        }
    }

    fn key_at(&self, place: u64) -> Vec<u8> {
        records::key(self.tag, &place.to_be_bytes())
    }
}

fn hash(key: &str) -> Hash {
    Sha256::digest(key.as_bytes()).into()
}
