//! The front of the MCP gateway, wired: it takes callers as the bridge's front does, by the same settings.

use std::sync::Arc;

use agentanycast_front::{
    auth::Authenticator,
    connection::ConnectionConfig,
    listener::{self, BODY_TIMEOUT, RunningFront},
};
use agentanycast_gateway::{Gateway, running::RunningGateway};
use agentanycast_gateways::front::FrontSettings;
use tokio_util::sync::CancellationToken;

use crate::{
    NAME, ToolCallCounts, ToolHandler,
    http::{self, McpFrontConfig},
};

/// MCP over HTTP before this node, where the settings say; calls of tools are counted in `tally`.
///
/// # Errors
/// When a file cannot be used, or the address not be listened on: one line, which says so.
pub async fn start(
    settings: &FrontSettings,
    gateway: Arc<dyn Gateway>,
    tally: Arc<ToolCallCounts>,
) -> anyhow::Result<RunningGateway> {
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
    let front = RunningFront::start(
        settings,
        ConnectionConfig::new(settings, tls),
        "MCP clients",
        router,
    )
    .await?;
    Ok(RunningGateway::new("MCP server", NAME, front))
}
