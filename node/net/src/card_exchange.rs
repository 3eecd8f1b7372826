//! The exchange of agent cards. The opener writes its card, then reads the peer's; the responder reads,
//! then writes its own if it has one, and closes. The one rule: a card that claims to be another peer's
//! than the connection's is dropped and counted.

mod agent_pages;

use std::{
    collections::HashMap,
    io, mem,
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock},
    time::{Duration, Instant},
};

use agentanycast_core::policy::invites::SECRET;
use agentanycast_identity::{Instance, PeerId, did_key_of};
use agentanycast_proto::{
    decoded_size,
    v1::{AgentCard, P2pExtension},
};
use bytes::Bytes;
use futures::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, future::BoxFuture};
use libp2p::swarm::ConnectionId;
use lru::LruCache;
use prost::Message;
use tokio::{sync::mpsc, time::timeout};

pub use self::agent_pages::AgentPages;
use super::{
    budget::PeerBudget,
    counters::Counters,
    duplicate_instances::PeerInstances,
    frame::FrameDecoder,
    frame_writer::{WRITE_TIMEOUT, write_frames},
    streams::{OpenError, OutboundStream, Protocol, StreamControl},
};
use crate::duplicate_key::DuplicateKeyReports;

/// Largest encoded card, inclusive (wire contract, "Agent cards").
pub const MAX_CARD_BYTES: usize = 256 << 10;
/// Most skills, tags and addresses of a card: decoded they take 2 MiB. A card of 256 KiB could hold eight times
/// as many, if they were empty.
const MAX_ELEMENTS: usize = 16 << 10;
/// Longest wait for a peer's card.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Most runs of a peer that it is told of.
const MAX_REPORTED_INSTANCES: usize = 4;
/// How long it counts that a peer sees several runs of this node: it says so again after each ping, every 15 s.
const REPORT_TTL: Duration = Duration::from_mins(1);

/// Peers of which it is known that they were shown a card with an agent.
const MAX_SHOWN: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();

