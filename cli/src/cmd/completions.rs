//! `anycast completions`: what a shell completes command lines with.

use crate::{
    args::{self, CompletionsArgs},
    failure::Failure,
    output,
};

pub(crate) fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    let text = agentanycast_program::manpages::completions(args::command(), args.shell);
    Ok(output::bytes(&text)?)
}
