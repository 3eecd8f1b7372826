//! Tasks of the mesh that are sent by URL: carried to agents outside, in A2A 1.0 or 0.3, over JSON-RPC, REST or gRPC,
//! and what those say reported to the node.
//!
//! The one rule: an agent outside is given a message at most once. How far an errand has got is kept with the task
//! before the next step is taken; after a restart it is gone on from there, and what is in doubt is looked for and
//! never said again.
//!
//! PURE: `interface` (how an agent is spoken to), `encode` and `decode` (what is asked and said), `unseal` (what of it
//! counts where it is sealed), `pieces`, `report_builder` (what is news), `checkpoint` (how far it has got), `error`.
//! Around them: `card_cache`, `remote_agent` (one agent), `delivery` (one task). HTTP to agents is `agentanycast_egress`.

mod card_cache;
mod checkpoint;
mod decode;
mod delivery;
mod encode;
mod error;
mod interface;
mod pieces;
mod remote_agent;
mod report_builder;
mod unseal;

use std::{sync::Arc, time::Duration};

use agentanycast_egress::client::HostClients;
use agentanycast_gateway::{ExternalTasks, external_routes::ExternalRoutes, external_runner::run_jobs};
use agentanycast_gateways::outbound::OutboundConfig;
use futures::{FutureExt as _, future::BoxFuture};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use self::{card_cache::CardCache, delivery::DeliveryJob};

/// See `fuzz.rs`: what an agent outside says, as an answer, as a card, as events in pieces of this size.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn fuzz(piece: usize, bytes: &[u8]) {
    let new_reader = || agentanycast_readers::sse::SseReader::new(agentanycast_egress::client::MAX_ANSWER);
    let whole = new_reader().take(bytes).ok();
    let mut reader = new_reader();
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
        for binding in [interface::Binding::JsonRpc, interface::Binding::Rest] {
            let Ok(result) = encode::unwrap_result(binding, answer.clone()) else {
                continue;
            };
            for version in [
                crate::protocol::version::Version::V03,
                crate::protocol::version::Version::V10,
            ] {
                // Heard or refused.
                let _ = decode::read(version, result.clone());
                let _ = decode::read_bare_task(version, result.clone());
            }
        }
        let at = ::http::Uri::from_static("https://agents.example/card.json");
        if let Ok(chosen) = interface::choose(answer, &at) {
            assert!(
                chosen.interface.url.starts_with("http"),
                "{:?}",
                chosen.interface.url
            );
        }
    }
    let _ = encode::error_from_status(500, bytes);
}

/// Errands at once that speak with their agents; those that wait for an answer of their sender do not count.
const AT_ONCE: usize = 1024;

/// The errands of one node.
pub struct DeliveryRunner {
    shared: Arc<DeliveryShared>,
}

struct DeliveryShared {
    tasks: Arc<dyn ExternalTasks>,
    clients: Arc<HostClients>,
    /// The same for errands that may go to this host and to private networks.
    private_clients: Arc<HostClients>,
    cards: CardCache,
    patience: Duration,
    within: Duration,
    permits: Semaphore,
    stop: CancellationToken,
}

/// Carries tasks that are sent by URL in http or https, until `stop`.
///
/// # Errors
/// When a certificate or key of the configuration cannot be used.
pub fn carry(
    routes: &ExternalRoutes,
    config: &OutboundConfig,
    stop: CancellationToken,
) -> anyhow::Result<BoxFuture<'static, ()>> {
    let runner = DeliveryRunner::new(routes.route(SCHEMES), config, stop)?;
    Ok(runner.run().boxed())
}

/// The schemes of URLs that it takes.
pub const SCHEMES: &[&str] = &["http", "https"];

impl DeliveryRunner {
    /// Of this node. It ends at `stop`.
    ///
    /// # Errors
    /// When a certificate or key of the configuration cannot be used.
    pub fn new(
        errands: Arc<dyn ExternalTasks>,
        config: &OutboundConfig,
        stop: CancellationToken,
    ) -> anyhow::Result<Self> {
        let clients = HostClients::new(config)?;
        Ok(Self {
            shared: Arc::new(DeliveryShared {
                tasks: errands,
                private_clients: Arc::new(clients.to_private_hosts(config)?),
                clients: Arc::new(clients),
                cards: CardCache::default(),
                patience: config.patience,
                within: config.timeout,
                permits: Semaphore::new(AT_ONCE),
                stop,
            }),
        })
    }

    /// Runs errands until the stop. What is not done by then is gone on with at the next start.
    pub async fn run(self) {
        let shared = self.shared;
        let (tasks, stop) = (Arc::clone(&shared.tasks), shared.stop.clone());
        let job = |id: &str, wake| DeliveryJob::new(Arc::clone(&shared), id.to_owned(), wake);
        if !run_jobs(tasks, stop, job).await {
            tracing::warn!("messages to agents outside were on their way at the stop");
        }
    }
}
