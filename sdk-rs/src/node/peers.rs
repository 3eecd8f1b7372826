//! What the daemon says about itself, its peers, and the agents that it finds.

use std::{collections::BTreeMap, time::SystemTime};

use agentanycast_proto::v1;

use crate::{message::to_system_time, peer_id::PeerId};

/// The daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// Its name on the network.
    pub peer_id: Option<PeerId>,
    /// Multiaddrs that another host can dial, without the trailing `/p2p` part.
    pub listen_addresses: Vec<String>,
    /// Whether other hosts can dial it; `None` while that is not known.
    pub publicly_reachable: Option<bool>,
    /// Number of connected peers.
    pub connected_peers: usize,
    /// When it started.
    pub started_at: Option<SystemTime>,
    /// Its version.
    pub version: String,
    /// Whether an agent listens for tasks; `None` if the daemon is too old to say.
    pub agent_listening: Option<bool>,
    /// Its `did:web`; empty if it has none.
    pub did_web: String,
    /// Its `did:dns`; empty if it has none.
    pub did_dns: String,
    /// Whether it can seal tasks that are sent by URL ([`TaskBuilder::sealed_for`](crate::TaskBuilder::sealed_for)).
    pub seals_tasks: bool,
}

/// How a peer is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PathKind {
    /// From host to host.
    Direct,
    /// Through a circuit relay.
    Relay,
    /// Not said, or a way that this SDK does not know, with its number.
    Other(i32),
}

impl PathKind {
    pub(crate) fn from_daemon(number: i32) -> Self {
        match v1::ConnectionType::try_from(number) {
            Ok(v1::ConnectionType::Direct) => Self::Direct,
            Ok(v1::ConnectionType::Relay) => Self::Relay,
            _ => Self::Other(number),
        }
    }
}

impl std::fmt::Display for PathKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Direct => "direct",
            Self::Relay => "relay",
            Self::Other(_) => "unknown",
        })
    }
}

/// A connected peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name on the network.
    pub id: Option<PeerId>,
    /// Multiaddrs in use, without the trailing `/p2p` part.
    pub addresses: Vec<String>,
    /// How it is reached.
    pub via: PathKind,
    /// Since when.
    pub connected_at: Option<SystemTime>,
}

/// A peer that the daemon knows by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownPeer {
    /// Its name on the network.
    pub id: PeerId,
    /// What its card calls its agent; empty if it has shown none. Any card may have any name.
    pub name: String,
    /// It is the daemon itself.
    pub own: bool,
    /// It is connected now.
    pub connected: bool,
}

impl KnownPeer {
    pub(super) fn from_daemon(peer: v1::KnownPeer) -> Option<Self> {
        Some(Self {
            id: PeerId::from_daemon(peer.peer_id)?,
            name: peer.name,
            own: peer.own,
            connected: peer.connected,
        })
    }
}

/// The agents that the daemon knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentDirectory {
    /// The daemon's own first, then those of connected peers.
    pub agents: Vec<ListedAgent>,
    /// Registries that did not answer in time, each with its address and the reason; agents that only they list are missing.
    pub unanswered: Vec<String>,
    /// The ids of all skills that the daemon has heard of, also of agents that are gone.
    pub skills: Vec<String>,
}

/// An agent, and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedAgent {
    /// The peer that its daemon is.
    pub peer_id: Option<PeerId>,
    /// What it is called.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What it can do.
    pub skills: Vec<DiscoveredSkill>,
    /// It is beside this daemon.
    pub own: bool,
    /// How its peer is connected; `None`: it is not.
    pub via: Option<PathKind>,
    /// It is connected over an address of this host or its network.
    pub lan: bool,
    /// A registry, or the DHT, told of it.
    pub registered: bool,
    /// Its peer itself said this, on its card or signed.
    pub verified: bool,
    /// Its name on its node, where that has several agents: what tasks to the peer name
    /// ([`TaskBuilder::agent`](crate::TaskBuilder::agent)).
    pub agent: String,
}

impl From<v1::ListAgentsResponse> for AgentDirectory {
    fn from(answer: v1::ListAgentsResponse) -> Self {
        Self {
            agents: answer.agents.into_iter().map(Into::into).collect(),
            unanswered: answer.unanswered,
            skills: answer.skills,
        }
    }
}

