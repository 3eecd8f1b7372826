//! What the daemon runs of the bridge: the listeners of gateways, and delivery of tasks that are sent by URL.

mod external_port;
mod gateways;
mod local_agents;
mod local_gateway;

use agentanycast_daemon_kit::missing_feature::MissingFeature;

pub(crate) use external_port::start as start_outbound;
pub use gateways::{DaemonContext, GATEWAYS, GatewayRegistration};
pub(crate) use gateways::{GatewayCounters, Gateways};

/// It is in this program.
pub const MISSING: Option<MissingFeature> = None;
