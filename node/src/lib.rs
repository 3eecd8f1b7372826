//! The node daemon of AgentAnycast, as a library: a program gives it its gateways and other parts
//! ([`Composition`](agentanycast_gateway::composition::Composition)).

mod agent_programs;
pub mod anycast;
pub mod config;
mod daemon;
mod external_tasks;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod gateway_counters;
pub mod grpc;
mod health;
pub mod identity_resolver;
mod in_process;
pub mod load_config;
mod policy_reload;
pub mod service;
pub mod telemetry;

pub use daemon::{command_line, main_with_args};
