//! The options of a model with tools, and the model itself.

use std::{collections::HashSet, fmt, sync::Arc};

use serde_json::{Map, Value};

use crate::{
    error::UppError,
    middleware::LlmMiddleware,
    provider::{ModelReference, ProviderConfig, System},
    tool::{Tool, ToolSchema},
    tool_strategy::ToolUseStrategy,
};

/// Begins the options of a model; [`LlmOptions::build`] ends them.
///
/// ```
/// use agentanycast_upp::{Scripted, ScriptedReply, llm};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), agentanycast_upp::UppError> {
/// # let script = Scripted::new([ScriptedReply::text("Bern")]);
/// let model = llm(script.model()).system("Answer in one word.").build()?;
/// let turn = model.generate("The capital of Switzerland?").await?;
/// assert_eq!(turn.text(), "Bern");
/// # Ok(())
/// # }
/// ```
pub fn llm(model: ModelReference) -> LlmOptions {
    LlmOptions {
        model,
        params: Map::new(),
        config: ProviderConfig::default(),
        tools: Vec::new(),
        system: None,
        structure: None,
        tool_strategy: ToolUseStrategy::default(),
        middleware: Vec::new(),
    }
}

/// The options of a model: UPP's `LLMOptions`.
#[derive(Clone)]
pub struct LlmOptions {
    pub(crate) model: ModelReference,
    pub(crate) params: Map<String, Value>,
    pub(crate) config: ProviderConfig,
    pub(crate) tools: Vec<Tool>,
    pub(crate) system: Option<System>,
    pub(crate) structure: Option<Value>,
    pub(crate) tool_strategy: ToolUseStrategy,
    pub(crate) middleware: Vec<Arc<dyn LlmMiddleware>>,
}

impl LlmOptions {
    /// Sets a parameter in the provider's own words, for example `temperature`.
    #[must_use]
    pub fn param(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.params.insert(name.into(), value.into());
        self
    }

    /// Sets how to reach the provider.
    #[must_use]
    pub fn config(mut self, config: ProviderConfig) -> Self {
        self.config = config;
        self
    }

    /// Changes how to reach the provider.
    #[must_use]
    pub fn map_config(mut self, change: impl FnOnce(ProviderConfig) -> ProviderConfig) -> Self {
        self.config = change(self.config);
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds tools.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Removes all tools.
    #[must_use]
    pub fn without_tools(mut self) -> Self {
        self.tools.clear();
        self
    }

    /// Sets the system prompt.
    #[must_use]
    pub fn system(mut self, system: impl Into<System>) -> Self {
        self.system = Some(system.into());
        self
    }

    /// Asks for a structured answer that fits this JSON Schema.
    #[must_use]
    pub fn structure(mut self, schema: Value) -> Self {
        self.structure = Some(schema);
        self
    }

    /// Asks for text, not for a structured answer.
    #[must_use]
    pub fn without_structure(mut self) -> Self {
        self.structure = None;
        self
    }

    /// Sets limits and hooks of the tool loop.
    #[must_use]
    pub fn tool_strategy(mut self, strategy: ToolUseStrategy) -> Self {
        self.tool_strategy = strategy;
        self
    }

    /// Changes limits and hooks of the tool loop.
    #[must_use]
    pub fn map_tool_strategy(mut self, change: impl FnOnce(ToolUseStrategy) -> ToolUseStrategy) -> Self {
        self.tool_strategy = change(self.tool_strategy);
        self
    }

    /// Adds a middleware behind those that are there.
    #[must_use]
    pub fn middleware(mut self, middleware: impl LlmMiddleware + 'static) -> Self {
        self.middleware.push(Arc::new(middleware));
        self
    }

    /// The model with these options. Fails with `INVALID_REQUEST` if two tools have one name.
    pub fn build(self) -> Result<Llm, UppError> {
        let mut names = HashSet::new();
        if let Some(tool) = self.tools.iter().find(|tool| !names.insert(tool.name())) {
            return Err(UppError::invalid_request(format!(
                "two tools have the name `{}`; a name may be used once",
                tool.name()
            )));
        }
        let tools = self.tools.iter().map(|tool| tool.schema.clone()).collect();
        let config = Arc::new(self.config.clone());
        Ok(Llm(Arc::new(LlmParts {
            options: self,
            tools,
            config,
        })))
    }
}

impl fmt::Debug for LlmOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlmOptions")
            .field("model", &self.model)
            .field("params", &self.params)
            .field("config", &self.config)
            .field("tools", &self.tools)
            .field("system", &self.system)
            .field("structure", &self.structure)
            .field("tool_strategy", &self.tool_strategy)
            .field("middleware", &self.middleware.len())
            .finish()
    }
}

/// A model with its tools: UPP's `LLMInstance`. Clones share everything.
#[derive(Clone, Debug)]
pub struct Llm(pub(super) Arc<LlmParts>);

/// What every request of a model shares.
#[derive(Debug)]
pub(super) struct LlmParts {
    pub(super) options: LlmOptions,
    pub(super) tools: Arc<[ToolSchema]>,
    pub(super) config: Arc<ProviderConfig>,
}

impl Llm {
    /// The options.
    pub fn options(&self) -> &LlmOptions {
        &self.0.options
    }

    /// The tools.
    pub fn tools(&self) -> &[Tool] {
        &self.0.options.tools
    }

    /// The system prompt.
    pub fn system(&self) -> Option<&System> {
        self.0.options.system.as_ref()
    }

    /// The model.
    pub fn model(&self) -> &ModelReference {
        &self.0.options.model
    }

    /// Limits and hooks of the tool loop.
    pub fn tool_strategy(&self) -> &ToolUseStrategy {
        &self.0.options.tool_strategy
    }
}
