//! `agentanycast-relay`, the AgentAnycast relay.

use std::process::ExitCode;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    agentanycast_relay::main_with_args(std::env::args_os())
}
