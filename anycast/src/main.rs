//! The program `anycast`. Under the names of the other three programs it is these.

use std::process::ExitCode;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    agentanycast_cli::main_with_args(std::env::args_os(), &anycast::PARTS)
}
