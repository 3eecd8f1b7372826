//! What outside protocols reach this node by: the gateways that are built in, and MCP on standard input and output.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, PoisonError},
};

use agentanycast_a2a::RequestCounts;
use agentanycast_gateway::{
    Gateway, NodePort,
    external_routes::ExternalRoutes,
    metrics::GatewayMetrics,
    registration::{ProgramContext, Registration},
    running::RunningGateway,
};
use agentanycast_identity::Keypair;
use agentanycast_mcp::{ToolCallCounts, ToolHandler};
use agentanycast_net as net;
use futures::{
    FutureExt as _,
    future::{join_all, select_all},
};
use tokio_util::sync::CancellationToken;

use super::figures::GatewayFigures;
use crate::{config::Config, in_process::LocalGateway, service::Service};

/// The gateways that are built in, one line each.
pub static GATEWAYS: &[GatewayRegistration] = &[
    Registration::with_own_section(agentanycast_a2a::NAME, |node, port| node.start_a2a(port).boxed()),
    Registration::with_own_section(agentanycast_mcp::NAME, |node, port| node.start_mcp(port).boxed()),
    #[cfg(feature = "aip")]
    Registration::new::<agentanycast_aip_gateway::AipGateway>(),
    #[cfg(feature = "uamp")]
    Registration::new::<agentanycast_uamp_gateway::UampGateway>(),
    #[cfg(feature = "uap-hub")]
    Registration::new::<agentanycast_uap_hub_gateway::UapHubGateway>(),
];

/// A gateway of a daemon.
pub type GatewayRegistration = Registration<DaemonContext>;

/// What gateways are given of the daemon.
pub struct DaemonContext {
    config: Config,
    key: Keypair,
    counters: GatewayCounters,
}

impl ProgramContext for DaemonContext {
    type Config = Config;

    fn config(&self) -> &Config {
        &self.config
    }

    fn request_counts(&self, gateway: &'static str) -> Arc<RequestCounts> {
        self.counters.of_gateway(gateway)
    }
}

impl DaemonContext {
    async fn start_a2a(&self, port: NodePort) -> anyhow::Result<Option<RunningGateway>> {
        let settings = &self.config.bridge;
        if !settings.enabled {
            return Ok(None);
        }
        // The node's key signs its cards.
        let (key, requests) = (self.key.clone(), Arc::clone(&self.counters.requests));
        let started = agentanycast_a2a::start(&settings.front, port.client, Some(key), requests);
        started.await.map(Some)
    }

    async fn start_mcp(&self, port: NodePort) -> anyhow::Result<Option<RunningGateway>> {
        if !self.config.mcp.enabled {
            return Ok(None);
        }
        let calls = Arc::clone(&self.counters.tool_calls);
        let started = agentanycast_mcp::start(&self.config.mcp_front().front, port.client, calls).await;
        started.map(Some)
    }
}

/// How requests and calls went at them.
#[derive(Clone, Default)]
pub(crate) struct GatewayCounters {
    requests: Arc<RequestCounts>,
    /// Of gateways with a section of their own, by name.
    gateways: Arc<Mutex<BTreeMap<&'static str, Arc<RequestCounts>>>>,
    /// Figures that gateways have of their own.
    own: Arc<Mutex<Vec<Arc<dyn GatewayMetrics>>>>,
    tool_calls: Arc<ToolCallCounts>,
}

impl GatewayCounters {
    /// Statuses of requests, and how many had each.
    pub(crate) fn requests(&self) -> Vec<(String, u64)> {
        self.requests.counts()
    }

    fn of_gateway(&self, name: &'static str) -> Arc<RequestCounts> {
        let mut gateways = self.gateways.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(gateways.entry(name).or_default())
    }

    /// Gateways with a section of their own, statuses of their answers, and how many had each.
    pub(crate) fn gateway_requests(&self) -> Vec<(&'static str, String, u64)> {
        let gateways = self.gateways.lock().unwrap_or_else(PoisonError::into_inner);
        let each = gateways.iter().flat_map(|(name, counts)| {
            let counts = counts.counts().into_iter();
            counts.map(|(status, count)| (*name, status, count))
        });
        each.collect()
    }

    /// Figures that gateways have of their own.
    pub(crate) fn own_figures(&self) -> GatewayFigures {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        GatewayFigures(own.iter().flat_map(|metrics| metrics.families()).collect())
    }

    fn add_own(&self, metrics: Arc<dyn GatewayMetrics>) {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        own.push(metrics);
    }

    /// Tools, how calls of them ended, and how many did.
    pub(crate) fn tool_calls(&self) -> Vec<(&'static str, &'static str, u64)> {
        self.tool_calls.counts()
    }
}

/// Who else may carry tasks that are sent by URL; `None`: nobody does.
pub(crate) type OutboundRoutes = Option<ExternalRoutes>;

/// Those that the settings want.
pub(crate) struct Gateways {
    running: Vec<RunningGateway>,
    /// What is served on standard input and output.
    stdio: Option<Arc<ToolHandler>>,
}

impl Gateways {
    /// Before this node, whose key signs cards.
    pub(crate) async fn start(
        config: &Config,
        (service, net, external): (Service, net::Handle, OutboundRoutes),
        key: Keypair,
        counters: GatewayCounters,
        registered: &[GatewayRegistration],
    ) -> anyhow::Result<Self> {
        let local = Arc::new(LocalGateway::new(service, net));
        let client: Arc<dyn Gateway> = Arc::clone(&local) as _;
        let tools = || {
            Arc::new(ToolHandler::new(
                Arc::clone(&client),
                Arc::clone(&counters.tool_calls),
            ))
        };
        let stdio = config.mcp.stdio.then(tools);
        let port = NodePort {
            client,
            agents: local,
            external,
            key: Some(key.clone()),
            home: config.key_path.parent().map(Into::into),
        };
        let context = DaemonContext {
            config: config.clone(),
            key,
            counters,
        };
        let mut running = Vec::new();
        for gateway in registered {
            let Some(started) = gateway.start(&context, port.clone()).await? else {
                continue;
            };
            if let Some(metrics) = started.metrics() {
                context.counters.add_own(metrics);
            }
            running.push(started);
        }
        Ok(Self { running, stdio })
    }

    /// Where they are.
    pub(crate) fn announce(&self, mut out: impl io::Write) -> io::Result<()> {
        self.running
            .iter()
            .try_for_each(|gateway| gateway.announce(&mut out))
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
                Some(tools) => agentanycast_mcp::serve_stdio(tools, CancellationToken::new()).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Returns when one has ended that nobody has stopped.
    pub(crate) async fn wait_for_failure(&mut self) -> &'static str {
        if self.running.is_empty() {
            return std::future::pending().await;
        }
        let ended = self.running.iter_mut().map(|gateway| {
            Box::pin(async move {
                gateway.wait_ended().await;
                gateway.part()
            })
        });
        select_all(ended).await.0
    }

    /// Takes no more requests, and answers those that there are.
    pub(crate) async fn stop(self) {
        join_all(self.running.into_iter().map(RunningGateway::stop)).await;
    }
}
