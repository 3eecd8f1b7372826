//! `anycast`: the user's command. Sends tasks, looks at the daemon, shows a demo, and carries the daemon, the relay and
//! the bridge: as `anycast daemon`, `anycast relay` and `anycast bridge`, or called by their names.
//!
//! Exit codes: 0 done; 1 the task failed, was rejected or canceled, or something else went wrong;
//! 2 usage; 3 the daemon cannot be reached; 4 the target was not found; 5 time-out;
//! 6 nobody could be asked who has the skill: no registry answered, or none is configured;
//! 7 the agent asks for input, and nobody is there to answer; 130 ended by Ctrl-C; 129, 131 and 143 ended by
//! SIGHUP, SIGQUIT (Ctrl-\) and SIGTERM; 141 standard output was closed before all was written, as by `| head`.

use std::{ffi::OsString, process::ExitCode};

mod agent_access;
mod aliases;
mod arg_values;
mod artifact_files;
mod background_daemon;
mod bridge;
mod cmd;
mod columns;
mod command_examples;
mod context;
mod did;
mod failure;
mod hints;
mod home;
mod interrupt;
mod invite_code;
mod job_control;
mod json;
mod kept_file;
mod message_content;
mod output;
mod peer_lookup;
mod peer_target;
mod program_names;
mod progress_line;
mod relay;
mod run_args;
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

/// Runs the command, or the program whose name it was called by. `args` begins with the program's name.
pub fn main_with_args(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    if let Some(program) = program_names::Program::called_by(args.first()) {
        return program.run(args);
    }
    // Once per task of `anycast run`: nothing else is set up for it.
    if args.get(1).is_some_and(|word| word == "run-helper") {
        return cmd::run::run_helper(args.into_iter().skip(2));
    }
    agentanycast_node::know_gateway_settings();
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
        cmd::Command::Daemon(daemon) => return cmd::daemon::run(&context, daemon.arguments),
        cmd::Command::Relay(relay) => {
            return program_names::Program::Relay.run_as_command(&context, relay.arguments);
        }
        cmd::Command::Bridge(bridge) => {
            return program_names::Program::Bridge.run_as_command(&context, bridge.arguments);
        }
        command => run(&context, command),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(context.json),
    }
}

/// One thread: the command waits, the daemon works.
fn run(context: &context::Context, command: cmd::Command) -> Result<(), failure::CommandFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(cmd::run(context, command));
    // A read of the terminal that is still waiting must not hold up the end.
    runtime.shutdown_background();
    outcome
}
