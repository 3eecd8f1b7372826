//! The face of the node for gateways and agents in its own process: the port that they use, carried out without a wire.

mod connection;
mod error;
mod local_agents;
mod local_gateway;

pub(crate) use error::report_error;
pub(crate) use local_gateway::LocalGateway;
