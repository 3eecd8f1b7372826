//! Finding agents by what they can do, and choosing who gets a task: skill → peer.
//!
//! [`start`] gives a [`Anycast`] handle and one task per registry that keeps the local agent registered there.
//! `board`, `strategy`, `cache`, `found` and `registration` are pure; `registry` speaks gRPC, `gather` waits for all
//! answers, `look` looks in all places, `neighbours` are connected peers, `directory` lists who is known, `keeper` keeps
//! the agent registered. It knows the network for addresses only, and of the engine only what became of tasks
//! ([`RouteNews`]).

mod board;
mod cache;
mod directory;
mod found;
mod gather;
mod keeper;
mod look;
mod neighbours;
mod presence;
mod registration;
mod registrations;
mod registry;
mod signing;
mod strategy;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use agentanycast_identity::{Keypair, PeerId};
use agentanycast_proto::v1::AgentCard;
use futures::{StreamExt as _, future::join_all, stream::FuturesUnordered};
use rand::SeedableRng as _;
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
    time::timeout_at,
};
use tokio_util::sync::CancellationToken;

pub use self::directory::{Directory, Listed};
pub use self::found::Found;
pub use self::look::{Discovered, Failures, SearchError, USUAL_FOUND};
pub use self::neighbours::Neighbours;
pub use self::registrations::{RegistrationStatus, RegistryStatus};
pub(crate) use self::registry::endpoint;
pub use self::registry::{InvalidRegistry, registry_beside};
use self::{
    board::Board,
    cache::{Cache, Kept},
    found::Candidate,
    presence::Presence,
    registry::Registry,
    strategy::Choosing,
};

use crate::{
    config::RoutingStrategy,
    engine::RouteNews,
    net::{self, ProvideError},
    other_daemons::OtherDaemons,
};

/// Most agents in one answer, as registries have it.
pub const MAX_FOUND: usize = 1000;
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
    /// The cards of connected peers.
    pub neighbours: Neighbours,
    /// Whether an agent listens for tasks.
    pub listening: watch::Receiver<bool>,
    /// Where it is told what of the card others cannot find.
    pub unfindable: watch::Sender<Unfindable>,
    /// Which run of the node this is, and where is told who sees another one.
    pub other_daemons: OtherDaemons,
}

/// What of the local agent's card other nodes cannot find, a sentence each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unfindable {
    /// What registries do not take.
    registries: Vec<String>,
    /// Why the card is not announced in the DHT.
    dht: Option<String>,
}

impl Unfindable {
    /// All of it; empty: everything can be found.
    pub fn told(&self) -> Vec<String> {
        self.registries.iter().chain(&self.dht).cloned().collect()
    }
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
    neighbours: Neighbours,
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
    unfindable: watch::Sender<Unfindable>,
    presence: Mutex<Presence>,
    /// Whether the agent is there, as others are told.
    is_there: watch::Sender<bool>,
    /// Of each registry that is told: the last edition of the card that it has, or cannot be told.
    settled: Vec<watch::Sender<u64>>,
    /// Of each registry that is told: whether the agent is registered there.
    registrations: Vec<watch::Sender<RegistrationStatus>>,
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
            Err(SearchError::Nobody { .. }) => &self.nobody,
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
        registries.push(Arc::new(Registry::new(
            address,
            parts.key.clone(),
            times,
            parts.other_daemons.clone(),
        )?));
    }
    let inner = Inner {
        net: parts.net,
        neighbours: parts.neighbours,
        settled: if parts.register {
            registries.iter().map(|_| watch::Sender::new(0)).collect()
        } else {
            Vec::new()
        },
        registrations: registries.iter().map(|_| watch::Sender::default()).collect(),
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
        unfindable: parts.unfindable,
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
    /// How it stands at each registry that the local agent is registered at. One that was guessed, and never
    /// answered, is left out.
    pub fn registrations(&self) -> Vec<RegistryStatus> {
        let inner = &self.inner;
        let told = inner.registries.iter().zip(&inner.registrations);
        let told = told.filter(|(registry, _)| inner.announces && (!inner.guessed || registry.is_there()));
        told.map(|(registry, status)| RegistryStatus {
            address: registry.address().to_owned(),
            relay: registry.relay().unwrap_or_default(),
            status: status.borrow().clone(),
        })
        .collect()
    }

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
        let is_registered = !self.inner.settled.is_empty();
        let registries = card.as_ref().filter(|_| is_registered).map(keeper::left_out);
        let registries = registries.unwrap_or_default();
        for warning in &registries {
            tracing::warn!("{warning}");
        }
        self.inner
            .unfindable
            .send_modify(|told| told.registries = registries);
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
            Ok(()) | Err(ProvideError::Off | ProvideError::Stopping) => self.note_dht(None),
            Err(error) => {
                tracing::warn!(%error, "the local agent is not announced in the DHT");
                self.note_dht(Some(format!(
                    "the local agent is not announced in the DHT: {error}"
                )));
            }
        }
    }

    fn note_dht(&self, failure: Option<String>) {
        self.inner.unfindable.send_modify(|told| told.dht = failure);
    }

    /// What of the card other nodes cannot find, and why.
    pub fn unfindable(&self) -> Vec<String> {
        self.inner.unfindable.borrow().told()
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
        let kept = self.look_up(skill).await?;
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
