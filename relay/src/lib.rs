//! The AgentAnycast relay: circuits for nodes behind NAT, the registry of skills, federation between relays.

pub mod federation;
pub mod registry;
