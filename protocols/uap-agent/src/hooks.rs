//! Hooks at the boundaries of steps: the `AgentStrategy` of UAP-1.1.

use agentanycast_upp::{ToolCall, ToolExecution, UppError};
use async_trait::async_trait;

use crate::{result::GenerateResult, state::AgentState};

/// Hooks that an agent calls at the boundaries of its steps. Each has an empty default.
///
/// An agent is unlimited, so that [`AgentStrategy::stop_condition`] is what ends it early:
///
/// ```
/// use agentanycast_uap::{AgentState, AgentStrategy};
///
/// struct Budget(u64);
///
/// #[async_trait::async_trait]
/// impl AgentStrategy for Budget {
///     async fn stop_condition(&self, state: &AgentState) -> bool {
///         state.metadata().get("totalTokens").and_then(|tokens| tokens.as_u64()) > Some(self.0)
///     }
/// }
/// ```
#[async_trait]
pub trait AgentStrategy: Send + Sync {
    /// Whether the run ends after this step.
    async fn stop_condition(&self, _state: &AgentState) -> bool {
        false
    }

    /// A step begins.
    async fn on_step_start(&self, _step: u64, _state: &AgentState) {}

    /// The agent reasoned.
    async fn on_reason(&self, _step: u64, _reasoning: &str) {}

    /// The agent is about to call tools.
    async fn on_act(&self, _step: u64, _actions: &[ToolCall]) {}

    /// The tools returned.
    async fn on_observe(&self, _step: u64, _observations: &[ToolExecution]) {}

    /// A step ended: its turn, and the state after it.
    async fn on_step_end(&self, _step: u64, _result: &GenerateResult) {}

    /// The run ended well.
    async fn on_complete(&self, _result: &GenerateResult) {}

    /// The run failed. `Some` is its result instead. The state is the one before the step that failed.
    async fn on_error(&self, _error: &UppError, _state: &AgentState) -> Option<GenerateResult> {
        None
    }
}

/// Hooks that only end the run when a function says so.
///
/// ```
/// use agentanycast_uap::stop_when;
///
/// let three_steps = stop_when(|state| state.step() >= 3);
/// # drop(three_steps);
/// ```
pub fn stop_when(condition: impl Fn(&AgentState) -> bool + Send + Sync + 'static) -> impl AgentStrategy {
    StopWhen(condition)
}

struct StopWhen<F>(F);

#[async_trait]
impl<F: Fn(&AgentState) -> bool + Send + Sync> AgentStrategy for StopWhen<F> {
    async fn stop_condition(&self, state: &AgentState) -> bool {
        (self.0)(state)
    }
}
