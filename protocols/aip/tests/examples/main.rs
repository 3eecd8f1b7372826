//! The examples as they are built, against a service of the library; and the executor of MCP servers, against
//! the example that is one.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by a panic")]

mod constellation;
mod mcp_executor;
mod program;
mod service;
mod shell_device;
