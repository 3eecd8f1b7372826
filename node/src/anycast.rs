//! Finding agents by what they can do, and choosing who gets a task: skill → peer.
//!
//! [`start`] gives a [`Anycast`] handle and one task per registry that keeps the local agent registered there.
//! `peer_health`, `strategy`, `skill_cache`, `merge`, `registration_content`, `registry_capacity` and `registration_state` are pure; `registry_client` speaks gRPC, `fan_in` waits for all
//! answers, `discovery` looks in all places, `neighbour_cards` are connected peers, `agent_directory` lists who is known, `registrar` keeps
//! the agent registered. It knows the network for addresses only, and of the engine only what became of tasks
//! ([`RouteOutcome`]).

mod agent_directory;
mod agent_presence;
mod discovery;
mod fan_in;
mod merge;
mod neighbour_cards;
mod peer_health;
mod registrar;
mod registration_content;
mod registration_state;
mod registration_status;
mod registry_capacity;
mod registry_client;
mod registry_location;
mod registry_slot;
mod request_signing;
mod skill_cache;
mod strategy;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use agentanycast_core::RouteOutcome;
use agentanycast_identity::{Keypair, PeerId};
use agentanycast_net::{self as net, ProvideError, duplicate_key::DuplicateKeyReports};
use agentanycast_proto::v1::AgentCard;
use futures::{StreamExt as _, future::join_all, stream::FuturesUnordered};
use rand::SeedableRng as _;
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
    time::timeout_at,
};
use tokio_util::sync::CancellationToken;

pub use self::agent_directory::{DirectoryEntry, KnownAgents};
pub use self::discovery::{DEFAULT_RESULTS, DiscoveryAnswer, RegistryFailures, SearchError};
pub use self::merge::{AgentMatch, AgentOnNode};
pub use self::neighbour_cards::NeighbourCards;
pub use self::registration_status::{RegistrationStatus, RegistryStatus};
pub use self::registry_client::InvalidRegistry;
pub(crate) use self::registry_client::endpoint;
pub use self::registry_location::BootstrapRegistry;
pub use self::registry_slot::RegistrySource;
use self::{
    agent_presence::AgentPresence,
    merge::RouteCandidate,
    peer_health::PeerHealth,
    registration_content::{LeftOut, RegistrationContent},
    registry_client::RegistryClient,
    registry_slot::{ClientParts, RegistrySlot},
    skill_cache::{CachedCandidates, SkillCache},
    strategy::CandidateSelector,
};

use crate::config::RoutingStrategy;

/// Most agents in one answer, as registries have it.
pub const MAX_RESULTS: usize = 1000;
/// Candidates that a new answer has dialled, where they are not connected: registries have those first that are no crowd.
const MAX_CANDIDATE_DIALS: usize = 16;
/// How long it is waited for one of them to be there, where none is known to be: half of what each candidate has to take a
/// task.
const CANDIDATE_DIAL_TIMEOUT: Duration = Duration::from_millis(1500);
/// How long others may come in behind the first, so that there is something to choose from.
const SECOND_PEER_WAIT: Duration = Duration::from_millis(200);
/// Searches that run at once; more wait. Each may hold some megabytes of an answer.
const MAX_SEARCHES: usize = 16;
/// How long setting the card waits for registries.
const REGISTER_WAIT: Duration = Duration::from_secs(2);
/// What is added to the failure of a registry that was looked for beside a relay.
const NOT_SAID: &str = "; the relay does not say where its registry is: set anycast.registry_addrs";
/// How long stopping waits until others know that the agent is gone.
const UNREGISTER_WAIT: Duration = Duration::from_secs(1);

/// What it needs to know at its start.
pub struct AnycastParts {
    /// Signs what is said to registries.
    pub key: Keypair,
    /// Where candidates' addresses go, and ours come from.
    pub net: net::Handle,
    /// Registries.
    pub registries: Vec<RegistrySource>,
    /// Whether to register the local agent.
    pub register: bool,
    /// How one of several agents is chosen.
    pub strategy: RoutingStrategy,
    /// How long an answer is believed.
    pub cache_ttl: Duration,
    /// The routing state, which the engine tells its news.
    pub peer_health: PeerHealthHandle,
    /// The cards of connected peers.
    pub neighbours: NeighbourCards,
    /// Whether an agent listens for tasks.
    pub listening: watch::Receiver<bool>,
    /// Where it is told what of the card others cannot find.
    pub unfindable: watch::Sender<UndiscoverableParts>,
    /// Which run of the node this is, and where is told who sees another one.
    pub other_daemons: DuplicateKeyReports,
}

