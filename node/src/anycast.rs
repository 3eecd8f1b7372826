//! Finding agents by what they can do, and choosing who gets a task: skill → peer.
//!
//! [`start`] gives a [`Anycast`] handle and one task per registry that keeps the local agent registered there.
//! `board`, `strategy`, `cache`, `found` and `registration` are pure; `registry` speaks gRPC, `gather` waits for all
//! answers, `keeper` keeps the agent registered. It knows the network for
//! addresses only, and of the engine only what became of tasks ([`RouteNews`]).

mod board;
mod cache;
mod found;
mod gather;
mod keeper;
mod presence;
mod registration;
mod registry;
mod signing;
mod strategy;

use std::{
    collections::BTreeMap,
    error::Error as _,
    fmt,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use agentanycast_identity::{Keypair, PeerId};
use agentanycast_proto::v1::AgentCard;
use futures::{StreamExt as _, TryFutureExt as _, future::join_all, stream::FuturesUnordered};
use rand::SeedableRng as _;
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
    time::timeout_at,
};
use tokio_util::sync::CancellationToken;
use tonic::Status;

pub use self::found::Found;
pub use self::registry::InvalidRegistry;
pub(crate) use self::registry::endpoint;
use self::{
    board::Board,
    cache::{Cache, Kept},
    found::Candidate,
    gather::{DHT_ALONE, Gathered, gather},
    presence::Presence,
    registry::Registry,
    strategy::Choosing,
};

use crate::{
    config::RoutingStrategy,
    engine::RouteNews,
    net::{self, FindError, ProvideError},
};

/// Longest reason of a registry that failed, in bytes: there may be many of them in one line.
const MAX_WHY: usize = 256;
/// Most agents in one answer, as registries have it.
pub const MAX_FOUND: usize = 1000;
/// Agents in an answer when nobody says how many.
pub const USUAL_FOUND: usize = 100;
/// Candidates that a new answer has dialled, where they are not connected: registries have those first that are no crowd.
const DIALLED: usize = 16;
/// How long it is waited for one of them to be there, where none is known to be: half of what each candidate has to take a
/// task.
const DIALLED_WITHIN: Duration = Duration::from_millis(1500);
/// How long others may come in behind the first, so that there is something to choose from.
const BEHIND_FIRST: Duration = Duration::from_millis(200);
/// Searches that run at once; more wait. Each may hold some megabytes of an answer.
const SEARCHES: usize = 16;
/// How long setting the card waits for registries.
const TELL: Duration = Duration::from_secs(2);
/// How long stopping waits until others know that the agent is gone.
const GOODBYE: Duration = Duration::from_secs(1);

/// What it needs to know at its start.
pub struct Parts {
    /// Signs what is said to registries.
    pub key: Keypair,
    /// Where candidates' addresses go, and ours come from.
    pub net: net::Handle,
    /// Registries, `HOST:PORT` or URL.
    pub registries: Vec<String>,
    /// Nobody named them: they may not be there.
    pub guessed: bool,
    /// Whether to register the local agent.
    pub register: bool,
    /// How one of several agents is chosen.
    pub strategy: RoutingStrategy,
    /// How long an answer is believed.
    pub cache_ttl: Duration,
    /// The routing state, which the engine tells its news.
    pub routes: Routes,
    /// Whether an agent listens for tasks.
    pub listening: watch::Receiver<bool>,
}

/// How the peers are doing that tasks are sent to by skill; made before the engine, which tells it.
#[derive(Clone)]
pub struct Routes {
    start: Instant,
    board: Arc<Mutex<Board>>,
}

/// The handle; cheap to clone.
#[derive(Clone)]
pub struct Anycast {
    inner: Arc<Inner>,
}

struct Inner {
    net: net::Handle,
    registries: Vec<Arc<Registry>>,
    guessed: bool,
    announces: bool,
    strategy: RoutingStrategy,
    routes: Routes,
    cache: Mutex<Cache>,
    searches: Semaphore,
    /// Held while a skill is looked up for tasks; a skill has its turn at one of them.
    looking: [tokio::sync::Mutex<()>; SEARCHES],
    /// Held while it is waited for who is there.
    dialling: tokio::sync::Mutex<()>,
    card: watch::Sender<Edition>,
    presence: Mutex<Presence>,
    /// Whether the agent is there, as others are told.
    is_there: watch::Sender<bool>,
    /// Of each registry that is told: the last edition of the card that it has, or cannot be told.
    settled: Vec<watch::Sender<u64>>,
    resolved: Resolved,
}

