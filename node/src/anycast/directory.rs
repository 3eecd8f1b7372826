//! All agents that are known here, for people: this node's, those of connected peers, and those that registries and the
//! DHT tell of. Registries answer for one skill at a time, so they are asked for the skills that are heard of here.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::{StreamExt as _, stream};
use tokio::time::{Instant, timeout_at};

use super::{Anycast, USUAL_FOUND, found, found::Found, lock, look::SearchError, neighbours::found_on};

/// Most skills that registries are asked for at once, where none was named.
const ASKED: usize = 32;

/// Questions that are open at once.
const AT_ONCE: usize = 8;

/// How long all of them may take.
const WITHIN: Duration = Duration::from_secs(5);

/// Most skills that are told.
const SKILLS: usize = 1000;

/// An agent, and how it is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// What it says, or is said of it.
    pub found: Found,
    /// A registry or the DHT told of it.
    pub registered: bool,
}

/// What is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Directory {
    /// This node's agent first, then those of connected peers.
    pub agents: Vec<Listed>,
    /// Registries that did not answer, each with the reason; what only they list is missing.
    pub unanswered: Vec<String>,
    /// The ids of all skills that were heard of, also of agents that are gone.
    pub skills: Vec<String>,
}

impl Anycast {
    /// Who is known; with a skill, who has it. `nearby`: nobody else is asked.
    pub async fn directory(&self, skill: Option<&str>, nearby: bool) -> Directory {
        let here = self.here();
        let skills = self.heard_of(&here);
        let (told, unanswered) = if nearby {
            Default::default()
        } else {
            let asked = skill.map_or_else(
                || skills.iter().take(ASKED).cloned().collect(),
                |one| vec![one.to_owned()],
            );
            self.told(asked).await
        };
        let has_it = |found: &Found| skill.is_none_or(|skill| found.has(skill, &BTreeMap::new()));
        let mut agents: Vec<Listed> = Vec::new();
        for found in here.into_iter().filter(has_it) {
            let registered = told.iter().any(|other| other.peer == found.peer && !other.near);
            agents.push(Listed { found, registered });
        }
        for found in told {
            if !agents.iter().any(|known| known.found.peer == found.peer) {
                let registered = !found.near;
                agents.push(Listed { found, registered });
            }
        }
        Directory {
            agents,
            unanswered,
            skills,
        }
    }

    /// The skill that was perhaps meant by one that nobody has.
    pub fn meant(&self, skill: &str) -> Option<String> {
        let skills = self.heard_of(&self.here());
        let others = skills.iter().map(String::as_str).filter(|other| *other != skill);
        agentanycast_program::nearest::nearest(skill, others).map(str::to_owned)
    }

    /// This node's agent, and those of connected peers.
    fn here(&self) -> Vec<Found> {
        let inner = &self.inner;
        let own = inner.card.borrow().card.clone();
        let own = own.map(|card| found_on(inner.net.local_peer(), (*card).clone()));
        let connected = inner.neighbours.connected(|peer| inner.net.is_connected(peer));
        // A card without either is of a node beside which no agent is.
        let is_agent = |found: &Found| !found.name.is_empty() || !found.skills.is_empty();
        own.into_iter().chain(connected).filter(is_agent).collect()
    }

    /// The skills of these, and those that were asked about lately and found.
    fn heard_of(&self, here: &[Found]) -> Vec<String> {
        let of_cards = here.iter().flat_map(|found| &found.skills);
        let mut skills: BTreeSet<String> = of_cards.map(|skill| skill.skill_id.clone()).collect();
        skills.extend(lock(&self.inner.cache).skills().map(str::to_owned));
        skills.into_iter().take(SKILLS).collect()
    }

    /// What registries and the DHT say of these skills.
    async fn told(&self, skills: Vec<String>) -> (Vec<Found>, Vec<String>) {
        let by = Instant::now() + WITHIN;
        let questions = skills.into_iter().map(|skill| async move {
            let answer = timeout_at(by, self.discover(&skill, &BTreeMap::new(), USUAL_FOUND)).await;
            match answer {
                Ok(Ok(found)) => (found.agents, found.unanswered),
                Ok(Err(SearchError::NoAnswer(failures))) => (Vec::new(), failures.0),
                Ok(Err(_)) => Default::default(),
                Err(_) => (Vec::new(), vec![format!("{skill}: no answer within {WITHIN:?}")]),
            }
        });
        let answers: Vec<_> = stream::iter(questions).buffer_unordered(AT_ONCE).collect().await;
        let (found, unanswered): (Vec<_>, Vec<_>) = answers.into_iter().unzip();
        let unanswered: BTreeSet<String> = unanswered.into_iter().flatten().collect();
        (
            found::merged(found, super::MAX_FOUND),
            unanswered.into_iter().collect(),
        )
    }
}
