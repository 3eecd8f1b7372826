//! Runs the roll: cards in, questions out, answers in, what is proven to the engine.

use std::{sync::Arc, time::Duration};

use agentanycast_identity::PeerId;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{interval, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    Asks, News,
    claims::Source,
    roll::{Failure, Roll, Said, Verdict},
    sources::Sources,
};
use crate::{engine::Engine, net};

/// How often is looked for answers that are over.
const TICK: Duration = Duration::from_secs(1);

/// How long a peer may take to show its card when it is asked for it.
const CARD_WITHIN: Duration = Duration::from_secs(2);

/// Peers that are asked for their cards at once; more are decided on by their keys.
const MAX_DOUBTS: usize = 256;

/// See the module's text.
pub(super) struct Keeper {
    engine: Engine,
    net: net::Handle,
    sources: Arc<Sources>,
    roll: Roll,
    asked: JoinSet<(Source, Result<Said, Failure>)>,
    /// Peers that were asked for their cards, and have none.
    doubts: JoinSet<Option<PeerId>>,
}

impl Keeper {
    pub(super) fn new(engine: Engine, net: net::Handle, sources: Arc<Sources>, roll: Roll) -> Self {
        Self {
            engine,
            net,
            sources,
            roll,
            asked: JoinSet::new(),
            doubts: JoinSet::new(),
        }
    }

    pub(super) async fn run(
        mut self,
        mut news: mpsc::Receiver<News>,
        mut asks: watch::Receiver<Asks>,
        stop: CancellationToken,
    ) {
        let mut tick = interval(TICK);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(news) = news.recv() => self.hear(news),
                Some(Ok((source, said))) = self.asked.join_next() => {
                    self.roll.heard(self.engine.now(), &source, said);
                }
                Some(Ok(nameless)) = self.doubts.join_next() => {
                    if let Some(peer) = nameless {
                        self.settle(peer).await;
                    }
                }
                Ok(()) = asks.changed() => {
                    let asks = asks.borrow_and_update().clone();
                    self.roll.ask_for(asks);
                }
                _ = tick.tick() => {
                    let net = &self.net;
                    self.roll.tick(self.engine.now(), |peer| net.is_connected(peer));
                }
            }
            self.go_on().await;
        }
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Card(peer, claims) => self.roll.claim(self.engine.now(), peer, *claims),
            News::Doubt(peer) if self.roll.is_open(peer) => {} // It is told anyway.
            News::Doubt(peer) => self.doubt(peer),
        }
    }

    /// Asks a peer for its card; the engine hears of it as of any other.
    fn doubt(&mut self, peer: PeerId) {
        let net = self.net.clone();
        let is_too_much = self.doubts.len() >= MAX_DOUBTS;
        self.doubts.spawn(async move {
            if is_too_much {
                return Some(peer);
            }
            match timeout(CARD_WITHIN, net.fetch_card(peer)).await {
                Ok(Ok(Some(_))) => None,
                _ => Some(peer),
            }
        });
    }

    async fn settle(&self, peer: PeerId) {
        let settled = self.engine.call(move |core, _| {
            core.settle(peer);
            Ok(())
        });
        // An engine that stops needs to know nothing more.
        let _ = settled.await;
    }

    async fn go_on(&mut self) {
        for verdict in self.roll.verdicts(self.engine.now()) {
            let Verdict {
                peer,
                standing,
                is_settled,
                unproven,
                news,
            } = verdict;
            for why in news {
                tracing::info!(%peer, why, "what a peer says of itself does not count");
            }
            tracing::debug!(%peer, ?standing, "what is proven of a peer");
            let told = self.engine.call(move |core, now| {
                core.set_standing(now, peer, standing)?;
                if is_settled {
                    core.set_unproven(peer, unproven);
                    core.settle(peer);
                }
                Ok(())
            });
            let _ = told.await;
        }
        while let Some(source) = self.roll.next_to_ask() {
            let sources = Arc::clone(&self.sources);
            self.asked.spawn(async move {
                let said = sources.ask(&source).await;
                (source, said)
            });
        }
    }
}
