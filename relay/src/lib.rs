//! The AgentAnycast relay: circuits for nodes behind NAT, the registry of skills, federation between relays.

mod ceilings;
mod clock;
mod clock_offsets;
pub mod config;
pub mod federation;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod grpc;
pub mod handle;
pub mod http;
pub mod instances;
mod listen;
pub mod metrics;
pub mod net;
pub mod proofs;
pub mod registry;
mod seldom;
mod server;
pub mod store;

pub use server::main_with_args;
