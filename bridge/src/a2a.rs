//! The A2A gateway: what HTTP clients of A2A 0.3 and 1.0 say, in the terms of the mesh and back.
//!
//! The files here are PURE, without I/O, clock or randomness, but for `handler`, which carries requests out on a
//! [`Gateway`](crate::gateway::Gateway), and `outbound`, which carries tasks of the mesh to agents outside. The HTTP front
//! is `crate::http`.

pub mod card;
pub mod diff;
pub mod encode;
pub mod error;
mod event_id;
pub mod handler;
pub mod message;
mod metadata;
mod object_reader;
pub mod outbound;
mod part;
mod prescan;
pub mod push;
pub mod request;
mod signature;
pub mod task;
mod tenant;
pub(crate) mod v0_3_protojson;
pub mod version;

use crate::time;
pub(crate) use agentanycast_proto::json::{to_proto, to_struct};
use agentanycast_proto::struct_json;
pub(crate) use prescan::JsonScan;
pub(crate) use struct_json::depth;
pub(crate) use time::{read_time, rounded as now, write_time};

#[cfg(test)]
mod round_trip;
