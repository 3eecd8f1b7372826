//! What outside protocols reach this node by: the bridge, and MCP over HTTP and on standard input and output.

use std::{io, sync::Arc};

use agentanycast_a2a::{A2aGateway, RequestCounts};
use agentanycast_gateway::Gateway;
use agentanycast_identity::Keypair;
use agentanycast_mcp::{self as mcp, McpGateway, ToolCallCounts, ToolHandler};
use tokio_util::sync::CancellationToken;

use super::local_gateway::LocalGateway;
use crate::{api::Api, config::Config, net};

/// How requests and calls went at them.
#[derive(Clone, Default)]
pub(crate) struct GatewayCounters {
    requests: Arc<RequestCounts>,
    tool_calls: Arc<ToolCallCounts>,
}

impl GatewayCounters {
    /// Statuses of requests, and how many had each.
    pub(crate) fn requests(&self) -> Vec<(String, u64)> {
        self.requests.counts()
    }

    /// Tools, how calls of them ended, and how many did.
    pub(crate) fn tool_calls(&self) -> Vec<(&'static str, &'static str, u64)> {
        self.tool_calls.counts()
    }
}

/// Those that the settings want.
pub(crate) struct Gateways {
    bridge: Option<A2aGateway>,
    mcp: Option<McpGateway>,
    /// What is served on standard input and output.
    stdio: Option<Arc<ToolHandler>>,
}

impl Gateways {
    /// Before this node, whose key signs the bridge's cards.
    pub(crate) async fn start(
        config: &Config,
        (api, net): (Api, net::Handle),
        key: Keypair,
        counted: GatewayCounters,
    ) -> anyhow::Result<Self> {
        let gateway: Arc<dyn Gateway> = Arc::new(LocalGateway::new(api, net));
        let front = &config.bridge.front;
        let GatewayCounters { requests, tool_calls } = counted;
        let bridge = if config.bridge.enabled {
            Some(A2aGateway::start(front, Arc::clone(&gateway), Some(key), requests).await?)
        } else {
            None
        };
        let mcp = if config.mcp.enabled {
            let gateway = Arc::clone(&gateway);
            Some(McpGateway::start(&config.mcp_front().front, gateway, Arc::clone(&tool_calls)).await?)
        } else {
            None
        };
        let tools = || Arc::new(ToolHandler::new(gateway, tool_calls));
        Ok(Self {
            bridge,
            mcp,
            stdio: config.mcp.stdio.then(tools),
        })
    }

    /// Where they are.
    pub(crate) fn announce(&self, mut out: impl io::Write) -> io::Result<()> {
        if let Some(bridge) = &self.bridge {
            bridge.announce(&mut out)?;
        }
        match &self.mcp {
            Some(mcp) => mcp.announce(&mut out),
            None => Ok(()),
        }
    }

    /// Whether standard output is for MCP alone.
    pub(crate) fn take_stdout(&self) -> bool {
        self.stdio.is_some()
    }

    /// Serves standard input, if that is wanted, and returns at its end.
    pub(crate) fn stdio(&self) -> impl Future<Output = anyhow::Result<()>> + use<> {
        let tools = self.stdio.clone();
        async move {
            match tools {
                Some(tools) => mcp::serve_stdio(tools, CancellationToken::new()).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Returns when one has ended that nobody has stopped.
    pub(crate) async fn wait_for_failure(&mut self) -> &'static str {
        tokio::select! {
            () = wait_for_end(self.bridge.as_mut().map(A2aGateway::wait_ended)) => "bridge",
            () = wait_for_end(self.mcp.as_mut().map(McpGateway::wait_ended)) => "MCP server",
        }
    }

    /// Takes no more requests, and answers those that there are.
    pub(crate) async fn stop(self) {
        let bridge = async {
            if let Some(bridge) = self.bridge {
                bridge.stop().await;
            }
        };
        let mcp = async {
            if let Some(mcp) = self.mcp {
                mcp.stop().await;
            }
        };
        tokio::join!(bridge, mcp);
    }
}

/// Returns when a part has ended; never without one.
async fn wait_for_end(part: Option<impl Future<Output = ()>>) {
    match part {
        Some(part) => part.await,
        None => std::future::pending().await,
    }
}
