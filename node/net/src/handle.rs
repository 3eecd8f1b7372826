//! What the rest of the node holds of the network: cheap to clone, usable from anywhere. It asks the
//! swarm's task only for what changes the swarm; streams and cards go straight to the connections, and
//! looking at peers reads a shared list. The one rule: no libp2p type comes out of here.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::{Duration, Instant},
};

use agentanycast_core::{
    link::{FairQueue, Link, LinkWriter, OpenStreamError},
    policy::invites::SECRET,
};
use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{AgentCard, AgentsPage};
use futures::future::BoxFuture;
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    task::JoinSet,
    time::timeout,
};

use super::{
    card_exchange::{AgentPages, CardExchange, CardsForPeers, InviteJudge, OwnIdentity},
    connections::{ConnectionTable, PeerSnapshot},
    counters::Counters,
    dht::{DhtControl, FindError, FoundAgent, ProvideError},
    external_addrs::ReachableAddrs,
    frame_writer::FrameWriter,
    listeners::Listeners,
    relay_info::RelayAnswers,
    reservation::RelaySnapshot,
    round_trip::{self, NoAnswer, RoundTrip},
    streams::{OpenError, Protocol, StreamControl},
};

/// Longest that [`Handle::set_card`] waits for one peer; the exchange itself goes on.
const CARD_WAIT: Duration = Duration::from_secs(2);
/// Wishes to redial or not that the swarm's task has not read yet: more than it can keep anyway.
const MAX_WANTED_CHANGES: usize = 10_000;

/// The network, for everyone above it.
#[derive(Clone)]
pub struct Handle {
    pub(super) shared: Arc<NetShared>,
    pub(super) commands: mpsc::Sender<Command>,
}

/// What only the swarm's task can do.
#[derive(Debug)]
pub(super) enum Command {
    Dial {
        peer: PeerId,
        addresses: Vec<String>,
        reply: oneshot::Sender<Result<PeerSnapshot, DialError>>,
    },
    /// Somebody says where peers can be dialled.
    AddAddresses {
        said: Vec<(PeerId, Vec<String>)>,
    },
    /// How does it stand with the way to a peer?
    DialStatus {
        peer: PeerId,
        reply: oneshot::Sender<DialStatus>,
    },
    Shutdown {
        reply: oneshot::Sender<()>,
    },
}

/// What the swarm's task and all handles see.
pub(super) struct NetShared {
    pub(super) local: PeerId,
    pub(super) control: StreamControl,
    pub(super) cards: Arc<CardExchange>,
    pub(super) counters: Arc<Counters>,
    pub(super) wanted: WantedChanges,
    pub(super) fair_queue: FairQueue,
    pub(super) reachable: watch::Sender<ReachableAddrs>,
    /// What bootstrap relays say of themselves; at most one answer for each.
    pub(super) relay_answers: watch::Sender<RelayAnswers>,
    pub(super) dht: Option<DhtControl>,
    connections: RwLock<ConnectionTable>,
    listeners: RwLock<Listeners>,
    relays: RwLock<Vec<RelaySnapshot>>,
}

/// How it stands with the way to a peer that is not connected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DialStatus {
    /// Where it may be.
    pub addresses: Vec<String>,
    /// Attempts to reach it that failed since the last connection.
    pub failures: u32,
    /// Until the next attempt; None: one is running, or none is due.
    pub next_attempt: Option<Duration>,
    /// Why the last attempt failed, at most 1 KiB; empty if none did.
    pub last_error: String,
}

/// Who is to be redialled, the newest wish of each peer.
#[derive(Default)]
pub(super) struct WantedChanges {
    pending: Mutex<HashMap<PeerId, bool>>,
    pub(super) changed: Notify,
}

/// Why a peer was not reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// An address is no multiaddress of that peer. Nothing was dialled.
    #[error("{address} is no address of the peer: {cause}")]
    InvalidAddress {
        /// As given.
        address: String,
        /// What is wrong with it.
        cause: String,
    },
    /// No address led to the peer; it may be tried again.
    #[error("the peer cannot be reached: {}", describe(.attempts))]
    Unreachable {
        /// What was tried, in order; empty when no address is known.
        attempts: Vec<DialAttempt>,
    },
    /// The peer is this node itself.
    #[error("the peer is this node itself")]
    Self_,
    /// The node is stopping.
    #[error("the node is stopping")]
    Stopping,
}

/// One address that did not lead to the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialAttempt {
    /// Where; empty when the attempt failed before an address was tried.
    pub address: String,
    /// Why not.
    pub reason: String,
}

