//! The labels by which gateways know their tasks again, and the node its callers.

/// The label with the caller, as `NAME:SUBJECT` with the name of its gateway, which is what the node's policy calls it; without
/// it a task is that of whoever uses the daemon itself.
pub const CALLER: &str = "gateway.caller";

/// The label, with the value `true`, of a caller that counts as a stranger: nothing says who it is, and its gateway listens beyond
/// this host. It may use private agents of the node as little as a peer that nobody let in.
pub const STRANGER: &str = "gateway.stranger";

/// The label with what the caller calls the conversation, where the mesh calls it otherwise.
pub const CONTEXT: &str = "gateway.context";

/// The label with whom the caller asked, in the words of its gateway.
pub const TARGET: &str = "gateway.target";
