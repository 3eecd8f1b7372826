//! HTTP clients of A2A before a bridge, and of MCP beside it, agents behind another node, execution agents at the hub of one,
//! devices, constellations and agents of UAMP at gateways. One
//! file per matter; real processes, and an HTTP client that hides nothing.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by a panic"
)]

mod aip;
mod all_gateways;
mod auth;
mod cards;
mod contexts;
mod docs_examples;
mod errors;
mod extensions_and_tenants;
mod hostile;
mod line_separators;
mod load;
mod mcp;
mod named_agents;
mod oidc_issuer;
mod push;
mod restarts;
mod setup;
mod strangers;
mod streams;
mod tls;
mod uamp;
mod uap_hub;
mod unary_calls;
mod upp;
mod v0_3;
