//! Looking for agents with a skill: in what is kept, on the cards of connected peers, at registries and in the DHT.
//!
//! [`Anycast::discover`] answers people, [`Anycast::look_up`] what tasks go by. The rules: an answer is believed for its
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

use agentanycast_proto::v1::AgentCard;
use futures::{FutureExt as _, TryFutureExt as _, future::ready};

use super::{
    Anycast, SEARCHES,
    cache::Kept,
    found::{self, Candidate, Found},
    gather::{Asked, DHT_ALONE, Gathered, gather},
    lock,
    registry::{Registry, why},
};
use crate::net::FindError;

/// Agents in an answer when nobody says how many.
pub const USUAL_FOUND: usize = 100;
/// What a search has come to.
#[derive(Debug)]
pub struct Discovered {
    /// Those that have proven who they are first.
    pub agents: Vec<Found>,
    /// No registry answered that knows one: these were found last, and of them no more is known than that they had the skill.
    pub remembered: bool,
    /// The registries that did not answer in time, each with the reason; what only they list is missing.
    pub unanswered: Vec<String>,
}

impl Discovered {
    /// Nobody was found, and not everybody has answered.
    fn is_in_doubt(&self) -> bool {
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
    NoAnswer(Failures),
    /// All answered, and none knows one.
    #[error("no agent with skill {skill:?} is known{}", did_you_mean(.meant.as_deref()))]
    Nobody {
        /// The skill.
        skill: String,
        /// One that is known, and that was perhaps meant.
        meant: Option<String>,
    },
}

fn did_you_mean(skill: Option<&str>) -> String {
    skill.map_or_else(String::new, |skill| format!("; did you mean {skill}?"))
}

/// Why each of the registries did not answer; shown in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failures(pub Vec<String>);

impl fmt::Display for Failures {
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
    ) -> Result<Discovered, SearchError> {
        let answer = self.ask(skill, tags, limit).await;
        let failures = match &answer {
            Err(SearchError::NoAnswer(failures)) => failures.clone(),
            // Those that did not answer may know the agents that were found last.
            Ok(found) if found.is_in_doubt() => Failures(found.unanswered.clone()),
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
        Ok(Discovered {
            agents: known.map(|candidate| candidate.found(skill)).collect(),
            remembered: true,
            unanswered: failures.0,
        })
    }

    /// Asks registries and the DHT.
    async fn ask(
        &self,
        skill: &str,
        tags: &BTreeMap<String, String>,
        limit: usize,
    ) -> Result<Discovered, SearchError> {
        // What tasks are routed by must not be what somebody wanted to see a part of.
        let most = if tags.is_empty() {
            limit.max(USUAL_FOUND)
        } else {
            limit
        };
        let searched = self.search(skill, tags, most).await;
        let is_answer = searched.as_ref().is_ok_and(|found| !found.is_in_doubt());
        // Where there is nobody to ask, it costs nothing to look whether there is by now.
        let is_away = !is_answer && !matches!(searched, Err(SearchError::NotConfigured));
        lock(&self.inner.cache).answered(self.inner.routes.start.elapsed(), is_away);
        let mut found = searched?;
        if tags.is_empty() && is_answer {
            let kept = Arc::new(
                found
                    .agents
                    .iter()
                    .take(USUAL_FOUND)
                    .map(Candidate::from)
                    .collect(),
            );
            lock(&self.inner.cache).keep(self.inner.routes.start.elapsed(), skill, kept);
        }
        found.agents.truncate(limit);
        Ok(found)
    }

    /// Who has a skill, for one task.
    ///
    /// # Errors
    /// See [`SearchError`].
    pub(super) async fn look_up(&self, skill: &str) -> Result<Kept, SearchError> {
        let resolved = &self.inner.resolved;
        if let Some(kept) = self.known(skill) {
            resolved.cached.fetch_add(1, Relaxed);
            return Ok(kept);
        }
        // One task asks, and those behind it go by its answer.
        let _turn = self.inner.looking[turn_of(skill)].lock().await;
        let answer = match self.known(skill) {
            Some(kept) => Ok(kept),
            None => self.look_again(skill).await,
        };
        resolved.count(&answer);
        answer
    }

    async fn look_again(&self, skill: &str) -> Result<Kept, SearchError> {
        let inner = &self.inner;
        let answer = self.ask(skill, &BTreeMap::new(), USUAL_FOUND).await;
        let is_answer = answer.as_ref().is_ok_and(|found| !found.is_in_doubt());
        let kept = if is_answer {
            lock(&inner.cache).believed(inner.routes.start.elapsed(), skill)
        } else {
            lock(&inner.cache).stale(skill)
        };
        if let Some(kept) = kept.or_else(|| self.own(skill).filter(|_| !is_answer)) {
            return Ok(kept);
        }
        match answer? {
            // A cache that believes nothing.
            found if !found.agents.is_empty() => Ok(Kept {
                agents: Arc::new(found.agents.iter().map(Candidate::from).collect()),
                round: 0,
                is_new: true,
            }),
            found if found.is_in_doubt() => Err(SearchError::NoAnswer(Failures(found.unanswered))),
            _ => self.own(skill).ok_or_else(|| SearchError::Nobody {
                skill: skill.to_owned(),
                meant: self.meant(skill),
            }),
        }
    }

    /// What a task goes by without asking anybody.
    fn known(&self, skill: &str) -> Option<Kept> {
        let now = self.inner.routes.start.elapsed();
        let mut cache = lock(&self.inner.cache);
        // An answer of whom everybody is left out may be out of date.
        let believed = cache
            .believed(now, skill)
            .filter(|kept| self.somebody_is_open(kept));
        if believed.is_some() || !cache.is_away(now) {
            return believed;
        }
        let stale = cache.stale(skill);
        drop(cache);
        stale.or_else(|| self.own(skill))
    }

    /// The local agent, if it has the skill and is there: who is found nowhere else is served here.
    fn own(&self, skill: &str) -> Option<Kept> {
        let inner = &self.inner;
        let has = |card: &AgentCard| card.skills.iter().any(|known| known.id == skill);
        let has_it = inner.card.borrow().card.as_deref().is_some_and(has);
        let is_there = has_it && lock(&inner.presence).is_there(inner.routes.start.elapsed());
        is_there.then(|| Kept {
            agents: Arc::new(vec![Candidate {
                peer: inner.net.local_peer(),
                addresses: Vec::new(),
                verified: true,
            }]),
            round: 0,
            is_new: false,
        })
    }

    fn somebody_is_open(&self, kept: &Kept) -> bool {
        let board = lock(&self.inner.routes.board);
        let now = self.inner.routes.start.elapsed();
        kept.agents.iter().any(|found| board.is_open(now, found.peer))
    }

    async fn search(
        &self,
        skill: &str,
        tags: &BTreeMap<String, String>,
        limit: usize,
    ) -> Result<Discovered, SearchError> {
        let inner = &self.inner;
        if inner.registries.is_empty() && inner.net.peers().is_empty() {
            return Err(SearchError::NotConfigured);
        }
        let Ok(_turn) = inner.searches.acquire().await else {
            return Err(SearchError::NotConfigured); // The semaphore is never closed.
        };
        let questions = inner.registries.iter().map(|registry| {
            let tags = tags.iter().map(|(tag, value)| (tag.clone(), value.clone()));
            let answer = registry.discover(skill, tags, limit);
            let answer = answer.map_err(|status| why(&status));
            (Source::Registry(registry.as_ref()), answer.left_future())
        });
        // Those that are connected answer at once, and hold up nobody.
        let near = inner
            .neighbours
            .with_skill(skill, tags, |peer| inner.net.is_connected(peer));
        let near = Some(near).filter(|near| !near.is_empty());
        let near = near.map(|near| (Source::Neighbours, ready(Ok(near)).right_future()));
        let questions = questions.chain(near);
        let has_dht = AtomicBool::new(true);
        let Gathered {
            mut answers,
            in_dht,
            mut failures,
        } = gather(questions, self.ask_dht(skill, limit, &has_dht)).await;
        // Nobody has asked for those that are guessed to be there, until they have shown it.
        let is_guess = |failure: &str| {
            let mut guesses = inner.registries.iter().filter(|registry| !registry.is_there());
            inner.guessed && guesses.any(|registry| failure.starts_with(&format!("{}: ", registry.address())))
        };
        let guesses: Vec<String> = failures.extract_if(.., |failure| is_guess(failure)).collect();
        if answers.is_empty() && in_dht.is_empty() {
            if !failures.is_empty() {
                return Err(SearchError::NoAnswer(Failures(failures)));
            }
            // There was nobody else to ask, unless agents are connected, of whom none has it.
            let is_alone = || !inner.neighbours.is_any(|peer| inner.net.is_connected(peer));
            if !has_dht.load(Relaxed) && (!guesses.is_empty() || is_alone()) {
                return Err(if guesses.is_empty() {
                    SearchError::NotConfigured
                } else {
                    SearchError::NoAnswer(Failures(guesses.into_iter().map(looked_for).collect()))
                });
            }
        }
        for failure in &failures {
            tracing::debug!(failure, "a registry did not answer");
        }
        answers.push(in_dht);
        for answer in &mut answers {
            // What others say is checked: they may be wrong, or lying.
            answer.retain(|found| found.has(skill, tags));
        }
        Ok(Discovered {
            agents: found::merged(answers, limit),
            remembered: false,
            unanswered: failures,
        })
    }

    /// Notes in `has_dht` when there is nobody to ask.
    async fn ask_dht(&self, skill: &str, limit: usize, has_dht: &AtomicBool) -> Vec<Found> {
        match self.inner.net.find_providers(skill, limit, DHT_ALONE).await {
            Ok(found) => {
                let found = found.into_iter();
                found.map(|found| Found::announced(found, skill)).collect()
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
enum Source<'a> {
    Registry(&'a Registry),
    Neighbours,
}

impl Asked for Source<'_> {
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
fn looked_for(failure: String) -> String {
    failure + " (looked for beside a bootstrap peer; anycast.registry_addrs says where registries are)"
}

/// Which of the turns a skill waits for.
fn turn_of(skill: &str) -> usize {
    let mut hasher = DefaultHasher::new();
    skill.hash(&mut hasher);
    (hasher.finish() % SEARCHES as u64) as usize
}
