//! `anycast completions`: what a shell completes command lines with, for one shell printed or for all written.

use std::path::PathBuf;

use agentanycast_daemon_kit::manpages::{self, Shell};
use clap::Args;

use super::man::{all_programs, write_files};
use crate::{context::Context, failure::CommandFailure, output};

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum, required_unless_present = "output", conflicts_with = "output")]
    pub(crate) shell: Option<Shell>,
    /// Write those of bash, zsh and fish into this directory, also for the other programs that are in this one
    #[arg(long, short = 'o', value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
}

pub(crate) fn run(context: &Context, args: &CompletionsArgs) -> Result<(), CommandFailure> {
    if let Some(directory) = &args.output {
        let files = all_programs().flat_map(|program| manpages::completion_files(&program));
        let files: Vec<_> = files.collect();
        return write_files(context, directory, &files);
    }
    let Some(shell) = args.shell else {
        return Err(CommandFailure::usage("give a shell, or --output DIR"));
    };
    let text = manpages::completions(super::command(), shell);
    Ok(output::bytes(&text)?)
}
