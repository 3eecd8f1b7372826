//! Agents as they were found, and the answers of several registries made one.
//!
//! PURE. The rules: a peer appears once; what it has proven goes before what is only said of it, and among equals the
//! first of each registry before the second of any, so that none fills the answer alone; addresses are those of all who
//! name it.

use std::collections::{BTreeMap, HashMap};

use agentanycast_core::is_agent_name;
use agentanycast_identity::PeerId;
use agentanycast_net::FoundAgent;
use agentanycast_proto::v1::{AgentRecord, SkillInfo, SkillRegistration};

/// Most addresses of one agent that are kept, as many as a registry keeps.
const MAX_ADDRESSES: usize = 16;
/// Longest of them, in bytes, as registries have it.
const MAX_ADDRESS_BYTES: usize = 256;

/// An agent with the skill that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentMatch {
    /// Where it runs.
    pub peer: PeerId,
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Its skills.
    pub skills: Vec<SkillInfo>,
    /// Where it can be dialled, as far as is known.
    pub addresses: Vec<String>,
    /// It has proven that this is said by itself.
    pub verified: bool,
    /// Nobody but its own card says so: it is connected.
    pub unlisted: bool,
    /// The agents of its node, where that has several, as far as its card says.
    pub agents: Vec<AgentOnNode>,
}

/// One of several agents of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentOnNode {
    /// Its name on the node.
    pub agent: String,
    /// What its card calls it.
    pub name: String,
    /// Its description.
    pub description: String,
    /// The ids of its skills.
    pub skills: Vec<String>,
}

impl AgentMatch {
    /// What a registry says. None: its peer id is none, so no task could be sent there.
    pub(super) fn from_registration(said: SkillRegistration, relay: Option<&str>) -> Option<Self> {
        let peer: PeerId = said.peer_id.parse().ok()?;
        let mut addresses = said.addresses;
        addresses.retain(|address| address.len() <= MAX_ADDRESS_BYTES);
        addresses.truncate(MAX_ADDRESSES - 1);
        // The relay where it registered is where it keeps its reservation.
        let relay = match said.origin_relay_id.as_str() {
            "" => relay,
            origin => Some(origin),
        };
        if let Some(relay) = relay.and_then(|relay| relay.parse::<PeerId>().ok()) {
            addresses.push(format!("/p2p/{relay}/p2p-circuit"));
        }
        Some(Self {
            peer,
            name: said.agent_name,
            description: said.agent_description,
            skills: said.skills,
            addresses,
            verified: said.verified,
            unlisted: false,
            agents: Vec::new(),
        })
    }

    /// What the DHT says. What is signed is proven; an announcement without it names the skill only.
    pub(super) fn from_dht(said: FoundAgent, skill: &str) -> Self {
        let verified = said.record.is_some();
        let record = said.record.unwrap_or_else(|| AgentRecord {
            skills: vec![SkillInfo {
                skill_id: skill.to_owned(),
                ..SkillInfo::default()
            }],
            ..AgentRecord::default()
        });
        Self {
            peer: said.peer,
            name: record.name,
            description: record.description,
            skills: record.skills,
            addresses: said.addresses,
            verified,
            unlisted: false,
            agents: Vec::new(),
        }
    }

    /// The agent of its node that has the skill; empty where the node has one agent, or it is not known.
    pub fn agent_with(&self, skill: &str) -> &str {
        let known = self.skills.iter().find(|known| known.skill_id == skill);
        known
            .map(|known| known.agent.as_str())
            .filter(|agent| is_agent_name(agent))
            .unwrap_or_default()
    }

    /// Takes over which agents have its skills, where it does not say so itself.
    fn add_skill_agents(&mut self, other: &[SkillInfo]) {
        if self.skills.iter().all(|skill| !skill.agent.is_empty()) {
            return;
        }
        let known: HashMap<&str, &str> = other
            .iter()
            .filter(|skill| !skill.agent.is_empty())
            .map(|skill| (skill.skill_id.as_str(), skill.agent.as_str()))
            .collect();
        for skill in self.skills.iter_mut().filter(|skill| skill.agent.is_empty()) {
            if let Some(agent) = known.get(skill.skill_id.as_str()) {
                (*agent).clone_into(&mut skill.agent);
            }
        }
    }