fn describe(attempts: &[DialAttempt]) -> String {
    if attempts.is_empty() {
        return "no address of it is known; give one".to_owned();
    }
    let each = attempts.iter().map(|attempt| match attempt.address.as_str() {
        "" => attempt.reason.clone(),
        address => format!("{address}: {}", attempt.reason),
    });
    each.collect::<Vec<_>>().join("; ")
}

impl Handle {
    /// Who we are.
    pub fn local_peer(&self) -> PeerId {
        self.shared.local
    }

    /// Opens an envelope stream on the best connection to `peer` (direct before relayed), within 10 s.
    ///
    /// # Errors
    /// See [`OpenError`]. A peer that has not yet said what it speaks is believed to speak envelopes; if
    /// it does not, [`FrameWriter::closed`] resolves.
    pub async fn open_stream(&self, peer: PeerId) -> Result<FrameWriter, OpenError> {
        let opened = self.shared.control.open(peer.into(), Protocol::Envelopes).await?;
        let counters = Arc::clone(&self.shared.counters);
        Ok(FrameWriter::new(
            peer,
            opened.relay.map(PeerId::from),
            opened.stream,
            counters,
        ))
    }

    /// The turns of all that moves much data on this node.
    pub fn fair_queue(&self) -> &FairQueue {
        &self.shared.fair_queue
    }

    /// Connects to `peer`: the given addresses first, then the known ones. Returns at once when it is
    /// connected already.
    ///
    /// # Errors
    /// See [`DialError`].
    pub async fn dial(&self, peer: PeerId, addrs: Vec<String>) -> Result<PeerSnapshot, DialError> {
        let (reply, answer) = oneshot::channel();
        let command = Command::Dial {
            peer,
            addresses: addrs,
            reply,
        };
        self.commands
            .send(command)
            .await
            .map_err(|_| DialError::Stopping)?;
        answer.await.unwrap_or(Err(DialError::Stopping))
    }

    /// Notes where peers are said to be, for when they are dialled; what cannot be dialled is left out. An address
    /// `/p2p/<relay>/p2p-circuit` means: through that relay, wherever it is.
    pub async fn add_addresses(&self, said: Vec<(PeerId, Vec<String>)>) {
        // A node that stops need not know.
        let _ = self.commands.send(Command::AddAddresses { said }).await;
    }

    /// While `wanted` and not connected, `peer` is redialled at its known addresses: after 1 s, doubling
    /// to 5 min, anew when a new address becomes known. When [`super::NetLimits::wanted_peers`] are wanted
    /// already, the wish is counted as refused and logged.
    pub fn set_wanted(&self, peer: PeerId, wanted: bool) {
        if !self.shared.wanted.add(peer, wanted) {
            self.shared.counters.refused_wanted.increment();
        }
    }

    /// How it stands with the way to `peer`, connected or not. Nothing is known once the node stops.
    pub async fn dial_status(&self, peer: PeerId) -> DialStatus {
        let (reply, answer) = oneshot::channel();
        match self.commands.send(Command::DialStatus { peer, reply }).await {
            Ok(()) => answer.await.unwrap_or_default(),
            Err(_) => DialStatus::default(),
        }
    }

    /// How `peer` is connected, if it is.
    pub fn peer(&self, peer: PeerId) -> Option<PeerSnapshot> {
        self.shared.connections().snapshot(peer)
    }

    /// Everyone who is connected.
    pub fn peers(&self) -> Vec<PeerSnapshot> {
        let roster = self.shared.connections();
        roster.peers().filter_map(|peer| roster.snapshot(peer)).collect()
    }

