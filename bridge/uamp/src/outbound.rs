//! Tasks of the mesh that are sent to `uamp+https` URLs: carried to agents of UAMP, and what those say
//! reported to the node.
//!
//! Invariant: how far a task is stands in its checkpoint before the next step is taken; an envelope is sent
//! again only as the same one, which its receiver takes once.

mod answer;
mod checkpoint;
mod contact;
mod delivery;

use std::sync::Arc;

use agentanycast_gateway::{ExternalTasks, external_runner::run_jobs};
use agentanycast_uamp::jws::{SignatureForm, SigningIdentity};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{known_agents::KnownAgents, settings::UampSettings};
use crate::client::UampClientSettings;
use delivery::UampDelivery;

/// The schemes of URLs that it takes.
pub(super) const SCHEMES: &[&str] = &["uamp+https"];

/// Tasks at once that speak with their agents.
const AT_ONCE: usize = 1024;

/// The tasks of one node that go to agents of UAMP.
pub(super) struct OutboundRunner {
    shared: Arc<OutboundShared>,
}

struct OutboundShared {
    tasks: Arc<dyn ExternalTasks>,
    identity: SigningIdentity,
    form: SignatureForm,
    settings: UampSettings,
    known: Arc<KnownAgents>,
    permits: Semaphore,
    stop: CancellationToken,
}

impl OutboundShared {
    /// How the agent at this host is reached.
    fn client_settings(&self, authority: &str, allow_private: bool) -> UampClientSettings {
        let token = self
            .settings
            .outbound_tokens
            .iter()
            .find(|token| token.host == authority);
        let allow_private = allow_private || self.settings.outbound_private;
        UampClientSettings {
            allow_private,
            pins: Some(self.known.pins(authority, allow_private)),
            token_file: token.map(|token| token.file.clone()),
            ca: self.settings.outbound_ca.clone(),
            client_certificate: None,
        }
    }
}

impl OutboundRunner {
    /// Of these tasks. It ends at `stop`.
    pub(super) fn new(
        tasks: Arc<dyn ExternalTasks>,
        identity: SigningIdentity,
        settings: UampSettings,
        known: Arc<KnownAgents>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            shared: Arc::new(OutboundShared {
                tasks,
                identity,
                form: settings.emit_sig.0,
                settings,
                known,
                permits: Semaphore::new(AT_ONCE),
                stop,
            }),
        }
    }

    /// Carries tasks until the stop. What is not done by then is gone on with at the next start.
    pub(super) async fn run(self) {
        let shared = self.shared;
        let (tasks, stop) = (Arc::clone(&shared.tasks), shared.stop.clone());
        let job = |id: &str, wake| UampDelivery::new(Arc::clone(&shared), id.to_owned(), wake);
        if !run_jobs(tasks, stop, job).await {
            tracing::warn!("envelopes to agents of UAMP were on their way at the stop");
        }
    }
}
