//! How a run of an agent ends: a turn and the new state, or an error and the state before the step that
//! failed.

use std::{error::Error, fmt};

use agentanycast_upp::{ErrorCode, Message, Turn, UppError};

use crate::state::AgentState;

/// What a run of an agent produced.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerateResult {
    /// The input and all messages that were produced.
    pub turn: Turn,
    /// The state after it.
    pub state: AgentState,
}

/// A failed run. The state is the one before the step that failed; [`crate::Agent::retry`] goes on from
/// there.
///
/// ```
/// use agentanycast_uap::{AgentState, agent};
/// use agentanycast_upp::{ErrorCode, Scripted, ScriptedReply, UppError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), UppError> {
/// let busy = UppError::new(ErrorCode::RateLimited, "busy");
/// let script = Scripted::new([ScriptedReply::Fail(busy), ScriptedReply::text("hello")]);
/// let agent = agent(script.model()).build()?;
/// let state = AgentState::initial();
/// let error = agent.generate("hi", &state).await.unwrap_err();
/// assert!(error.is_retryable());
/// assert_eq!(error.state, state);
/// assert_eq!(agent.retry(&error).await.unwrap().turn.text(), "hello");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AgentError {
    /// What failed.
    pub error: UppError,
    /// The state before the step that failed.
    pub state: AgentState,
    /// The input of the run if its first step failed, so that the state does not have it.
    input: Vec<Message>,
}

impl AgentError {
    /// An error with the state before the step.
    pub fn new(error: UppError, state: &AgentState) -> Self {
        Self {
            error,
            state: state.clone(),
            input: Vec::new(),
        }
    }

    /// The input of the run, if the run failed before its first step ended: [`AgentError::state`] does not
    /// have it. Empty otherwise.
    pub fn input(&self) -> &[Message] {
        &self.input
    }

    /// The same error with the input of the run, where no step has put it into the state.
    pub(crate) fn with_input(mut self, input: &[Message], before: &AgentState) -> Self {
        if self.state.id() == before.id() {
            self.input = input.to_vec();
        }
        self
    }

    /// What kind of failure this is.
    pub fn code(&self) -> ErrorCode {
        self.error.code()
    }

    /// Whether the same step may succeed later.
    pub fn is_retryable(&self) -> bool {
        self.error.is_retryable()
    }
}

impl fmt::Display for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for AgentError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}
