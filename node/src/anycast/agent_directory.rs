//! All agents that are known here, for people: this node's, those of connected peers, and those that registries and the
//! DHT tell of. Registries answer for one skill at a time, so they are asked for the skills that are heard of here.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use agentanycast_proto::v1::AgentCard;
use futures::{StreamExt as _, stream};
use tokio::time::{Instant, timeout_at};

use super::{
    Anycast, DEFAULT_RESULTS, discovery::SearchError, lock, merge, merge::AgentMatch,
    neighbour_cards::match_from_card,
};

/// Most skills that registries are asked for at once, where none was named.
const MAX_SKILLS_ASKED: usize = 32;

/// Questions that are open at once.
const MAX_QUERIES: usize = 8;

/// How long all of them may take.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Most skills that are told.
const MAX_SKILLS: usize = 1000;

/// An agent, and how it is known.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectoryEntry {
    /// What it says, or is said of it.
    pub agent: AgentMatch,
    /// A registry or the DHT told of it.
    pub registered: bool,
}

/// What is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownAgents {
    /// This node's agent first, then those of connected peers.
    pub agents: Vec<DirectoryEntry>,
    /// Registries that did not answer, each with the reason; what only they list is missing.
    pub unanswered: Vec<String>,
    /// The ids of all skills that were heard of, also of agents that are gone.
    pub skills: Vec<String>,
}

impl Anycast {
    /// Who is known; with a skill, who has it. `nearby`: nobody else is asked.
    pub async fn directory(&self, skill: Option<&str>, nearby: bool) -> KnownAgents {
        let here = self.connected_agents();
        let skills = self.known_skills(&here);
        let (told, unanswered) = if nearby {
            Default::default()
        } else {
            let asked = skill.map_or_else(|| self.skills_to_ask_for(), |one| vec![one.to_owned()]);
            self.search_skills(asked).await
        };
        let has_it = |found: &AgentMatch| skill.is_none_or(|skill| found.matches(skill, &BTreeMap::new()));
        let mut agents: Vec<DirectoryEntry> = Vec::new();
        for found in here.into_iter().filter(has_it) {
            let registered = told
                .iter()
                .any(|other| other.peer == found.peer && !other.unlisted);
            agents.push(DirectoryEntry {
                agent: found,
                registered,
            });
        }
        for found in told {
            if !agents.iter().any(|known| known.agent.peer == found.peer) {
                let registered = !found.unlisted;
                agents.push(DirectoryEntry {
                    agent: found,
                    registered,
                });
            }
        }
        KnownAgents {
            agents,
            unanswered,
            skills,
        }
    }

    /// The skill that was perhaps meant by one that nobody has.
    pub fn closest_skill(&self, skill: &str) -> Option<String> {
        let skills = self.known_skills(&self.connected_agents());
        let others = skills.iter().map(String::as_str).filter(|other| *other != skill);
        agentanycast_daemon_kit::nearest::nearest(skill, others).map(str::to_owned)
    }

    /// This node's agents, also the private ones, and those of connected peers.
    fn connected_agents(&self) -> Vec<AgentMatch> {
        self.beside_neighbours(lock(&self.inner.own_card).clone())
    }

    /// The skills that registries are asked for: none that only private agents of this node have, since nobody is told of them.
    fn skills_to_ask_for(&self) -> Vec<String> {
        let public = self.inner.card.borrow().card.clone();
        let mut skills = self.known_skills(&self.beside_neighbours(public));
        skills.truncate(MAX_SKILLS_ASKED);
        skills
    }

    /// The agents of this card of this node, and those of connected peers.
    fn beside_neighbours(&self, own: Option<Arc<AgentCard>>) -> Vec<AgentMatch> {
        let inner = &self.inner;
        let own = own.map(|card| match_from_card(inner.net.local_peer(), (*card).clone()));
        let connected = inner.neighbours.connected(|peer| inner.net.is_connected(peer));
        // A card without either is of a node beside which no agent is.
        let is_agent = |found: &AgentMatch| !found.name.is_empty() || !found.skills.is_empty();
        own.into_iter().chain(connected).filter(is_agent).collect()
    }

    /// The skills of these, and those that were asked about lately and found.
    fn known_skills(&self, here: &[AgentMatch]) -> Vec<String> {
        let of_cards = here.iter().flat_map(|found| &found.skills);
        let mut skills: BTreeSet<String> = of_cards.map(|skill| skill.skill_id.clone()).collect();
        skills.extend(lock(&self.inner.cache).skills().map(str::to_owned));
        skills.into_iter().take(MAX_SKILLS).collect()
    }

    /// What registries and the DHT say of these skills.
    async fn search_skills(&self, skills: Vec<String>) -> (Vec<AgentMatch>, Vec<String>) {
        let by = Instant::now() + QUERY_TIMEOUT;
        let questions = skills.into_iter().map(|skill| async move {
            let answer = timeout_at(by, self.discover(&skill, &BTreeMap::new(), DEFAULT_RESULTS)).await;
            match answer {
                Ok(Ok(found)) => (found.agents, found.unanswered),
                Ok(Err(SearchError::NoAnswer(failures))) => (Vec::new(), failures.0),
                Ok(Err(_)) => Default::default(),
                Err(_) => (
                    Vec::new(),
                    vec![format!("{skill}: no answer within {QUERY_TIMEOUT:?}")],
                ),
            }
        });
        let answers: Vec<_> = stream::iter(questions)
            .buffer_unordered(MAX_QUERIES)
            .collect()
            .await;
        let (found, unanswered): (Vec<_>, Vec<_>) = answers.into_iter().unzip();
        let unanswered: BTreeSet<String> = unanswered.into_iter().flatten().collect();
        (
            merge::merge(found, super::MAX_RESULTS),
            unanswered.into_iter().collect(),
        )
    }
}
