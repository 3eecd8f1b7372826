//! The A2A gateway: any client of A2A 0.3 and 1.0, over JSON-RPC, REST or gRPC, reaches any agent of the mesh, and agents of
//! A2A outside are reached by URL.
//!
//! `protocol` is what A2A says, in the terms of the mesh and back. `handler` carries requests out on the mesh. `http` and
//! `grpc` are the bindings that clients come by; `front_config`, `extensions`, `card_endpoint`, `client_files` and
//! `task_events` are what both need. `webhooks` tells webhooks what becomes of tasks. `outbound` carries tasks of the mesh to agents outside. `gateway`
//! wires them with their settings.

#![forbid(unsafe_code)]

mod card_endpoint;
mod client_files;
mod extensions;
mod front_config;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod gateway;
mod grpc;
pub mod handler;
mod http;
pub mod outbound;
pub mod protocol;
mod task_events;
mod webhooks;

pub use agentanycast_gateways::a2a::NAME;
pub use gateway::A2aGateway;
