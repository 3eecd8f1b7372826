//! `agentanycast-relay`, the AgentAnycast relay.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::SUCCESS
}
