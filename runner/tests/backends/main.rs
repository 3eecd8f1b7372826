//! The backends against stand-ins of what they speak to: HTTP services, an MCP server, an ACP agent.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by a panic")]

mod acp;
mod exact_bytes;
mod fake_task;
mod http;
mod kills;
mod mcp;
