//! The commands that parts of the program bring.

#[cfg(feature = "bridge")]
mod mcp;
#[cfg(feature = "run")]
mod run;
#[cfg(feature = "uamp")]
mod uamp;

use agentanycast_cli::parts::{PartAction, PartCommand};
use agentanycast_daemon_kit::missing_feature::MissingFeature;

pub(crate) const ALL: &[PartCommand] = &[
    PartCommand {
        name: "run",
        about: "Make an agent of a program: it does the tasks that come for it, until Ctrl-C",
        action: RUN,
    },
    PartCommand {
        name: "mcp",
        about: "Serve MCP on standard input and output: the agents of the network as tools, for a desktop client or an editor",
        action: MCP,
    },
    PartCommand {
        name: "uamp",
        about: "Sign and check envelopes of the Universal Agent Messaging Protocol, without a daemon",
        action: UAMP,
    },
];

#[cfg(feature = "run")]
const RUN: Result<PartAction, MissingFeature> = Ok(run::ACTION);
#[cfg(not(feature = "run"))]
const RUN: Result<PartAction, MissingFeature> = Err(crate::left_out("runner", "run"));

#[cfg(feature = "bridge")]
const MCP: Result<PartAction, MissingFeature> = Ok(mcp::ACTION);
#[cfg(not(feature = "bridge"))]
const MCP: Result<PartAction, MissingFeature> = Err(crate::left_out("bridge", "bridge"));

#[cfg(feature = "uamp")]
const UAMP: Result<PartAction, MissingFeature> = Ok(uamp::ACTION);
#[cfg(not(feature = "uamp"))]
const UAMP: Result<PartAction, MissingFeature> = Err(crate::left_out("tools for UAMP", "uamp"));
