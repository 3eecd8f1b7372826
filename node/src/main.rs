//! `agentanycastd`, the AgentAnycast node daemon.

use std::process::ExitCode;

fn main() -> ExitCode {
    agentanycast_node::main_with_args(std::env::args_os())
}