/// How often an agent for a skill was chosen, by where the answer came from.
#[derive(Default)]
struct Resolved {
    cached: AtomicU64,
    found: AtomicU64,
    nobody: AtomicU64,
    failed: AtomicU64,
}

/// The same as figures: results and how often each was the case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolutions(pub [(&'static str, u64); 4]);

impl Resolved {
    fn count(&self, answer: &Result<Kept, SearchError>) {
        let counter = match answer {
            Ok(_) => &self.found,
            Err(SearchError::Nobody(_)) => &self.nobody,
            Err(_) => &self.failed,
        };
        counter.fetch_add(1, Relaxed);
    }

    fn read(&self) -> Resolutions {
        Resolutions([
            ("cached", self.cached.load(Relaxed)),
            ("found", self.found.load(Relaxed)),
            ("nobody", self.nobody.load(Relaxed)),
            ("failed", self.failed.load(Relaxed)),
        ])
    }
}

/// The local agent's card, and how often it has been set.
#[derive(Clone, Default)]
struct Edition {
    number: u64,
    card: Option<Arc<AgentCard>>,
}

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
    #[error("no agent with skill {0:?} is known")]
    Nobody(String),
}

/// Why each of the registries did not answer; shown in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failures(pub Vec<String>);

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

impl Routes {
    /// Nothing is known yet.
    #[expect(clippy::new_without_default, reason = "it begins a clock")]
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
            board: Arc::new(Mutex::new(Board::new())),
        }
    }

    /// What the engine says of a task.
    pub fn hear(&self, news: RouteNews) {
        lock(&self.board).hear(self.start.elapsed(), news);
    }
}

/// The handle, and a task that ends some time after `stop`.
///
/// # Errors
/// When a registry's address is none.
pub fn start(
    parts: Parts,
    stop: &CancellationToken,
) -> Result<(Anycast, tokio::task::JoinHandle<()>), InvalidRegistry> {
    let mut registries = Vec::new();
    for (place, address) in parts.registries.iter().enumerate() {
        let times = signing::Times::new(place, parts.registries.len());
        registries.push(Arc::new(Registry::new(address, parts.key.clone(), times)?));
    }
    let inner = Inner {
        net: parts.net,
        settled: if parts.register {
            registries.iter().map(|_| watch::Sender::new(0)).collect()
        } else {
            Vec::new()
        },
        registries,
        guessed: parts.guessed,
        announces: parts.register,
        strategy: parts.strategy,
        routes: parts.routes,
        cache: Mutex::new(Cache::new(parts.cache_ttl)),
        searches: Semaphore::new(SEARCHES),
        looking: Default::default(),
        dialling: tokio::sync::Mutex::default(),
        card: watch::Sender::new(Edition::default()),
        presence: Mutex::new(Presence::default()),
        is_there: watch::Sender::new(false),
        resolved: Resolved::default(),
    };
    let anycast = Anycast {
        inner: Arc::new(inner),
    };
    let mut keepers = JoinSet::new();
    keepers.spawn(watch_agent(anycast.clone(), parts.listening, stop.clone()));
    for place in 0..anycast.inner.settled.len() {
        keepers.spawn(keeper::keep_registered(anycast.clone(), place, stop.clone()));
    }
    let task = tokio::spawn(async move { while keepers.join_next().await.is_some() {} });
    Ok((anycast, task))
}

impl Anycast {
    /// The local agent's card is this from now on. Returns when the registries that can be reached know, after 2 s at
    /// most.
    pub async fn set_card(&self, card: Option<AgentCard>) {
        let now = self.inner.routes.start.elapsed();
        lock(&self.inner.presence).card_set(now);
        let number = self.recall_card(card);
        self.tell_presence().await;
        let told = self.inner.settled.iter().map(|settled| {
            let mut settled = settled.subscribe();
            // An error means that the node stops.
            async move { settled.wait_for(|told| *told >= number).await.map(drop) }
        });
        let _ = tokio::time::timeout(TELL, join_all(told)).await;
    }

    /// This was the card in the last run: others are told when its agent is there. Its number.
    pub fn recall_card(&self, card: Option<AgentCard>) -> u64 {
        let mut number = 0;
        self.inner.card.send_modify(|edition| {
            edition.number += 1;
            edition.card = card.map(Arc::new);
            number = edition.number;
        });
        number
    }

