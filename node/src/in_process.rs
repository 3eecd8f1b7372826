//! The port that gateways use, carried out by this node without a wire.

mod local_agents;
mod local_gateway;

pub(crate) use local_gateway::LocalGateway;
