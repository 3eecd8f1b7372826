//! Something that was refused.

use std::sync::Arc;

use agentanycast_identity::PeerId;

/// Something that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentRefusal {
    /// The last time, Unix milliseconds.
    pub at: u64,
    /// The other node; None: this node's own agent or bridge asked.
    pub peer: Option<PeerId>,
    /// The peer refused it; else it was refused here.
    pub by_peer: bool,
    /// The task, of the last one; may be empty.
    pub task: String,
    /// Why.
    pub reason: String,
    /// How often.
    pub count: u64,
    /// Of a task that the policy refused: what its peer said of itself and did not count, and why.
    pub unproven: Arc<[String]>,
}
