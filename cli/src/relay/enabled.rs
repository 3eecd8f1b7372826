//! The relay, which is in this program.

use agentanycast_daemon_kit::settings::CommandLine;
pub(crate) use agentanycast_relay::main_with_args;

/// Its command line.
pub(crate) fn command_lines() -> Vec<CommandLine> {
    vec![agentanycast_relay::command_line()]
}
