//! Whom a message is for, and how gateways write an agent of a node: `PEER`, or `PEER/NAME` for one of several agents there; `self`
//! is this node. PURE.

use agentanycast_identity::peer_of_did_key;

/// What names this node in place of a peer.
pub const OWN_NODE: &str = "self";

/// Whom a message is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The agent beside the node; of several the primary one.
    Own,
    /// The agent of this peer; of several the primary one.
    Peer(String),
    /// One agent of a node, by its name there.
    Agent {
        /// The node; `None`: this one.
        peer: Option<String>,
        /// The name.
        agent: String,
    },
    /// Any agent with this skill; the node chooses.
    Skill(String),
    /// An agent beyond a bridge.
    Url(String),
}

impl Target {
    /// The agent of this name on a node: a peer id, a `did:key`, or `self`. An empty name: the primary one there.
    pub fn from_peer_and_agent(peer: &str, agent: &str) -> Self {
        let peer = (peer != OWN_NODE).then(|| parse_peer(peer));
        match (peer, agent) {
            (None, "") => Self::Own,
            (Some(peer), "") => Self::Peer(peer),
            (peer, agent) => Self::Agent {
                peer,
                agent: agent.to_owned(),
            },
        }
    }

    /// What `PEER` and `PEER/NAME` say.
    pub fn parse_agent(text: &str) -> Self {
        let (peer, agent) = text.split_once('/').unwrap_or((text, ""));
        Self::from_peer_and_agent(peer, agent)
    }

    /// What a setting says of whom sessions and tasks are for: `skill:ID`, or what [`Target::parse_agent`] takes.
    pub fn parse(text: &str) -> Self {
        match text.strip_prefix("skill:") {
            Some(skill) => Self::Skill(skill.to_owned()),
            None => Self::parse_agent(text),
        }
    }

    /// The words by which a gateway knows whom a task was sent to.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Own => "own".to_owned(),
            Self::Peer(peer) => format!("peer:{peer}"),
            Self::Agent { peer, agent } => {
                format!(
                    "agent:{}",
                    agent_address(peer.as_deref().unwrap_or(OWN_NODE), agent)
                )
            }
            Self::Skill(skill) => format!("skill:{skill}"),
            Self::Url(url) => format!("url:{url}"),
        }
    }
}

/// An agent of a node as [`Target::parse_agent`] takes it.
pub fn agent_address(peer: &str, agent: &str) -> String {
    match agent {
        "" => peer.to_owned(),
        agent => format!("{peer}/{agent}"),
    }
}

/// The peer of a name that may be a `did:key`.
pub fn parse_peer(name: &str) -> String {
    peer_of_did_key(name).map_or_else(|| name.to_owned(), |peer| peer.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_named_behind_its_node() {
        let agent = |peer: Option<&str>, agent: &str| Target::Agent {
            peer: peer.map(str::to_owned),
            agent: agent.to_owned(),
        };
        let peer = Target::Peer("12D3".to_owned());
        for (text, target, label) in [
            ("self", Target::Own, "own"),
            ("self/", Target::Own, "own"),
            ("12D3", peer, "peer:12D3"),
            ("self/one", agent(None, "one"), "agent:self/one"),
            ("12D3/one", agent(Some("12D3"), "one"), "agent:12D3/one"),
        ] {
            let parsed = Target::parse_agent(text);
            assert_eq!(parsed.label(), label);
            assert_eq!(parsed, target, "{text}");
        }
        let by_did = Target::parse_agent("did:key:z6MkpTHR8VNsBxYAAWHut2Geadd9jSwuBV8xRoAnwWsdvktH/one");
        assert!(
            matches!(&by_did, Target::Agent { peer: Some(peer), agent } if peer.starts_with("12D3KooW") && agent == "one"),
            "{by_did:?}"
        );
    }
}
