//! The AgentAnycast node daemon.

pub mod delivery;
pub mod spool;
