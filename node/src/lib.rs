//! The AgentAnycast node daemon.

pub mod delivery;
