//! The AgentAnycast node daemon.

pub mod net;
