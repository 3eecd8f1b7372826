//! Tools that are those of an MCP server: a program on whose standard input and output it speaks, or a server
//! of streamable HTTP.
//!
//! `live_server` is a server that runs, `process` its program. PURE: `results` (tools and results of MCP as
//! those of AIP), `start_budget` (how often a server is started).
//! Invariant: a command ends when its tool does, when the server ends, or in time; and a server that has
//! ended is started again by the next command, a bounded number of times a minute.

mod live_server;
mod process;
mod results;
mod start_budget;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

use super::unknown_tool;
use crate::{
    messages::{McpToolInfo, ToolCommand},
    protocol::{BatchContext, ToolExecutor, ToolFailure, ToolOutput},
};
use live_server::LiveServer;
use start_budget::StartBudget;

/// Where an MCP server is.
#[derive(Clone, PartialEq, Eq)]
pub enum McpServerAddress {
    /// A program that speaks MCP on its standard input and output.
    Program {
        /// The program.
        program: String,
        /// Its arguments.
        arguments: Vec<String>,
    },
    /// A server of streamable HTTP.
    Url {
        /// Its URL.
        url: String,
        /// The bearer token that it wants.
        token: Option<String>,
    },
}

impl McpServerAddress {
    /// A program with arguments.
    pub fn program<I>(program: impl Into<String>, arguments: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        Self::Program {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
        }
    }

    /// A server of streamable HTTP without a token.
    pub fn url(url: impl Into<String>) -> Self {
        Self::Url {
            url: url.into(),
            token: None,
        }
    }
}

/// For people: arguments and the token are left out.
impl fmt::Display for McpServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program { program, .. } => f.write_str(program),
            Self::Url { url, .. } => f.write_str(url),
        }
    }
}

impl fmt::Debug for McpServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "McpServerAddress({self})")
    }
}

/// The settings of an [`McpExecutor`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpExecutorSettings {
    /// Where the server is.
    pub server: McpServerAddress,
    /// The namespace of its tools; `None`: the name that the server gives itself.
    pub namespace: Option<String>,
    /// The agents whose commands are executed; none: all.
    pub agent_names: Vec<String>,
    /// How long a tool may take. A service waits 300 s for a batch: the default is less, so that it is told
    /// the reason.
    pub call_timeout: Duration,
    /// How long the server may take to start: programs such as `npx` fetch a package first.
    pub start_timeout: Duration,
    /// Largest message of the server, in bytes, and with it the largest result.
    pub max_message: usize,
}

impl McpExecutorSettings {
    /// The server there, for all agents.
    pub fn new(server: McpServerAddress) -> Self {
        Self {
            server,
            namespace: None,
            agent_names: Vec::new(),
            call_timeout: Duration::from_mins(4),
            start_timeout: Duration::from_mins(1),
            max_message: 16 << 20,
        }
    }

    /// The same for commands of these agents only.
    #[must_use]
    pub fn with_agent_names<I>(mut self, names: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.agent_names = names.into_iter().map(Into::into).collect();
        self
    }
}

/// Executes commands by the tools of an MCP server. The server is started when it is needed first.
pub struct McpExecutor {
    settings: McpExecutorSettings,
    slot: Mutex<ServerSlot>,
}

/// The server that runs, and when it was started.
#[derive(Default)]
struct ServerSlot {
    live: Option<Arc<LiveServer>>,
    starts: StartBudget,
}

impl McpExecutor {
    /// An executor whose server is not started yet.
    pub fn new(settings: McpExecutorSettings) -> Self {
        Self {
            settings,
            slot: Mutex::default(),
        }
    }

    /// Ends the server: its input is closed, and it is killed if it does not end then. Dropping the executor
    /// kills it at once.
    pub async fn stop(&self) {
        let live = self.slot.lock().await.live.take();
        if let Some(live) = live {
            live.stop().await;
        }
    }

    /// The server that runs. One that has ended is started again.
    async fn live(&self) -> Result<Arc<LiveServer>, String> {
        let mut slot = self.slot.lock().await;
        if let Some(live) = slot.live.as_ref().filter(|live| live.is_up()) {
            return Ok(Arc::clone(live));
        }
        slot.live = None;
        slot.starts.start(Instant::now()).map_err(|refused| {
            format!(
                "the MCP server {} ends again and again; {refused}",
                self.settings.server
            )
        })?;
        let within = self.settings.start_timeout;
        let started = timeout(within, LiveServer::start(&self.settings)).await;
        let started =
            started.unwrap_or_else(|_| Err(format!("it did not answer within {} s", within.as_secs())));
        let live = started
            .map_err(|reason| format!("the MCP server {} did not start: {reason}", self.settings.server))?;
        let live = Arc::new(live);
        slot.live = Some(Arc::clone(&live));
        Ok(live)
    }

    fn check_agent(&self, context: &BatchContext) -> Result<(), ToolFailure> {
        let known = &self.settings.agent_names;
        match &context.agent_name {
            Some(name) if !known.is_empty() && !known.contains(name) => {
                let name: String = name.chars().take(100).collect();
                let known = known.join(", ");
                Err(format!("this device has no agent '{name}'; it has: {known}").into())
            }
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl ToolExecutor for McpExecutor {
    async fn tools(&self, context: &BatchContext) -> Result<Vec<McpToolInfo>, ToolFailure> {
        self.check_agent(context)?;
        let live = self.live().await?;
        let tools = live.list_tools().await?;
        Ok(tools
            .iter()
            .map(|tool| results::tool_info(tool, &live.namespace))
            .collect())
    }

    async fn execute(
        &self,
        context: &BatchContext,
        command: &ToolCommand,
    ) -> Result<ToolOutput, ToolFailure> {
        self.check_agent(context)?;
        let mut live = self.live().await?;
        let mut is_first = true;
        let (live, tool, result) = loop {
            let failure = |error: String| live.failure_of(error);
            let tool = live.tool(&command.tool_name).await.map_err(failure)?;
            let tool = tool.ok_or_else(|| unknown_tool(&command.tool_name))?;
            let within = self.settings.call_timeout;
            match live.call(&tool, command.parameters.clone(), within).await {
                // The server did not take it: it is done once more in a new connection.
                Err(failure) if failure.is_not_done && std::mem::take(&mut is_first) => {
                    live = self.live().await?;
                }
                result => break (live, tool, result.map_err(|failure| failure.error)),
            }
        };
        let result = result.and_then(|result| results::value(&tool, result));
        match result {
            Ok(result) => Ok(ToolOutput {
                result,
                namespace: Some(live.namespace.clone()),
            }),
            Err(error) => Err(live.failure_of(error)),
        }
    }
}
