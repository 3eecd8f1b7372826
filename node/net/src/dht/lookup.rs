//! PURE searches for the providers of skills: who asks, what has been found, when they are answered.
//!
//! Askers of one skill share one search. The one rule: everybody is answered by the time that they gave, and a
//! search that nobody waits for any more is ended.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Debug,
    hash::Hash,
    time::Instant,
};

use agentanycast_proto::v1::AgentRecord;
use libp2p::PeerId;
use tokio::sync::oneshot;

use super::{FindError, FoundAgent, record};

/// Queries under way that let no further search begin; those that run may ask for [`MAX_RECORD_QUERIES`] records
/// each. A query asks three peers at a time.
const MAX_QUERIES: usize = 64;
/// Askers at once, over all searches.
const MAX_REQUESTS: usize = 1024;
/// Agents that one search finds; whoever needs more asks a registry.
pub(super) const MAX_FOUND: usize = 64;
/// Records that one search asks for at a time.
const MAX_RECORD_QUERIES: usize = 4;
/// Copies of a record after which no later one is looked for: they lie with up to twenty peers, and an old one only
/// with those that were away when the new one came.
const ENOUGH_COPIES: usize = 3;

/// What a search does on the network.
pub(super) trait Queries {
    /// Names a query.
    type Id: Copy + Eq + Hash + Debug;
    /// Asks who provides `skill`.
    fn providers(&mut self, skill: &str) -> Self::Id;
    /// Asks for the record of `peer`.
    fn record(&mut self, peer: PeerId) -> Self::Id;
    /// Ends a query; nothing more is heard of it.
    fn end(&mut self, query: Self::Id);
}

/// Somebody who waits for an answer.
#[derive(Debug)]
pub(super) struct SearchRequest {
    /// How many agents are enough.
    pub(super) limit: usize,
    /// When the answer is due, whatever has been found by then.
    pub(super) deadline: Instant,
    /// Where the answer goes.
    pub(super) reply: oneshot::Sender<Result<Vec<FoundAgent>, FindError>>,
}

/// All searches; `Q` names a query.
#[derive(Debug)]
pub(super) struct Searches<Q> {
    local: PeerId,
    running: BTreeMap<String, Search<Q>>,
    /// The search that each query belongs to.
    queries: HashMap<Q, String>,
}

#[derive(Debug)]
struct Search<Q> {
    requests: Vec<SearchRequest>,
    /// The query for providers, while it runs.
    providers: Option<Q>,
    candidates: Vec<ProviderCandidate<Q>>,
}

#[derive(Debug)]
struct ProviderCandidate<Q> {
    peer: PeerId,
    addresses: Vec<String>,
    state: State<Q>,
    record: Option<AgentRecord>,
    copies: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State<Q> {
    Waiting,
    Asked(Q),
    Done,
}

impl<Q: Copy + Eq + Hash + Debug> Searches<Q> {
    pub(super) fn new(local: PeerId) -> Self {
        Self {
            local,
            running: BTreeMap::new(),
            queries: HashMap::new(),
        }
    }

    /// Searches for `skill` on behalf of `asker`, who is told at once when there is no room.
    pub(super) fn ask(&mut self, skill: String, asker: SearchRequest, network: &mut impl Queries<Id = Q>) {
        let askers: usize = self.running.values().map(|search| search.requests.len()).sum();
        let shared = self.running.get_mut(&skill);
        if askers >= MAX_REQUESTS || shared.is_none() && self.queries.len() >= MAX_QUERIES {
            // Whoever has gone away needs no answer.
            let _ = asker.reply.send(Err(FindError::Busy));
            return;
        }
        if let Some(search) = shared {
            search.requests.push(asker);
            self.settle(&skill, network);
            return;
        }
        let query = network.providers(&skill);
        self.queries.insert(query, skill.clone());
        let search = Search {
            requests: vec![asker],
            providers: Some(query),
            candidates: Vec::new(),
        };
        self.running.insert(skill, search);
    }

    /// `query` has found `peers`, who can be reached at the given addresses as far as is known.
    pub(super) fn found(
        &mut self,
        query: Q,
        peers: impl IntoIterator<Item = (PeerId, Vec<String>)>,
        network: &mut impl Queries<Id = Q>,
    ) {
        let local = self.local;
        let Some((skill, search)) = self.of(query) else {
            return;
        };
        for (peer, addresses) in peers {
            let known = search.candidates.iter().any(|candidate| candidate.peer == peer);
            if !known && peer != local && search.candidates.len() < MAX_FOUND {
                search.candidates.push(ProviderCandidate {
                    peer,
                    addresses,
                    state: State::Waiting,
                    record: None,
                    copies: 0,
                });
            }
        }
        self.settle(&skill, network);
    }

