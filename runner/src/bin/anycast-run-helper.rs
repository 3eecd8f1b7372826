//! The helper of the runner as a program of its own, for tests of the crate: `anycast run` is its own helper.

use std::process::ExitCode;

fn main() -> ExitCode {
    // As `anycast` is called: the program, and `run-helper`.
    agentanycast_runner::run_helper::main(std::env::args_os().skip(2))
}