    /// Tells the keepers and the DHT whether the agent is there, and what it is.
    async fn tell_presence(&self) {
        let is_there = lock(&self.inner.presence).is_there(self.inner.routes.start.elapsed());
        self.inner
            .is_there
            .send_if_modified(|known| std::mem::replace(known, is_there) != is_there);
        if !self.inner.announces {
            return;
        }
        let card = self.inner.card.borrow().card.clone().filter(|_| is_there);
        match self.inner.net.provide(card.as_deref()).await {
            Ok(()) | Err(ProvideError::Off | ProvideError::Stopping) => {}
            Err(error) => tracing::warn!(%error, "the local agent is not announced in the DHT"),
        }
    }

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
        lock(&self.inner.cache).answered(self.inner.routes.start.elapsed(), is_answer);
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

    /// How choices of an agent for a skill went.
    pub fn resolutions(&self) -> Resolutions {
        self.inner.resolved.read()
    }

    /// Who gets a task for a skill, in this order; never empty. The network knows their addresses then.
    ///
    /// # Errors
    /// See [`SearchError`].
    pub async fn candidates(&self, skill: &str) -> Result<Vec<PeerId>, SearchError> {
        let inner = &self.inner;
        let now = || inner.routes.start.elapsed();
        let kept = if let Some(kept) = self.known(skill) {
            inner.resolved.cached.fetch_add(1, Relaxed);
            kept
        } else {
            // One task asks, and those behind it go by its answer.
            let _turn = inner.looking[turn_of(skill)].lock().await;
            let answer = match self.known(skill) {
                Some(kept) => Ok(kept),
                None => self.look_again(skill).await,
            };
            inner.resolved.count(&answer);
            answer?
        };
        self.see_who_is_there(&kept).await;
        let those = |is: &dyn Fn(&Candidate) -> bool| -> Vec<PeerId> {
            let those = kept.agents.iter().filter(|found| is(found));
            those.map(|found| found.peer).collect()
        };
        let there = those(&|found| inner.net.is_connected(found.peer));
        let proven = those(&|found| found.verified);
        let peers: Vec<PeerId> = kept.agents.iter().map(|found| found.peer).collect();
        let chosen = {
            let mut board = lock(&inner.routes.board);
            let mut choosing = Choosing {
                strategy: inner.strategy,
                me: inner.net.local_peer(),
                now: now(),
                round: kept.round,
                board: &mut board,
            };
            choosing.candidates(
                &peers,
                [&there, &proven],
                &mut rand::rngs::StdRng::seed_from_u64(rand::random()),
            )
        };
        let said = kept.agents.iter().filter(|found| chosen.contains(&found.peer));
        let said = said.filter(|found| !inner.net.is_connected(found.peer));
        let said: Vec<_> = said.map(|found| (found.peer, found.addresses.clone())).collect();
        if !said.is_empty() {
            inner.net.learn(said).await;
        }
        Ok(chosen)
    }

    /// Dials the first candidates of an answer by which no task was routed yet. What registries say of agents costs
    /// nobody anything; that they are there does. Waits for the first when nobody is known to be.
    async fn see_who_is_there(&self, kept: &Kept) {
        let inner = &self.inner;
        let me = inner.net.local_peer();
        let (now, mut is_known) = (inner.routes.start.elapsed(), false);
        let mut away: Vec<(PeerId, Vec<String>)> = Vec::new();
        {
            let board = lock(&inner.routes.board);
            let others = kept.agents.iter().filter(|found| found.peer != me);
            for found in others.filter(|found| board.is_open(now, found.peer)) {
                let is_there = inner.net.is_connected(found.peer);
                is_known |= is_there || board.standing(found.peer).latency.is_some();
                if kept.is_new && !is_there && away.len() < DIALLED {
                    away.push((found.peer, found.addresses.clone()));
                }
            }
        }
        if is_known && !kept.is_new {
            return;
        }
        let dialled = dial_all(inner.net.clone(), away);
        if is_known {
            tokio::spawn(dialled);
            return;
        }
        // Whoever comes meanwhile knows nobody either, and waits for what comes of it.
        let _turn = inner.dialling.lock().await;
        if kept.is_new {
            dialled.await;
        }
    }

    async fn look_again(&self, skill: &str) -> Result<Kept, SearchError> {
        let inner = &self.inner;
        let answer = self.ask(skill, &BTreeMap::new(), USUAL_FOUND).await;
        let kept = match &answer {
            Err(SearchError::NoAnswer(_)) => lock(&inner.cache).stale(skill),
            Ok(found) if found.is_in_doubt() => lock(&inner.cache).stale(skill),
            _ => lock(&inner.cache).believed(inner.routes.start.elapsed(), skill),
        };
        match (kept, answer) {
            (Some(kept), _) => Ok(kept),
            (None, Err(error)) => Err(error),
            // A cache that believes nothing.
            (None, Ok(found)) if !found.agents.is_empty() => Ok(Kept {
                agents: Arc::new(found.agents.iter().map(Candidate::from).collect()),
                round: 0,
                is_new: true,
            }),
            (None, Ok(found)) if found.is_in_doubt() => {
                Err(SearchError::NoAnswer(Failures(found.unanswered)))
            }
            (None, Ok(_)) => Err(SearchError::Nobody(skill.to_owned())),
        }
    }