/// How long it may take to say whether an invite lets a peer in, and which agents this node has.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a card was dropped.
#[derive(Debug, thiserror::Error)]
enum CardError {
    #[error("the card claims to be of {0}, not of the connected peer")]
    OtherPeer(String),
    #[error("no card: {0}")]
    NoCard(#[from] prost::DecodeError),
    #[error(transparent)]
    DecodesTooLarge(#[from] decoded_size::DecodeLimit),
}

/// What a node says of itself besides its key. It is on every card that the node shows; if there is any of it, the node
/// shows a card also without an agent, with nothing else on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnIdentity {
    /// Its did:web; empty if it has none.
    pub did_web: String,
    /// The domain that names it (did:dns); empty if there is none.
    pub did_dns: String,
    /// Credentials of the node, besides those of its agent.
    pub credentials: Vec<String>,
    /// Its changes of keys, as [`agentanycast_identity::rotation`] writes them, the latest first.
    pub key_rotations: Vec<Vec<u8>>,
}

impl OwnIdentity {
    /// Writes them on a card.
    pub fn write(&self, extension: &mut P2pExtension) {
        extension.did_web.clone_from(&self.did_web);
        extension.did_dns.clone_from(&self.did_dns);
        extension.key_rotations.clone_from(&self.key_rotations);
        for credential in &self.credentials {
            if !extension.verifiable_credentials.contains(credential) {
                extension.verifiable_credentials.push(credential.clone());
            }
        }
    }
}

/// The card of the local agent, and as it is shown to others.
#[derive(Default)]
struct OwnCard {
    card: Option<AgentCard>,
    /// Some peers may see more than that.
    has_private: bool,
    /// Where we are reached through relays.
    relayed: Vec<String>,
    encoded: Option<Bytes>,
}

/// Gives the card of this node with the agents that a peer may use, as far as it can be had: the inner `None` is that there is
/// no agent for it.
pub type CardsForPeers = Box<dyn Fn(PeerId) -> BoxFuture<'static, Option<Option<AgentCard>>> + Send + Sync>;

/// Why a secret that a peer shows does not let it in; `None`: it does.
pub type InviteJudge = Box<dyn Fn(PeerId, Vec<u8>) -> BoxFuture<'static, Option<&'static str>> + Send + Sync>;

/// What a peer has shown of itself in an exchange.
#[derive(Debug, Default)]
pub(super) struct ReceivedCard {
    /// Its card, if it has an agent or a name.
    pub(super) card: Option<AgentCard>,
    /// Why the invite that it was shown does not let this node in; empty: it does, or none was shown.
    pub(super) invite_refused: String,
}

/// Our own card and the exchange of it with others.
pub(super) struct CardExchange {
    local: PeerId,
    own_identity: OwnIdentity,
    own: RwLock<OwnCard>,
    /// Secrets of invites, each for the node that gave it.
    invites: RwLock<HashMap<PeerId, [u8; SECRET]>>,
    control: StreamControl,
    /// Which runs of which peers are connected.
    instances: Mutex<PeerInstances>,
    other_daemons: DuplicateKeyReports,
    /// Says why a secret that a peer shows does not let it in.
    judge: OnceLock<InviteJudge>,
    /// Gives the cards of this node's agents.
    agent_pages: OnceLock<AgentPages>,
    /// Gives the cards that peers may see.
    cards_for_peers: OnceLock<CardsForPeers>,
    /// Peers that were shown a card with an agent, the latest.
    shown: Mutex<LruCache<PeerId, ()>>,
    /// Where checked cards go.
    received: mpsc::Sender<(PeerId, Bytes)>,
    counters: Arc<Counters>,
}

impl CardExchange {
    pub(super) fn new(
        local: PeerId,
        names: OwnIdentity,
        other_daemons: DuplicateKeyReports,
        invites: HashMap<PeerId, [u8; SECRET]>,
        control: StreamControl,
        received: mpsc::Sender<(PeerId, Bytes)>,
        counters: Arc<Counters>,
    ) -> Self {
        let cards = Self {
            local,
            own_identity: names,
            own: RwLock::default(),
            invites: RwLock::new(invites),
            control,
            instances: Mutex::default(),
            other_daemons,
            judge: OnceLock::new(),
            agent_pages: OnceLock::new(),
            cards_for_peers: OnceLock::new(),
            shown: Mutex::new(LruCache::new(MAX_SHOWN)),
            received,
            counters,
        };
        cards.set_own(None, false);
        cards
    }

    /// What is on every card besides the key.
    pub(super) fn own_identity(&self) -> &OwnIdentity {
        &self.own_identity
    }

    /// Which runs of which peers are connected.
    pub(super) fn instances(&self) -> MutexGuard<'_, PeerInstances> {
        self.instances.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `card` as our own for everybody, with our names in it; with `has_private` some may see more. False when there is
    /// nothing to show to others, and nobody who was shown a card of before.
    pub(super) fn set_own(&self, card: Option<AgentCard>, has_private: bool) -> bool {
        let mut own = self.own.write().unwrap_or_else(PoisonError::into_inner);
        own.card = card;
        own.has_private = has_private;
        self.show(&mut own) || has_private
    }

    /// Notes where we are reached through relays, without our id. True when the card that others see has
    /// changed.
    pub(super) fn set_relayed(&self, relayed: &[String]) -> bool {
        let mut own = self.own.write().unwrap_or_else(PoisonError::into_inner);
        let relayed: Vec<_> = relayed
            .iter()
            .map(|circuit| format!("{circuit}/p2p/{}", self.local))
            .collect();
        if own.relayed == relayed {
            return false;
        }
        own.relayed = relayed;
        self.show(&mut own)
    }

    /// Makes what is shown; false when there is nothing.
    fn show(&self, own: &mut OwnCard) -> bool {
        own.encoded = self.encoded(own, own.card.clone());
        own.encoded.is_some()
    }

