//! In the place of the relay where the program is built without it.

use std::{ffi::OsString, process::ExitCode};

use agentanycast_daemon_kit::{missing_feature::MissingFeature, settings::CommandLine};

use crate::failure::CommandFailure;

/// What this program says that the relay is left out of.
const LEFT_OUT: MissingFeature = MissingFeature {
    part: "relay",
    feature: "relay",
};

/// There is none.
pub(crate) fn command_lines() -> Vec<CommandLine> {
    Vec::new()
}

pub(crate) fn main_with_args(_: impl Iterator<Item = OsString>) -> ExitCode {
    CommandFailure::usage(LEFT_OUT.to_string()).report(false)
}