/// What of the local agent's card other nodes cannot find, a sentence each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndiscoverableParts {
    /// What registries are not told, by their places.
    registries: BTreeMap<usize, RegistryGaps>,
    /// Why the card is not announced in the DHT.
    dht: Option<String>,
}

impl UndiscoverableParts {
    /// All of it; empty: everything can be found.
    pub fn sentences(&self) -> Vec<String> {
        let mut told: Vec<(&LeftOut, String)> = Vec::new();
        for gaps in self.registries.values() {
            match told.iter_mut().find(|(left_out, _)| **left_out == gaps.left_out) {
                Some((_, addresses)) => {
                    addresses.push_str(", ");
                    addresses.push_str(&gaps.address);
                }
                None => told.push((&gaps.left_out, gaps.address.clone())),
            }
        }
        let told = told
            .iter()
            .flat_map(|(left_out, addresses)| left_out.sentences(addresses));
        told.chain(self.dht.clone()).collect()
    }
}

/// What one registry is not told.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RegistryGaps {
    address: String,
    left_out: LeftOut,
}

/// How the peers are doing that tasks are sent to by skill; made before the engine, which tells it.
#[derive(Clone)]
pub struct PeerHealthHandle {
    start: Instant,
    peers: Arc<Mutex<PeerHealth>>,
}

/// The handle; cheap to clone.
#[derive(Clone)]
pub struct Anycast {
    inner: Arc<AnycastInner>,
}

struct AnycastInner {
    net: net::Handle,
    neighbours: NeighbourCards,
    registries: Vec<RegistrySlot>,
    announces: bool,
    strategy: RoutingStrategy,
    peer_health: PeerHealthHandle,
    cache: Mutex<SkillCache>,
    searches: Semaphore,
    /// Held while a skill is looked up for tasks; a skill has its turn at one of them.
    search_locks: [tokio::sync::Mutex<()>; MAX_SEARCHES],
    /// Held while it is waited for who is there.
    dial_lock: tokio::sync::Mutex<()>,
    /// What others are told.
    card: watch::Sender<CardVersion>,
    /// The card with the private agents too, which is for this node alone.
    own_card: Mutex<Option<Arc<AgentCard>>>,
    unfindable: watch::Sender<UndiscoverableParts>,
    presence: Mutex<AgentPresence>,
    /// Whether the agent is there, as others are told.
    is_there: watch::Sender<bool>,
    /// Of each registry that is told: the last edition of the card that it has, or cannot be told.
    reported_versions: Vec<watch::Sender<u64>>,
    /// Of each registry that is told: whether the agent is registered there.
    registrations: Vec<watch::Sender<RegistrationStatus>>,
    resolved: ResolutionCounters,
}

/// How often an agent for a skill was chosen, by where the answer came from.
#[derive(Default)]
struct ResolutionCounters {
    cached: AtomicU64,
    found: AtomicU64,
    nobody: AtomicU64,
    failed: AtomicU64,
}

/// The same as figures: results and how often each was the case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolutions(pub [(&'static str, u64); 4]);

impl ResolutionCounters {
    fn count(&self, answer: &Result<CachedCandidates, SearchError>) {
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
struct CardVersion {
    number: u64,
    card: Option<Arc<AgentCard>>,
}

impl PeerHealthHandle {
    /// Nothing is known yet.
    #[expect(clippy::new_without_default, reason = "it begins a clock")]
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
            peers: Arc::new(Mutex::new(PeerHealth::new())),
        }
    }

    /// What the engine says of a task.
    pub fn record(&self, news: RouteOutcome) {
        lock(&self.peers).record(self.start.elapsed(), news);
    }
}

/// The handle, and a task that ends some time after `stop`.
///
/// # Errors
/// When a registry's address is none.
pub fn start(
    parts: AnycastParts,
    stop: &CancellationToken,
) -> Result<(Anycast, tokio::task::JoinHandle<()>), InvalidRegistry> {
    let mut registries = Vec::new();
    let count = parts.registries.len();
    for (place, source) in parts.registries.into_iter().enumerate() {
        let client_parts = ClientParts {
            key: parts.key.clone(),
            other_daemons: parts.other_daemons.clone(),
            place: (place, count),
        };
        registries.push(RegistrySlot::new(source, client_parts)?);
    }
    let inner = AnycastInner {
        net: parts.net,
        neighbours: parts.neighbours,
        reported_versions: if parts.register {
            registries.iter().map(|_| watch::Sender::new(0)).collect()
        } else {
            Vec::new()
        },
        registrations: registries.iter().map(|_| watch::Sender::default()).collect(),
        registries,
        announces: parts.register,
        strategy: parts.strategy,
        peer_health: parts.peer_health,
        cache: Mutex::new(SkillCache::new(parts.cache_ttl)),
        searches: Semaphore::new(MAX_SEARCHES),
        search_locks: Default::default(),
        dial_lock: tokio::sync::Mutex::default(),
        card: watch::Sender::new(CardVersion::default()),
        own_card: Mutex::default(),
        unfindable: parts.unfindable,
        presence: Mutex::new(AgentPresence::default()),
        is_there: watch::Sender::new(false),
        resolved: ResolutionCounters::default(),
    };
    let anycast = Anycast {
        inner: Arc::new(inner),
    };
    let mut keepers = JoinSet::new();
    keepers.spawn(watch_agent(anycast.clone(), parts.listening, stop.clone()));
    for place in 0..anycast.inner.reported_versions.len() {
        keepers.spawn(registrar::keep_registered(anycast.clone(), place, stop.clone()));
    }
    if anycast
        .inner
        .registries
        .iter()
        .any(RegistrySlot::is_beside_bootstrap)
    {
        keepers.spawn(follow_relays(anycast.clone(), stop.clone()));
    }
    let task = tokio::spawn(async move { while keepers.join_next().await.is_some() {} });
    Ok((anycast, task))
}