    /// A card as it is shown, with what the node says of itself.
    fn encoded(&self, own: &OwnCard, card: Option<AgentCard>) -> Option<Bytes> {
        let bare = (self.own_identity != OwnIdentity::default()).then(|| AgentCard {
            p2p_extension: Some(P2pExtension {
                no_agent: own.has_private,
                ..P2pExtension::default()
            }),
            ..AgentCard::default()
        });
        let encoded = card.or(bare).map(|mut card| {
            let extension = card.p2p_extension.get_or_insert_default();
            self.sign_with_instance(extension);
            extension.relay_addresses.clone_from(&own.relayed);
            self.own_identity.write(extension);
            Bytes::from(card.encode_to_vec())
        });
        encoded.filter(|bytes| {
            let fits = bytes.len() <= MAX_CARD_BYTES;
            if !fits {
                tracing::error!(
                    bytes = bytes.len(),
                    "own card is over the limit of {MAX_CARD_BYTES} bytes and is not shown to peers; shorten it"
                );
            }
            fits
        })
    }

    /// What everybody is shown, or this peer where some may see more.
    async fn own_for(&self, peer: PeerId) -> Option<Bytes> {
        {
            let own = self.own.read().unwrap_or_else(PoisonError::into_inner);
            if !own.has_private {
                return own.encoded.clone();
            }
        }
        let asked = match self.cards_for_peers.get() {
            Some(cards) => timeout(ENGINE_TIMEOUT, cards(peer)).await.ok().flatten(),
            None => None,
        };
        let own = self.own.read().unwrap_or_else(PoisonError::into_inner);
        match asked {
            Some(card) => self.encoded(&own, card),
            None => own.encoded.clone(),
        }
    }

    /// Notes whether a peer is shown a card with an agent now; whether it was before.
    fn note_shown(&self, peer: PeerId, has_agent: bool) -> bool {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let before = if has_agent {
            shown.put(peer, ())
        } else {
            shown.pop(&peer)
        };
        before.is_some()
    }

    /// Whether there is a card to show to `peer`.
    pub(super) fn has_own(&self, peer: PeerId) -> bool {
        let own = self.own.read().unwrap_or_else(PoisonError::into_inner);
        own.encoded.is_some() || own.has_private || self.invite_for(peer).is_some()
    }

    /// Shows this secret to `peer` from now on, and to nobody else; `None`: nothing.
    pub(super) fn set_invite(&self, peer: PeerId, secret: Option<[u8; SECRET]>) {
        let mut invites = self.invites.write().unwrap_or_else(PoisonError::into_inner);
        match secret {
            Some(secret) => drop(invites.insert(peer, secret)),
            None => drop(invites.remove(&peer)),
        }
    }

    fn invite_for(&self, peer: PeerId) -> Option<[u8; SECRET]> {
        let invites = self.invites.read().unwrap_or_else(PoisonError::into_inner);
        invites.get(&peer).copied()
    }

    /// Says who this is, and which run.
    fn sign_with_instance(&self, extension: &mut P2pExtension) {
        extension.peer_id = self.local.to_string();
        extension.did_key = did_key_of(self.local).unwrap_or_default();
        extension.instance = self.other_daemons.own_instance();
    }

    /// What `peer` is shown, if there is anything: with what is for it alone, the secret of its invite and the runs of it that
    /// are there at once. `told`: it has told its run, and so is told this one also by a node without a card; to others that
    /// would be the card of an agent without a name.
    async fn shown_to(&self, peer: PeerId, told: bool) -> Option<Bytes> {
        let shown = self.own_for(peer).await;
        let invite = self.invite_for(peer);
        let had_agent = self.note_shown(peer, shown.is_some());
        let mut shown = match shown {
            Some(shown) => shown,
            None if had_agent => with(self.run_card(), |extension| extension.no_agent = true),
            None if told || invite.is_some() => self.run_card(),
            None => return None,
        };
        if let Some(secret) = invite {
            shown = with(shown, |extension| extension.invite = secret.to_vec());
        }
        let seen = self.instances().alive(peer, Instant::now());
        if !seen.is_empty() {
            let seen = seen
                .iter()
                .take(MAX_REPORTED_INSTANCES)
                .map(|run| run.as_bytes().to_vec());
            shown = with(shown, |extension| extension.instances_seen = seen.collect());
        }
        Some(shown)
    }

