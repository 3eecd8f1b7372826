//! `anycast`: the user's command. Sends tasks, looks at the daemon, shows a demo, and carries the
//! daemon itself as `anycast daemon`.
//!
//! Exit codes: 0 done; 1 the task failed, was rejected or canceled, or something else went wrong;
//! 2 usage; 3 the daemon cannot be reached; 4 the target was not found; 5 time-out;
//! 6 nobody could be asked who has the skill: no registry answered, or none is configured;
//! 141 standard output was closed before all was written, as by `| head`.

use std::process::ExitCode;

use clap::Parser;

mod args;
mod cmd;
mod content;
mod context;
mod did;
mod failure;
mod interrupt;
mod json;
mod output;
mod progress;
mod saving;
mod target;
mod usage;

fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => return usage::report(error),
    };
    let (context, command) = (context::Context::new(args.global), args.command);
    let outcome = match command {
        // The daemon brings a runtime of its own.
        args::Command::Daemon(daemon) => return cmd::daemon::run(&context, daemon.arguments),
        command => run(&context, command),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(context.json),
    }
}

/// One thread: the command waits, the daemon works.
fn run(context: &context::Context, command: args::Command) -> Result<(), failure::Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(cmd::run(context, command));
    // A read of the terminal that is still waiting must not hold up the end.
    runtime.shutdown_background();
    outcome
}
