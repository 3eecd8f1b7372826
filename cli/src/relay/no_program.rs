//! In the place of the relay where the program is built without it.

use std::{ffi::OsString, process::ExitCode};

use agentanycast_program::left_out::LeftOut;

use crate::failure::Failure;

/// What this program says that the relay is left out of.
const LEFT_OUT: LeftOut = LeftOut {
    part: "relay",
    feature: "relay",
};

pub(crate) fn main_with_args(_: impl Iterator<Item = OsString>) -> ExitCode {
    Failure::usage(LEFT_OUT.to_string()).report(false)
}
