//! In the place of `anycast uamp` where the program is built without it.

use agentanycast_daemon_kit::missing_feature::MissingFeature;

use super::UampCommand;
use crate::{context::Context, failure::CommandFailure};

/// What this program says that envelopes are left out of.
const LEFT_OUT: MissingFeature = MissingFeature {
    part: "tools for UAMP",
    feature: "uamp",
};

#[allow(clippy::unused_async, reason = "its face is that of the command's")]
pub(crate) async fn run(_: &Context, _: UampCommand) -> Result<(), CommandFailure> {
    Err(CommandFailure::usage(LEFT_OUT.to_string()))
}
