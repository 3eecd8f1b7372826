//! The AgentAnycast node daemon.
