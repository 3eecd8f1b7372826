//! Idempotency keys: the same key within a day names the same task, so that a client that lost an
//! answer may ask again.

use std::collections::{HashMap, VecDeque};

use sha2::{Digest as _, Sha256};

use super::records::{self, IdempotencyRecord, tag};
use crate::store::{self, Batch, Store, StoreError};

/// How long a key is remembered, in milliseconds (24 h, contract of SendTask).
const LIFETIME: u64 = 24 * 60 * 60 * 1000;

/// Most keys remembered; the oldest go first. 100 000 tasks a day come to more than one a second.
const MAX_KEYS: usize = 100_000;

type Hash = [u8; 32];

/// See the module's text.
pub(super) struct Keys {
    tasks: HashMap<Hash, String>,
    oldest_first: VecDeque<(u64, Hash)>,
}

impl Keys {
    /// As the store has it.
    pub(super) fn load(store: &dyn Store) -> Result<Self, StoreError> {
        let mut kept: Vec<(u64, Hash, String)> = Vec::new();
        store::for_each(store, &[tag::IDEMPOTENCY], |key, value| {
            let hash = records::split(key).and_then(|(name, _)| Hash::try_from(name).ok());
            let record: Option<IdempotencyRecord> = records::decode(value);
            if let (Some(hash), Some(record)) = (hash, record) {
                kept.push((record.at, hash, record.task_id));
            }
            Ok::<(), StoreError>(())
        })?;
        kept.sort();
        Ok(Self {
            oldest_first: kept.iter().map(|(at, hash, _)| (*at, *hash)).collect(),
            tasks: kept.into_iter().map(|(_, hash, task)| (hash, task)).collect(),
        })
    }

    /// The task that this key names.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.tasks.get(&hash(key)).map(String::as_str)
    }

    /// Lets a key name a task.
    pub(super) fn insert(&mut self, now: u64, key: &str, task: &str, batch: &mut Batch) {
        let hash = hash(key);
        let record = IdempotencyRecord {
            task_id: task.to_owned(),
            at: now,
        };
        batch.put(records::key(tag::IDEMPOTENCY, &hash), records::encode(&record));
        self.tasks.insert(hash, task.to_owned());
        self.oldest_first.push_back((now, hash));
        while self.oldest_first.len() > MAX_KEYS {
            self.drop_oldest(batch);
        }
    }

    /// Forgets keys whose day is over.
    pub(super) fn expire(&mut self, now: u64, batch: &mut Batch) {
        while self
            .oldest_first
            .front()
            .is_some_and(|(at, _)| at + LIFETIME < now)
        {
            self.drop_oldest(batch);
        }
    }

    fn drop_oldest(&mut self, batch: &mut Batch) {
        if let Some((_, hash)) = self.oldest_first.pop_front() {
            self.tasks.remove(&hash);
            batch.delete(records::key(tag::IDEMPOTENCY, &hash));
        }
    }
}

fn hash(key: &str) -> Hash {
    Sha256::digest(key.as_bytes()).into()
}