impl AnycastInner {
    /// What of the card this registry is told now.
    fn registration_content(&self, card: &AgentCard, registry: &RegistryClient) -> RegistrationContent {
        let addresses: Vec<String> = self.net.reachable().borrow().all().cloned().collect();
        RegistrationContent::new(
            card,
            self.net.local_peer(),
            &addresses,
            &self.net.own_identity().key_rotations,
            registry.capacity(),
        )
    }

    /// Takes note of what of the card the registry at this place is not told, where the agent is registered.
    fn note_left_out(&self, place: usize, left_out: &LeftOut) {
        let registry = &self.registries[place];
        let is_asked = !self.reported_versions.is_empty() && !registry.is_guess();
        let gaps = Some(left_out).filter(|left_out| is_asked && !left_out.is_nothing());
        let gaps = gaps.map(|left_out| RegistryGaps {
            address: registry.client().address().to_owned(),
            left_out: left_out.clone(),
        });
        self.unfindable.send_if_modified(|told| {
            if told.registries.get(&place) == gaps.as_ref() {
                return false;
            }
            match gaps {
                Some(gaps) => told.registries.insert(place, gaps),
                None => told.registries.remove(&place),
            };
            true
        });
    }
}

impl Anycast {
    /// How it stands at each registry that the local agent is registered at. A guess that never answered is left
    /// out, unless it failed and is beside a relay that this node uses.
    pub fn registrations(&self) -> Vec<RegistryStatus> {
        let inner = &self.inner;
        if !inner.announces {
            return Vec::new();
        }
        let told = inner.registries.iter().zip(&inner.registrations);
        told.filter_map(|(registry, status)| {
            let (client, mut status) = (registry.client(), status.borrow().clone());
            if let Some(reason) = registry.unreachable() {
                status = RegistrationStatus::unregistered(reason);
            } else if registry.is_guess() {
                if !status.has_failed() || !registry.is_beside_relay(&inner.net) {
                    return None;
                }
                status.reason.push_str(NOT_SAID);
            }
            Some(RegistryStatus {
                address: client.address().to_owned(),
                relay: client.relay().unwrap_or_default(),
                status,
            })
        })
        .collect()
    }

    /// The local agent's card is this from now on. Returns when the registries that can be reached know, after 2 s at
    /// most.
    pub async fn set_card(&self, card: Option<AgentCard>) {
        let now = self.inner.peer_health.start.elapsed();
        lock(&self.inner.presence).card_set(now);
        let number = self.recall_card(card);
        self.tell_presence().await;
        let told = self.inner.reported_versions.iter().map(|settled| {
            let mut settled = settled.subscribe();
            // An error means that the node stops.
            async move { settled.wait_for(|told| *told >= number).await.map(drop) }
        });
        let _ = tokio::time::timeout(REGISTER_WAIT, join_all(told)).await;
    }

    /// This was the card in the last run: others are told when its agent is there. Its number.
    pub fn recall_card(&self, card: Option<AgentCard>) -> u64 {
        for (place, registry) in self.inner.registries.iter().enumerate() {
            let content = card
                .as_ref()
                .map(|card| self.inner.registration_content(card, &registry.client()));
            let left_out = content.map(|content| content.left_out).unwrap_or_default();
            self.inner.note_left_out(place, &left_out);
        }
        let mut number = 0;
        self.inner.card.send_modify(|edition| {
            edition.number += 1;
            edition.card = card.map(Arc::new);
            number = edition.number;
        });
        number
    }

