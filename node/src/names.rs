//! Who peers are besides their keys: names and credentials that they claim on their cards, proven here before they count
//! in policy.
//!
//! `roll` is PURE and decides what has to be asked, for how long an answer is believed, and what is proven by it;
//! `sources` asks; `keeper` runs both and tells the engine. `own` is what this node says of itself.

mod claims;
mod keeper;
pub mod own;
mod roll;
mod sources;
mod web;

use std::{sync::Arc, time::Duration};

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::AgentCard;
use prost::Message as _;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{bridge::Fetcher, engine::Engine, net};
use claims::Claims;
use keeper::Keeper;
use roll::{Roll, Times};
pub use sources::{BadNameServer, Dns};
pub use web::{WebNames, WhoisError};

/// Cards that wait to be looked at.
const QUEUE: usize = 1024;

/// What the rules ask for: without it nothing is proven.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asks {
    /// Whether some pattern may match a name other than a key.
    pub names: bool,
    /// The issuers whose credentials vouch for a peer, as DIDs.
    pub issuers: Vec<String>,
}

/// What happens to peers.
enum News {
    /// A peer has shown its card, with these claims.
    Card(PeerId, Box<Claims>),
    /// The engine could decide otherwise on a task of a peer that has not shown its card yet.
    Doubt(PeerId),
}

/// The ear of the names' keeper: for the engine, before the keeper runs.
#[derive(Clone)]
pub struct Ear {
    news: mpsc::Sender<News>,
    asks: watch::Sender<Asks>,
}

/// What the keeper needs.
pub struct Parts {
    /// Whom it tells.
    pub engine: Engine,
    /// Where it gets cards that were not shown.
    pub net: net::Handle,
    /// How documents are fetched.
    pub fetcher: Fetcher,
    /// How the DNS is asked.
    pub dns: Dns,
    /// How long an answer is believed.
    pub believed_for: Duration,
}

/// What was heard and not looked at yet.
pub struct Heard(mpsc::Receiver<News>);

/// An ear, and what it hears.
pub fn ear(asks: Asks) -> (Ear, Heard) {
    let (news, heard) = mpsc::channel(QUEUE);
    let asks = watch::Sender::new(asks);
    (Ear { news, asks }, Heard(heard))
}

impl Ear {
    /// A peer has shown this card, which is its own. Whether the engine will be told what it proves: else it proves
    /// nothing.
    pub fn card(&self, peer: PeerId, card: &[u8]) -> bool {
        let extension = AgentCard::decode(card).ok().and_then(|card| card.p2p_extension);
        let claims = extension
            .map(|extension| Claims::of(peer, &extension))
            .unwrap_or_default();
        let says_something = claims.is_any(&self.asks.borrow());
        let sent = self.news.try_send(News::Card(peer, Box::new(claims)));
        says_something && sent.is_ok()
    }

    /// A task of a peer could be decided otherwise than by its key alone.
    pub fn doubt(&self, peer: PeerId) {
        // If it is not heard, the engine decides by itself when it has waited.
        let _ = self.news.try_send(News::Doubt(peer));
    }

    /// The rules ask for this from now on.
    pub fn ask_for(&self, asks: Asks) {
        self.asks.send_if_modified(|known| {
            let is_new = *known != asks;
            *known = asks;
            is_new
        });
    }
}

/// Proves names until `stop`.
pub fn start(parts: Parts, ear: &Ear, heard: Heard, stop: CancellationToken) -> JoinHandle<()> {
    let Parts {
        engine,
        net,
        fetcher,
        dns,
        believed_for,
    } = parts;
    let asks = ear.asks.subscribe();
    let roll = Roll::new(asks.borrow().clone(), Times::believing(believed_for));
    let keeper = Keeper::new(engine, net, Arc::new(sources::Sources::new(fetcher, dns)), roll);
    tokio::spawn(keeper.run(heard.0, asks, stop))
}
