//! What clients and agents of A2A 0.3 and 1.0 say, in the terms of the mesh and back. PURE.

mod asked_version;
pub mod card;
pub mod diff;
pub mod encode;
pub mod error;
pub(crate) mod event_id;
pub(crate) mod finished;
pub mod message;
pub(crate) mod metadata;
pub(crate) mod object_reader;
pub(crate) mod part;
pub mod push;
pub mod request;
pub(crate) mod signature;
pub mod task;
pub(crate) mod tenant;
pub(crate) mod v0_3_protojson;
pub mod version;

use agentanycast_gateway::time;

pub(crate) use agentanycast_front::json_scan::JsonScan;
use agentanycast_gateway::caller::{GatewayLabels, LabelNames};
pub(crate) use agentanycast_proto::json::{to_proto, to_struct};
pub(crate) use time::{read_time, rounded as now, write_time};

/// How the tasks of its callers are labelled; the labels were called otherwise once.
pub(crate) const LABELS: GatewayLabels = GatewayLabels::new(crate::NAME).with_former(LabelNames {
    caller: "a2a.caller",
    context: "a2a.context",
    target: "a2a.target",
});

#[cfg(test)]
mod round_trip;
