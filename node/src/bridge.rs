//! The bridge in the daemon's process: what of it the daemon runs, or, where the program is built without the feature `bridge`,
//! what stands in its place and refuses.
//!
//! A gateway of the daemon is a module of this shape: two files with one face, chosen here and nowhere else.

use agentanycast_gateways::bridge::outbound::Outbound;
use agentanycast_program::missing_feature::MissingFeature;

#[cfg(not(feature = "bridge"))]
#[path = "bridge/no_parts.rs"]
mod parts;
#[cfg(feature = "bridge")]
mod parts;

pub(crate) use parts::{Counted, Fronts, start_outbound};
pub use parts::{FetchError, Fetcher, MISSING};

/// Why a node with these settings takes no tasks that are sent by URL, if it takes none. `missing` is the bridge, where the
/// program is built without it.
pub(crate) fn no_outbound(config: &Outbound, missing: Option<MissingFeature>) -> Option<String> {
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
        let on = Outbound::default();
        let off = Outbound {
            enabled: false,
            ..Outbound::default()
        };
        assert_eq!(no_outbound(&on, None), None);
        let why = no_outbound(&off, None).unwrap();
        assert!(why.contains("bridge.outbound.enabled"), "{why}");
        let why = no_outbound(&on, Some(LEFT_OUT)).unwrap();
        assert!(
            why.contains("it is built without the bridge: build this program with `--features bridge`"),
            "{why}"
        );
    }
}