    /// Whether it has the skill with all of these tags.
    pub(super) fn matches(&self, skill: &str, tags: &BTreeMap<String, String>) -> bool {
        let fits = |known: &SkillInfo| {
            known.skill_id == skill && tags.iter().all(|(tag, value)| known.tags.get(tag) == Some(value))
        };
        self.skills.iter().any(fits)
    }
}

/// What routing needs to know of an agent; of the many that may be found it is this that is kept.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RouteCandidate {
    pub(super) peer: PeerId,
    pub(super) addresses: Vec<String>,
    pub(super) verified: bool,
}

impl RouteCandidate {
    /// As an answer to who has a skill. More is not known of it.
    pub(super) fn to_match(&self, skill: &str) -> AgentMatch {
        AgentMatch {
            peer: self.peer,
            name: String::new(),
            description: String::new(),
            skills: vec![SkillInfo {
                skill_id: skill.to_owned(),
                ..SkillInfo::default()
            }],
            addresses: self.addresses.clone(),
            verified: self.verified,
            unlisted: false,
            agents: Vec::new(),
        }
    }
}

impl From<&AgentMatch> for RouteCandidate {
    fn from(found: &AgentMatch) -> Self {
        Self {
            peer: found.peer,
            addresses: found.addresses.clone(),
            verified: found.verified,
        }
    }
}

/// Several answers as one, at most `limit` agents.
pub(super) fn merge(answers: Vec<Vec<AgentMatch>>, limit: usize) -> Vec<AgentMatch> {
    let mut places: HashMap<PeerId, usize> = HashMap::new();
    let mut merged: Vec<AgentMatch> = Vec::new();
    for found in interleave(answers) {
        let Some(&place) = places.get(&found.peer) else {
            places.insert(found.peer, merged.len());
            merged.push(found);
            continue;
        };
        let known = &mut merged[place];
        let near = found.unlisted && known.unlisted;
        let (mut better, other) = if found.verified && !known.verified {
            (found, std::mem::replace(known, empty(known.peer)))
        } else {
            (std::mem::replace(known, empty(known.peer)), found)
        };
        // A deployed registry leaves the agents out. What only somebody else says of a peer names no agent of it.
        if other.verified || !better.verified {
            better.add_skill_agents(&other.skills);
        }
        for address in other.addresses {
            if better.addresses.len() < MAX_ADDRESSES && !better.addresses.contains(&address) {
                better.addresses.push(address);
            }
        }
        if better.agents.is_empty() {
            better.agents = other.agents;
        }
        better.unlisted = near;
        *known = better;
    }
    merged.sort_by_key(|found| !found.verified);
    merged.truncate(limit);
    merged
}

/// The first of each, then the second of each, and so on.
fn interleave<T>(lists: Vec<Vec<T>>) -> impl Iterator<Item = T> {
    let longest = lists.iter().map(Vec::len).max().unwrap_or_default();
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    (0..longest).flat_map(move |_| lists.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>())
}

