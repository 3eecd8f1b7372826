//! The MCP gateway: the agents of the mesh as tools that any client of the Model Context Protocol calls, in an editor, a
//! desktop application or an agent framework.
//!
//! The files here are PURE, without I/O, clock or randomness, but for `handler`, which carries calls out on a
//! [`Gateway`](agentanycast_gateway::Gateway), `server`, which answers clients by the official SDK, `stdio`, `http`, the front
//! over HTTP, and `gateway`, which wires that with its settings.

#![forbid(unsafe_code)]

mod args;
pub(crate) mod call;
mod counters;
mod escaped_lines;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod gateway;
mod handler;
mod http;
mod progress;
mod render;
mod server;
mod stdio;
mod tasks;
pub(crate) mod tool_name;
pub(crate) mod tools;

use agentanycast_gateway::caller::{GatewayLabels, LabelNames};
pub use agentanycast_gateways::mcp::NAME;
pub use counters::ToolCallCounts;
pub use gateway::McpGateway;
pub(crate) use handler::McpCaller;
pub use handler::ToolHandler;
pub use server::McpServer;
pub(crate) use server::{McpContext, ParsedCall};
pub use stdio::serve as serve_stdio;

/// How the tasks of its callers are labelled; the labels were called otherwise once.
const LABELS: GatewayLabels = GatewayLabels::new(NAME).with_former(LabelNames {
    caller: "a2a.caller",
    context: "a2a.context",
    target: "a2a.target",
});
