//! The MCP gateway: the agents of the mesh as tools that any client of the Model Context Protocol calls, in an editor, a
//! desktop application or an agent framework.
//!
//! The files here are PURE, without I/O, clock or randomness, but for `handler`, which carries calls out on a
//! [`Gateway`](crate::gateway::Gateway), `server`, which answers clients by the official SDK, and `stdio`. The HTTP front is
//! `crate::http::mcp`.

mod args;
pub(crate) mod call;
mod counters;
mod escaped_lines;
mod handler;
mod progress;
mod render;
mod server;
mod stdio;
mod tasks;
pub(crate) mod tools;

pub use counters::ToolCallCounts;
pub(crate) use handler::McpCaller;
pub use handler::ToolHandler;
pub use server::McpServer;
pub(crate) use server::{McpContext, ParsedCall};
pub use stdio::serve as serve_stdio;
