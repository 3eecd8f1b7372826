//! The connection of an agent to one hub, for as long as the agent runs. The library for execution agents
//! uses it, and the gateway where it joins a foreign hub.
//!
//! `listen` is one connection from registration to loss, `session_stream` one session, `slots` the sessions
//! that the agent has taken. Invariant: a session keeps its slot until it has ended, also when the Listen
//! that brought it is lost meanwhile.

mod listen;
mod reconnect;
mod registered;
mod session_stream;
mod slots;

use std::{
    fmt,
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::slots::SlotTable;
use super::{
    endpoint::HubEndpoint, error::HubError, proposal::Proposal, session::AgentSession,
    session_end::SessionEnd,
};
use crate::v1::AgentRegistration;

/// How long sessions may go on once the agent stops, where nothing else is said.
const DRAIN: Duration = Duration::from_secs(10);

/// How long sessions may take to tell the hub of their end once they are cancelled: their own time, and as
/// much again.
const END_WITHIN: Duration = Duration::from_secs(20);

/// Decides on a hub's proposals and carries sessions out.
#[async_trait]
pub trait SessionRunner: Send + Sync + 'static {
    /// What the agent is called and what it can do. Asked for before each registration.
    fn registration(&self) -> AgentRegistration;

    /// Whether the agent can carry out `proposal`, apart from free slots. Must answer at once.
    ///
    /// # Errors
    /// When it cannot: why, for people at the hub.
    fn accepts(&self, proposal: &Proposal) -> Result<(), String>;

    /// Carries out a session that was accepted. A panic ends it as FAILED. Must not block its thread.
    async fn carry_out(&self, session: AgentSession) -> SessionEnd;

    /// The hub has accepted a Listen: the agent is available under `client_id`, which is another one each
    /// time.
    fn connected(&self, client_id: &str) {
        let _ = client_id;
    }

    /// There is no connection; the next one is tried in `retry_in`.
    fn disconnected(&self, error: &HubError, retry_in: Duration) {
        let _ = (error, retry_in);
    }
}

/// An agent's connection to one hub.
#[derive(Clone, Debug)]
pub struct HubConnection {
    endpoint: HubEndpoint,
    slots: NonZeroUsize,
    drain: Duration,
}

impl HubConnection {
    /// To the hub at `endpoint`, for one session at a time.
    pub fn new(endpoint: HubEndpoint) -> Self {
        Self {
            endpoint,
            slots: NonZeroUsize::MIN,
            drain: DRAIN,
        }
    }

    /// The agent carries out up to `slots` sessions at a time. A proposal above that is refused.
    #[must_use]
    pub fn with_slots(mut self, slots: NonZeroUsize) -> Self {
        self.slots = slots;
        self
    }

    /// Sessions may go on for `drain` once the agent stops (10 s without this). New ones are refused
    /// meanwhile. Those that are left are cancelled, and end as FAILED.
    #[must_use]
    pub fn with_drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// Registers at the hub, listens, and has `runner` carry out sessions, until `stop` resolves. A lost
    /// connection is made again after 1 s, 2 s, 4 s and so on up to 60 s, and after 1 s if the hub had
    /// accepted its Listen.
    ///
    /// Sessions are cancelled when the future is dropped.
    ///
    /// # Errors
    /// When the endpoint's certificates cannot be used. Nothing was tried then.
    pub async fn run(
        self,
        runner: Arc<dyn SessionRunner>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), HubError> {
        self.endpoint.check()?;
        let agent = Arc::new(AgentState {
            endpoint: self.endpoint,
            runner,
            slots: Mutex::new(SlotTable::new(self.slots)),
            sessions: TaskTracker::new(),
            draining: CancellationToken::new(),
            stopped: CancellationToken::new(),
        });
        let _stopped = agent.stopped.clone().drop_guard();
        let never = reconnect::reconnect(
            || listen::connection(agent.clone()),
            |error, retry_in| {
                tracing::warn!(hub = agent.endpoint.url(), %error, ?retry_in, "no connection to the hub");
                agent.runner.disconnected(error, retry_in);
            },
        );
        tokio::pin!(never);
        tokio::select! {
            biased;
            () = stop => {}
            never = &mut never => match never {},
        }
        agent.draining.cancel();
        agent.sessions.close();
        // The connection stays meanwhile: a hub fails the sessions of an agent that does not listen.
        tokio::select! {
            biased;
            () = agent.drain(self.drain) => Ok(()),
            never = never => match never {},
        }
    }
}

/// What the connection and all sessions of an agent share.
struct AgentState {
    endpoint: HubEndpoint,
    runner: Arc<dyn SessionRunner>,
    slots: Mutex<SlotTable>,
    sessions: TaskTracker,
    /// The agent takes no more sessions.
    draining: CancellationToken,
    /// Sessions are to end.
    stopped: CancellationToken,
}

impl AgentState {
    fn slots(&self) -> MutexGuard<'_, SlotTable> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no session is left; those that are after `within` are cancelled.
    async fn drain(&self, within: Duration) {
        if tokio::time::timeout(within, self.sessions.wait()).await.is_err() {
            self.stopped.cancel();
            // One that has not ended by then waits for a hub that takes no messages.
            let _ = tokio::time::timeout(END_WITHIN, self.sessions.wait()).await;
        }
    }
}

impl fmt::Debug for AgentState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AgentState")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}
