//! The AgentAnycast node daemon.

pub mod anycast;
pub mod api;
pub mod bridge;
pub mod config;
mod daemon;
pub mod delivery;
pub mod duplicate_key;
pub mod engine;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod health;
pub mod identity_resolver;
pub mod link;
pub mod load_config;
pub mod net;
pub mod policy;
mod policy_reload;
pub mod sealed;
pub mod spool;
pub mod task;
pub mod telemetry;
pub mod web_fetch;

pub use daemon::{main_with_args, main_with_gateways};
