//! What a peer may by the word of this node's owner: an invite that it holds, or trust. PURE.

use std::collections::BTreeSet;

use super::{acl::AskedFor, decision::DecisionReason};

/// What of a private agent somebody may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UsableSkills {
    /// All that it has.
    All,
    /// These of its skills.
    These(BTreeSet<String>),
    /// Nothing: it does not see the agent.
    None,
}

/// What a peer may by an invite or by trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerGrant {
    /// That of the invite; `None`: the owner trusts the peer.
    pub label: Option<String>,
    /// The agents that it is for.
    pub agents: GrantedAgents,
    /// The skill that it is for; empty: all.
    pub skill: String,
}

/// The agents that a grant is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantedAgents {
    /// Every agent, also one that comes later.
    All,
    /// Every open agent, also one that comes later, and these.
    OpenAnd(BTreeSet<String>),
    /// This one.
    Only(String),
}

impl GrantedAgents {
    /// Whether tasks for this agent may be sent by it. A node where no agent is registered has one, which takes them all.
    pub fn cover(&self, asked: AskedFor<'_>) -> bool {
        match self {
            Self::All => true,
            Self::OpenAnd(agents) => !asked.is_private || agents.contains(asked.agent),
            Self::Only(agent) => asked.agent.is_empty() || agent == asked.agent,
        }
    }
}

impl PeerGrant {
    /// What decides where it lets a peer in.
    pub(super) fn reason(&self) -> DecisionReason {
        match self.label {
            Some(_) => DecisionReason::Invited,
            None => DecisionReason::Trusted,
        }
    }

    /// Whether a task for this may be sent by it.
    pub fn covers(&self, asked: AskedFor<'_>) -> bool {
        self.agents.cover(asked) && (self.skill.is_empty() || self.skill == asked.skill)
    }
}
