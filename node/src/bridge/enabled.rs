//! What the daemon runs of the bridge: the listeners of gateways, and delivery of tasks that are sent by URL.

mod external_port;
mod figures;
mod gateways;

#[cfg(feature = "run")]
use std::sync::Arc;

use agentanycast_daemon_kit::missing_feature::MissingFeature;

pub(crate) use external_port::start as start_outbound;
pub(crate) use figures::GatewayFigures;
pub use gateways::{DaemonContext, GATEWAYS, GatewayRegistration};
pub(crate) use gateways::{GatewayCounters, Gateways};

/// The agent side of the port, for agents in this process.
#[cfg(feature = "run")]
pub(crate) fn local_agents(
    service: crate::service::Service,
    net: agentanycast_net::Handle,
) -> Arc<dyn agentanycast_gateway::agents::Agents> {
    Arc::new(crate::in_process::LocalGateway::new(service, net))
}

/// It is in this program.
pub const MISSING: Option<MissingFeature> = None;