    /// What a task goes by without asking anybody.
    fn known(&self, skill: &str) -> Option<Kept> {
        let now = self.inner.routes.start.elapsed();
        let believed = lock(&self.inner.cache).believed(now, skill);
        // An answer of whom everybody is left out may be out of date.
        let believed = believed.filter(|kept| self.somebody_is_open(kept));
        believed.or_else(|| lock(&self.inner.cache).stale_while_away(now, skill))
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
            (registry.as_ref(), answer)
        });
        let Gathered {
            mut answers,
            in_dht,
            mut failures,
        } = gather(questions, self.ask_dht(skill, limit)).await;
        // Nobody has asked for those that are guessed to be there, until they have shown it.
        let is_guess = |failure: &str| {
            let mut guesses = inner.registries.iter().filter(|registry| !registry.is_there());
            inner.guessed && guesses.any(|registry| failure.starts_with(&format!("{}: ", registry.address())))
        };
        failures.retain(|failure| !is_guess(failure));
        if answers.is_empty() && in_dht.is_empty() && !failures.is_empty() {
            return Err(SearchError::NoAnswer(Failures(failures)));
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

    async fn ask_dht(&self, skill: &str, limit: usize) -> Vec<Found> {
        match self.inner.net.find_providers(skill, limit, DHT_ALONE).await {
            Ok(found) => {
                let found = found.into_iter();
                found.map(|found| Found::announced(found, skill)).collect()
            }
            Err(FindError::Off | FindError::Stopping) => Vec::new(),
            Err(error) => {
                tracing::debug!(%error, "the DHT was not asked");
                Vec::new()
            }
        }
    }
}

/// Which of the turns a skill waits for.
fn turn_of(skill: &str) -> usize {
    let mut hasher = DefaultHasher::new();
    skill.hash(&mut hasher);
    (hasher.finish() % SEARCHES as u64) as usize
}

/// Dials all of these at once; until one is there and others had a moment, or for [`DIALLED_WITHIN`].
async fn dial_all(net: net::Handle, peers: Vec<(PeerId, Vec<String>)>) {
    let mut dials: FuturesUnordered<_> = peers
        .iter()
        .map(|(peer, _)| net.dial(*peer, Vec::new()))
        .collect();
    net.learn(peers.clone()).await;
    let mut until = Instant::now() + DIALLED_WITHIN;
    while let Ok(Some(dialled)) = timeout_at(until.into(), dials.next()).await {
        if dialled.is_ok() {
            until = until.min(Instant::now() + BEHIND_FIRST);
        }
    }
}

/// What a registry's failure says, with what lies under it: a connection that failed does not say why by itself.
fn why(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut cause = status.source();
    while let Some(error) = cause {
        cause = error.source();
        let said = error.to_string();
        if cause.is_none() && !text.contains(&said) {
            text = format!("{text} ({said})");
        }
    }
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    text[..text.floor_char_boundary(MAX_WHY)].to_owned()
}

/// Notices when the agent comes and goes, until `stop`; then takes back what was announced in the DHT.
async fn watch_agent(anycast: Anycast, mut listening: watch::Receiver<bool>, stop: CancellationToken) {
    let inner = &anycast.inner;
    let mut is_there = inner.is_there.subscribe();
    loop {
        let now = inner.routes.start.elapsed();
        let (was, is, ends_at) = {
            let mut presence = lock(&inner.presence);
            presence.listens(now, *listening.borrow_and_update());
            (
                *is_there.borrow_and_update(),
                presence.is_there(now),
                presence.ends_at(now),
            )
        };
        if was != is {
            anycast.tell_presence().await;
        }
        let end = pause(ends_at.map(|at| at.saturating_sub(inner.routes.start.elapsed())));
        tokio::select! {
            () = stop.cancelled() => break,
            changed = listening.changed() => if changed.is_err() { break },
            changed = is_there.changed() => if changed.is_err() { break },
            () = end => {}
        }
    }
    // Those who are not told in time forget it within half an hour.
    let _ = tokio::time::timeout(GOODBYE, inner.net.retract()).await;
}

/// Ends after this time; without one never.
async fn pause(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