impl From<ListedAgent> for v1::ListedAgent {
    fn from(agent: ListedAgent) -> Self {
        let skill = |skill: DiscoveredSkill| v1::SkillInfo {
            skill_id: skill.id,
            description: skill.description,
            tags: skill.tags,
            agent: String::new(),
        };
        Self {
            peer_id: agent.peer_id.map(|peer| peer.to_string()).unwrap_or_default(),
            name: agent.name,
            description: agent.description,
            skills: agent.skills.into_iter().map(skill).collect(),
            own: agent.own,
            connection_type: match agent.via {
                None => v1::ConnectionType::Unspecified.into(),
                Some(PathKind::Direct) => v1::ConnectionType::Direct.into(),
                Some(PathKind::Relay) => v1::ConnectionType::Relay.into(),
                Some(PathKind::Other(number)) => number,
            },
            lan: agent.lan,
            registered: agent.registered,
            verified: agent.verified,
            agent: agent.agent,
        }
    }
}

impl From<v1::ListedAgent> for ListedAgent {
    fn from(agent: v1::ListedAgent) -> Self {
        let is_connected = agent.connection_type != i32::from(v1::ConnectionType::Unspecified);
        Self {
            peer_id: PeerId::from_daemon(agent.peer_id),
            name: agent.name,
            description: agent.description,
            skills: agent.skills.into_iter().map(Into::into).collect(),
            own: agent.own,
            via: is_connected.then(|| PathKind::from_daemon(agent.connection_type)),
            lan: agent.lan,
            registered: agent.registered,
            verified: agent.verified,
            agent: agent.agent,
        }
    }
}

/// What discovery found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveryResult {
    /// Those that have proven who they are first.
    pub agents: Vec<DiscoveredAgent>,
    /// No registry answered that knows one: these agents were found before, and may be gone; no more is known of them than where they run.
    pub remembered: bool,
    /// Registries that did not answer in time, each with its address and the reason; agents that only they list are missing.
    pub unanswered: Vec<String>,
    /// Where nobody was found: a skill that the daemon knows and that was perhaps meant; empty if there is none.
    pub meant_skill: String,
}

/// An agent that discovery found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredAgent {
    /// The peer that its daemon is.
    pub peer_id: Option<PeerId>,
    /// What it is called.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What it can do, among it the skill that was asked for.
    pub skills: Vec<DiscoveredSkill>,
    /// Its peer has signed this, as the registry that told of it says; of others anybody may have said it.
    pub verified: bool,
    /// Its name on its node, where that has several agents: what a task for it names besides the peer. Else empty.
    pub agent: String,
}

/// A skill as the registry knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredSkill {
    /// What tasks name.
    pub id: String,
    /// What it does.
    pub description: String,
    /// Labels.
    pub tags: BTreeMap<String, String>,
}

impl From<v1::NodeInfo> for NodeInfo {
    fn from(info: v1::NodeInfo) -> Self {
        let publicly_reachable = match v1::NatType::try_from(info.nat_type) {
            Ok(v1::NatType::Public) => Some(true),
            Ok(v1::NatType::Private) => Some(false),
            _ => None,
        };
        Self {
            peer_id: PeerId::from_daemon(info.peer_id),
            listen_addresses: info.listen_addresses,
            publicly_reachable,
            connected_peers: usize::try_from(info.connected_peers).unwrap_or(0),
            started_at: to_system_time(info.started_at),
            version: info.version,
            agent_listening: info.agent_listening,
            did_web: info.did_web,
            did_dns: info.did_dns,
            seals_tasks: info.seals_tasks,
        }
    }
}

impl From<v1::PeerInfo> for Peer {
    fn from(peer: v1::PeerInfo) -> Self {
        Self {
            id: PeerId::from_daemon(peer.peer_id),
            addresses: peer.addresses,
            via: PathKind::from_daemon(peer.connection_type),
            connected_at: to_system_time(peer.connected_at),
        }
    }
}

impl From<v1::DiscoverResponse> for DiscoveryResult {
    fn from(answer: v1::DiscoverResponse) -> Self {
        Self {
            agents: answer.agents.into_iter().map(Into::into).collect(),
            remembered: answer.remembered,
            unanswered: answer.unanswered,
            meant_skill: answer.meant_skill,
        }
    }
}

impl From<v1::DiscoveredAgent> for DiscoveredAgent {
    fn from(agent: v1::DiscoveredAgent) -> Self {
        Self {
            peer_id: PeerId::from_daemon(agent.peer_id),
            name: agent.agent_name,
            description: agent.agent_description,
            skills: agent.skills.into_iter().map(Into::into).collect(),
            verified: agent.verified,
            agent: agent.agent,
        }
    }
}

impl From<v1::SkillInfo> for DiscoveredSkill {
    fn from(skill: v1::SkillInfo) -> Self {
        Self {
            id: skill.skill_id,
            description: skill.description,
            tags: skill.tags,
        }
    }
}
