//! `agentanycastd`, the AgentAnycast node daemon.

use std::process::ExitCode;

/// A daemon allocates small pieces all the time, on one thread, and gives them back on others: the
/// system's allocator took a fifth of its time (docs/design.md, "Speed").
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    agentanycast_node::main_with_args(std::env::args_os())
}
