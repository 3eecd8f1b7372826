//! What connected peers say of themselves on their cards: a source of agents beside registries and the DHT, so that
//! hosts on one network find each other without either.
//!
//! A card comes over a connection that its peer has proven its key on, so what it says is the peer's own word. The rule:
//! memory is bounded whatever cards say; of the many that may have come, the latest [`MAX_PEERS`] are kept, each with
//! [`MAX_SKILL_BYTES`] of skills.

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
};

use agentanycast_identity::PeerId;
use agentanycast_proto::{
    card_agents::agents_by_skill,
    v1::{AgentCard, SkillInfo},
};
use lru::LruCache;
use prost::Message as _;

use super::merge::{AgentMatch, AgentOnNode};

/// Peers whose cards are known.
const MAX_PEERS: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// Most of one peer's skills, encoded, in bytes.
const MAX_SKILL_BYTES: usize = 16 << 10;

/// Most agents of one node, and skills of one of them: what lists show.
const MAX_AGENTS: usize = 64;
const MAX_SKILLS_OF_AGENT: usize = 64;

/// Longest name and description of an agent, in bytes.
const MAX_TEXT_BYTES: usize = 1024;

/// The cards of peers that were connected; made before the network, which shows them. Cheap to clone.
#[derive(Clone)]
pub struct NeighbourCards {
    agents: Arc<Mutex<LruCache<PeerId, AgentMatch>>>,
}

impl Default for NeighbourCards {
    fn default() -> Self {
        Self {
            agents: Arc::new(Mutex::new(LruCache::new(MAX_PEERS))),
        }
    }
}

impl NeighbourCards {
    /// A peer has shown this card, encoded.
    pub fn on_card(&self, peer: PeerId, card: &[u8]) {
        let Ok(card) = AgentCard::decode(card) else { return };
        let found = match_from_card(peer, card);
        let mut known = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        known.put(peer, found);
    }

    /// Those that are connected and have a skill with all of these tags.
    pub(super) fn with_skill(
        &self,
        skill: &str,
        tags: &BTreeMap<String, String>,
        is_connected: impl Fn(PeerId) -> bool,
    ) -> Vec<AgentMatch> {
        self.those(|peer, found| found.matches(skill, tags) && is_connected(peer))
    }

    /// Whether one that is connected has shown a card with a skill.
    pub(super) fn has_connected(&self, is_connected: impl Fn(PeerId) -> bool) -> bool {
        let known = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .iter()
            .any(|(peer, found)| !found.skills.is_empty() && is_connected(*peer))
    }

    /// All that are connected, those first that showed their cards last.
    pub(super) fn connected(&self, is_connected: impl Fn(PeerId) -> bool) -> Vec<AgentMatch> {
        self.those(|peer, _| is_connected(peer))
    }

    fn those(&self, is_one: impl Fn(PeerId, &AgentMatch) -> bool) -> Vec<AgentMatch> {
        let known = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        let those = known.iter().filter(|(peer, found)| is_one(**peer, found));
        those.map(|(_, found)| found.clone()).collect()
    }
}

/// An agent as its card says, cut to what is kept.
pub(super) fn match_from_card(peer: PeerId, card: AgentCard) -> AgentMatch {
    let mut room = MAX_SKILL_BYTES;
    let owners = agents_by_skill(&card);
    let skills = card.skills.iter().map(|skill| SkillInfo {
        skill_id: skill.id.clone(),
        description: skill.description.clone(),
        tags: skill.tags.clone(),
        agent: owners
            .get(skill.id.as_str())
            .map_or_else(String::new, |agent| (*agent).to_owned()),
    });
    let fits = |skill: &SkillInfo| match room.checked_sub(skill.encoded_len()) {
        Some(left) => {
            room = left;
            true
        }
        None => false,
    };
    let skills: Vec<SkillInfo> = skills.filter(fits).collect();
    let agents = card.agents.into_iter().take(MAX_AGENTS).map(|agent| AgentOnNode {
        agent: truncate_text(agent.agent),
        name: truncate_text(agent.name),
        description: truncate_text(agent.description),
        skills: agent
            .skills
            .into_iter()
            .map(|skill| truncate_text(skill.id))
            .take(MAX_SKILLS_OF_AGENT)
            .collect(),
    });
    AgentMatch {
        agents: agents.collect(),
        peer,
        name: truncate_text(card.name),
        description: truncate_text(card.description),
        skills,
        addresses: Vec::new(),
        verified: true,
        unlisted: true,
    }
}

