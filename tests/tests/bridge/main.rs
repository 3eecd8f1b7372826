//! HTTP clients of A2A before a bridge, and of MCP beside it, agents behind another node. One file per matter; real processes, and an HTTP
//! client that hides nothing.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by a panic"
)]

mod auth;
mod calls;
mod cards;
mod contexts;
mod docs;
mod errors;
mod hostile;
mod issuer;
mod life;
mod lines;
mod load;
mod mcp;
mod more;
mod old;
mod push;
mod scene;
mod security;
mod streams;