    /// Number of connections by transport: `tcp`, `quic`, `websocket`, or `relay` for circuits.
    pub fn transports(&self) -> BTreeMap<&'static str, usize> {
        self.shared.connections().transports()
    }

    /// Whether `peer` is connected.
    pub fn is_connected(&self, peer: PeerId) -> bool {
        self.shared.connections().is_connected(peer)
    }

    /// Where we listen: an unspecified address appears as the addresses of the interfaces, loopback
    /// included; without `/p2p`.
    pub fn listen_addrs(&self) -> Vec<String> {
        self.shared.listeners().reachable()
    }

    /// Where we listen, as bound: for [`super::NetConfig::preferred_listen`] of the next run.
    pub fn bound_addrs(&self) -> Vec<String> {
        self.shared.listeners().bound()
    }

    /// Where others reach us, now and whenever it changes: what was confirmed from outside, what we listen on,
    /// and circuits through the relays at which we have a place.
    pub fn reachable(&self) -> watch::Receiver<ReachableAddrs> {
        self.shared.reachable.subscribe()
    }

    /// The relays among the bootstrap peers, and how it stands with our places there; the held ones first.
    pub fn relays(&self) -> Vec<RelaySnapshot> {
        self.shared.relays().clone()
    }

    /// What bootstrap relays say of themselves, now and whenever it changes. The last answer of a relay stays
    /// while it is away.
    pub fn relay_answers(&self) -> watch::Receiver<RelayAnswers> {
        self.shared.relay_answers.subscribe()
    }

    /// Takes `card` as our own, fills in our peer id, did:key and circuits, and shows it to every connected peer;
    /// returns when each has it or has had 2 s. Peers that connect later see it then. A card over
    /// [`super::MAX_CARD_BYTES`] is not shown to anyone and logged.
    pub async fn set_card(&self, card: Option<AgentCard>) {
        self.set_cards(card, false).await;
    }

    /// As [`Self::set_card`], of a card for everybody. `has_private`: there are others for some, which are asked for by
    /// [`Self::show_by_peer`].
    pub async fn set_cards(&self, public: Option<AgentCard>, has_private: bool) {
        if !self.shared.cards.set_own(public, has_private) {
            return;
        }
        let mut exchanges = JoinSet::new();
        for peer in self.shared.connections().peers() {
            let cards = Arc::clone(&self.shared.cards);
            let exchange = tokio::spawn(async move {
                if let Err(error) = cards.fetch(peer).await {
                    tracing::debug!(%peer, %error, "card not exchanged");
                }
            });
            exchanges.spawn(timeout(CARD_WAIT, exchange));
        }
        exchanges.join_all().await;
    }

    /// Shows a peer the card that is for it, if it is connected.
    pub async fn show_card(&self, peer: PeerId) {
        if !self.is_connected(peer) {
            return;
        }
        if let Ok(Err(error)) = timeout(CARD_WAIT, self.shared.cards.fetch(peer)).await {
            tracing::debug!(%peer, %error, "card not exchanged");
        }
    }

    /// From now on this gives the cards that peers may see where some may see more than others. The first one stays.
    pub fn show_by_peer(&self, cards: CardsForPeers) {
        self.shared.cards.show_by_peer(cards);
    }

    /// Shows the secret of an invite to the node that gave it, and to no other, from now on; `None`: nothing. If that node is
    /// connected, returns when it was shown, or after 2 s: with why that node does not take it, if it says so.
    pub async fn show_invite(&self, peer: PeerId, secret: Option<[u8; SECRET]>) -> String {
        self.shared.cards.set_invite(peer, secret);
        if secret.is_none() || !self.is_connected(peer) {
            return String::new();
        }
        // An error means that the peer is gone, and sees it when it comes again.
        match timeout(CARD_WAIT, self.shared.cards.fetch(peer)).await {
            Ok(Ok(shown)) => shown.invite_refused,
            Ok(Err(_)) | Err(_) => String::new(),
        }
    }

    /// From now on this says which invites let their peers in. The first one stays.
    pub fn judge_invites(&self, judge: InviteJudge) {
        self.shared.cards.judge_invites(judge);
    }

    /// From now on this gives peers the cards of this node's agents that they ask for. The first one stays.
    pub fn show_agents(&self, pages: AgentPages) {
        self.shared.cards.show_agents(pages);
    }

    /// Asks `peer` for whole cards of its agents; only a node whose card has `agents_total` knows the question.
    ///
    /// # Errors
    /// As [`Self::fetch_card`].
    pub async fn fetch_agents(&self, peer: PeerId, wanted: AgentsPage) -> Result<AgentCard, OpenError> {
        self.shared.cards.fetch_agents(peer, wanted).await
    }

    /// What this node says of itself besides its key.
    pub fn own_identity(&self) -> &OwnIdentity {
        self.shared.cards.own_identity()
    }

    /// Exchanges cards with `peer` now. `None` when it shows none.
    ///
    /// # Errors
    /// See [`OpenError`]; a card that claims another peer is an `Io` error of kind `InvalidData`.
    pub async fn fetch_card(&self, peer: PeerId) -> Result<Option<AgentCard>, OpenError> {
        Ok(self.shared.cards.fetch(peer).await?.card)
    }

    /// Pings `peer` on its best connection (direct before relayed), within 10 s.
    ///
    /// # Errors
    /// See [`NoAnswer`].
    pub async fn ping(&self, peer: PeerId) -> Result<RoundTrip, NoAnswer> {
        round_trip::measure(&self.shared.control, peer).await
    }

    /// How many daemons with the key of `peer` are seen at the same time here; 0: one, or none.
    pub fn duplicate_count(&self, peer: PeerId) -> usize {
        let instances = self.shared.cards.instances();
        instances.alive(peer, Instant::now()).len()
    }

    /// Announces `card` in the DHT from now on, in place of what was announced before: each of its skills, and a
    /// signed record of its name, descriptions (cut to 256 bytes), skill ids and tags with this node's addresses. Returns
    /// when the node has taken it; the announcements follow, and are repeated by themselves.
    ///
    /// `None` takes back what was announced: others are told, and those who cannot be reached forget it within 30 min.
    ///
    /// # Errors
    /// See [`ProvideError`]; on an error nothing has changed.
    pub async fn provide(&self, card: Option<&AgentCard>) -> Result<(), ProvideError> {
        let dht = self.shared.dht.as_ref().ok_or(ProvideError::Off)?;
        dht.provide(card).await
    }

    /// Takes back what was announced, as [`Self::provide`] of `None`, and returns when those who are nearest to the record
    /// have been told; at once when nothing was announced, and after 30 s when nobody answers.
    ///
    /// # Errors
    /// See [`ProvideError`]; never one of a card.
    pub async fn retract(&self) -> Result<(), ProvideError> {
        let dht = self.shared.dht.as_ref().ok_or(ProvideError::Off)?;
        dht.retract().await
    }

    /// Agents with `skill` that the DHT knows, never this node's own. Answers as soon as `limit` of them have been
    /// found with their records or nobody is left to be asked, and after `wait` (at most 30 s) with what has been
    /// found by then; at most 64, those with a record first. Callers who look for the same skill share a search.
    ///
    /// # Errors
    /// See [`FindError`]. Nobody found is no error.
    pub async fn find_providers(
        &self,
        skill: &str,
        limit: usize,
        wait: Duration,
    ) -> Result<Vec<FoundAgent>, FindError> {
        let dht = self.shared.dht.as_ref().ok_or(FindError::Off)?;
        dht.find_providers(skill, limit, wait).await
    }

    /// What the network has done so far.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Closes listeners and connections; returns when the swarm's task is done with it, after 1 s at most.
    pub async fn shutdown(&self) {
        let (reply, done) = oneshot::channel();
        if self.commands.send(Command::Shutdown { reply }).await.is_ok() {
            // An error means that the task has ended, which is what was asked for.
            let _ = done.await;
        }
    }
}

