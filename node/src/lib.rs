//! The AgentAnycast node daemon.

pub mod delivery;
pub mod engine;
pub mod net;
pub mod spool;
pub mod store;
pub mod task;
