//! What this program has of the bridge.

mod mcp;

use agentanycast_daemon_kit::settings::CommandLine;

pub(crate) use agentanycast_bridge::main_with_args;
pub(crate) use mcp::run as serve_mcp;

/// The command line of the bridge.
pub(crate) fn command_lines() -> Vec<CommandLine> {
    vec![agentanycast_bridge::command_line()]
}
