//! `anycast completions`: what a shell completes command lines with.

use agentanycast_daemon_kit::manpages::Shell;
use clap::Args;

use crate::{failure::CommandFailure, output};

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs) -> Result<(), CommandFailure> {
    let text = agentanycast_daemon_kit::manpages::completions(super::command(), args.shell);
    Ok(output::bytes(&text)?)
}
