//! `agentanycast-relay`, the AgentAnycast relay.

use std::process::ExitCode;

fn main() -> ExitCode {
    agentanycast_relay::main_with_args(std::env::args_os())
}
