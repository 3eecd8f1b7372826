//! A client of MCP servers. `anycast run --mcp` and the devices of AIP use it.
//!
//! It reads raw JSON and keeps what is good of an answer: a typed client refuses a whole list for one tool.
//! It speaks the revision 2026-07-28, which has no handshake, and the revisions with one, from 2024-10-07 to
//! 2025-11-25. [`McpClient`] is a connection, [`ToolCall`] a call. PURE: `message` and `outline` (what a line
//! says), `open_calls` (which answer is for which request), `revision`, `tools`, `result`, `param_headers`.
//! Invariants: each request ends with an answer, with a reason, or with its caller; all that is read is
//! bounded.

#![forbid(unsafe_code)]

mod call;
mod client;
mod connection;
mod failure;
mod http;
mod identity;
mod lines;
mod message;
mod open_calls;
mod outline;
mod param_headers;
mod result;
mod revision;
mod shared;
mod tools;

pub use call::{CallEvent, ElicitationAnswer, Question, ToolCall};
pub use client::McpClient;
pub use failure::{FailureKind, McpFailure};
pub use identity::ClientIdentity;
pub use result::{ToolResult, text_of_block};
pub use tools::{MOST_TOOLS, Tool, ToolList};
