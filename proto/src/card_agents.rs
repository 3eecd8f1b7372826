//! The agents of a node, by the node's card. PURE.
//!
//! The card of a node with several agents lists them in `agents`: which of them has a skill goes into registrations and DHT records.
//! Gateways and the command line show the card of one agent for `PEER/NAME`. The card of a node with one agent is the agent's own
//! card: the agent is called `agent`, or as its card makes its name.

use std::{collections::HashMap, fmt};

use crate::{
    agent_name::{MAX_AGENT_NAME, agent_name_of_card},
    v1::{AgentCard, AgentsPage},
};

/// Most names in the text of an [`UnknownAgent`].
const MAX_NAMES: usize = 20;

/// The node's card shows no agent of the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownAgent {
    name: String,
    /// Those that the card shows, [`MAX_NAMES`] at most.
    names: Vec<String>,
    /// How many agents the node has besides.
    more: usize,
}

impl fmt::Display for UnknownAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name[..self.name.floor_char_boundary(64)];
        write!(
            f,
            "no agent {name:?} on this node; there are: {}",
            self.names.join(", ")
        )?;
        match self.more {
            0 => Ok(()),
            more => write!(f, ", and {more} more"),
        }
    }
}

impl std::error::Error for UnknownAgent {}

/// The names of the agents of the node that has this card, as far as the card shows them.
pub fn agent_names(node: &AgentCard) -> Vec<String> {
    if !node.agents.is_empty() {
        return node.agents.iter().map(|agent| agent.agent.clone()).collect();
    }
    if node.agents_total > 0 {
        return Vec::new();
    }
    if node.agent.is_empty() {
        vec![agent_name_of_card(&node.name)]
    } else {
        vec![node.agent.clone()]
    }
}

/// The card of the agent of this name. What the node says of how it is reached is on it too.
///
/// # Errors
/// When the node's card shows no such agent: with the names of those that it shows.
pub fn card_of_agent(node: &AgentCard, name: &str) -> Result<AgentCard, UnknownAgent> {
    if let Some(agent) = node.agents.iter().find(|agent| agent.agent == name) {
        return Ok(AgentCard {
            p2p_extension: node.p2p_extension.clone(),
            ..agent.clone()
        });
    }
    let mut names = agent_names(node);
    if node.agents.is_empty() && names.iter().any(|only| only == name) {
        return Ok(AgentCard {
            agent: name.to_owned(),
            ..node.clone()
        });
    }
    let total = names.len().max(node.agents_total as usize);
    names.truncate(MAX_NAMES);
    Err(UnknownAgent {
        name: name.to_owned(),
        more: total - names.len(),
        names,
    })
}

/// The card of the agent of this name, whole: as `page` has it, the answer to [`AgentsPage`] for this name where one was asked
/// for, else as the node's card has it.
///
/// # Errors
/// See [`card_of_agent`].
pub fn whole_card_of_agent(node: &AgentCard, page: AgentCard, name: &str) -> Result<AgentCard, UnknownAgent> {
    match page.agents.into_iter().find(|agent| agent.agent == name) {
        Some(whole) => Ok(AgentCard {
            p2p_extension: node.p2p_extension.clone(),
            ..whole
        }),
        None => card_of_agent(node, name),
    }
}

/// The agents that are asked for, of a node whose card has all of them.
pub fn page_of_card(node: &AgentCard, wanted: &AgentsPage) -> AgentCard {
    let mut names = agent_names(node);
    names.sort();
    let total = names.len();
    names.retain(|name| wanted.wants(name));
    let agents = names.iter().filter_map(|name| card_of_agent(node, name).ok());
    AgentCard {
        agents: agents
            .map(|agent| AgentCard {
                p2p_extension: None,
                ..agent
            })
            .collect(),
        agents_total: u32::try_from(total).unwrap_or(u32::MAX),
        ..AgentCard::default()
    }
}

