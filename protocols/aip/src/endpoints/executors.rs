//! Executors of commands: closures, programs of an allow list, and the tools of an MCP server.

#[cfg(feature = "mcp")]
mod mcp;
mod shell;

use std::{collections::BTreeMap, pin::Pin};

use async_trait::async_trait;

#[cfg(feature = "mcp")]
pub use mcp::{McpExecutor, McpExecutorSettings, McpServerAddress};
pub use shell::ShellTool;

use crate::{
    messages::{JsonObject, McpToolInfo, ToolCommand},
    protocol::{BatchContext, ToolExecutor, ToolFailure, ToolOutput},
};

type ToolFuture = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolFailure>> + Send>>;

trait ToolFn: Send + Sync {
    fn call(&self, parameters: JsonObject) -> ToolFuture;
}

impl<F, Fut> ToolFn for F
where
    F: Fn(JsonObject) -> Fut + Send + Sync,
    Fut: Future<Output = Result<ToolOutput, ToolFailure>> + Send + 'static,
{
    fn call(&self, parameters: JsonObject) -> ToolFuture {
        Box::pin(self(parameters))
    }
}

/// Tools that are closures.
#[derive(Default)]
pub struct ClosureTools(BTreeMap<String, (McpToolInfo, Box<dyn ToolFn>)>);

impl ClosureTools {
    /// No tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool; one of the same name is replaced.
    #[must_use]
    pub fn with_tool<F, Fut>(mut self, tool: McpToolInfo, call: F) -> Self
    where
        F: Fn(JsonObject) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolOutput, ToolFailure>> + Send + 'static,
    {
        self.0.insert(tool.tool_name.clone(), (tool, Box::new(call)));
        self
    }
}

#[async_trait]
impl ToolExecutor for ClosureTools {
    async fn tools(&self, _: &BatchContext) -> Result<Vec<McpToolInfo>, ToolFailure> {
        Ok(self.0.values().map(|(tool, _)| tool.clone()).collect())
    }

    async fn execute(&self, _: &BatchContext, command: &ToolCommand) -> Result<ToolOutput, ToolFailure> {
        let Some((tool, call)) = self.0.get(&command.tool_name) else {
            return Err(unknown_tool(&command.tool_name));
        };
        let namespace = Some(tool.namespace.clone());
        match call.call(command.parameters.clone()).await {
            Ok(output) => Ok(ToolOutput {
                namespace: output.namespace.or(namespace),
                ..output
            }),
            Err(failure) => Err(ToolFailure {
                namespace: failure.namespace.or(namespace),
                ..failure
            }),
        }
    }
}

/// A command names a tool that the device does not have.
fn unknown_tool(name: &str) -> ToolFailure {
    let name: String = name.chars().take(100).collect();
    ToolFailure::from(format!(
        "this device has no tool '{name}'; list_tools lists its tools"
    ))
}