    /// A card that says only who this is, and which run.
    fn run_card(&self) -> Bytes {
        let mut extension = P2pExtension::default();
        self.sign_with_instance(&mut extension);
        let card = AgentCard {
            p2p_extension: Some(extension),
            ..AgentCard::default()
        };
        card.encode_to_vec().into()
    }

    /// Opens an exchange with `peer`. What the peer shows is passed on and returned; `None` when it shows
    /// nothing.
    pub(super) async fn fetch(&self, peer: PeerId) -> Result<ReceivedCard, OpenError> {
        let stream = self.control.open(peer.into(), Protocol::Card).await?;
        self.exchange(peer, stream).await
    }

    /// The same on one connection of the peer.
    pub(super) async fn fetch_on(
        &self,
        peer: PeerId,
        connection: ConnectionId,
    ) -> Result<ReceivedCard, OpenError> {
        let stream = self
            .control
            .open_on(peer.into(), connection, Protocol::Card)
            .await?;
        self.exchange(peer, stream).await
    }

    async fn exchange(&self, peer: PeerId, opened: OutboundStream) -> Result<ReceivedCard, OpenError> {
        let OutboundStream {
            mut stream,
            connection,
            ..
        } = opened;
        match offer(&mut stream, self.shown_to(peer, false).await).await {
            Ok(Some(bytes)) => {
                let mut card = self.answered_card(peer, &bytes)?;
                self.note_run(peer, connection, &card);
                // An invite is for the engine alone, and what became of ours for who asks now.
                let extension = card.p2p_extension.as_mut();
                let apart = extension.map(|extension| {
                    (
                        mem::take(&mut extension.invite),
                        mem::take(&mut extension.invite_refused),
                    )
                });
                let (invite, invite_refused) = apart.unwrap_or_default();
                let says_something = !says_only_its_run(&card);
                if says_something || !invite.is_empty() {
                    self.pass_on(peer, bytes).await;
                }
                let is_agent = says_something && !has_no_agent(&card);
                Ok(ReceivedCard {
                    card: is_agent.then_some(card),
                    invite_refused,
                })
            }
            Ok(None) => Ok(ReceivedCard::default()),
            Err(error) => {
                self.count_bad(&error);
                Err(unsupported(error))
            }
        }
    }

    /// Answers an exchange that `peer` opened.
    pub(super) async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        peer: PeerId,
        connection: ConnectionId,
        mut stream: S,
        budget: &Arc<PeerBudget>,
    ) {
        let result = respond(&mut stream, budget, async |bytes| {
            let card = bytes.as_ref().and_then(|bytes| self.check(peer, bytes).ok());
            if let Some(wanted) = card.as_ref().and_then(|card| card.agents_page.clone()) {
                return self.page_of(peer, wanted).await;
            }
            let told = card
                .as_ref()
                .is_some_and(|card| self.note_run(peer, connection, card));
            let refused = match &card {
                Some(card) => self.why_refused(peer, card).await,
                None => None,
            };
            if let (Some(card), Some(bytes)) = (card, bytes)
                && !says_only_its_run(&card)
            {
                self.pass_on(peer, bytes).await;
            }
            let shown = self.shown_to(peer, told).await;
            match refused {
                Some(reason) => Some(with(shown.unwrap_or_else(|| self.run_card()), |extension| {
                    reason.clone_into(&mut extension.invite_refused);
                })),
                None => shown,
            }
        });
        if let Err(error) = result.await {
            self.count_bad(&error);
            tracing::debug!(%peer, %error, "card exchange ended");
        }
    }