    /// This node itself finds the agents of this card from now on. Nobody else is told.
    pub fn set_own_card(&self, card: Option<Arc<AgentCard>>) {
        *lock(&self.inner.own_card) = card;
    }

    /// Tells the keepers and the DHT whether the agent is there, and what it is.
    async fn tell_presence(&self) {
        let is_there = lock(&self.inner.presence).is_present(self.inner.peer_health.start.elapsed());
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
        self.inner.unfindable.borrow().sentences()
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
        let now = || inner.peer_health.start.elapsed();
        let kept = self.find_candidates(skill).await?;
        self.dial_candidates(&kept).await;
        let those = |is: &dyn Fn(&RouteCandidate) -> bool| -> Vec<PeerId> {
            let those = kept.agents.iter().filter(|found| is(found));
            those.map(|found| found.peer).collect()
        };
        let there = those(&|found| inner.net.is_connected(found.peer));
        let proven = those(&|found| found.verified);
        let peers: Vec<PeerId> = kept.agents.iter().map(|found| found.peer).collect();
        let chosen = {
            let mut board = lock(&inner.peer_health.peers);
            let mut choosing = CandidateSelector {
                strategy: inner.strategy,
                me: inner.net.local_peer(),
                now: now(),
                round: kept.round,
                peer_health: &mut board,
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
            inner.net.add_addresses(said).await;
        }
        Ok(chosen)
    }

    /// Dials the first candidates of an answer by which no task was routed yet. What registries say of agents costs
    /// nobody anything; that they are there does. Waits for the first when nobody is known to be.
    async fn dial_candidates(&self, kept: &CachedCandidates) {
        let inner = &self.inner;
        let me = inner.net.local_peer();
        let (now, mut is_known) = (inner.peer_health.start.elapsed(), false);
        let mut away: Vec<(PeerId, Vec<String>)> = Vec::new();
        {
            let board = lock(&inner.peer_health.peers);
            let others = kept.agents.iter().filter(|found| found.peer != me);
            for found in others.filter(|found| board.is_eligible(now, found.peer)) {
                let is_there = inner.net.is_connected(found.peer);
                is_known |= is_there || board.stats(found.peer).latency.is_some();
                if kept.is_new && !is_there && away.len() < MAX_CANDIDATE_DIALS {
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
        let _turn = inner.dial_lock.lock().await;
        if kept.is_new {
            dialled.await;
        }
    }
}

/// Dials all of these at once; until one is there and others had a moment, or for [`CANDIDATE_DIAL_TIMEOUT`].
async fn dial_all(net: net::Handle, peers: Vec<(PeerId, Vec<String>)>) {
    let mut dials: FuturesUnordered<_> = peers
        .iter()
        .map(|(peer, _)| net.dial(*peer, Vec::new()))
        .collect();
    net.add_addresses(peers.clone()).await;
    let mut until = Instant::now() + CANDIDATE_DIAL_TIMEOUT;
    while let Ok(Some(dialled)) = timeout_at(until.into(), dials.next()).await {
        if dialled.is_ok() {
            until = until.min(Instant::now() + SECOND_PEER_WAIT);
        }
    }
}

/// Moves registries to where their relays say that they are, until `stop`.
async fn follow_relays(anycast: Anycast, stop: CancellationToken) {
    let mut answers = anycast.inner.net.relay_answers();
    loop {
        let said = answers.borrow_and_update().clone();
        for registry in &anycast.inner.registries {
            registry.on_answers(&said);
        }
        tokio::select! {
            () = stop.cancelled() => return,
            changed = answers.changed() => if changed.is_err() { return },
        }
    }
}

/// Notices when the agent comes and goes, until `stop`; then takes back what was announced in the DHT.
async fn watch_agent(anycast: Anycast, mut listening: watch::Receiver<bool>, stop: CancellationToken) {
    let inner = &anycast.inner;
    let mut is_there = inner.is_there.subscribe();
    loop {
        let now = inner.peer_health.start.elapsed();
        let (was, is, ends_at) = {
            let mut presence = lock(&inner.presence);
            presence.set_listening(now, *listening.borrow_and_update());
            (
                *is_there.borrow_and_update(),
                presence.is_present(now),
                presence.ends_at(now),
            )
        };
        if was != is {
            anycast.tell_presence().await;
        }
        let end = pause(ends_at.map(|at| at.saturating_sub(inner.peer_health.start.elapsed())));
        tokio::select! {
            () = stop.cancelled() => break,
            changed = listening.changed() => if changed.is_err() { break },
            changed = is_there.changed() => if changed.is_err() { break },
            () = end => {}
        }
    }
    // Those who are not told in time forget it within half an hour.
    let _ = tokio::time::timeout(UNREGISTER_WAIT, inner.net.retract()).await;
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
