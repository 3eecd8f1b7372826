//! What a question to the policy is answered: what becomes of the task, and what decided.

use std::fmt;

use agentanycast_identity::PeerId;

use super::limits::ReachedBound;

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyOutcome {
    /// The task is let in.
    Allow,
    /// It is not.
    Deny,
    /// It is not, now: its source has had too much.
    RateLimit,
}

impl PolicyOutcome {
    /// The word that stands for it in the audit log.
    pub fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::RateLimit => "rate_limit",
        }
    }
}

/// What decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DecisionReason {
    /// There are no rules.
    NoRules,
    /// This rule, from 1.
    Rule(usize),
    /// An invite, since no rule matches.
    Invited,
    /// The trust of the owner, since no rule matches.
    Trusted,
    /// That the agent is private, and nothing lets the source in.
    Private,
    /// That no rule matches.
    NoMatch,
    /// That the peer is not known.
    Unknown,
    /// That the peer's key is not pinned.
    NotPinned,
    /// That this key came after the peer's, as both have signed.
    Replaced(PeerId),
    /// A bound of the source.
    Limit(ReachedBound),
    /// That the audit log cannot be written.
    Audit,
}

/// How [`DecisionReason::message`] begins for a key that was replaced. Peers read it: what they ask by such a key is not lost.
pub const REPLACED: &str = "this key was replaced by that of ";

impl fmt::Display for DecisionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRules => f.write_str("no rules"),
            Self::Rule(number) => write!(f, "acl {number}"),
            Self::Invited => f.write_str("invite"),
            Self::Trusted => f.write_str("trust"),
            Self::Private => f.write_str("access"),
            Self::NoMatch => f.write_str("acl default"),
            Self::Unknown => f.write_str("trust known"),
            Self::NotPinned => f.write_str("trust pinned"),
            Self::Replaced(_) => f.write_str("key replaced"),
            Self::Limit(ReachedBound::Rate(rps)) => write!(f, "rate_limit rps {rps}"),
            Self::Limit(ReachedBound::InFlight(most)) => write!(f, "rate_limit max_in_flight {most}"),
            Self::Limit(ReachedBound::Bytes(most) | ReachedBound::TaskBytes(most)) => {
                write!(f, "rate_limit max_bytes {most}")
            }
            Self::Audit => f.write_str("audit log"),
        }
    }
}

impl DecisionReason {
    /// Why a task is refused, for whoever sent it.
    pub fn message(&self) -> String {
        match self {
            Self::NoRules | Self::Invited | Self::Trusted => "allowed".to_owned(),
            Self::Private => "this agent is private; ask its owner for an invite".to_owned(),
            Self::Rule(_) => format!("not allowed by this node's policy ({self})"),
            Self::NoMatch => "not allowed by this node's policy (no rule allows it)".to_owned(),
            Self::Unknown => "this node takes tasks of peers that it knows only".to_owned(),
            Self::NotPinned => "this node takes tasks of pinned peers only".to_owned(),
            Self::Replaced(new) => format!("{REPLACED}{new}; send it from there"),
            Self::Limit(ReachedBound::Rate(rps)) => {
                format!("more than {rps} tasks a second, the limit of one source here; send it again later")
            }
            Self::Limit(ReachedBound::InFlight(most)) => {
                format!("{most} tasks of this source are open here, its limit; wait until some have ended")
            }
            Self::Limit(ReachedBound::Bytes(most)) => format!(
                "open tasks of this source would take more than {most} bytes here, its limit; wait until some have ended"
            ),
            Self::Limit(ReachedBound::TaskBytes(most)) => format!(
                "the task alone takes more than {most} bytes, the limit of one source here; send it in smaller ones"
            ),
            Self::Audit => "this node cannot write its audit log and takes no tasks meanwhile".to_owned(),
        }
    }
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// What becomes of the task.
    pub outcome: PolicyOutcome,
    /// Why.
    pub reason: DecisionReason,
}
