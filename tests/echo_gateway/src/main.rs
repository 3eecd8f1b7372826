//! A daemon with the echo gateway in it, besides those that the program has. What a gateway needs of the rest of the tree is its
//! line in the list.

use std::process::ExitCode;

use agentanycast_echo_gateway::EchoGateway;
use agentanycast_gateway::{composition::Composition, registration::Registration};

fn main() -> ExitCode {
    let gateways: Vec<Registration> = anycast::GATEWAYS
        .iter()
        .copied()
        .chain([Registration::new::<EchoGateway>()])
        .collect();
    let parts = Composition {
        gateways: gateways.leak(),
        ..anycast::COMPOSITION
    };
    agentanycast_node::main_with_args(std::env::args_os(), Box::leak(Box::new(parts)))
}