impl AgentsPage {
    /// Whether the agent of this name is asked for.
    pub fn wants(&self, name: &str) -> bool {
        name > self.after.as_str() && (self.name.is_empty() || name == self.name)
    }
}

/// The agent of each skill, by the skill's id: of several agents with a skill the first of the card. Empty for a card
/// that lists no agents.
pub fn agents_by_skill(card: &AgentCard) -> HashMap<&str, &str> {
    let mut owners = HashMap::new();
    let agents = card.agents.iter();
    for agent in agents.filter(|agent| (1..=MAX_AGENT_NAME).contains(&agent.agent.len())) {
        for skill in &agent.skills {
            owners.entry(skill.id.as_str()).or_insert(agent.agent.as_str());
        }
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{P2pExtension, Skill};

    fn agent(name: &str) -> AgentCard {
        AgentCard {
            name: format!("The {name}"),
            agent: name.to_owned(),
            ..AgentCard::default()
        }
    }

    fn node(agents: impl IntoIterator<Item = AgentCard>) -> AgentCard {
        AgentCard {
            name: "The node".to_owned(),
            p2p_extension: Some(P2pExtension {
                peer_id: "12D3".to_owned(),
                ..P2pExtension::default()
            }),
            agents: agents.into_iter().collect(),
            ..AgentCard::default()
        }
    }

    #[test]
    fn an_agent_has_its_own_card_and_the_nodes_addresses() {
        let node = node([agent("one"), agent("two")]);
        let two = card_of_agent(&node, "two").unwrap();
        assert_eq!((two.name.as_str(), two.agent.as_str()), ("The two", "two"));
        assert_eq!(two.p2p_extension, node.p2p_extension);
        assert!(
            card_of_agent(&node, "the-node").is_err(),
            "the card is of several"
        );
    }

    #[test]
    fn the_only_agent_is_called_as_its_card_or_as_the_node_says() {
        let mut only = node([]);
        assert_eq!(card_of_agent(&only, "the-node").unwrap().name, "The node");
        only.agent = "x".to_owned();
        assert_eq!(card_of_agent(&only, "x").unwrap().name, "The node");
        let error = card_of_agent(&only, "the-node").unwrap_err().to_string();
        assert_eq!(error, "no agent \"the-node\" on this node; there are: x");
    }

    #[test]
    fn an_unknown_agent_is_told_the_names_in_bounds() {
        let mut many = node((0..30).map(|number| agent(&format!("a{number}"))));
        let error = card_of_agent(&many, "x").unwrap_err().to_string();
        assert!(
            error.contains("a0, a1, ") && error.ends_with("a19, and 10 more"),
            "{error}"
        );
        many.agents_total = 4000;
        let error = card_of_agent(&many, &"ü".repeat(9000)).unwrap_err().to_string();
        assert!(error.len() < 400 && error.ends_with("and 3980 more"), "{error}");
        many.agents.clear();
        assert_eq!(agent_names(&many), Vec::<String>::new());
        assert!(card_of_agent(&many, "the-node").is_err());
    }

    #[test]
    fn the_first_agent_of_the_card_has_the_skill() {
        let with_skills = |name: &str, skills: &[&str]| AgentCard {
            agent: name.to_owned(),
            skills: skills
                .iter()
                .map(|id| Skill {
                    id: (*id).to_owned(),
                    ..Skill::default()
                })
                .collect(),
            ..AgentCard::default()
        };
        let long = "x".repeat(MAX_AGENT_NAME + 1);
        let card = AgentCard {
            agents: vec![
                with_skills("", &["a"]),
                with_skills(&long, &["a"]),
                with_skills("one", &["a", "b"]),
                with_skills("two", &["b", "c"]),
            ],
            ..AgentCard::default()
        };
        let owners = agents_by_skill(&card);
        assert_eq!((owners["a"], owners["b"], owners["c"]), ("one", "one", "two"));
        assert!(agents_by_skill(&AgentCard::default()).is_empty());
    }
}
