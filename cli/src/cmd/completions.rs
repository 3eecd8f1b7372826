//! `anycast completions`: what a shell completes command lines with.

use crate::{
    args::{self, CompletionsArgs},
    failure::CommandFailure,
    output,
};

pub(crate) fn run(args: &CompletionsArgs) -> Result<(), CommandFailure> {
    let text = agentanycast_daemon_kit::manpages::completions(args::command(), args.shell);
    Ok(output::bytes(&text)?)
}
