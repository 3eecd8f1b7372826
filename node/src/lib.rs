//! The AgentAnycast node daemon.

pub mod api;
