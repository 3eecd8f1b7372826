//! The card of a node with several agents: what peers, registries and deployed clients read. PURE.
//!
//! Name and description are the primary agent's, or the name that the operator has set and how many agents there are; the skills those of all agents, each once; `agents` has their own cards.
//! A card that would be larger than peers read has less of its agents, and says how many there are.

use std::collections::BTreeSet;

use agentanycast_proto::v1::{AgentCard, AgentsPage, P2pExtension, Skill};
use prost::Message as _;

use crate::types::agent_name_of_card;

/// Largest card that peers read, with room for what the node adds to it.
const MAX_BYTES: usize = (256 << 10) - (16 << 10);

/// Most skills of the card, those of its agents included: what peers read.
const MAX_SKILLS: usize = 12 << 10;

/// An agent of the node.
pub(super) struct CardOfAgent<'a> {
    pub name: &'a str,
    pub card: &'a AgentCard,
}

/// What of skills and agents a card has.
type CardForm = fn(&[&Skill], &[CardOfAgent<'_>]) -> (Vec<Skill>, Vec<AgentCard>);

/// The card of the node. `agents`: those that listen first, each with the earliest registered first; `primary` is one of
/// them, if there is one.
pub(super) fn node_card(
    agents: &[CardOfAgent<'_>],
    primary: Option<&AgentCard>,
    node_name: Option<&str>,
) -> AgentCard {
    let mut card = match (primary, agents) {
        (Some(primary), _) => primary.clone(),
        (None, [only]) => only.card.clone(),
        (None, _) => AgentCard {
            name: format!("{} agents", agents.len()),
            description: format!("{} agents on one node", agents.len()),
            ..AgentCard::default()
        },
    };
    if let [only] = agents {
        if agent_name_of_card(&only.card.name) != only.name {
            only.name.clone_into(&mut card.agent);
        }
        return card;
    }
    if let Some(node_name) = node_name {
        node_name.clone_into(&mut card.name);
        card.description = format!("{} agents", agents.len());
    }
    card.p2p_extension = Some(joined_extension(agents));
    card.skills.clear();
    let mut seen = BTreeSet::new();
    let all = agents.iter().flat_map(|agent| &agent.card.skills);
    let skills: Vec<&Skill> = all.filter(|skill| seen.insert(skill.id.as_str())).collect();
    fitting(&card, &skills, agents)
}

/// A card with as much of these skills and agents as one card holds.
fn fitting(base: &AgentCard, skills: &[&Skill], agents: &[CardOfAgent<'_>]) -> AgentCard {
    let forms: [CardForm; 4] = [
        |skills, agents| (owned(skills), agents.iter().map(whole).collect()),
        |skills, agents| (owned(skills), agents.iter().map(ids_only).collect()),
        |skills, agents| (without_schemas(skills), agents.iter().map(ids_only).collect()),
        |skills, agents| {
            (
                skills.iter().map(|skill| id_of(skill)).collect(),
                agents.iter().map(ids_only).collect(),
            )
        },
    ];
    let total = u32::try_from(agents.len()).unwrap_or(u32::MAX);
    let mut card = AgentCard::default();
    for (number, form) in forms.into_iter().enumerate() {
        let (skills, agents) = form(skills, agents);
        card = AgentCard {
            skills,
            agents,
            agents_total: if number == 0 { 0 } else { total },
            ..base.clone()
        };
        if fits(&card) {
            return card;
        }
    }
    while !fits(&card) && !card.agents.is_empty() {
        let less = card.agents.len() * 3 / 4;
        card.agents.truncate(less);
    }
    while !fits(&card) && !card.skills.is_empty() {
        let less = card.skills.len() * 3 / 4;
        card.skills.truncate(less);
    }
    card
}

/// Whole cards of the agents that are asked for, as many as one card holds. `agents` in the order of their names.
pub(super) fn page_of_agents(agents: &[CardOfAgent<'_>], wanted: &AgentsPage) -> AgentCard {
    let mut page = AgentCard {
        agents_total: u32::try_from(agents.len()).unwrap_or(u32::MAX),
        ..AgentCard::default()
    };
    let (mut bytes, mut skills) = (0, 0);
    for agent in agents.iter().filter(|agent| wanted.wants(agent.name)) {
        let mut card = whole(agent);
        if !fits_alone(&card) {
            card = ids_only(agent);
        }
        bytes += card.encoded_len() + FIELD_BYTES;
        skills += card.skills.len() + 1;
        if !page.agents.is_empty() && (bytes > MAX_BYTES || skills > MAX_SKILLS) {
            break;
        }
        page.agents.push(card);
    }
    page
}

/// What a card takes on a card besides itself, at most.
const FIELD_BYTES: usize = 8;

fn fits_alone(card: &AgentCard) -> bool {
    card.skills.len() < MAX_SKILLS && card.encoded_len() + FIELD_BYTES <= MAX_BYTES
}

fn fits(card: &AgentCard) -> bool {
    let of_agents: usize = card.agents.iter().map(|agent| agent.skills.len() + 1).sum();
    card.skills.len() + of_agents <= MAX_SKILLS && card.encoded_len() <= MAX_BYTES
}

/// What the cards say of their node, and the credentials of all agents.
fn joined_extension(agents: &[CardOfAgent<'_>]) -> P2pExtension {
    let mut extensions = agents
        .iter()
        .filter_map(|agent| agent.card.p2p_extension.as_ref());
    let mut joined = extensions.next().cloned().unwrap_or_default();
    for credential in extensions.flat_map(|extension| &extension.verifiable_credentials) {
        if !joined.verifiable_credentials.contains(credential) {
            joined.verifiable_credentials.push(credential.clone());
        }
    }
    joined
}

fn owned(skills: &[&Skill]) -> Vec<Skill> {
    skills.iter().map(|skill| (*skill).clone()).collect()
}

fn without_schemas(skills: &[&Skill]) -> Vec<Skill> {
    let plain = |skill: &&Skill| Skill {
        id: skill.id.clone(),
        description: skill.description.clone(),
        tags: skill.tags.clone(),
        ..Skill::default()
    };
    skills.iter().map(plain).collect()
}

fn id_of(skill: &Skill) -> Skill {
    Skill {
        id: skill.id.clone(),
        tags: skill.tags.clone(),
        ..Skill::default()
    }
}

fn whole(agent: &CardOfAgent<'_>) -> AgentCard {
    AgentCard {
        agent: agent.name.to_owned(),
        p2p_extension: None,
        ..agent.card.clone()
    }
}

fn ids_only(agent: &CardOfAgent<'_>) -> AgentCard {
    let id = |skill: &Skill| Skill {
        id: skill.id.clone(),
        ..Skill::default()
    };
    AgentCard {
        agent: agent.name.to_owned(),
        name: agent.card.name.clone(),
        skills: agent.card.skills.iter().map(id).collect(),
        ..AgentCard::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(name: &str, skills: usize, filler: usize) -> AgentCard {
        let skill = |number: usize| Skill {
            id: format!("{name}-{number}"),
            description: "d".repeat(filler),
            ..Skill::default()
        };
        AgentCard {
            name: name.to_owned(),
            skills: (0..skills).map(skill).collect(),
            ..AgentCard::default()
        }
    }

    fn of(cards: &[AgentCard]) -> AgentCard {
        let agents: Vec<CardOfAgent<'_>> = cards
            .iter()
            .map(|card| CardOfAgent {
                name: &card.name,
                card,
            })
            .collect();
        node_card(&agents, cards.first(), None)
    }

    #[test]
    fn the_operators_name_stands_on_the_card_of_several_agents() {
        let cards = [card("one", 1, 0), card("two", 1, 0)];
        let agents = cards.each_ref().map(|card| CardOfAgent {
            name: &card.name,
            card,
        });
        let named = node_card(&agents, cards.first(), Some("workshop"));
        assert_eq!(
            (named.name.as_str(), named.description.as_str()),
            ("workshop", "2 agents")
        );
        assert_eq!(named.agents.len(), 2);
        assert_eq!(
            node_card(&agents[..1], cards.first(), Some("workshop")).name,
            "one"
        );
    }

    #[test]
    fn one_agents_card_is_the_nodes() {
        let only = card("one", 3, 10);
        assert_eq!(of(std::slice::from_ref(&only)), only);
    }

    #[test]
    fn skills_are_joined_and_agents_listed() {
        let mut two = card("two", 2, 5);
        two.skills[0].id = "one-0".to_owned();
        let joined = of(&[card("one", 2, 5), two]);
        assert_eq!(joined.name, "one");
        let ids: Vec<&str> = joined.skills.iter().map(|skill| skill.id.as_str()).collect();
        assert_eq!(ids, ["one-0", "one-1", "two-1"]);
        assert_eq!(joined.agents.len(), 2);
        assert_eq!(joined.agents[1].skills[0].description, "ddddd");
        assert_eq!(joined.agents_total, 0);
    }

    #[test]
    fn a_large_card_is_cut_and_says_so() {
        for (agents, skills, filler) in [(200, 5, 40), (200, 5, 400), (4096, 5, 10), (300, 1000, 0)] {
            let cards: Vec<AgentCard> = (0..agents)
                .map(|number| card(&format!("a{number}"), skills, filler))
                .collect();
            let joined = of(&cards);
            assert!(
                fits(&joined),
                "{agents} {skills} {filler}: {}",
                joined.encoded_len()
            );
            let is_whole =
                joined.agents.len() == agents && joined.agents[0].skills[0].description.len() == filler;
            assert_eq!(joined.agents_total == 0, is_whole, "{agents} {skills} {filler}");
            assert!(!joined.skills.is_empty());
        }
    }

    #[test]
    fn pages_have_each_agent_once_and_whole() {
        for (agents, skills, filler) in [
            (0, 0, 0),
            (3, 2, 5),
            (200, 5, 400),
            (300, 1000, 0),
            (20, 1, 230 << 10),
        ] {
            let mut cards: Vec<AgentCard> = (0..agents)
                .map(|number| card(&format!("a{number}"), skills, filler))
                .collect();
            cards.sort_by(|one, other| one.name.cmp(&other.name));
            let listed: Vec<CardOfAgent<'_>> = cards
                .iter()
                .map(|card| CardOfAgent {
                    name: &card.name,
                    card,
                })
                .collect();
            let (mut seen, mut after) = (Vec::new(), String::new());
            loop {
                let wanted = AgentsPage {
                    after: after.clone(),
                    name: String::new(),
                };
                let page = page_of_agents(&listed, &wanted);
                assert!(fits(&page), "{agents} {skills} {filler}: {}", page.encoded_len());
                assert_eq!(page.agents_total as usize, agents);
                let Some(last) = page.agents.last() else { break };
                after.clone_from(&last.agent);
                seen.extend(page.agents);
            }
            assert!(
                seen.iter()
                    .map(|agent| &agent.skills)
                    .eq(cards.iter().map(|card| &card.skills))
            );
            let wanted = AgentsPage {
                after: String::new(),
                name: "a1".to_owned(),
            };
            let one = page_of_agents(&listed, &wanted);
            assert_eq!(one.agents.len(), usize::from(agents > 1));
        }
    }

    #[test]
    fn an_agent_too_large_for_a_card_is_on_its_page_with_its_ids() {
        let large = card("large", 2, 130 << 10);
        let listed = [CardOfAgent {
            name: "large",
            card: &large,
        }];
        let page = page_of_agents(&listed, &AgentsPage::default());
        assert!(fits(&page));
        assert_eq!(page.agents[0].skills[1].id, "large-1");
    }
}
