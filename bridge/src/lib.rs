//! Gateways between AgentAnycast and the protocols outside.
//!
//! `gateway` is the port to the mesh; `a2a` is the gateway for A2A, `http` and `grpc` the fronts
//! that its clients reach it by; `mcp` is the gateway for MCP, whose front is `http/mcp`; `auth` says who the clients are.
//! `time` is points in time as the mesh has them.
//! `webhooks` tells webhooks what becomes of tasks.
//! `server` wires them with the settings of `config`, in the daemon or as a process of their own.

#![forbid(unsafe_code)]

pub mod a2a;
pub mod auth;
mod base64_text;
pub mod config;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod gateway;
mod grpc;
pub mod http;
pub mod mcp;
mod path_segment;
mod server;
mod time;
mod webhooks;

pub use server::{Bridge, McpGateway, main_with_args};
