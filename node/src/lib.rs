//! The AgentAnycast node daemon.

pub mod api;
pub mod config;
pub mod telemetry;
