//! In the place of the bridge where the program is built without it.

use std::{ffi::OsString, process::ExitCode};

use agentanycast_daemon_kit::settings::CommandLine;
use agentanycast_gateways::bridge::LEFT_OUT;

use crate::{context::Context, failure::CommandFailure};

/// There is none.
pub(crate) fn command_lines() -> Vec<CommandLine> {
    Vec::new()
}

pub(crate) fn main_with_args(_: impl Iterator<Item = OsString>) -> ExitCode {
    CommandFailure::usage(LEFT_OUT.to_string()).report(false)
}

#[allow(clippy::unused_async, reason = "its face is that of the bridge's")]
pub(crate) async fn serve_mcp(_: &Context) -> Result<(), CommandFailure> {
    Err(CommandFailure::usage(LEFT_OUT.to_string()))
}
