//! One run of an agent, with its options.

mod run;

use agentanycast_upp::{CancellationToken, Input};

use super::Agent;
use crate::{
    event::AgentStreamResult,
    result::{AgentError, GenerateResult},
    state::AgentState,
};

/// One run of an agent that has not begun.
///
/// ```
/// use agentanycast_uap::{AgentState, agent};
/// use agentanycast_upp::{CancellationToken, ErrorCode, Scripted, ScriptedReply};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let script = Scripted::new([ScriptedReply::Hang]);
/// let agent = agent(script.model()).build()?;
/// let stop = CancellationToken::new();
/// stop.cancel();
/// let error = agent.call("hi", &AgentState::initial()).cancel(stop).generate().await.unwrap_err();
/// assert_eq!(error.code(), ErrorCode::Cancelled);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a call does nothing until it is generated or streamed"]
pub struct AgentCall {
    pub(super) agent: Agent,
    pub(super) input: Input,
    pub(super) state: AgentState,
    pub(super) cancel: CancellationToken,
    pub(super) session_id: Option<String>,
    pub(super) checkpoints: bool,
}

impl AgentCall {
    pub(super) fn new(agent: Agent, input: Input, state: &AgentState) -> Self {
        Self {
            agent,
            input,
            state: state.clone(),
            cancel: CancellationToken::new(),
            session_id: None,
            checkpoints: true,
        }
    }

    /// Ends the run with `CANCELLED` when the token is cancelled.
    pub fn cancel(mut self, token: CancellationToken) -> Self {
        self.cancel = token;
        self
    }

    /// Sets the session of the checkpoints, instead of the agent's.
    pub fn session_id(mut self, session_id: impl Into<String>) -> Self {
        self.session_id = Some(session_id.into());
        self
    }

    /// Saves no checkpoints, whatever the agent has.
    pub(super) fn without_checkpoints(mut self) -> Self {
        self.checkpoints = false;
        self
    }

    /// Runs the agent.
    pub async fn generate(self) -> Result<GenerateResult, AgentError> {
        run::run(self, None).await
    }

    /// Runs the agent, with events while it runs.
    pub fn stream(mut self) -> AgentStreamResult {
        // The caller's token may be that of other runs too, which `abort` leaves alone.
        self.cancel = self.cancel.child_token();
        AgentStreamResult::new(self.cancel.clone(), move |events| run::run(self, Some(events)))
    }
}
