//! The AgentAnycast node daemon.

pub mod anycast;
pub mod api;
pub mod bridge;
pub mod config;
mod daemon;
pub mod delivery;
pub mod engine;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod health;
#[cfg(test)]
mod logged;
pub mod names;
pub mod net;
pub mod other_daemons;
pub mod policy;
mod reload;
pub mod sealed;
pub mod spool;
pub mod store;
pub mod task;
pub mod telemetry;

pub use daemon::main_with_args;
