//! Discovery: who has a skill, in the order of their places, ties in random order.
//!
//! PURE: the seed is an argument. The one rule: it looks at hardly more entries than it answers. What is in the way,
//! agents that lack one of several tags where all say something else, peers that were met already, and what has expired a
//! moment ago, is looked at in pieces, so that nobody can make others wait by what he asks.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use super::{
    SkillRegistry,
    agent::EncodedAgent,
    cursor::{CursorState, MergeCursor},
    index::{IndexPosition, OriginFilter, RankClass, RecordId, SeededRng},
    index_keys::SearchCandidates,
    records::{LiveEntry, RecordTable, RegistryRecord},
};
use crate::clock::Now;

/// Agents that are answered when nobody says how many.
const DEFAULT_LIMIT: usize = 100;

/// Most agents in an answer.
const MAX_LIMIT: usize = 1000;

/// Fewest ties that are looked at where there are as many, so that each has about the same chance to be answered.
const TIES: usize = 16;

/// What is looked at in vain in one piece of a search, in entries, each as often as it has to be in a set: a tenth of a
/// millisecond or two.
pub(super) const PIECE: usize = 1024;

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

/// A question that is being answered, piece by piece; what changes between two pieces is looked at anew.
#[derive(Debug)]
pub struct Search<'a> {
    query: Query<'a>,
    limit: usize,
    seed: u64,
    /// See [`PIECE`].
    pub(super) piece: usize,
    /// None: it has not begun.
    state: Option<SearchState>,
}

impl<'a> Search<'a> {
    /// One that has not begun.
    pub fn new(query: Query<'a>, seed: u64) -> Self {
        let limit = match usize::try_from(query.limit) {
            Ok(0) | Err(_) => DEFAULT_LIMIT,
            Ok(limit) => limit.min(MAX_LIMIT),
        };
        Self {
            query,
            limit,
            seed,
            piece: PIECE,
            state: None,
        }
    }
}

/// What was found so far.
#[derive(Debug)]
struct SearchState {
    origins: OriginFilter,
    /// How far the walk through the sets has come; None at its end.
    walk: Option<CursorState>,
    /// The count of the last change that was looked at: who has moved since may stand where the walk has been.
    since: u64,
    found: Vec<SearchHit>,
    /// Peers that were found, where one may have several entries.
    seen: HashSet<Arc<str>>,
}

impl SearchState {
    fn new(origins: OriginFilter, table: &RecordTable, random: SeededRng) -> Self {
        Self {
            origins,
            walk: Some(CursorState::new(random)),
            since: table.last_change(),
            found: Vec::new(),
            seen: HashSet::new(),
        }
    }
}

/// An entry that matches, as it was after this change.
#[derive(Clone, Copy, Debug)]
struct SearchHit {
    class: RankClass,
    slot: RecordId,
    changed: u64,
}

impl SkillRegistry {
    /// The agents found, as an encoded `DiscoverBySkillResponse` of at most [`MAX_ANSWER`] bytes.
    pub fn discover(&self, now: impl Into<Now>, query: &Query<'_>, seed: u64) -> Vec<u8> {
        let now = now.into();
        let mut search = Search::new(*query, seed);
        loop {
            if let Some(found) = self.search(now, &mut search) {
                return found;
            }
        }
    }

    /// Goes on with a search by a piece: what [`SkillRegistry::discover`] says, or None where there is more to look at. Whoever
    /// matches from its beginning to its end is among those that are chosen from, whatever changes meanwhile.
    pub fn search(&self, now: impl Into<Now>, search: &mut Search<'_>) -> Option<Vec<u8>> {
        let now = now.into();
        let query = search.query;
        // So nobody makes a piece longer by tags that no agent can have.
        if query.tags.len() > self.limits.tags {
            return Some(Vec::new());
        }
        let standing = self.table.index.find(query.skill, query.tags.iter());
        let view = SearchView {
            table: &self.table,
            now,
            // Whoever was found before, and is not there any more, has changed.
            candidates: standing.unwrap_or_default(),
            limit: search.limit,
            federated: query.federated,
        };
        let random = SeededRng::new(search.seed);
        let begin = |origins| SearchState::new(origins, &self.table, random.clone());
        let mut gathered = if let Some(gathered) = search.state.take() {
            gathered
        } else if let Some(found) = view.quick(random.clone()) {
            return Some(listed(&found, search.limit));
        } else if query.federated {
            begin(OriginFilter::All)
        } else {
            begin(OriginFilter::Local)
        };
        let mut left = search.piece;
        loop {
            if !view.go_on(&mut gathered, &mut left) {
                search.state = Some(gathered);
                return None;
            }
            let found = view.in_order(&gathered, random.clone());
            if !found.is_empty() || gathered.origins != OriginFilter::Local {
                return Some(listed(&found, search.limit));
            }
            gathered = begin(OriginFilter::Federated);
        }
    }
}

/// The first of them, encoded.
fn listed(found: &[&EncodedAgent], limit: usize) -> Vec<u8> {
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
        answer.append_to(&mut list);
    }
    list
}

/// The table as it is for one piece of a search.
struct SearchView<'a> {
    table: &'a RecordTable,
    now: Now,
    candidates: SearchCandidates<'a>,
    limit: usize,
    federated: bool,
}

