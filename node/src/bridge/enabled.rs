//! What the daemon runs of the bridge: fronts for clients outside, tasks that are sent by URL, documents of the web.

mod external_port;
mod gateways;
mod local_gateway;

use agentanycast_daemon_kit::missing_feature::MissingFeature;

pub use agentanycast_bridge::fetch::{FetchError, Fetcher};
pub(crate) use external_port::start as start_outbound;
pub(crate) use gateways::{GatewayCounters, Gateways};

/// It is in this program.
pub const MISSING: Option<MissingFeature> = None;
