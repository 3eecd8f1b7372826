//! Tasks of the mesh that are sent by URL: carried to agents outside, in A2A 1.0 or 0.3, over JSON-RPC, REST or gRPC,
//! and what those say reported to the node.
//!
//! The one rule: an agent outside is given a message at most once. How far an errand has got is kept with the task
//! before the next step is taken; after a restart it is gone on from there, and what is in doubt is looked for and
//! never said again.
//!
//! PURE: `choice` (how an agent is spoken to), `binding` and `heard` (what is asked and said), `sse`, `sealed` (what of it
//! counts where it is sealed), `progress` (what is news), `place` (how far it has got), `fault`. Around them: `http`, `card`, `remote` (one agent), `errand`
//! (one task).

mod binding;
mod card;
mod choice;
mod errand;
mod fault;
mod heard;
pub(crate) mod http;
mod place;
mod progress;
mod remote;
mod sealed;
mod sse;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use self::{card::Cards, errand::Run, http::Clients};
use crate::{config, gateway::Errands};

/// See `fuzz.rs`: what an agent outside says, as an answer, as a card, as events in pieces of this size.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn fuzz(piece: usize, bytes: &[u8]) {
    let whole = sse::Reader::default().take(bytes).ok();
    let mut reader = sse::Reader::default();
    let mut events = Vec::new();
    for piece in bytes.chunks(piece.max(1)) {
        events.extend(reader.take(piece).ok().into_iter().flatten());
    }
    assert_eq!(
        Some(&events),
        whole.as_ref(),
        "events do not depend on how they come"
    );
    let json = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).ok();
    for answer in events.iter().map(Vec::as_slice).chain([bytes]).filter_map(json) {
        for binding in [choice::Binding::JsonRpc, choice::Binding::Rest] {
            let Ok(result) = binding::open(binding, answer.clone()) else {
                continue;
            };
            for version in [super::version::Version::V03, super::version::Version::V10] {
                // Heard or refused.
                let _ = heard::read(version, result.clone());
                let _ = heard::read_bare_task(version, result.clone());
            }
        }
        let at = ::http::Uri::from_static("https://agents.example/card.json");
        if let Ok(chosen) = choice::choose(answer, &at) {
            assert!(
                chosen.interface.url.starts_with("http"),
                "{:?}",
                chosen.interface.url
            );
        }
    }
    let _ = binding::fault_of_status(500, bytes);
}

/// Errands at once that speak with their agents; those that wait for an answer of their sender do not count.
const AT_ONCE: usize = 1024;

/// How long messages that are on their way may take to arrive at the stop.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The errands of one node.
pub struct Outbound {
    shared: Arc<Shared>,
}

struct Shared {
    errands: Arc<dyn Errands>,
    clients: Arc<Clients>,
    /// The same for errands that may go to this host and to private networks.
    private_clients: Arc<Clients>,
    cards: Cards,
    patience: Duration,
    within: Duration,
    places: Semaphore,
    stop: CancellationToken,
}

/// Tells an errand that something has come to it.
#[derive(Default)]
struct Bell {
    rung: AtomicBool,
    news: Notify,
}

impl Bell {
    fn ring(&self) {
        self.rung.store(true, Ordering::Release);
        self.news.notify_one();
    }

    /// Forgets what was rung for; true: something was.
    fn quiet(&self) -> bool {
        self.rung.swap(false, Ordering::AcqRel)
    }

    async fn rings(&self) {
        while !self.rung.load(Ordering::Acquire) {
            self.news.notified().await;
        }
    }
}

impl Outbound {
    /// Of this node. It ends at `stop`.
    ///
    /// # Errors
    /// When a certificate or key of the configuration cannot be used.
    pub fn new(
        errands: Arc<dyn Errands>,
        config: &config::outbound::Outbound,
        stop: CancellationToken,
    ) -> anyhow::Result<Self> {
        let clients = Clients::new(config)?;
        Ok(Self {
            shared: Arc::new(Shared {
                errands,
                private_clients: Arc::new(clients.to_private_hosts(config)?),
                clients: Arc::new(clients),
                cards: Cards::default(),
                patience: config.patience,
                within: config.timeout,
                places: Semaphore::new(AT_ONCE),
                stop,
            }),
        })
    }

    /// Runs errands until the stop. What is not done by then is gone on with at the next start.
    pub async fn run(self) {
        let mut bells: HashMap<String, Arc<Bell>> = HashMap::new();
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = self.shared.stop.cancelled() => break,
                Some(done) = running.join_next() => {
                    let Ok(id) = done else { continue };
                    let bell: Option<Arc<Bell>> = bells.remove(&id);
                    // It was rung for just when it ended.
                    if bell.is_some_and(|bell| bell.quiet()) {
                        self.begin(id, &mut bells, &mut running);
                    }
                }
                id = self.shared.errands.next() => match bells.get(&id) {
                    Some(bell) => bell.ring(),
                    None => self.begin(id, &mut bells, &mut running),
                },
            }
        }
        let drained = async { while running.join_next().await.is_some() {} };
        if tokio::time::timeout(LAST_WORDS, drained).await.is_err() {
            tracing::warn!("messages to agents outside were on their way at the stop");
        }
    }

    fn begin(&self, id: String, bells: &mut HashMap<String, Arc<Bell>>, running: &mut JoinSet<String>) {
        let bell = Arc::new(Bell::default());
        bells.insert(id.clone(), Arc::clone(&bell));
        let run = Run::new(Arc::clone(&self.shared), id.clone(), bell);
        running.spawn(async move {
            run.run().await;
            id
        });
    }
}
