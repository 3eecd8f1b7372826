//! In the place of the runner where the program is built without it.

use std::{ffi::OsString, process::ExitCode};

use agentanycast_daemon_kit::missing_feature::MissingFeature;

use crate::{context::Context, failure::CommandFailure, run_args::RunArgs};

/// What is said where the runner is asked for.
const LEFT_OUT: MissingFeature = MissingFeature {
    part: "runner",
    feature: "run",
};

#[allow(clippy::unused_async, reason = "its face is that of the runner's")]
pub(crate) async fn run(_: &Context, _: RunArgs) -> Result<(), CommandFailure> {
    Err(CommandFailure::usage(LEFT_OUT.to_string()))
}

pub(crate) fn run_helper(_: impl Iterator<Item = OsString>) -> ExitCode {
    CommandFailure::usage(LEFT_OUT.to_string()).report(false)
}
