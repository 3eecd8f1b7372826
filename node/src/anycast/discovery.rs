//! Looking for agents with a skill: in what is kept, on the cards of connected peers, at registries and in the DHT.
//!
//! [`Anycast::discover`] answers people, [`Anycast::find_candidates`] what tasks go by. The rules: an answer is believed for its
//! time; when nobody can be asked, those that were found last are told, and the local agent serves its own skills.

use std::{
    collections::BTreeMap,
    fmt,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use agentanycast_net::FindError;
use agentanycast_proto::v1::AgentCard;
use futures::{FutureExt as _, TryFutureExt as _, future::ready};

use super::{
    Anycast, MAX_SEARCHES,
    fan_in::{AnswerSource, DHT_ONLY_WAIT, FanInResult, gather},
    lock,
    merge::{self, AgentMatch, RouteCandidate},
    registry_client::{RegistryClient, failure_text},
    registry_slot::RegistrySlot,
    skill_cache::CachedCandidates,
};

/// Agents in an answer when nobody says how many.
pub const DEFAULT_RESULTS: usize = 100;
/// What a search has come to.
#[derive(Debug)]
pub struct DiscoveryAnswer {
    /// Those that have proven who they are first.
    pub agents: Vec<AgentMatch>,
    /// No registry answered that knows one: these were found last, and of them no more is known than that they had the skill.
    pub from_cache: bool,
    /// The registries that did not answer in time, each with the reason; what only they list is missing.
    pub unanswered: Vec<String>,
}

impl DiscoveryAnswer {
    /// Nobody was found, and not everybody has answered.
    fn may_be_incomplete(&self) -> bool {
        self.agents.is_empty() && !self.unanswered.is_empty()
    }
}

/// Why nobody was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// There is nowhere to look.
    #[error(
        "this node has no discovery configured; set anycast.registry_addrs, or a bootstrap peer that is a relay"
    )]
    NotConfigured,
    /// Nobody answered.
    #[error("no registry answered: {0}")]
    NoAnswer(RegistryFailures),
    /// All answered, and none knows one.
    #[error("no agent with skill {skill:?} is known{}", did_you_mean(.meant.as_deref()))]
    Nobody {
        /// The skill.
        skill: String,
        /// One that is known, and that was perhaps meant.
        meant: Option<String>,
    },
}

impl SearchError {
    /// The same for somebody who may not know what skills this node knows: private agents may have them.
    #[must_use]
    pub fn without_hint(mut self) -> Self {
        if let Self::Nobody { meant, .. } = &mut self {
            *meant = None;
        }
        self
    }
}

fn did_you_mean(skill: Option<&str>) -> String {
    skill.map_or_else(String::new, |skill| format!("; did you mean {skill}?"))
}

/// Why each of the registries did not answer; shown in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryFailures(pub Vec<String>);

impl fmt::Display for RegistryFailures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

impl Anycast {
    /// Agents with a skill and all of these tags on it, at most `limit`; when nobody answers, those that were found last.
    ///
    /// # Errors
    /// [`SearchError::NotConfigured`], and [`SearchError::NoAnswer`] when none is known of before either; that nobody has it
    /// is an empty answer.
    pub async fn discover(
        &self,
        skill: &str,
        tags: &BTreeMap<String, String>,
        limit: usize,
    ) -> Result<DiscoveryAnswer, SearchError> {
        let answer = self.ask(skill, tags, limit).await;
        let failures = match &answer {
            Err(SearchError::NoAnswer(failures)) => failures.clone(),
            // Those that did not answer may know the agents that were found last.
            Ok(found) if found.may_be_incomplete() => RegistryFailures(found.unanswered.clone()),
            _ => return answer,
        };
        // What was kept says nothing of tags.
        let known = tags
            .is_empty()
            .then(|| lock(&self.inner.cache).stale(skill))
            .flatten();
        let Some(known) = known else { return answer };
        tracing::warn!(
            skill,
            %failures,
            "registries did not answer; who was found last is told"
        );
        let known = known.agents.iter().take(limit);
        Ok(DiscoveryAnswer {
            agents: known.map(|candidate| candidate.to_match(skill)).collect(),
            from_cache: true,
            unanswered: failures.0,
        })
    }

