//! The AgentAnycast relay: circuits for nodes behind NAT, the registry of skills, federation between relays.

mod bounded_listener;
pub mod clock;
mod clock_skew;
pub mod config;
mod fd_budget;
pub mod federation;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod grpc;
pub mod http;
pub mod metrics;
pub mod net;
pub mod node_instances;
pub mod registry;
pub mod registry_handle;
pub mod request_proofs;
mod server;
pub mod store;

pub use server::{command_line, main_with_args};
