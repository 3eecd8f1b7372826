//! Middleware around the runs of an agent.
//!
//! `before` runs in the order of the list, `after` and `on_error` in reverse; the first result of an
//! `on_error` wins.

use agentanycast_upp::{Message, UppError};
use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::{result::GenerateResult, state::AgentState};

/// What the middleware of one run shares.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MiddlewareContext {
    /// The id of the agent.
    pub agent_id: String,
    /// The input; `before` may change it.
    pub input: Vec<Message>,
    /// The state before the run; `before` may replace it, for example to shorten the context.
    pub state: AgentState,
    /// Values that hooks leave for each other. They do not reach the state.
    pub metadata: Map<String, Value>,
}

impl MiddlewareContext {
    pub(crate) fn new(agent_id: &str, input: Vec<Message>, state: AgentState) -> Self {
        Self {
            agent_id: agent_id.to_owned(),
            input,
            state,
            metadata: Map::new(),
        }
    }
}

/// Something that wraps the runs of an agent. Each hook has an empty default.
///
/// ```
/// use agentanycast_uap::{Middleware, MiddlewareContext};
/// use agentanycast_upp::UppError;
///
/// /// Keeps the last messages only.
/// struct Window(usize);
///
/// #[async_trait::async_trait]
/// impl Middleware for Window {
///     fn name(&self) -> &str {
///         "window"
///     }
///
///     async fn before(&self, context: &mut MiddlewareContext) -> Result<(), UppError> {
///         let messages = context.state.messages();
///         let begin = messages.len().saturating_sub(self.0);
///         context.state = context.state.with_context(messages[begin..].to_vec());
///         Ok(())
///     }
/// }
/// ```
#[async_trait]
pub trait Middleware: Send + Sync {
    /// The name in logs.
    fn name(&self) -> &str;

    /// The run is about to begin. An error ends it.
    async fn before(&self, _context: &mut MiddlewareContext) -> Result<(), UppError> {
        Ok(())
    }

    /// The run ended well; what is returned is its result. An error makes it a failed run.
    async fn after(
        &self,
        _context: &mut MiddlewareContext,
        result: GenerateResult,
    ) -> Result<GenerateResult, UppError> {
        Ok(result)
    }

    /// The run failed. `Some` is its result instead.
    async fn on_error(&self, _context: &mut MiddlewareContext, _error: &UppError) -> Option<GenerateResult> {
        None
    }
}