fn empty(peer: PeerId) -> AgentMatch {
    AgentMatch {
        peer,
        name: String::new(),
        description: String::new(),
        skills: Vec::new(),
        addresses: Vec::new(),
        verified: false,
        unlisted: false,
        agents: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u8) -> PeerId {
        PeerId::from_bytes(&[&[0x00, 0x24, 0x08, 0x01, 0x12, 0x20][..], &[number; 32]].concat()).unwrap()
    }

    fn found(number: u8, name: &str, verified: bool, addresses: &[&str]) -> AgentMatch {
        AgentMatch {
            name: name.into(),
            verified,
            addresses: addresses.iter().map(ToString::to_string).collect(),
            ..empty(peer(number))
        }
    }

    #[test]
    fn a_peer_appears_once_and_what_is_proven_counts() {
        let answers = vec![
            vec![found(1, "said", false, &["/a"]), found(2, "two", false, &[])],
            vec![found(1, "proven", true, &["/b"]), found(3, "three", true, &[])],
            vec![found(1, "said later", false, &["/a", "/c"])],
        ];
        let merged = merge(answers, 10);
        let names: Vec<&str> = merged.iter().map(|found| found.name.as_str()).collect();
        assert_eq!(names, ["proven", "three", "two"]);
        assert_eq!(merged[0].addresses, ["/b", "/a", "/c"]);
    }

    #[test]
    fn which_agent_has_a_skill_is_taken_from_who_may_say_so() {
        let skill = |id: &str, agent: &str| SkillInfo {
            skill_id: id.into(),
            agent: agent.into(),
            ..SkillInfo::default()
        };
        let told = |verified, skills: &[SkillInfo]| AgentMatch {
            skills: skills.to_vec(),
            ..found(1, "", verified, &[])
        };
        let merged = |one, other| merge(vec![vec![one], vec![other]], 10).remove(0);
        let (bare, named) = ([skill("a", ""), skill("b", "")], [skill("a", "one")]);
        for (one, other, agent) in [
            (told(true, &bare), told(true, &named), "one"),
            (told(false, &bare), told(false, &named), "one"),
            (told(false, &bare), told(true, &named), "one"),
            (told(true, &bare), told(false, &named), ""),
            (told(true, &[skill("a", "own")]), told(true, &named), "own"),
            (told(true, &bare), told(true, &[skill("a", "No Name")]), ""),
        ] {
            let found = merged(one, other);
            assert_eq!(
                (found.agent_with("a"), found.agent_with("b")),
                (agent, ""),
                "{found:?}"
            );
        }
    }

    #[test]
    fn who_is_named_by_others_too_is_not_only_near() {
        let near = |number| AgentMatch {
            unlisted: true,
            ..found(number, "near", true, &[])
        };
        let answers = vec![vec![near(1), near(2)], vec![found(1, "said", false, &[])]];
        let merged = merge(answers, 10);
        let near: Vec<_> = merged
            .iter()
            .map(|found| (found.name.as_str(), found.unlisted))
            .collect();
        assert_eq!(near, [("near", false), ("near", true)]);
    }

    #[test]
    fn the_limit_keeps_the_best() {
        let answers = vec![vec![found(1, "said", false, &[]), found(2, "proven", true, &[])]];
        assert_eq!(merge(answers, 1)[0].name, "proven");
    }

    #[test]
    fn no_registry_fills_the_answer_alone() {
        let many = |from: u8| {
            (from..from + 50)
                .map(|number| found(number, "", true, &[]))
                .collect()
        };
        let merged = merge(vec![many(0), vec![found(100, "", true, &[])], many(150)], 20);
        let places: Vec<PeerId> = merged.iter().map(|found| found.peer).collect();
        assert_eq!(places[..5], [peer(0), peer(100), peer(150), peer(1), peer(151)]);
        assert_eq!(places.len(), 20);
    }

    #[test]
    fn what_is_no_peer_is_no_candidate() {
        let said = SkillRegistration {
            peer_id: "agent-1".into(),
            ..SkillRegistration::default()
        };
        assert_eq!(AgentMatch::from_registration(said, None), None);
    }

    #[test]
    fn a_peer_is_reached_through_the_relay_that_has_it() {
        let of = |origin: &str| SkillRegistration {
            peer_id: peer(1).to_string(),
            origin_relay_id: origin.into(),
            ..SkillRegistration::default()
        };
        let (asked, origin) = (peer(8).to_string(), peer(9).to_string());
        let found = AgentMatch::from_registration(of(&origin), Some(&asked)).unwrap();
        assert_eq!(found.addresses, [format!("/p2p/{origin}/p2p-circuit")]);
        let found = AgentMatch::from_registration(of(""), Some(&asked)).unwrap();
        assert_eq!(found.addresses, [format!("/p2p/{asked}/p2p-circuit")]);
        assert!(
            AgentMatch::from_registration(of(""), None)
                .unwrap()
                .addresses
                .is_empty()
        );
    }

    #[test]
    fn tags_are_those_of_the_skill() {
        let skill = |id: &str, tags: &[(&str, &str)]| SkillInfo {
            skill_id: id.into(),
            tags: tags.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
            ..SkillInfo::default()
        };
        let agent = AgentMatch {
            skills: vec![
                skill("a", &[("lang", "de"), ("x", "1")]),
                skill("b", &[("lang", "fr")]),
            ],
            ..empty(peer(1))
        };
        let tags = |tags: &[(&str, &str)]| tags.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        assert!(agent.matches("a", &tags(&[("lang", "de")])) && agent.matches("a", &BTreeMap::new()));
        assert!(!agent.matches("a", &tags(&[("lang", "fr")])) && !agent.matches("c", &BTreeMap::new()));
    }
}