    /// Asks registries and the DHT.
    async fn ask(
        &self,
        skill: &str,
        tags: &BTreeMap<String, String>,
        limit: usize,
    ) -> Result<DiscoveryAnswer, SearchError> {
        // What tasks are routed by must not be what somebody wanted to see a part of.
        let most = if tags.is_empty() {
            limit.max(DEFAULT_RESULTS)
        } else {
            limit
        };
        let searched = self.search(skill, tags, most).await;
        let is_answer = searched.as_ref().is_ok_and(|found| !found.may_be_incomplete());
        // Where there is nobody to ask, it costs nothing to look whether there is by now.
        let is_away = !is_answer && !matches!(searched, Err(SearchError::NotConfigured));
        lock(&self.inner.cache).note_search(self.inner.peer_health.start.elapsed(), is_away);
        let mut found = searched?;
        if tags.is_empty() && is_answer {
            let kept = Arc::new(
                found
                    .agents
                    .iter()
                    .take(DEFAULT_RESULTS)
                    .map(RouteCandidate::from)
                    .collect(),
            );
            lock(&self.inner.cache).insert(self.inner.peer_health.start.elapsed(), skill, kept);
        }
        found.agents.truncate(limit);
        Ok(found)
    }

    /// Who has a skill, for one task.
    ///
    /// # Errors
    /// See [`SearchError`].
    pub(super) async fn find_candidates(&self, skill: &str) -> Result<CachedCandidates, SearchError> {
        let resolved = &self.inner.resolved;
        if let Some(kept) = self.cached_candidates(skill) {
            resolved.cached.fetch_add(1, Relaxed);
            return Ok(kept);
        }
        // One task asks, and those behind it go by its answer.
        let _turn = self.inner.search_locks[search_lock_of(skill)].lock().await;
        let answer = match self.cached_candidates(skill) {
            Some(kept) => Ok(kept),
            None => self.refresh_candidates(skill).await,
        };
        resolved.count(&answer);
        answer
    }

    async fn refresh_candidates(&self, skill: &str) -> Result<CachedCandidates, SearchError> {
        let inner = &self.inner;
        let answer = self.ask(skill, &BTreeMap::new(), DEFAULT_RESULTS).await;
        let is_answer = answer.as_ref().is_ok_and(|found| !found.may_be_incomplete());
        let kept = if is_answer {
            lock(&inner.cache).fresh(inner.peer_health.start.elapsed(), skill)
        } else {
            lock(&inner.cache).stale(skill)
        };
        if let Some(kept) = kept.or_else(|| self.own_candidate(skill).filter(|_| !is_answer)) {
            return Ok(kept);
        }
        match answer? {
            // A cache that believes nothing.
            found if !found.agents.is_empty() => Ok(CachedCandidates {
                agents: Arc::new(found.agents.iter().map(RouteCandidate::from).collect()),
                round: 0,
                is_new: true,
            }),
            found if found.may_be_incomplete() => {
                Err(SearchError::NoAnswer(RegistryFailures(found.unanswered)))
            }
            _ => self.own_candidate(skill).ok_or_else(|| SearchError::Nobody {
                skill: skill.to_owned(),
                meant: self.closest_skill(skill),
            }),
        }
    }

    /// What a task goes by without asking anybody.
    fn cached_candidates(&self, skill: &str) -> Option<CachedCandidates> {
        let now = self.inner.peer_health.start.elapsed();
        let mut cache = lock(&self.inner.cache);
        // An answer of whom everybody is left out may be out of date.
        let believed = cache.fresh(now, skill).filter(|kept| self.any_is_eligible(kept));
        if believed.is_some() || !cache.is_unreachable(now) {
            return believed;
        }
        let stale = cache.stale(skill);
        drop(cache);
        stale.or_else(|| self.own_candidate(skill))
    }

    /// The local agent, if it has the skill and is there: who is found nowhere else is served here.
    fn own_candidate(&self, skill: &str) -> Option<CachedCandidates> {
        let inner = &self.inner;
        let has = |card: &AgentCard| card.skills.iter().any(|known| known.id == skill);
        let has_it = lock(&inner.own_card).as_deref().is_some_and(has);
        let is_there = has_it && lock(&inner.presence).is_present(inner.peer_health.start.elapsed());
        is_there.then(|| CachedCandidates {
            agents: Arc::new(vec![RouteCandidate {
                peer: inner.net.local_peer(),
                addresses: Vec::new(),
                verified: true,
            }]),
            round: 0,
            is_new: false,
        })
    }

    fn any_is_eligible(&self, kept: &CachedCandidates) -> bool {
        let board = lock(&self.inner.peer_health.peers);
        let now = self.inner.peer_health.start.elapsed();
        kept.agents.iter().any(|found| board.is_eligible(now, found.peer))
    }

