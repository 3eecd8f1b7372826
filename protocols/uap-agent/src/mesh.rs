//! Agents of the mesh: an agent as a service, and agents elsewhere as tools.

mod remote_tool;
mod server;

pub use self::{remote_tool::remote_agent_tool, server::AgentServer};
