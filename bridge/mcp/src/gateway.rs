//! The front of the MCP gateway, wired: it takes callers as the bridge's front does, by the same settings.

use std::{io, sync::Arc};

use agentanycast_front::{
    auth::Authenticator,
    listener::{self, BODY_TIMEOUT, RunningFront, STOP_WITHIN},
};
use agentanycast_gateway::Gateway;
use agentanycast_gateways::front::FrontSettings;
use tokio_util::sync::CancellationToken;

use crate::{
    ToolCallCounts, ToolHandler,
    http::{self, McpFrontConfig},
};

/// MCP over HTTP. Dropping it leaves it running; [`McpGateway::stop`] ends it.
#[derive(Debug)]
pub struct McpGateway(RunningFront);

impl McpGateway {
    /// Before this node, where the settings say; calls of tools are counted in `tally`.
    ///
    /// # Errors
    /// When a file cannot be used, or the address not be listened on: one line, which says so.
    pub async fn start(
        settings: &FrontSettings,
        gateway: Arc<dyn Gateway>,
        tally: Arc<ToolCallCounts>,
    ) -> anyhow::Result<Self> {
        let config = McpFrontConfig {
            authenticator: Authenticator::read(&settings.auth)?,
            limits: settings.limits.clone(),
            max_body: usize::try_from(settings.max_body.0).unwrap_or(usize::MAX),
            body_timeout: BODY_TIMEOUT,
            cors_origins: settings.cors_origins.clone(),
        };
        let tls = listener::tls(settings)?;
        let tools = Arc::new(ToolHandler::new(gateway, tally));
        let router = |stop: CancellationToken| http::router(tools, config, stop);
        Ok(Self(
            RunningFront::start(settings, tls, "MCP clients", router).await?,
        ))
    }

    /// The line that whoever started it waits for.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn announce(&self, out: impl io::Write) -> io::Result<()> {
        self.0.announce("MCP_ADDR", out)
    }

    /// Returns when it has ended though nobody has stopped it.
    pub async fn wait_ended(&mut self) {
        let _ = (&mut self.0.task).await;
    }

    /// Takes no more requests, and answers those that it has, within four seconds.
    pub async fn stop(self) {
        self.0.stop.cancel();
        if tokio::time::timeout(STOP_WITHIN, self.0.task).await.is_err() {
            tracing::warn!("MCP stopped before everything was answered");
        }
    }
}