    async fn search(
        &self,
        skill: &str,
        tags: &BTreeMap<String, String>,
        limit: usize,
    ) -> Result<DiscoveryAnswer, SearchError> {
        let inner = &self.inner;
        if inner.registries.is_empty() && inner.net.peers().is_empty() {
            return Err(SearchError::NotConfigured);
        }
        let Ok(_turn) = inner.searches.acquire().await else {
            return Err(SearchError::NotConfigured); // The semaphore is never closed.
        };
        let registries: Vec<_> = inner.registries.iter().map(RegistrySlot::client).collect();
        let questions = registries.iter().map(|registry| {
            let tags = tags.iter().map(|(tag, value)| (tag.clone(), value.clone()));
            let answer = registry.discover(skill, tags, limit);
            let answer = answer.map_err(|status| failure_text(&status));
            (SearchSource::Registry(registry.as_ref()), answer.left_future())
        });
        // Those that are connected answer at once, and hold up nobody.
        let near = inner
            .neighbours
            .with_skill(skill, tags, |peer| inner.net.is_connected(peer));
        let near = Some(near).filter(|near| !near.is_empty());
        let near = near.map(|near| (SearchSource::Neighbours, ready(Ok(near)).right_future()));
        let questions = questions.chain(near);
        let has_dht = AtomicBool::new(true);
        let FanInResult {
            mut answers,
            in_dht,
            mut failures,
        } = gather(questions, self.ask_dht(skill, limit, &has_dht)).await;
        // Nobody has asked for those that are guessed to be there, until they have shown it.
        let is_guess = |failure: &str| {
            let mut slots = inner.registries.iter().zip(&registries);
            slots.any(|(slot, client)| {
                slot.is_guess() && failure.starts_with(&format!("{}: ", client.address()))
            })
        };
        let guesses: Vec<String> = failures.extract_if(.., |failure| is_guess(failure)).collect();
        if answers.is_empty() && in_dht.is_empty() {
            if !failures.is_empty() {
                return Err(SearchError::NoAnswer(RegistryFailures(failures)));
            }
            // There was nobody else to ask, unless agents are connected, of whom none has it.
            let is_alone = || {
                !inner
                    .neighbours
                    .has_connected(|peer| inner.net.is_connected(peer))
            };
            if !has_dht.load(Relaxed) && (!guesses.is_empty() || is_alone()) {
                return Err(if guesses.is_empty() {
                    SearchError::NotConfigured
                } else {
                    SearchError::NoAnswer(RegistryFailures(
                        guesses.into_iter().map(guessed_registry_failure).collect(),
                    ))
                });
            }
        }
        for failure in &failures {
            tracing::debug!(failure, "a registry did not answer");
        }
        answers.push(in_dht);
        for answer in &mut answers {
            // What others say is checked: they may be wrong, or lying.
            answer.retain(|found| found.matches(skill, tags));
        }
        Ok(DiscoveryAnswer {
            agents: merge::merge(answers, limit),
            from_cache: false,
            unanswered: failures,
        })
    }

    /// Notes in `has_dht` when there is nobody to ask.
    async fn ask_dht(&self, skill: &str, limit: usize, has_dht: &AtomicBool) -> Vec<AgentMatch> {
        match self.inner.net.find_providers(skill, limit, DHT_ONLY_WAIT).await {
            Ok(found) => {
                let found = found.into_iter();
                found.map(|found| AgentMatch::from_dht(found, skill)).collect()
            }
            Err(FindError::Off | FindError::Alone | FindError::Stopping) => {
                has_dht.store(false, Relaxed);
                Vec::new()
            }
            Err(error) => {
                tracing::debug!(%error, "the DHT was not asked");
                Vec::new()
            }
        }
    }
}

/// Who is asked at once, beside the DHT.
enum SearchSource<'a> {
    Registry(&'a RegistryClient),
    Neighbours,
}

impl AnswerSource for SearchSource<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Registry(registry) => registry.name(),
            Self::Neighbours => "connected peers",
        }
    }

    fn is_late(&self) -> bool {
        match self {
            Self::Registry(registry) => registry.is_late(),
            Self::Neighbours => false,
        }
    }
}

/// Of a registry that nobody has named.
fn guessed_registry_failure(failure: String) -> String {
    failure + " (looked for beside a bootstrap peer; anycast.registry_addrs says where registries are)"
}

/// Which of the turns a skill waits for.
fn search_lock_of(skill: &str) -> usize {
    let mut hasher = DefaultHasher::new();
    skill.hash(&mut hasher);
    (hasher.finish() % MAX_SEARCHES as u64) as usize
}
