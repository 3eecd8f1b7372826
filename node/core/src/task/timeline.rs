//! Marks of a task's way: for whoever asks how it went, of no other consequence.
//!
//! Pure. Each mark is written with the task's next change, so that it costs no write of its own: one that a crash
//! comes before is forgotten.

use std::fmt;

use agentanycast_identity::PeerId;

/// What something goes over between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkPath {
    /// A connection from host to host.
    Direct,
    /// A circuit through this relay.
    Relay(PeerId),
}

impl fmt::Display for NetworkPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct => f.write_str("direct"),
            Self::Relay(relay) => write!(f, "relay {relay}"),
        }
    }
}

/// A task that has left for another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentMark {
    /// Unix time in milliseconds.
    pub at: u64,
    /// The road that it took.
    pub via: NetworkPath,
}

/// See the module's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskTimeline {
    /// The last time that it was sent to its assignee before that one was known to have it.
    pub sent: Option<SentMark>,
    /// What it came over.
    pub arrived_via: Option<NetworkPath>,
    /// When an agent here was first given it, Unix milliseconds.
    pub offered_at: Option<u64>,
    /// When an agent here first took it, Unix milliseconds.
    pub claimed_at: Option<u64>,
}

impl TaskTimeline {
    /// Of a task that has just come from another node.
    pub fn arrived(over: Option<NetworkPath>) -> Self {
        Self {
            arrived_via: over,
            ..Self::default()
        }
    }
}
