//! The Agent Interaction Protocol (AIP): devices and constellations over one WebSocket each.
//!
//! The modules are the layers of the specification: [`messages`] (1), [`transport`] (2), [`protocol`] (3),
//! [`resilience`] (4), [`endpoints`] (5). [`dag`] holds the task graphs that constellations execute. A layer
//! names lower layers only. The library needs no mesh; the crate `agentanycast-aip-gateway` connects it to one.

#![forbid(unsafe_code)]

pub mod dag;
pub mod endpoints;
pub mod messages;
pub mod protocol;
pub mod resilience;
pub mod transport;