    /// Why the invite on this card does not let its peer in; `None`: it does, or there is none.
    async fn why_refused(&self, peer: PeerId, card: &AgentCard) -> Option<&'static str> {
        let invite = &card.p2p_extension.as_ref()?.invite;
        let judge = self.judge.get().filter(|_| !invite.is_empty())?;
        timeout(ENGINE_TIMEOUT, judge(peer, invite.clone()))
            .await
            .unwrap_or(None)
    }

    /// From now on this gives the cards that peers may see. The first one stays.
    pub(super) fn show_by_peer(&self, cards: CardsForPeers) {
        let _ = self.cards_for_peers.set(cards);
    }

    /// From now on this says which invites let their peers in. The first one stays.
    pub(super) fn judge_invites(&self, judge: InviteJudge) {
        let _ = self.judge.set(judge);
    }

    /// The card that `peer` answered with.
    fn answered_card(&self, peer: PeerId, bytes: &[u8]) -> Result<AgentCard, OpenError> {
        self.check(peer, bytes)
            .map_err(|refused| OpenError::Io(io::Error::new(io::ErrorKind::InvalidData, refused)))
    }

    fn check(&self, peer: PeerId, bytes: &[u8]) -> Result<AgentCard, CardError> {
        check(peer, bytes).inspect_err(|refused| {
            match refused {
                CardError::OtherPeer(_) => self.counters.wrong_cards.increment(),
                CardError::NoCard(_) | CardError::DecodesTooLarge(_) => self.counters.bad_cards.increment(),
            }
            if self.counters.complaints.is_first(peer) {
                tracing::warn!(%peer, %refused, "card dropped; further ones of this peer are only counted");
            }
        })
    }

    /// Notes which run of `peer` has shown this card, and which runs of this node it sees; whether it told its run.
    fn note_run(&self, peer: PeerId, connection: ConnectionId, card: &AgentCard) -> bool {
        let Some(extension) = &card.p2p_extension else {
            return false;
        };
        let Some(instance) = Instance::read(peer, &extension.instance) else {
            return false;
        };
        self.instances()
            .introduced(peer, connection, instance, Instant::now());
        let seen = extension.instances_seen.iter().map(Vec::as_slice);
        self.other_daemons.report(&peer.to_string(), seen, REPORT_TTL);
        true
    }

    async fn pass_on(&self, peer: PeerId, card: Bytes) {
        if self.received.send((peer, card)).await.is_err() {
            tracing::debug!(%peer, "card not passed on: the node is stopping");
        }
    }

    fn count_bad(&self, error: &io::Error) {
        if error.kind() == io::ErrorKind::InvalidData {
            self.counters.bad_cards.increment();
        }
    }
}

/// The protocol is offered together with the card, so a refusal shows only when the answer is read.
fn unsupported(error: io::Error) -> OpenError {
    let refused = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<libp2p::core::upgrade::NegotiationError>())
        .is_some_and(|inner| matches!(inner, libp2p::core::upgrade::NegotiationError::Failed));
    if refused {
        OpenError::Unsupported(Protocol::Card.as_ref().to_owned())
    } else {
        OpenError::Io(error)
    }
}

/// An encoded card with more of its extension, for one peer; without it where it would be too large. What is appended to an
/// encoded message is merged with it.
fn with(card: Bytes, add: impl FnOnce(&mut P2pExtension)) -> Bytes {
    let mut extension = P2pExtension::default();
    add(&mut extension);
    let more = AgentCard {
        p2p_extension: Some(extension),
        ..AgentCard::default()
    };
    let both = [&card[..], &more.encode_to_vec()].concat();
    if both.len() <= MAX_CARD_BYTES {
        both.into()
    } else {
        card
    }
}

async fn offer<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    own: Option<Bytes>,
) -> io::Result<Option<Bytes>> {
    match own {
        Some(card) => write_frames(stream, &[card]).await?,
        // Nothing to show: the end of our half lets the responder go on.
        None => close(stream).await?,
    }
    read_card(stream, None).await
}

