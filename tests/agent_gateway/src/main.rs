//! A daemon with an agent behind a gateway in it.

use std::process::ExitCode;

use agentanycast_agent_gateway::AgentGateway;
use agentanycast_gateway::registration::Registration;
use agentanycast_node::bridge::GatewayRegistration;

static GATEWAYS: &[GatewayRegistration] = &[Registration::new::<AgentGateway>()];

fn main() -> ExitCode {
    agentanycast_node::main_with_gateways(std::env::args_os(), GATEWAYS)
}