fn truncate_text(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
    text
}

#[cfg(test)]
mod tests {
    use agentanycast_proto::v1::Skill;

    use super::*;

    fn peer(number: u8) -> PeerId {
        PeerId::from_bytes(&[&[0x00, 0x24, 0x08, 0x01, 0x12, 0x20][..], &[number; 32]].concat()).unwrap()
    }

    fn skill(id: &str, tags: &[(&str, &str)]) -> Skill {
        Skill {
            id: id.to_owned(),
            tags: tags
                .iter()
                .map(|(tag, value)| ((*tag).into(), (*value).into()))
                .collect(),
            ..Skill::default()
        }
    }

    fn card(name: &str, skills: Vec<Skill>) -> Vec<u8> {
        let name = name.to_owned();
        let card = AgentCard {
            name,
            skills,
            ..AgentCard::default()
        };
        card.encode_to_vec()
    }

    #[test]
    fn those_that_are_connected_are_found_by_skill_and_tags() {
        let neighbours = NeighbourCards::default();
        neighbours.on_card(peer(1), &card("one", vec![skill("echo", &[("lang", "de")])]));
        neighbours.on_card(peer(2), &card("two", vec![skill("echo", &[])]));
        neighbours.on_card(
            peer(3),
            &card("three", vec![skill("echo", &[]), skill("sum", &[])]),
        );
        neighbours.on_card(peer(4), b"\xff");
        let names = |skill: &str, tags: &[(&str, &str)]| {
            let tags = tags
                .iter()
                .map(|(tag, value)| ((*tag).into(), (*value).into()))
                .collect();
            let found = neighbours.with_skill(skill, &tags, |one| one != peer(2));
            let mut names: Vec<_> = found.into_iter().map(|found| found.name).collect();
            names.sort();
            names
        };
        assert_eq!(names("echo", &[]), ["one", "three"]);
        assert_eq!(names("echo", &[("lang", "de")]), ["one"]);
        assert_eq!(names("sum", &[]), ["three"]);
        assert!(names("nothing", &[]).is_empty());
        // The latest card counts.
        neighbours.on_card(peer(3), &card("three", Vec::new()));
        assert!(names("sum", &[]).is_empty());
    }

    #[test]
    fn skills_name_their_agents() {
        let agent = |name: &str, skills: &[&str]| AgentCard {
            agent: name.to_owned(),
            skills: skills.iter().map(|id| skill(id, &[])).collect(),
            ..AgentCard::default()
        };
        let node = AgentCard {
            skills: ["echo", "sum"].map(|id| skill(id, &[])).to_vec(),
            agents: vec![agent("one", &["echo"]), agent("two", &["echo", "sum"])],
            ..AgentCard::default()
        };
        let found = match_from_card(peer(1), node);
        assert_eq!(
            (found.agent_with("echo"), found.agent_with("sum")),
            ("one", "two")
        );
        let alone = match_from_card(peer(1), agent("", &["echo"]));
        assert_eq!(alone.agent_with("echo"), "");
    }

    #[test]
    fn no_card_takes_more_than_its_share() {
        let large = |at: usize| Skill {
            description: "x".repeat(5000),
            ..skill(&at.to_string(), &[])
        };
        let neighbours = NeighbourCards::default();
        neighbours.on_card(peer(1), &card(&"ä".repeat(2000), (0..9).map(large).collect()));
        let found = neighbours.connected(|_| true).remove(0);
        assert_eq!(found.skills.len(), 3);
        assert_eq!(found.name.len(), MAX_TEXT_BYTES);
        for number in 0..=MAX_PEERS.get() {
            let mut bytes = [&[0x00, 0x24, 0x08, 0x01, 0x12, 0x20][..], &[9; 32]].concat();
            bytes[6..14].copy_from_slice(&(number as u64).to_be_bytes());
            neighbours.on_card(PeerId::from_bytes(&bytes).unwrap(), &card("many", Vec::new()));
        }
        let left = neighbours.connected(|_| true);
        assert_eq!(left.len(), MAX_PEERS.get());
        assert!(left.iter().all(|found| found.name == "many"));
    }
}