    /// `query` has found a copy of a record, which has been checked.
    pub(super) fn record(&mut self, query: Q, found: AgentRecord, network: &mut impl Queries<Id = Q>) {
        let Some((skill, search)) = self.of(query) else {
            return;
        };
        let candidate = search
            .candidates
            .iter_mut()
            .find(|one| one.state == State::Asked(query));
        let Some(candidate) = candidate else { return };
        candidate.copies += 1;
        let held = candidate.record.as_ref().map_or(0, |held| held.signed_at_ms);
        if found.signed_at_ms >= held {
            candidate.record = Some(found);
        }
        if candidate.copies >= ENOUGH_COPIES {
            candidate.state = State::Done;
            self.queries.remove(&query);
            network.end(query);
            self.settle(&skill, network);
        }
    }

    /// `query` has ended by itself.
    pub(super) fn ended(&mut self, query: Q, network: &mut impl Queries<Id = Q>) {
        let Some((skill, search)) = self.of(query) else {
            return;
        };
        if search.providers == Some(query) {
            search.providers = None;
        }
        for candidate in &mut search.candidates {
            if candidate.state == State::Asked(query) {
                candidate.state = State::Done;
            }
        }
        self.queries.remove(&query);
        self.settle(&skill, network);
    }

    /// Answers whoever cannot wait any longer, and forgets who does not.
    pub(super) fn expire(&mut self, now: Instant, network: &mut impl Queries<Id = Q>) {
        let skills: Vec<_> = self.running.keys().cloned().collect();
        for skill in skills {
            if let Some(search) = self.running.get_mut(&skill) {
                search.answer(&skill, |asker, _| {
                    asker.deadline <= now || asker.reply.is_closed()
                });
            }
            self.settle(&skill, network);
        }
    }

    /// When the next answer is due.
    pub(super) fn next_at(&self) -> Option<Instant> {
        let askers = self.running.values().flat_map(|search| &search.requests);
        askers.map(|asker| asker.deadline).min()
    }

    fn of(&mut self, query: Q) -> Option<(String, &mut Search<Q>)> {
        let skill = self.queries.get(&query)?.clone();
        let search = self.running.get_mut(&skill)?;
        Some((skill, search))
    }

    /// Asks for records that are missing, answers whom it can, and ends what nobody waits for.
    fn settle(&mut self, skill: &str, network: &mut impl Queries<Id = Q>) {
        let Some(search) = self.running.get_mut(skill) else {
            return;
        };
        let complete = search.is_complete();
        search.answer(skill, |asker, ready| {
            complete || ready >= asker.limit || asker.reply.is_closed()
        });
        if search.requests.is_empty() {
            for query in search.queries() {
                self.queries.remove(&query);
                network.end(query);
            }
            self.running.remove(skill);
            return;
        }
        let asked = |one: &ProviderCandidate<Q>| matches!(one.state, State::Asked(_));
        let running = search.candidates.iter().filter(|one| asked(one)).count();
        let waiting = search
            .candidates
            .iter_mut()
            .filter(|one| one.state == State::Waiting);
        for candidate in waiting.take(MAX_RECORD_QUERIES.saturating_sub(running)) {
            let query = network.record(candidate.peer);
            candidate.state = State::Asked(query);
            self.queries.insert(query, skill.to_owned());
        }
    }
}

impl<Q: Copy + Eq> Search<Q> {
    fn is_complete(&self) -> bool {
        self.providers.is_none() && self.candidates.iter().all(|one| one.state == State::Done)
    }

    /// The queries that run.
    fn queries(&self) -> Vec<Q> {
        let records = self.candidates.iter().filter_map(|one| match one.state {
            State::Asked(query) => Some(query),
            State::Waiting | State::Done => None,
        });
        self.providers.into_iter().chain(records).collect()
    }

    /// Answers the askers that `is_due` picks, which sees how many agents have been found with their records.
    fn answer(&mut self, skill: &str, is_due: impl Fn(&SearchRequest, usize) -> bool) {
        let offers = |one: &&ProviderCandidate<Q>| {
            one.record
                .as_ref()
                .is_some_and(|found| record::offers(found, skill))
        };
        let done = |one: &&ProviderCandidate<Q>| matches!(one.state, State::Done);
        let ready = self.candidates.iter().filter(done).filter(offers).count();
        for asker in self.requests.extract_if(.., |asker| is_due(asker, ready)) {
            // Those who have a record first; those whose record does not name the skill do not offer it any more.
            let described = self.candidates.iter().filter(offers);
            let others = self.candidates.iter().filter(|one| one.record.is_none());
            let found = described.chain(others).take(asker.limit);
            let found = found.map(|one| FoundAgent::new(one.peer, &one.addresses, one.record.clone()));
            let _ = asker.reply.send(Ok(found.collect()));
        }
    }
}

#[cfg(test)]
mod tests;
