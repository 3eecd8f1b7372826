//! The options of an agent: all options of a model, and those of UAP-1.1.

use std::{fmt, sync::Arc};

use agentanycast_upp::{
    Limit, Llm, LlmOptions, ModelReference, ProviderConfig, System, Tool, ToolUseStrategy, UppError, llm,
};
use serde_json::Value;
use uuid::Uuid;

use super::Agent;
use crate::{
    checkpoint::{CheckpointStore, session_saves::SessionSaves},
    execution::{ExecutionStrategy, loop_},
    hooks::AgentStrategy,
    middleware::Middleware,
};

/// Begins the options of an agent; [`AgentOptions::build`] ends them.
///
/// Nothing is limited unless it is set: rounds of tools, steps and time are infinite.
///
/// ```
/// use agentanycast_uap::{agent, react};
/// use agentanycast_upp::{Scripted, ScriptedReply, Tool};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let script = Scripted::new([
/// #     ScriptedReply::text("I need the time."), ScriptedReply::call("t1", "now", json!({})),
/// #     ScriptedReply::text("I know it."), ScriptedReply::text("It is noon."),
/// # ]);
/// let now = Tool::new("now", "The time", json!({"type": "object"}), |_, _| async { Ok("12:00") });
/// let agent = agent(script.model()).system("Be brief.").tool(now).execution(react()).build()?;
/// assert_eq!(agent.query("What time is it?").await?.text(), "It is noon.");
/// # Ok(())
/// # }
/// ```
pub fn agent(model: ModelReference) -> AgentOptions {
    AgentOptions {
        llm: llm(model),
        execution: Arc::new(loop_()),
        middleware: Vec::new(),
        strategy: None,
        checkpoints: None,
        session_id: None,
    }
}

/// The options of an agent.
#[derive(Clone)]
pub struct AgentOptions {
    llm: LlmOptions,
    execution: Arc<dyn ExecutionStrategy>,
    middleware: Vec<Arc<dyn Middleware>>,
    strategy: Option<Arc<dyn AgentStrategy>>,
    checkpoints: Option<Arc<SessionSaves>>,
    session_id: Option<String>,
}

/// What an agent is made of.
pub(super) struct AgentParts {
    pub(super) id: Arc<str>,
    pub(super) llm: Llm,
    pub(super) execution: Arc<dyn ExecutionStrategy>,
    pub(super) middleware: Vec<Arc<dyn Middleware>>,
    pub(super) strategy: Option<Arc<dyn AgentStrategy>>,
    pub(super) checkpoints: Option<Arc<SessionSaves>>,
    pub(super) session_id: Option<String>,
}

impl AgentOptions {
    /// Changes the options of the model, all of which an agent has.
    ///
    /// ```
    /// # use agentanycast_uap::agent;
    /// # use agentanycast_upp::Scripted;
    /// # let model = Scripted::new([]).model();
    /// let agent = agent(model).map_llm(|options| options.param("temperature", 0.2).system("Be brief."));
    /// # drop(agent);
    /// ```
    #[must_use]
    pub fn map_llm(mut self, change: impl FnOnce(LlmOptions) -> LlmOptions) -> Self {
        self.llm = change(self.llm);
        self
    }

    /// Sets a parameter of the model ([`LlmOptions::param`]).
    #[must_use]
    pub fn param(self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.map_llm(|options| options.param(name, value))
    }

    /// Sets how to reach the provider ([`LlmOptions::config`]).
    #[must_use]
    pub fn config(self, config: ProviderConfig) -> Self {
        self.map_llm(|options| options.config(config))
    }

    /// Adds a tool ([`LlmOptions::tool`]).
    #[must_use]
    pub fn tool(self, tool: Tool) -> Self {
        self.map_llm(|options| options.tool(tool))
    }

    /// Adds tools ([`LlmOptions::tools`]).
    #[must_use]
    pub fn tools(self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.map_llm(|options| options.tools(tools))
    }

    /// Sets the system prompt ([`LlmOptions::system`]).
    #[must_use]
    pub fn system(self, system: impl Into<System>) -> Self {
        self.map_llm(|options| options.system(system))
    }

    /// Asks for a structured answer ([`LlmOptions::structure`]).
    #[must_use]
    pub fn structure(self, schema: Value) -> Self {
        self.map_llm(|options| options.structure(schema))
    }

    /// Sets limits and hooks of the tool loop ([`LlmOptions::tool_strategy`]).
    #[must_use]
    pub fn tool_strategy(self, strategy: ToolUseStrategy) -> Self {
        self.map_llm(|options| options.tool_strategy(strategy))
    }

    /// Sets how the agent works, instead of [`loop_`].
    #[must_use]
    pub fn execution(mut self, execution: impl ExecutionStrategy + 'static) -> Self {
        self.execution = Arc::new(execution);
        self
    }

    /// Adds a middleware behind those that are there.
    #[must_use]
    pub fn middleware(mut self, middleware: impl Middleware + 'static) -> Self {
        self.middleware.push(Arc::new(middleware));
        self
    }

    /// Sets the hooks at the boundaries of steps, among them the stop condition.
    #[must_use]
    pub fn strategy(mut self, strategy: impl AgentStrategy + 'static) -> Self {
        self.strategy = Some(Arc::new(strategy));
        self
    }

    /// Saves the state after each step.
    #[must_use]
    pub fn checkpoints(mut self, store: impl CheckpointStore + 'static) -> Self {
        self.checkpoints = Some(Arc::new(SessionSaves::new(store)));
        self
    }

    /// Sets the session of the checkpoints. Without it each run has a new one.
    #[must_use]
    pub fn session_id(mut self, session_id: impl Into<String>) -> Self {
        self.session_id = Some(session_id.into());
        self
    }

    /// The agent with these options. Fails with `INVALID_REQUEST` if two tools have one name.
    pub fn build(self) -> Result<Agent, UppError> {
        // A bare model has limits; an agent has none but those of its developer (UAP-1.1, 2.4).
        let llm = self
            .llm
            .map_tool_strategy(|strategy| strategy.default_max_iterations(Limit::Infinite))
            .map_config(ProviderConfig::default_no_timeout)
            .build()?;
        Ok(Agent(Arc::new(AgentParts {
            id: Uuid::new_v4().to_string().into(),
            llm,
            execution: self.execution,
            middleware: self.middleware,
            strategy: self.strategy,
            checkpoints: self.checkpoints,
            session_id: self.session_id,
        })))
    }
}

impl fmt::Debug for AgentOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentOptions")
            .field("llm", &self.llm)
            .field("execution", &self.execution.name())
            .field("middleware", &self.middleware.len())
            .field("session_id", &self.session_id)
            .finish_non_exhaustive()
    }
}
