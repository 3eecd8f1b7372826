//! What outside protocols reach this node by: the bridge, and MCP over HTTP and on standard input and output.

use std::{io, sync::Arc};

use agentanycast_bridge::{
    Bridge, Mcp,
    gateway::Gateway,
    mcp::{self, Tools},
};
use agentanycast_identity::Keypair;
use tokio_util::sync::CancellationToken;

use crate::{config::Config, telemetry::Counted};

/// Those that the settings want.
pub(super) struct Fronts {
    bridge: Option<Bridge>,
    mcp: Option<Mcp>,
    /// What is served on standard input and output.
    stdio: Option<Arc<Tools>>,
}

impl Fronts {
    /// Before this node, whose key signs the bridge's cards.
    pub(super) async fn start(
        config: &Config,
        gateway: Arc<dyn Gateway>,
        key: Keypair,
        counted: Counted,
    ) -> anyhow::Result<Self> {
        let front = &config.bridge.front;
        let Counted { requests, tool_calls } = counted;
        let bridge = if config.bridge.enabled {
            Some(Bridge::start(front, Arc::clone(&gateway), Some(key), requests).await?)
        } else {
            None
        };
        let mcp = if config.mcp.enabled {
            let gateway = Arc::clone(&gateway);
            Some(Mcp::start(&config.mcp_front(), gateway, Arc::clone(&tool_calls)).await?)
        } else {
            None
        };
        let tools = || Arc::new(Tools::new(gateway, tool_calls));
        Ok(Self {
            bridge,
            mcp,
            stdio: config.mcp.stdio.then(tools),
        })
    }

    /// Where they are.
    pub(super) fn announce(&self, mut out: impl io::Write) -> io::Result<()> {
        if let Some(bridge) = &self.bridge {
            bridge.announce(&mut out)?;
        }
        match &self.mcp {
            Some(mcp) => mcp.announce(&mut out),
            None => Ok(()),
        }
    }

    /// Whether standard output is for MCP alone.
    pub(super) fn take_stdout(&self) -> bool {
        self.stdio.is_some()
    }

    /// Serves standard input, if that is wanted, and returns at its end.
    pub(super) fn stdio(&self) -> impl Future<Output = anyhow::Result<()>> + use<> {
        let tools = self.stdio.clone();
        async move {
            match tools {
                Some(tools) => mcp::serve_stdio(tools, CancellationToken::new()).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Returns when one has ended that nobody has stopped.
    pub(super) async fn ended_by_itself(&mut self) -> &'static str {
        tokio::select! {
            () = ended(self.bridge.as_mut().map(Bridge::ended_by_itself)) => "bridge",
            () = ended(self.mcp.as_mut().map(Mcp::ended_by_itself)) => "MCP server",
        }
    }

    /// Takes no more requests, and answers those that there are.
    pub(super) async fn stop(self) {
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
async fn ended(part: Option<impl Future<Output = ()>>) {
    match part {
        Some(part) => part.await,
        None => std::future::pending().await,
    }
}
