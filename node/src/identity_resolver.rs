//! Who peers are besides their keys: names and credentials that they claim on their cards, proven here before they count
//! in policy.
//!
//! `cache` is PURE and decides what has to be asked, for how long an answer is believed, and what is proven by it;
//! `resolvers` asks; `actor` runs both and tells the engine. `own_identity` is what this node says of itself.

mod actor;
mod cache;
mod claims;
mod did_web_lookup;
pub mod own_identity;
mod resolvers;

use std::{sync::Arc, time::Duration};

use agentanycast_core::Engine;
use agentanycast_core::policy::RequiredProofs;
use agentanycast_identity::PeerId;
use agentanycast_net as net;
use agentanycast_proto::v1::AgentCard;
use prost::Message as _;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use actor::ResolverActor;
use agentanycast_gateway::composition::DocumentFetcher;
use cache::{CacheTimes, IdentityCache};
use claims::IdentityClaims;
pub use did_web_lookup::{DidWebLookup, DidWebLookupError};
pub use resolvers::{DnsResolver, InvalidNameServer};

/// Cards that wait to be looked at.
const QUEUE: usize = 1024;

/// What happens to peers.
enum ResolverEvent {
    /// A peer has shown its card, with these claims.
    Card(PeerId, Box<IdentityClaims>),
    /// The engine could decide otherwise on a task of a peer that has not shown its card yet.
    IdentityNeeded(PeerId),
}

/// The ear of the names' keeper: for the engine, before the keeper runs.
#[derive(Clone)]
pub struct ResolverHandle {
    events: mpsc::Sender<ResolverEvent>,
    required: watch::Sender<RequiredProofs>,
}

/// What the keeper needs.
pub struct ResolverParts {
    /// Whom it tells.
    pub engine: Engine,
    /// Where it gets cards that were not shown.
    pub net: net::Handle,
    /// How documents are fetched.
    pub fetcher: Arc<dyn DocumentFetcher>,
    /// How the DNS is asked.
    pub dns: DnsResolver,
    /// How long an answer is believed.
    pub believed_for: Duration,
}

/// What was heard and not looked at yet.
pub struct ResolverInbox(mpsc::Receiver<ResolverEvent>);

/// An ear, and what it hears.
pub fn channel(asks: RequiredProofs) -> (ResolverHandle, ResolverInbox) {
    let (news, heard) = mpsc::channel(QUEUE);
    let asks = watch::Sender::new(asks);
    (
        ResolverHandle {
            events: news,
            required: asks,
        },
        ResolverInbox(heard),
    )
}

impl ResolverHandle {
    /// A peer has shown this card, which is its own. Whether the engine will be told what it proves: else it proves
    /// nothing.
    pub fn on_card(&self, peer: PeerId, card: &[u8]) -> bool {
        let extension = AgentCard::decode(card).ok().and_then(|card| card.p2p_extension);
        let claims = extension
            .map(|extension| IdentityClaims::from_extension(peer, &extension))
            .unwrap_or_default();
        let says_something = claims.is_any(&self.required.borrow());
        let sent = self.events.try_send(ResolverEvent::Card(peer, Box::new(claims)));
        says_something && sent.is_ok()
    }

    /// A task of a peer could be decided otherwise than by its key alone.
    pub fn identity_needed(&self, peer: PeerId) {
        // If it is not heard, the engine decides by itself when it has waited.
        let _ = self.events.try_send(ResolverEvent::IdentityNeeded(peer));
    }

    /// The rules ask for this from now on.
    pub fn set_required(&self, asks: RequiredProofs) {
        self.required.send_if_modified(|known| {
            let is_new = *known != asks;
            *known = asks;
            is_new
        });
    }
}

/// Proves names until `stop`.
pub fn start(
    parts: ResolverParts,
    ear: &ResolverHandle,
    heard: ResolverInbox,
    stop: CancellationToken,
) -> JoinHandle<()> {
    let ResolverParts {
        engine,
        net,
        fetcher,
        dns,
        believed_for,
    } = parts;
    let asks = ear.required.subscribe();
    let roll = IdentityCache::new(asks.borrow().clone(), CacheTimes::with_ttl(believed_for));
    let keeper = ResolverActor::new(
        engine,
        net,
        Arc::new(resolvers::Resolvers::new(fetcher, dns)),
        roll,
    );
    tokio::spawn(keeper.run(heard.0, asks, stop))
}
