//! The MCP gateway, wired: its front, which takes callers as the front of A2A does, and standard input and output.

use std::sync::Arc;

use agentanycast_front::{
    connection::ConnectionConfig,
    front::{Front, FrontParts},
    listener::{BODY_TIMEOUT, RunningFront},
};
use agentanycast_gateway::{
    NodePort,
    metrics::{GatewayMetrics, MetricFamily},
    registration::GatewayModule,
    running::RunningGateway,
};
use agentanycast_gateways::mcp::{McpSettings, NAME};
use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;

use crate::{
    ToolCallCounts, ToolHandler,
    http::{self, McpFrontConfig},
    serve_stdio,
};

/// What has ended when it has, for people.
const PART: &str = "MCP server";

/// The gateway `mcp`.
#[derive(Debug)]
pub struct McpGateway;

impl GatewayModule for McpGateway {
    const NAME: &'static str = NAME;

    type Settings = McpSettings;

    async fn start(node: NodePort, front: Front, settings: McpSettings) -> anyhow::Result<RunningGateway> {
        let FrontParts {
            settings: of_front,
            tls,
            authenticator,
            request_counts: _,
        } = front.into_parts();
        let config = McpFrontConfig {
            authenticator,
            limits: of_front.limits.clone(),
            max_body: usize::try_from(of_front.max_body.0).unwrap_or(usize::MAX),
            body_timeout: BODY_TIMEOUT,
            cors_origins: of_front.cors_origins.clone(),
        };
        let (tools, calls) = tools(&node);
        let served = Arc::clone(&tools);
        let router = |stop: CancellationToken| http::router(served, config, stop);
        let connections = ConnectionConfig::new(&of_front, tls);
        let front = RunningFront::start(&of_front, connections, "MCP clients", router).await?;
        let running = RunningGateway::new(PART, NAME, front);
        Ok(complete(running, tools, calls, &settings))
    }

    fn start_without_front(node: NodePort, settings: McpSettings) -> Option<RunningGateway> {
        settings.stdio.then(|| {
            let (tools, calls) = tools(&node);
            complete(RunningGateway::without_front(PART), tools, calls, &settings)
        })
    }
}

/// The tools before this node, and how calls of them go.
fn tools(node: &NodePort) -> (Arc<ToolHandler>, Arc<ToolCallCounts>) {
    let calls = Arc::<ToolCallCounts>::default();
    let tools = ToolHandler::new(Arc::clone(&node.client), Arc::clone(&calls));
    (Arc::new(tools), calls)
}

/// With its figures, and with standard input and output where that is wanted.
fn complete(
    running: RunningGateway,
    tools: Arc<ToolHandler>,
    calls: Arc<ToolCallCounts>,
    settings: &McpSettings,
) -> RunningGateway {
    let running = running.with_metrics(calls);
    if !settings.stdio {
        return running;
    }
    running.with_stdio(serve_stdio(tools, CancellationToken::new()).boxed())
}

impl GatewayMetrics for ToolCallCounts {
    fn families(&self) -> Vec<MetricFamily> {
        let none = MetricFamily::counter("mcp_tool_calls", "Calls of MCP tools that have ended");
        let counts = self.counts().into_iter();
        vec![counts.fold(none, |family, (tool, status, count)| {
            family.with(&[("tool", tool), ("status", status)], count)
        })]
    }
}
