//! Limits and hooks of the tool loop: UPP's `ToolUseStrategy`.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use serde_json::Value;

use crate::{limit::Limit, tool::Tool};

/// How many rounds of tools a bare `llm()` runs unless it is told otherwise (UPP-1.3).
pub const DEFAULT_MAX_ITERATIONS: u64 = 10;

/// What [`ToolHooks::on_before_call`] decides.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BeforeCall {
    /// The tool runs.
    Run,
    /// The tool runs with other arguments.
    RunWith(Value),
    /// The tool does not run; the model learns that it was skipped.
    Skip,
}

/// Hooks that the tool loop calls while tools run. Each has an empty default.
///
/// ```
/// use agentanycast_upp::{BeforeCall, Tool, ToolHooks};
/// use serde_json::Value;
///
/// struct ReadOnly;
///
/// #[async_trait::async_trait]
/// impl ToolHooks for ReadOnly {
///     async fn on_before_call(&self, tool: &Tool, _arguments: &Value) -> BeforeCall {
///         if tool.name().starts_with("write") { BeforeCall::Skip } else { BeforeCall::Run }
///     }
/// }
/// ```
#[async_trait]
pub trait ToolHooks: Send + Sync {
    /// The model calls a tool.
    async fn on_tool_call(&self, _tool: &Tool, _arguments: &Value) {}

    /// An approved call is about to run.
    async fn on_before_call(&self, _tool: &Tool, _arguments: &Value) -> BeforeCall {
        BeforeCall::Run
    }

    /// A tool returned. `Some` replaces its result, within the bound of the tool's own results.
    async fn on_after_call(&self, _tool: &Tool, _arguments: &Value, _result: &Value) -> Option<Value> {
        None
    }

    /// A tool failed. `Some` replaces the error result by a result, within the bound of the tool's own results.
    async fn on_error(&self, _tool: &Tool, _arguments: &Value, _error: &str) -> Option<Value> {
        None
    }

    /// The model calls tools once more than the limit allows.
    async fn on_max_iterations(&self, _max: u64) {}
}

/// Limits and hooks of the tool loop.
///
/// ```
/// use agentanycast_upp::ToolUseStrategy;
///
/// let strategy = ToolUseStrategy::new().max_iterations(60);
/// # drop(strategy);
/// ```
#[derive(Clone, Default)]
pub struct ToolUseStrategy {
    pub(crate) max_iterations: Option<Limit>,
    pub(crate) hooks: Option<Arc<dyn ToolHooks>>,
}

impl ToolUseStrategy {
    /// Without hooks, with the default limit.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how many rounds of tools run, instead of [`DEFAULT_MAX_ITERATIONS`].
    #[must_use]
    pub fn max_iterations(mut self, max: impl Into<Limit>) -> Self {
        self.max_iterations = Some(max.into());
        self
    }

    /// Sets the limit if it is not set yet. `agent()` makes the loop infinite with it.
    #[must_use]
    pub fn default_max_iterations(mut self, max: Limit) -> Self {
        self.max_iterations.get_or_insert(max);
        self
    }

    /// Sets the hooks.
    #[must_use]
    pub fn hooks(mut self, hooks: impl ToolHooks + 'static) -> Self {
        self.hooks = Some(Arc::new(hooks));
        self
    }

    /// The limit that holds.
    pub fn limit(&self) -> Limit {
        self.max_iterations.unwrap_or(Limit::Max(DEFAULT_MAX_ITERATIONS))
    }
}

impl fmt::Debug for ToolUseStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolUseStrategy")
            .field("max_iterations", &self.max_iterations)
            .field("hooks", &self.hooks.is_some())
            .finish()
    }
}
