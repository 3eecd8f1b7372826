//! Runs the roll: cards in, questions out, answers in, what is proven to the engine.

use std::{sync::Arc, time::Duration};

use agentanycast_core::Engine;
use agentanycast_identity::PeerId;
use agentanycast_net as net;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{interval, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    RequiredProofs, ResolverEvent,
    cache::{IdentityCache, LookupFailure, ResolvedPeer, SourceAnswer},
    claims::ClaimSource,
    resolvers::Resolvers,
};

/// How often is looked for answers that are over.
const TICK: Duration = Duration::from_secs(1);

/// How long a peer may take to show its card when it is asked for it.
const CARD_TIMEOUT: Duration = Duration::from_secs(2);

/// Peers that are asked for their cards at once; more are decided on by their keys.
const MAX_CARD_REQUESTS: usize = 256;

/// See the module's text.
pub(super) struct ResolverActor {
    engine: Engine,
    net: net::Handle,
    resolvers: Arc<Resolvers>,
    cache: IdentityCache,
    lookups: JoinSet<(ClaimSource, Result<SourceAnswer, LookupFailure>)>,
    /// Peers that were asked for their cards, and have none.
    card_requests: JoinSet<Option<PeerId>>,
}

impl ResolverActor {
    pub(super) fn new(
        engine: Engine,
        net: net::Handle,
        resolvers: Arc<Resolvers>,
        cache: IdentityCache,
    ) -> Self {
        Self {
            engine,
            net,
            resolvers,
            cache,
            lookups: JoinSet::new(),
            card_requests: JoinSet::new(),
        }
    }

    pub(super) async fn run(
        mut self,
        mut news: mpsc::Receiver<ResolverEvent>,
        mut asks: watch::Receiver<RequiredProofs>,
        stop: CancellationToken,
    ) {
        let mut tick = interval(TICK);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(news) = news.recv() => self.hear(news),
                Some(Ok((source, said))) = self.lookups.join_next() => {
                    self.cache.on_answer(self.engine.now(), &source, said);
                }
                Some(Ok(nameless)) = self.card_requests.join_next() => {
                    if let Some(peer) = nameless {
                        self.settle(peer).await;
                    }
                }
                Ok(()) = asks.changed() => {
                    let asks = asks.borrow_and_update().clone();
                    self.cache.set_required(asks);
                }
                _ = tick.tick() => {
                    let net = &self.net;
                    self.cache.tick(self.engine.now(), |peer| net.is_connected(peer));
                }
            }
            self.go_on().await;
        }
    }

    fn hear(&mut self, news: ResolverEvent) {
        match news {
            ResolverEvent::Card(peer, claims) => self.cache.on_claims(self.engine.now(), peer, *claims),
            ResolverEvent::IdentityNeeded(peer) if self.cache.is_pending(peer) => {} // It is told anyway.
            ResolverEvent::IdentityNeeded(peer) => self.doubt(peer),
        }
    }

    /// Asks a peer for its card; the engine hears of it as of any other.
    fn doubt(&mut self, peer: PeerId) {
        let net = self.net.clone();
        let is_too_much = self.card_requests.len() >= MAX_CARD_REQUESTS;
        self.card_requests.spawn(async move {
            if is_too_much {
                return Some(peer);
            }
            match timeout(CARD_TIMEOUT, net.fetch_card(peer)).await {
                Ok(Ok(Some(_))) => None,
                _ => Some(peer),
            }
        });
    }

    async fn settle(&self, peer: PeerId) {
        // An engine that stops needs to know nothing more.
        let _ = self.engine.identity_resolved(peer).await;
    }

    async fn go_on(&mut self) {
        for verdict in self.cache.take_resolved(self.engine.now()) {
            let ResolvedPeer {
                peer,
                attributes: standing,
                is_settled,
                unproven,
                news,
            } = verdict;
            for why in news {
                tracing::info!(%peer, why, "what a peer says of itself does not count");
            }
            tracing::debug!(%peer, ?standing, "what is proven of a peer");
            let rejected_claims = is_settled.then_some(unproven);
            let told = self.engine.set_peer_attributes(peer, standing, rejected_claims);
            let _ = told.await;
        }
        while let Some(source) = self.cache.next_to_ask() {
            let sources = Arc::clone(&self.resolvers);
            self.lookups.spawn(async move {
                let said = sources.ask(&source).await;
                (source, said)
            });
        }
    }
}
