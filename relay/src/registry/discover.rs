//! Discovery: who has a skill, in the order of their places, ties in random order.
//!
//! PURE: the seed is an argument. The one rule: it looks at hardly more entries than it answers, besides those
//! that lack one of several tags or have expired a moment ago.

use std::collections::{BTreeMap, HashSet};

use super::{
    Registry,
    agent::Answer,
    names::SetId,
    places::{Class, Origins, Place, Places, Seeded},
    table::{Live, Record, Table},
};
use crate::federation::merge::Nanos;

/// Agents that are answered when nobody says how many.
const DEFAULT_LIMIT: usize = 100;

/// Most agents in an answer.
const MAX_LIMIT: usize = 1000;

/// Fewest ties that are looked at where there are as many, so that each has about the same chance to be answered.
const TIES: usize = 16;

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
    /// The agents found, as an encoded `DiscoverBySkillResponse` of at most [`MAX_ANSWER`] bytes.
    pub fn discover(&self, now: Nanos, query: &Query<'_>, seed: u64) -> Vec<u8> {
        let Some((places, others)) = self.table.names.find(query.skill, query.tags.iter()) else {
            return Vec::new();
        };
        let limit = match usize::try_from(query.limit) {
            Ok(0) | Err(_) => DEFAULT_LIMIT,
            Ok(limit) => limit.min(MAX_LIMIT),
        };
        let search = Search {
            table: &self.table,
            now,
            places,
            others,
            limit,
            federated: query.federated,
        };
        let found = search
            .quick(Seeded::new(seed))
            .unwrap_or_else(|| search.thorough(Seeded::new(seed)));
        let (mut count, mut bytes) = (0, 0);
        for answer in found.iter().take(limit) {
            let after = bytes + answer.listed_len();
            if after > MAX_ANSWER {
                break;
            }
            (count, bytes) = (count + 1, after);
        }
        let mut list = Vec::with_capacity(bytes);
        for answer in &found[..count] {
            answer.list(&mut list);
        }
        list
    }
}

/// A question, and the sets of the index that answer it.
struct Search<'a> {
    table: &'a Table,
    now: Nanos,
    /// Everybody who matches is in here.
    places: &'a Places,
    /// And in each of these.
    others: Vec<SetId>,
    limit: usize,
    federated: bool,
}

impl<'a> Search<'a> {
    /// The usual case: entries of our own that all match. Of the ties only those are read that are answered, since
    /// reading an entry costs more than finding it. None when there is more to it.
    fn quick(&self, mut random: Seeded) -> Option<Vec<&'a Answer>> {
        if !self.others.is_empty() {
            return None;
        }
        let most = self.most();
        let mut ties: Vec<Place> = Vec::with_capacity(self.places.len().min(most));
        let (mut cut, mut federated) = (false, false);
        let mut pivots = random.clone();
        let origins = if self.federated {
            Origins::All
        } else {
            Origins::Here
        };
        self.places.walk(
            origins,
            || pivots.next() as u32,
            |place| {
                let last = ties.last().map(|last| last.class);
                cut = ties.len() >= most || (ties.len() >= self.limit && last != Some(place.class));
                federated = place.class.is_federated();
                if !cut && !federated {
                    ties.push(place);
                }
                !cut && !federated
            },
        );
        for ties in ties.chunk_by_mut(|a, b| a.class == b.class) {
            random.shuffle(ties);
        }
        let live = ties.into_iter().filter_map(|place| self.live(place));
        let found: Vec<_> = live.map(|(_, live)| &live.answer).take(self.limit).collect();
        let all = !cut && !federated && (self.federated || !found.is_empty());
        (all || found.len() == self.limit).then_some(found)
    }

    /// Looks at each entry on the way.
    fn thorough(&self, random: Seeded) -> Vec<&'a Answer> {
        if self.federated {
            return self.gather(Origins::All, random);
        }
        let here = self.gather(Origins::Here, random.clone());
        if here.is_empty() {
            return self.gather(Origins::Elsewhere, random);
        }
        here
    }

    fn gather(&self, origins: Origins, mut random: Seeded) -> Vec<&'a Answer> {
        let most = self.most();
        let mut found: Vec<(Class, &Answer)> = Vec::with_capacity(self.places.len().min(most));
        // Here a peer has one entry.
        let mut seen: HashSet<&str> = HashSet::new();
        let mut pivots = random.clone();
        self.places.walk(
            origins,
            || pivots.next() as u32,
            |place| {
                let last = found.last().map(|last| last.0);
                if found.len() >= self.limit && last != Some(place.class) {
                    return false;
                }
                let Some((record, live)) = self.live(place) else {
                    return true;
                };
                if !self.others.iter().all(|set| live.sets.binary_search(set).is_ok()) {
                    return true;
                }
                if origins != Origins::Here && !seen.insert(&record.peer) {
                    return true;
                }
                found.push((place.class, &live.answer));
                found.len() < most
            },
        );
        for ties in found.chunk_by_mut(|a, b| a.0 == b.0) {
            random.shuffle(ties);
        }
        found.into_iter().map(|(_, answer)| answer).collect()
    }

    /// Most entries that are gathered: some more than are answered, in whose place others stand when they have expired.
    fn most(&self) -> usize {
        (self.limit + self.limit / 4).max(TIES)
    }

    fn live(&self, place: Place) -> Option<(&'a Record, &'a Live)> {
        let record = self
            .table
            .get(place.slot)
            .filter(|record| record.is_live(self.now))?;
        Some((record, record.live.as_ref()?))
    }
}
