//! What fuzzing runs (`fuzz/`), of all gateways.

pub use agentanycast_a2a::fuzz::{a2a, a2a_answer};
pub use agentanycast_mcp::fuzz::mcp;
