//! What this program has of the bridge.

mod mcp;

pub(crate) use agentanycast_bridge::main_with_args;
pub(crate) use mcp::run as serve_mcp;
