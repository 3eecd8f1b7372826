//! Which backend does the tasks, by the options. A further kind of backend has its options in `run_args.rs` and its arm here.

use std::{path::Path, sync::Arc};

use agentanycast_runner::{
    Backend,
    jsonl::JsonlBackend,
    process::ProgramCommand,
    program::{ProgramBackend, ProgramSettings},
};

use crate::{
    failure::CommandFailure,
    run_args::{Protocol, RunArgs},
};

/// The backend, with its files in `directory`.
pub(super) fn of(args: &RunArgs, directory: &Path) -> Result<Arc<dyn Backend>, CommandFailure> {
    let command = command(args)?;
    Ok(match args.protocol {
        Protocol::Process => {
            let settings = ProgramSettings {
                command,
                media_type: args.media_type.clone(),
                progress: args.progress,
                max_output: args.max_output,
            };
            Arc::new(ProgramBackend::new(settings, directory, None)?)
        }
        Protocol::Jsonl => Arc::new(JsonlBackend::new(command, directory, None)?),
    })
}

fn command(args: &RunArgs) -> Result<ProgramCommand, CommandFailure> {
    let mut words = args.command.iter().cloned();
    let program = words
        .next()
        .ok_or_else(|| CommandFailure::usage("give the program and its arguments behind --"))?;
    let cwd = args.cwd.as_ref().map(std::path::absolute).transpose()?;
    Ok(ProgramCommand {
        program,
        args: words.collect(),
        env: args
            .env
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        cwd,
        max_processes: args.max_processes,
    })
}
