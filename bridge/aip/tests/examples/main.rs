//! The examples as they are built, against a service of the library; and the executor of MCP servers, against the
//! example that is one.

mod constellation;
mod mcp_executor;
mod program;
mod service;
mod shell_device;
