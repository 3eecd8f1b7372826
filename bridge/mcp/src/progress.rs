//! What a client that waits is told of its task meanwhile, if it asked for that.

use std::time::Duration;

use agentanycast_gateway::Update;
use agentanycast_proto::v1::TaskStatus;
use rmcp::{
    RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::Peer,
};
use tokio::time::Instant;

use super::render;

/// Most that is told of what an agent says at a time, in characters; the task has all of it.
const SAID: usize = 500;

/// How long a client is told nothing at most. Clients can count their time limit from the last progress on,
/// and proxies drop silent connections.
const BEAT: Duration = Duration::from_secs(15);

/// A client that wants to hear how its call goes on.
pub(super) struct ProgressReporter {
    peer: Peer<RoleServer>,
    token: ProgressToken,
    count: u32,
    /// The state that was told last.
    status: TaskStatus,
    since: Instant,
    last: Instant,
}

impl ProgressReporter {
    pub(super) fn new(peer: Peer<RoleServer>, token: ProgressToken) -> Self {
        let now = Instant::now();
        Self {
            peer,
            token,
            count: 0,
            status: TaskStatus::Submitted,
            since: now,
            last: now,
        }
    }

    /// Tells the client of a change.
    pub(super) async fn report(&mut self, update: &Update) {
        self.status = update.status;
        let state = render::state(update.status);
        let said: String = render::text_of(update.message.as_ref())
            .chars()
            .take(SAID)
            .collect();
        let message = if said.is_empty() {
            state.to_owned()
        } else {
            format!("{state}: {said}")
        };
        self.notify(message).await;
    }

    /// Returns when the client has been told nothing for so long that it is told that the task goes on.
    pub(super) async fn silence(&self) {
        tokio::time::sleep_until(self.last + BEAT).await;
    }

    /// Tells the client that the task goes on.
    pub(super) async fn beat(&mut self) {
        let state = render::state(self.status);
        let seconds = self.since.elapsed().as_secs();
        self.notify(format!(
            "{state}: no news from the agent; the call has waited for {seconds} s"
        ))
        .await;
    }

    /// Nobody knows how much work is left, so notifications are counted.
    async fn notify(&mut self, message: String) {
        self.last = Instant::now();
        self.count += 1;
        let progress =
            ProgressNotificationParam::new(self.token.clone(), f64::from(self.count)).with_message(message);
        // The wait finds out that a client is gone.
        if let Err(error) = self.peer.notify_progress(progress).await {
            tracing::debug!(%error, "progress was not told");
        }
    }
}
