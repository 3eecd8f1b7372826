//! The bridge in the daemon's process: what of it the daemon runs, or, where the program is built without the feature `bridge`,
//! what stands in its place and refuses.
//!
//! A gateway of the daemon is a module of this shape: two files with one face, chosen here and nowhere else.

use agentanycast_daemon_kit::missing_feature::MissingFeature;
use agentanycast_gateways::bridge::outbound::OutboundConfig;

#[cfg(not(feature = "bridge"))]
mod disabled;
#[cfg(feature = "bridge")]
mod enabled;

#[cfg(not(feature = "bridge"))]
use disabled as built;
#[cfg(feature = "bridge")]
use enabled as built;

#[cfg(feature = "bridge")]
pub use built::DaemonContext;
#[cfg(feature = "run")]
pub(crate) use built::local_agents;
pub use built::{GATEWAYS, GatewayRegistration, MISSING};
pub(crate) use built::{GatewayCounters, GatewayFigures, Gateways, start_outbound};

/// Why a node with these settings takes no tasks that are sent by URL, if it takes none. `missing` is the bridge, where the
/// program is built without it.
pub(crate) fn outbound_unavailable(
    config: &OutboundConfig,
    missing: Option<MissingFeature>,
) -> Option<String> {
    match missing {
        Some(part) => Some(format!("this node calls no agents by URL: it is {part}")),
        None if config.enabled => None,
        None => Some("this node calls no agents by URL; set bridge.outbound.enabled to true".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use agentanycast_gateways::bridge::LEFT_OUT;

    use super::*;

    #[test]
    fn tasks_by_url_are_refused_with_what_to_do() {
        let on = OutboundConfig::default();
        let off = OutboundConfig {
            enabled: false,
            ..OutboundConfig::default()
        };
        assert_eq!(outbound_unavailable(&on, None), None);
        let why = outbound_unavailable(&off, None).unwrap();
        assert!(why.contains("bridge.outbound.enabled"), "{why}");
        let why = outbound_unavailable(&on, Some(LEFT_OUT)).unwrap();
        assert!(
            why.contains("it is built without the bridge: build this program with `--features bridge`"),
            "{why}"
        );
    }
}
