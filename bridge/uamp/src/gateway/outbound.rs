//! Tasks of the mesh that are sent to `uamp+https` URLs: carried to agents of UAMP, and what those say
//! reported to the node.
//!
//! Invariant: how far a task is stands in its checkpoint before the next step is taken; an envelope is sent
//! again only as the same one, which its receiver takes once.

mod answer;
mod checkpoint;
mod delivery;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use agentanycast_gateway::ExternalTasks;
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::settings::UampSettings;
use crate::{
    client::UampClientSettings,
    jws::{SignatureForm, SigningIdentity},
};
use delivery::UampDelivery;

/// The schemes of URLs that it takes.
pub(super) const SCHEMES: &[&str] = &["uamp+https"];

/// Tasks at once that speak with their agents.
const AT_ONCE: usize = 1024;

/// How long messages that are on their way at the stop may take.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The tasks of one node that go to agents of UAMP.
pub(super) struct OutboundRunner {
    shared: Arc<OutboundShared>,
}

struct OutboundShared {
    tasks: Arc<dyn ExternalTasks>,
    identity: SigningIdentity,
    form: SignatureForm,
    settings: UampSettings,
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
        UampClientSettings {
            allow_private: allow_private || self.settings.outbound_private,
            token_file: token.map(|token| token.file.clone()),
            ca: self.settings.outbound_ca.clone(),
            client_certificate: None,
        }
    }
}

/// Tells a delivery that something has come to its task.
#[derive(Default)]
struct WakeUp {
    is_set: AtomicBool,
    notify: Notify,
}

impl WakeUp {
    fn wake(&self) {
        self.is_set.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Forgets what it was woken for; true: it was.
    fn reset(&self) -> bool {
        self.is_set.swap(false, Ordering::AcqRel)
    }

    async fn woken(&self) {
        while !self.is_set.load(Ordering::Acquire) {
            self.notify.notified().await;
        }
    }
}

impl OutboundRunner {
    /// Of these tasks. It ends at `stop`.
    pub(super) fn new(
        tasks: Arc<dyn ExternalTasks>,
        identity: SigningIdentity,
        settings: UampSettings,
        stop: CancellationToken,
    ) -> Self {
        Self {
            shared: Arc::new(OutboundShared {
                tasks,
                identity,
                form: settings.emit_sig.0,
                settings,
                permits: Semaphore::new(AT_ONCE),
                stop,
            }),
        }
    }

    /// Carries tasks until the stop. What is not done by then is gone on with at the next start.
    pub(super) async fn run(self) {
        let mut wakes: HashMap<String, Arc<WakeUp>> = HashMap::new();
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = self.shared.stop.cancelled() => break,
                Some(done) = running.join_next() => {
                    let Ok(id) = done else { continue };
                    let wake: Option<Arc<WakeUp>> = wakes.remove(&id);
                    // It was woken just when it ended.
                    if wake.is_some_and(|wake| wake.reset()) {
                        self.begin(id, &mut wakes, &mut running);
                    }
                }
                id = self.shared.tasks.next() => match wakes.get(&id) {
                    Some(wake) => wake.wake(),
                    None => self.begin(id, &mut wakes, &mut running),
                },
            }
        }
        let drained = async { while running.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(LAST_WORDS, drained).await;
    }

    fn begin(&self, id: String, wakes: &mut HashMap<String, Arc<WakeUp>>, running: &mut JoinSet<String>) {
        let wake = Arc::new(WakeUp::default());
        wakes.insert(id.clone(), Arc::clone(&wake));
        let delivery = UampDelivery::new(Arc::clone(&self.shared), id.clone(), wake);
        running.spawn(async move {
            delivery.run().await;
            id
        });
    }
}
