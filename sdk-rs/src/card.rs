//! The description that an agent gives of itself.

use std::collections::BTreeMap;

use agentanycast_proto::v1;

use crate::peer_id::PeerId;

/// The A2A protocol version that a card names unless told otherwise.
const PROTOCOL_VERSION: &str = "1.0";

/// An agent: what it is called and what it can do. At most 256 KiB when encoded.
///
/// ```
/// use agentanycast::{AgentCard, Skill};
///
/// let card = AgentCard::new("translator", "Translates between languages")
///     .with_version("2.1.0")
///     .with_skill(Skill::new("translate", "Translates a text").with_tag("lang", "de"));
/// assert_eq!(card.skills[0].tags["lang"], "de");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentCard {
    /// What the agent is called.
    pub name: String,
    /// What it is for, for people and for agents that choose.
    pub description: String,
    /// The agent's own version.
    pub version: String,
    /// The A2A protocol version that it speaks.
    pub protocol_version: String,
    /// What it can do.
    pub skills: Vec<Skill>,
    /// How to reach it; filled in by the daemon, ignored when sent.
    pub p2p: Option<P2pExtension>,
    /// On the card of a node with several agents: these. `skills` has those of all. Filled in by the daemon.
    pub agents: Vec<Self>,
    /// In `agents`: its name on the node. On the card of a node with one agent: its name, if it is called otherwise than its
    /// card. Filled in by the daemon.
    pub agent: String,
    /// How many agents the node has, where `agents` has not all of them; else 0. Filled in by the daemon.
    pub agents_total: u32,
}

/// One thing that an agent can do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skill {
    /// What tasks name, such as `translate`.
    pub id: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of the input, as text; may be empty.
    pub input_schema: String,
    /// JSON Schema of the output, as text; may be empty.
    pub output_schema: String,
    /// Labels that discovery can filter by.
    pub tags: BTreeMap<String, String>,
}

/// The card of a peer, and what else the daemon knows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownCard {
    /// The card; where there is a successor, of before then.
    pub card: AgentCard,
    /// Who the peer is since it changed its key, if the daemon knows that it did.
    pub successor: Option<PeerId>,
    /// What whoever sends it tasks should know, a sentence each: that several daemons run with its key.
    pub warnings: Vec<String>,
}

/// How to reach an agent peer to peer, and who vouches for it (`P2PExtension` of the protocol).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct P2pExtension {
    /// The peer that the agent's daemon is.
    pub peer_id: Option<PeerId>,
    /// Names of transports, such as `tcp` and `quic`.
    pub transports: Vec<String>,
    /// Multiaddrs through relays.
    pub relay_addresses: Vec<String>,
    /// `did:key` of the peer.
    pub did_key: String,
    /// `did:web`, empty when not configured.
    pub did_web: String,
    /// `did:dns`, empty when not configured.
    pub did_dns: String,
    /// Verifiable credentials, as JSON text.
    pub verifiable_credentials: Vec<String>,
}

impl AgentCard {
    /// A card without skills, version `1.0.0`.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            version: "1.0.0".to_owned(),
            protocol_version: PROTOCOL_VERSION.to_owned(),
            skills: Vec::new(),
            p2p: None,
            agents: Vec::new(),
            agent: String::new(),
            agents_total: 0,
        }
    }

    /// Adds a skill.
    #[must_use]
    pub fn with_skill(mut self, skill: Skill) -> Self {
        self.skills.push(skill);
        self
    }

    /// Sets the agent's version.
    #[must_use]
    pub fn with_version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }
}

impl Skill {
    /// A skill without schemas and tags.
    pub fn new(id: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            description: description.into(),
            ..Self::default()
        }
    }

    /// Adds a label.
    #[must_use]
    pub fn with_tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.insert(key.into(), value.into());
        self
    }

    /// Sets the JSON Schemas of input and output, as text.
    #[must_use]
    pub fn with_schemas(mut self, input: impl Into<String>, output: impl Into<String>) -> Self {
        self.input_schema = input.into();
        self.output_schema = output.into();
        self
    }
}

impl From<AgentCard> for v1::AgentCard {
    fn from(card: AgentCard) -> Self {
        Self {
            name: card.name,
            description: card.description,
            version: card.version,
            protocol_version: card.protocol_version,
            skills: card.skills.into_iter().map(Into::into).collect(),
            p2p_extension: card.p2p.map(Into::into),
            agents: card.agents.into_iter().map(Into::into).collect(),
            agent: card.agent,
            agents_total: card.agents_total,
            agents_page: None,
        }
    }
}

impl From<v1::AgentCard> for AgentCard {
    fn from(card: v1::AgentCard) -> Self {
        Self {
            name: card.name,
            description: card.description,
            version: card.version,
            protocol_version: card.protocol_version,
            skills: card.skills.into_iter().map(Into::into).collect(),
            p2p: card.p2p_extension.map(Into::into),
            agents: card.agents.into_iter().map(Into::into).collect(),
            agent: card.agent,
            agents_total: card.agents_total,
        }
    }
}

impl From<Skill> for v1::Skill {
    fn from(skill: Skill) -> Self {
        Self {
            id: skill.id,
            description: skill.description,
            input_schema: skill.input_schema,
            output_schema: skill.output_schema,
            tags: skill.tags,
        }
    }
}

impl From<v1::Skill> for Skill {
    fn from(skill: v1::Skill) -> Self {
        Self {
            id: skill.id,
            description: skill.description,
            input_schema: skill.input_schema,
            output_schema: skill.output_schema,
            tags: skill.tags,
        }
    }
}

impl From<P2pExtension> for v1::P2pExtension {
    fn from(reach: P2pExtension) -> Self {
        Self {
            peer_id: reach.peer_id.map(|peer| peer.to_string()).unwrap_or_default(),
            supported_transports: reach.transports,
            relay_addresses: reach.relay_addresses,
            did_key: reach.did_key,
            did_web: reach.did_web,
            did_dns: reach.did_dns,
            verifiable_credentials: reach.verifiable_credentials,
            // The rest is the daemon's to say.
            ..Self::default()
        }
    }
}

impl From<v1::P2pExtension> for P2pExtension {
    fn from(reach: v1::P2pExtension) -> Self {
        Self {
            peer_id: PeerId::from_daemon(reach.peer_id),
            transports: reach.supported_transports,
            relay_addresses: reach.relay_addresses,
            did_key: reach.did_key,
            did_web: reach.did_web,
            did_dns: reach.did_dns,
            verifiable_credentials: reach.verifiable_credentials,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_survive_the_round_trip() {
        let reach = P2pExtension {
            peer_id: PeerId::from_daemon("12D3KooW".to_owned()),
            transports: vec!["quic".to_owned()],
            did_key: "did:key:z6Mk".to_owned(),
            ..P2pExtension::default()
        };
        let skill = Skill::new("s", "d").with_tag("k", "v").with_schemas("{}", "true");
        let card = AgentCard {
            p2p: Some(reach),
            ..AgentCard::new("n", "d").with_skill(skill)
        };
        assert_eq!(AgentCard::from(v1::AgentCard::from(card.clone())), card);
    }
}
