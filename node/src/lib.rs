//! The AgentAnycast node daemon.

mod agent_programs;
pub mod anycast;
pub mod bridge;
pub mod config;
mod configured_agents;
mod daemon;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod grpc;
mod health;
pub mod identity_resolver;
#[cfg(feature = "bridge")]
mod in_process;
pub mod load_config;
mod policy_reload;
pub mod service;
pub mod telemetry;
pub mod web_fetch;

pub use daemon::{command_line, know_gateway_settings, main_with_args, main_with_gateways};