/// Reads the opener's card, if it shows one, and answers with what `answer` makes of it.
async fn respond<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    budget: &Arc<PeerBudget>,
    answer: impl AsyncFnOnce(Option<Bytes>) -> Option<Bytes>,
) -> io::Result<()> {
    let theirs = read_card(stream, Some(budget)).await?;
    if let Some(card) = answer(theirs).await {
        write_frames(stream, &[card]).await?;
    }
    close(stream).await
}

async fn close<W: AsyncWrite + Unpin>(stream: &mut W) -> io::Result<()> {
    timeout(WRITE_TIMEOUT, stream.close())
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// One frame of at most [`MAX_CARD_BYTES`], or the end of the stream instead of it. While a card comes that a
/// peer shows unasked, it is paid for.
async fn read_card<R: AsyncRead + Unpin>(
    stream: &mut R,
    budget: Option<&Arc<PeerBudget>>,
) -> io::Result<Option<Bytes>> {
    let read = async {
        let mut decoder = FrameDecoder::new(MAX_CARD_BYTES);
        let mut permit = None;
        loop {
            let count = stream.read(decoder.space()).await?;
            if count == 0 && decoder.is_mid_frame() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if count == 0 {
                return Ok(None);
            }
            let complete = decoder.filled(count);
            if let Some(bytes) =
                complete.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?
            {
                return Ok(Some(bytes));
            }
            if let (Some(budget), Some(claimed), None) = (budget, decoder.claimed(), &permit) {
                permit = Some(budget.card_bytes(claimed).await.map_err(io::Error::other)?);
            }
        }
    };
    timeout(READ_TIMEOUT, read)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Whether a card says that its node has no agent for who reads it.
fn has_no_agent(card: &AgentCard) -> bool {
    let extension = card.p2p_extension.as_ref();
    extension.is_some_and(|extension| extension.no_agent)
}

/// Whether a card is only there to say which run of a node shows it.
fn says_only_its_run(card: &AgentCard) -> bool {
    let Some(extension) = card.p2p_extension.as_ref() else {
        return false;
    };
    let only = AgentCard {
        p2p_extension: Some(P2pExtension {
            peer_id: extension.peer_id.clone(),
            did_key: extension.did_key.clone(),
            instance: extension.instance.clone(),
            instances_seen: extension.instances_seen.clone(),
            ..P2pExtension::default()
        }),
        ..AgentCard::default()
    };
    !extension.instance.is_empty() && *card == only
}

/// Reads a card and checks that it claims nobody but `peer`. Empty claims are accepted.
fn check(peer: PeerId, bytes: &[u8]) -> Result<AgentCard, CardError> {
    decoded_size::elements(decoded_size::MessageKind::Card, bytes, MAX_ELEMENTS)?;
    let card = AgentCard::decode(bytes)?;
    if let Some(extension) = &card.p2p_extension {
        let claim = &extension.peer_id;
        if !claim.is_empty() && claim.parse::<PeerId>().ok() != Some(peer) {
            return Err(CardError::OtherPeer(claim.chars().take(80).collect()));
        }
        let claim = &extension.did_key;
        if !claim.is_empty() && did_key_of(peer).as_deref() != Some(claim.as_str()) {
            return Err(CardError::OtherPeer(claim.chars().take(80).collect()));
        }
    }
    Ok(card)
}

/// See `fuzz.rs`.
#[cfg(any(test, feature = "fuzz"))]
pub fn fuzz(peer: PeerId, data: &[u8]) {
    let Ok(card) = check(peer, data) else { return };
    let claims = card.p2p_extension.as_ref();
    let claimed = claims.map(|claims| claims.peer_id.as_str()).unwrap_or_default();
    assert!(claimed.is_empty() || claimed.parse() == Ok(peer), "{claimed}");
    let again = check(peer, &card.encode_to_vec());
    assert_eq!(again.ok(), Some(card));
}

#[cfg(test)]
mod tests;
