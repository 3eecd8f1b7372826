//! What a client that waits is told of its task meanwhile, if it asked for that.

use rmcp::{
    RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::Peer,
};

use super::shown;
use crate::gateway::Update;

/// Most that is told of what an agent says at a time, in characters; the task has all of it.
const SAID: usize = 500;

/// A client that wants to hear how its call goes on.
pub(super) struct Progress {
    peer: Peer<RoleServer>,
    token: ProgressToken,
    told: u32,
}

impl Progress {
    pub(super) fn new(peer: Peer<RoleServer>, token: ProgressToken) -> Self {
        let told = 0;
        Self { peer, token, told }
    }

    /// Tells it of a change. How much there is to come nobody knows, so changes are counted.
    pub(super) async fn tell(&mut self, update: &Update) {
        self.told += 1;
        let state = shown::state(update.status);
        let said: String = shown::text_of(update.message.as_ref())
            .chars()
            .take(SAID)
            .collect();
        let message = if said.is_empty() {
            state.to_owned()
        } else {
            format!("{state}: {said}")
        };
        let progress =
            ProgressNotificationParam::new(self.token.clone(), f64::from(self.told)).with_message(message);
        // A client that is gone is found out by the wait.
        if let Err(error) = self.peer.notify_progress(progress).await {
            tracing::debug!(%error, "progress was not told");
        }
    }
}
