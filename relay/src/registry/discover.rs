//! Discovery: who has a skill, local entries first, the proven and the fresh ones before others, ties in random order.
//!
//! PURE: the seed is an argument. The one rule: it looks at hardly more entries than it answers, besides those
//! that lack one of several tags or have expired a moment ago.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;

use super::{
    Registry,
    places::{Class, Seeded},
};
use crate::federation::merge::Nanos;

/// Agents that are answered when nobody says how many.
const DEFAULT_LIMIT: usize = 100;

/// Most agents in an answer.
const MAX_LIMIT: usize = 1000;

/// Ties that are looked at beyond those that are answered, so that each has about the same chance to be.
const EXTRA_TIES: usize = 16;

/// Most bytes of agents in an answer: gRPC libraries refuse messages above 4 MiB.
pub const MAX_ANSWER: usize = 7 << 19;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The skill's exact id.
    pub skill: &'a str,
    /// Tags that the skill must have, each with this value.
    pub tags: &'a BTreeMap<String, String>,
    /// How many agents; 0 or less for 100, 1000 at most.
    pub limit: i32,
    /// Entries of other relays too; without it, these are asked only where no local one matches.
    pub federated: bool,
}

impl Registry {
    /// The agents found, each an encoded `SkillRegistration`, at most [`MAX_ANSWER`] bytes.
    pub fn discover(&self, now: Nanos, query: &Query<'_>, seed: u64) -> Vec<Bytes> {
        let Some((places, others)) = self.table.names.find(query.skill, query.tags.iter()) else {
            return Vec::new();
        };
        let limit = match usize::try_from(query.limit) {
            Ok(0) | Err(_) => DEFAULT_LIMIT,
            Ok(limit) => limit.min(MAX_LIMIT),
        };
        let mut random = Seeded::new(seed);
        let mut pivots = random.clone();
        let mut found: Vec<(Class, &Bytes)> = Vec::with_capacity(places.len().min(limit + EXTRA_TIES));
        let mut peers: Vec<&str> = Vec::new();
        let mut seen: HashSet<&str> = HashSet::new();
        places.walk(
            || pivots.next() as u32,
            |place| {
                let last = found.last().map(|last| last.0);
                let federated = place.class.is_federated();
                let enough = found.len() >= limit && last != Some(place.class);
                let only_local = !query.federated && last.is_some_and(|last| !last.is_federated());
                if enough || (federated && only_local) {
                    return false;
                }
                let Some(record) = self.table.get(place.slot).filter(|record| record.is_live(now)) else {
                    return true;
                };
                let Some(live) = &record.live else { return true };
                if !others.iter().all(|set| live.sets.binary_search(set).is_ok()) {
                    return true;
                }
                if federated {
                    seen.extend(peers.drain(..));
                    if !seen.insert(&record.peer) {
                        return true;
                    }
                } else {
                    peers.push(&record.peer);
                }
                found.push((place.class, live.answer.bytes()));
                found.len() < limit + EXTRA_TIES
            },
        );
        for ties in found.chunk_by_mut(|a, b| a.0 == b.0) {
            random.shuffle(ties);
        }
        let mut room = MAX_ANSWER;
        let fits = |(_, bytes): &(Class, &Bytes)| {
            let left = room.checked_sub(bytes.len());
            room = left.unwrap_or(0);
            left.is_some()
        };
        found
            .into_iter()
            .take(limit)
            .take_while(fits)
            .map(|(_, bytes)| bytes.clone())
            .collect()
    }
}