impl<'a> SearchView<'a> {
    /// The usual case: entries of our own that all match. Of the ties only those are read that are answered, since
    /// reading an entry costs more than finding it. None when there is more to it.
    fn quick(&self, mut random: SeededRng) -> Option<Vec<&'a EncodedAgent>> {
        let [places] = self.candidates.sets[..] else {
            return None;
        };
        if !self.candidates.exact {
            return None;
        }
        let most = self.most();
        let mut ties: Vec<IndexPosition> = Vec::with_capacity(places.len().min(most));
        let (mut cut, mut federated) = (false, false);
        let mut pivots = random.clone();
        let origins = if self.federated {
            OriginFilter::All
        } else {
            OriginFilter::Local
        };
        places.walk(
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
        let found: Vec<_> = live.map(|(_, live)| &live.encoded).take(self.limit).collect();
        let all = !cut && !federated && (self.federated || !found.is_empty());
        (all || found.len() == self.limit).then_some(found)
    }

    /// Looks at each entry on the way, until `left` is used up by those in vain; false when there is more.
    fn go_on(&self, gathered: &mut SearchState, left: &mut usize) -> bool {
        if let Some(progress) = gathered.walk.take() {
            gathered.walk = self.walk(gathered, progress, left);
            if gathered.walk.is_some() {
                return false;
            }
        }
        self.catch_up(gathered, left)
    }

    /// Walks on; None when enough are found, or at the end.
    fn walk(
        &self,
        gathered: &mut SearchState,
        progress: CursorState,
        left: &mut usize,
    ) -> Option<CursorState> {
        let most = self.most();
        let mut walk = MergeCursor::new(&self.candidates.sets, gathered.origins, progress);
        while *left > 0 {
            let place = walk.next()?;
            let last = gathered.found.last().map(|last| last.class);
            if gathered.found.len() >= self.limit && last != Some(place.class) {
                return None;
            }
            // Here a peer has one entry.
            let found = self.live(place).filter(|(record, live)| {
                (self.candidates.exact || self.matches(live))
                    && (gathered.origins == OriginFilter::Local
                        || gathered.seen.insert(Arc::clone(&record.peer)))
            });
            match found {
                Some((record, live)) => gathered.found.push(SearchHit::new(record, live)),
                None => self.in_vain(left),
            }
            if gathered.found.len() >= most {
                return None;
            }
        }
        Some(walk.progress())
    }

    /// Looks at what has changed since the search began; false when there is more. What nobody has changed is where it was,
    /// so with it nobody is missed who was ahead of the walk and is behind it now.
    fn catch_up(&self, gathered: &mut SearchState, left: &mut usize) -> bool {
        for record in self.table.changes(gathered.since) {
            if *left == 0 {
                return false;
            }
            gathered.since = record.changed;
            let live = record.live.as_ref().filter(|live| {
                gathered.origins.has(live.position.class)
                    && record.is_live(self.now.passed)
                    && self.matches(live)
            });
            match live {
                Some(live) => gathered.found.push(SearchHit::new(record, live)),
                None => self.in_vain(left),
            }
        }
        true
    }

    /// What is found, as far as it is still so: in order of classes, ties shuffled.
    fn in_order(&self, gathered: &SearchState, mut random: SeededRng) -> Vec<&'a EncodedAgent> {
        let mut found: Vec<(RankClass, &RegistryRecord, &EncodedAgent)> = gathered
            .found
            .iter()
            .filter_map(|found| {
                let record = self.table.get(found.slot)?;
                let live = record.live.as_ref()?;
                let stands = record.changed == found.changed && record.is_live(self.now.passed);
                stands.then_some((found.class, record, &live.encoded))
            })
            .collect();
        // In order already, but for what has changed meanwhile; and that may have been met on the way too.
        found.sort_by_key(|(class, ..)| *class);
        let mut seen: HashSet<&str> = HashSet::new();
        found.retain(|(_, record, _)| seen.insert(&record.peer));
        for ties in found.chunk_by_mut(|a, b| a.0 == b.0) {
            random.shuffle(ties);
        }
        found.into_iter().map(|(.., answer)| answer).collect()
    }

    fn in_vain(&self, left: &mut usize) {
        *left = left.saturating_sub(self.candidates.matching.len().max(1));
    }

    /// Whether an entry stands in all sets that are asked for, of which there is one at least.
    fn matches(&self, live: &LiveEntry) -> bool {
        let matching = &self.candidates.matching;
        !matching.is_empty() && matching.iter().all(|set| live.sets.binary_search(set).is_ok())
    }

    /// Most entries that are gathered: some more than are answered, in whose place others stand when they have expired.
    fn most(&self) -> usize {
        (self.limit + self.limit / 4).max(TIES)
    }

    fn live(&self, place: IndexPosition) -> Option<(&'a RegistryRecord, &'a LiveEntry)> {
        let record = self
            .table
            .get(place.slot)
            .filter(|record| record.is_live(self.now.passed))?;
        Some((record, record.live.as_ref()?))
    }
}

impl SearchHit {
    fn new(record: &RegistryRecord, live: &LiveEntry) -> Self {
        Self {
            class: live.position.class,
            slot: live.position.slot,
            changed: record.changed,
        }
    }
}
