//! A daemon with the echo gateway in it, besides those that every daemon has.

use std::process::ExitCode;

use agentanycast_echo_gateway::EchoGateway;
use agentanycast_gateway::registration::Registration;
use agentanycast_node::bridge::{GATEWAYS, GatewayRegistration};

fn main() -> ExitCode {
    let gateways: Vec<GatewayRegistration> = GATEWAYS
        .iter()
        .copied()
        .chain([Registration::new::<EchoGateway>()])
        .collect();
    agentanycast_node::main_with_gateways(std::env::args_os(), gateways.leak())
}
