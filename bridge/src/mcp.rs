//! The MCP gateway: the agents of the mesh as tools that any client of the Model Context Protocol calls, in an editor, a
//! desktop application or an agent framework.
//!
//! The files here are PURE, without I/O, clock or randomness, but for `mesh`, which carries calls out on a
//! [`Gateway`](crate::gateway::Gateway), `server`, which answers clients by the official SDK, and `stdio`. The HTTP front is
//! `crate::http::mcp`.

mod arguments;
pub(crate) mod call;
mod escaped_lines;
mod mesh;
mod progress;
mod server;
mod shown;
mod stdio;
mod tally;
mod tasks;
pub(crate) mod tools;

pub(crate) use mesh::Caller;
pub use mesh::Tools;
pub use server::Server;
pub(crate) use server::{Asked, Guest};
pub use stdio::serve as serve_stdio;
pub use tally::ToolCalls;