impl Link for Handle {
    fn set_wanted(&self, peer: PeerId, wanted: bool) {
        Self::set_wanted(self, peer, wanted);
    }

    fn reach(&self, peer: PeerId) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if !self.is_connected(peer) {
                let _ = self.dial(peer, Vec::new()).await;
            }
        })
    }

    fn open_stream(&self, peer: PeerId) -> BoxFuture<'_, Result<Box<dyn LinkWriter>, OpenStreamError>> {
        Box::pin(async move {
            let writer = Self::open_stream(self, peer).await?;
            Ok(Box::new(writer) as Box<dyn LinkWriter>)
        })
    }

    fn fair_queue(&self) -> &FairQueue {
        Self::fair_queue(self)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("local", &self.shared.local)
            .finish_non_exhaustive()
    }
}

impl NetShared {
    pub(super) fn new(
        local: PeerId,
        control: StreamControl,
        cards: CardExchange,
        counters: Arc<Counters>,
        dht: Option<DhtControl>,
    ) -> Self {
        Self {
            local,
            control,
            cards: Arc::new(cards),
            counters,
            wanted: WantedChanges::default(),
            fair_queue: FairQueue::default(),
            reachable: watch::Sender::default(),
            relay_answers: watch::Sender::default(),
            dht,
            connections: RwLock::default(),
            listeners: RwLock::default(),
            relays: RwLock::default(),
        }
    }

    pub(super) fn connections(&self) -> RwLockReadGuard<'_, ConnectionTable> {
        self.connections.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn connections_mut(&self) -> RwLockWriteGuard<'_, ConnectionTable> {
        self.connections.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn relays(&self) -> RwLockReadGuard<'_, Vec<RelaySnapshot>> {
        self.relays.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn relays_mut(&self) -> RwLockWriteGuard<'_, Vec<RelaySnapshot>> {
        self.relays.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn listeners(&self) -> RwLockReadGuard<'_, Listeners> {
        self.listeners.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn listeners_mut(&self) -> RwLockWriteGuard<'_, Listeners> {
        self.listeners.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WantedChanges {
    /// False when there is no room.
    fn add(&self, peer: PeerId, wanted: bool) -> bool {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.len() >= MAX_WANTED_CHANGES && !pending.contains_key(&peer) {
            return false;
        }
        pending.insert(peer, wanted);
        drop(pending);
        self.changed.notify_one();
        true
    }

    pub(super) fn take(&self) -> HashMap<PeerId, bool> {
        std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
