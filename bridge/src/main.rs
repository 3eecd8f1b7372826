//! `agentanycast-bridge`, the AgentAnycast bridge as a process of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    agentanycast_bridge::main_with_args(std::env::args_os())
}
