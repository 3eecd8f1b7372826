//! Whom a task is for: a peer, a skill or a URL. Whoever sends a task says it, and a trace repeats it.

use agentanycast_proto::v1::send_task_request;

use crate::peer_id::PeerId;

/// Whom a task is for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// The agent of this peer.
    Peer(PeerId),
    /// Any agent with this skill; the daemon chooses.
    Skill(String),
    /// An agent beyond a bridge, such as an A2A server's URL.
    Url(String),
}

impl Target {
    /// Any agent with this skill.
    pub fn skill(id: impl Into<String>) -> Self {
        Self::Skill(id.into())
    }

    /// An agent beyond a bridge.
    pub fn url(url: impl Into<String>) -> Self {
        Self::Url(url.into())
    }
}

impl From<PeerId> for Target {
    fn from(peer: PeerId) -> Self {
        Self::Peer(peer)
    }
}

impl From<Target> for send_task_request::Target {
    fn from(target: Target) -> Self {
        match target {
            Target::Peer(peer) => Self::PeerId(peer.to_string()),
            Target::Skill(skill) => Self::SkillId(skill),
            Target::Url(url) => Self::Url(url),
        }
    }
}
