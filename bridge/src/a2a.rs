//! The A2A gateway: what HTTP clients of A2A 0.3 and 1.0 say, in the terms of the mesh and back.
//!
//! The files here are PURE, without I/O, clock or randomness, but for `mesh`, which carries requests out on a
//! [`Gateway`](crate::gateway::Gateway), and `outbound`, which carries tasks of the mesh to agents outside. The HTTP front
//! is `crate::http`.

pub mod card;
pub mod error;
mod fields;
pub mod follow;
mod generation;
mod labels;
pub mod mesh;
pub mod message;
pub(crate) mod old;
pub mod outbound;
mod part;
pub mod push;
pub mod render;
pub mod request;
mod scan;
mod signature;
pub mod task;
mod tenant;
pub mod version;

use crate::time;
pub(crate) use agentanycast_proto::json::{to_proto, to_struct};
use agentanycast_proto::struct_json;
pub(crate) use scan::Scan;
pub(crate) use struct_json::depth;
pub(crate) use time::{read_time, rounded as now, write_time};

#[cfg(test)]
mod fidelity;
