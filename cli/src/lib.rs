//! `anycast`: the user's command. Sends tasks, looks at the daemon, shows a demo, and carries the daemon, the relay and
//! the bridge: as `anycast daemon`, `anycast relay` and `anycast bridge`, or called by their names.
//!
//! Exit codes: 0 done; 1 the task failed, was rejected or canceled, or something else went wrong;
//! 2 usage; 3 the daemon cannot be reached; 4 the target was not found; 5 time-out;
//! 6 nobody could be asked who has the skill: no registry answered, or none is configured;
//! 7 the agent asks for input, and nobody is there to answer; 130 ended by Ctrl-C; 129, 131 and 143 ended by
//! SIGHUP, SIGQUIT (Ctrl-\) and SIGTERM; 141 standard output was closed before all was written, as by `| head`.

use std::{ffi::OsString, process::ExitCode};

pub mod agent_access;
mod aliases;
mod arg_values;
mod artifact_files;
pub mod background_daemon;
mod cmd;
mod columns;
mod command_examples;
pub mod context;
mod did;
pub mod failure;
pub mod hints;
pub mod home;
pub mod interrupt;
mod invite_code;
mod job_control;
mod json;
mod kept_file;
pub mod message_content;
pub mod output;
pub mod parts;
mod peer_lookup;
pub mod peer_target;
mod program_names;
mod progress_line;
mod settings_file;
mod shared_args;
mod short_id;
mod system_daemon;
mod table;
mod tasks_by_id;
mod terminal_line;
mod type_ahead;
mod usage_errors;
mod user_service;

use parts::ProgramParts;

/// All commands of a program with these parts, with their help.
pub fn command(parts: &'static ProgramParts) -> clap::Command {
    parts::set(parts);
    cmd::command()
}

/// Runs the command, or the program whose name it was called by, in a program with these parts. `args` begins with the
/// program's name.
pub fn main_with_args(args: impl Iterator<Item = OsString>, parts: &'static ProgramParts) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    // Once per task of an agent that is run: nothing else is set up for it.
    if let Some(ended) = parts.composition.run_helper(&args) {
        return ended;
    }
    parts::set(parts);
    if let Some(program) = program_names::Program::called_by(args.first()) {
        return program.run(parts, args);
    }
    agentanycast_node::load_config::know(parts.composition);
    let args = match cmd::Args::parse_from_words(args) {
        Ok(args) => args,
        Err(error) => return usage_errors::report(error),
    };
    if args.global.json {
        output::errors_as_json();
    }
    hints::repeat(&args.global);
    let (context, command) = (context::Context::new(args.global), args.command);
    if let Err(failure) = context.check_relays(command.starts_daemon()) {
        return failure.report(context.json);
    }
    let outcome = match command {
        // The daemon brings a runtime of its own.
        cmd::AnyCommand::Own(cmd::Command::Daemon(daemon)) => {
            return cmd::daemon::run(&context, parts, daemon.arguments);
        }
        cmd::AnyCommand::Own(cmd::Command::Relay(relay)) => {
            return program_names::Program::Relay.run_as_command(&context, parts, relay.arguments);
        }
        cmd::AnyCommand::Own(cmd::Command::Bridge(bridge)) => {
            return program_names::Program::Bridge.run_as_command(&context, parts, bridge.arguments);
        }
        command => run(&context, command),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(context.json),
    }
}

/// One thread: the command waits, the daemon works.
fn run(context: &context::Context, command: cmd::AnyCommand) -> Result<(), failure::CommandFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(cmd::run(context, command));
    // A read of the terminal that is still waiting must not hold up the end.
    runtime.shutdown_background();
    outcome
}
