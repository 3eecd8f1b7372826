//! Makes an agent of a program that knows nothing of AgentAnycast: a script, a process that speaks JSON lines, a
//! service. `anycast run` uses it over the SDK, and the daemon in process, both by the agent side of the gateway port
//! (`agentanycast_gateway::agents`).
//!
//! A [`Backend`] does the tasks of one agent.

#![forbid(unsafe_code)]

mod backend;

pub use backend::{Attempt, Backend, RunError, TaskResult};
