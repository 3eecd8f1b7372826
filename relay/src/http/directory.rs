//! The directory that people read: every agent once, decoded, in order of its name.
//!
//! It is brought up to date when somebody looks, by what has changed since, so that a relay that nobody looks at pays
//! nothing for it and the registry's lock is held for a page at a time.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use agentanycast_proto::v1::FederatedRegistration;
use serde::Serialize;

use super::health::time;
use crate::{
    clock::now,
    federation::merge::Nanos,
    handle::Handle,
    registry::{Reader, nanos_of},
};

/// Records that are read at a time.
const PAGE: usize = 1000;

/// A directory that is younger than this is shown as it is.
const FRESH: Duration = Duration::from_millis(300);

/// A skill as it is shown.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Skill {
    pub(super) id: String,
    description: String,
    pub(super) tags: BTreeMap<String, String>,
}

/// An agent as it is shown.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Agent {
    pub(super) peer_id: String,
    name: String,
    description: String,
    pub(super) skills: Vec<Skill>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    verified: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    addresses: Vec<String>,
    registered_at: String,
    expires_at: String,
    #[serde(skip)]
    expires: Nanos,
    /// Everything that a search looks at, in lower case.
    #[serde(skip)]
    text: String,
    /// What it says, in bytes.
    #[serde(skip)]
    pub(super) bytes: usize,
}

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    pub(super) skill: Option<String>,
    /// Each `NAME:VALUE`; either may have colons.
    pub(super) tags: Vec<String>,
    /// Each in lower case, and all of them wanted.
    pub(super) words: Vec<String>,
}

/// A skill, and how many have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shared {
    pub(super) id: String,
    /// Counted by agents and not by entries: an agent may be registered at several relays.
    pub(super) agents: usize,
}

/// The words of a search, as [`Filter`] has them.
pub(super) fn words_of(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_lowercase).collect()
}

/// All agents.
#[derive(Debug, Default)]
pub(super) struct Directory {
    /// By peer, then by origin; an empty origin is this relay.
    agents: HashMap<String, BTreeMap<String, Arc<Agent>>>,
    cursor: u64,
    /// Each peer once, by name.
    shown: Arc<Vec<Arc<Agent>>>,
    /// The skills of those, once somebody has asked.
    skills: Option<Arc<Vec<Shared>>>,
    read: Option<Instant>,
}

impl Directory {
    /// Each agent once, by its name.
    pub(super) fn agents(&self) -> Arc<Vec<Arc<Agent>>> {
        Arc::clone(&self.shown)
    }

    /// Those of most agents first.
    pub(super) fn skills(&mut self) -> Arc<Vec<Shared>> {
        let shown = &self.shown;
        Arc::clone(self.skills.get_or_insert_with(|| Arc::new(counted(shown))))
    }

    /// Brings it up to date.
    pub(super) fn read(&mut self, handle: &Handle) {
        if self.read.is_some_and(|read| read.elapsed() < FRESH) {
            return;
        }
        let mut changed = false;
        let reader = Reader {
            relay: "",
            everything: true,
        };
        loop {
            let page = handle.changes(self.cursor, PAGE, reader);
            self.cursor = page.cursor;
            changed |= !page.records.is_empty();
            for told in page.records {
                self.take(told, handle.me());
            }
            if !page.more {
                break;
            }
        }
        if self.expire() || changed {
            self.arrange();
        }
        self.read = Some(Instant::now());
    }

    fn take(&mut self, told: FederatedRegistration, me: &str) {
        let origin = if told.origin_relay_id == me {
            String::new()
        } else {
            told.origin_relay_id.clone()
        };
        let of_peer = self.agents.entry(told.peer_id.clone()).or_default();
        if told.tombstone {
            of_peer.remove(&origin);
        } else {
            of_peer.insert(origin.clone(), Arc::new(agent(told, origin)));
        }
    }

    /// Drops who has expired. True if there was one.
    fn expire(&mut self) -> bool {
        let now = now();
        let mut expired = false;
        self.agents.retain(|_, of_peer| {
            of_peer.retain(|_, agent| {
                expired |= agent.expires <= now;
                agent.expires > now
            });
            !of_peer.is_empty()
        });
        expired
    }

    /// Puts them in order.
    fn arrange(&mut self) {
        // Of several records of a peer the one that it has proven stands, then that of this relay (an empty origin).
        let shown = self.agents.values().filter_map(|of_peer| {
            let proven = of_peer.values().find(|agent| agent.verified);
            proven.or_else(|| of_peer.values().next()).cloned()
        });
        let mut shown: Vec<_> = shown.collect();
        shown.sort_by(|a, b| (&a.name, &a.peer_id).cmp(&(&b.name, &b.peer_id)));
        self.shown = Arc::new(shown);
        self.skills = None;
    }
}

impl Skill {
    /// Whether it has a tag that is written so: `NAME:VALUE`.
    fn has(&self, wanted: &str) -> bool {
        let is_wanted = |(tag, value): (&String, &String)| {
            let rest = wanted
                .strip_prefix(tag.as_str())
                .and_then(|rest| rest.strip_prefix(':'));
            rest == Some(value)
        };
        self.tags.iter().any(is_wanted)
    }
}

impl Filter {
    pub(super) fn lets(&self, agent: &Agent) -> bool {
        let tags = |skill: &Skill| self.tags.iter().all(|wanted| skill.has(wanted));
        let skill = match &self.skill {
            Some(id) => agent.skills.iter().any(|skill| skill.id == *id && tags(skill)),
            None => self.tags.is_empty() || agent.skills.iter().any(tags),
        };
        skill && self.words.iter().all(|word| agent.text.contains(word.as_str()))
    }
}

fn counted(agents: &[Arc<Agent>]) -> Vec<Shared> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for skill in agents.iter().flat_map(|agent| &agent.skills) {
        *counts.entry(&skill.id).or_default() += 1;
    }
    let mut skills: Vec<Shared> = counts
        .into_iter()
        .map(|(id, agents)| Shared {
            id: id.to_owned(),
            agents,
        })
        .collect();
    skills.sort_unstable_by(|a, b| b.agents.cmp(&a.agents).then_with(|| a.id.cmp(&b.id)));
    skills
}

fn agent(told: FederatedRegistration, origin: String) -> Agent {
    let expires = told.expires_at.map_or(0, nanos_of);
    let skills: Vec<Skill> = told
        .skills
        .into_iter()
        .map(|skill| Skill {
            id: skill.skill_id,
            description: skill.description,
            tags: skill.tags,
        })
        .collect();
    let mut text = format!(
        "{}\n{}\n{}",
        told.peer_id, told.agent_name, told.agent_description
    );
    for skill in &skills {
        text.push('\n');
        text.push_str(&skill.id);
        text.push('\n');
        text.push_str(&skill.description);
        for (tag, value) in &skill.tags {
            text.push('\n');
            text.push_str(tag);
            text.push(':');
            text.push_str(value);
        }
    }
    Agent {
        bytes: text.len(),
        peer_id: told.peer_id,
        name: told.agent_name,
        description: told.agent_description,
        skills,
        origin: (!origin.is_empty()).then_some(origin),
        verified: !told.proofs.is_empty(),
        addresses: told.addresses,
        registered_at: time(told.registered_at.map_or(0, nanos_of)),
        expires_at: time(expires),
        expires,
        text: text.to_lowercase(),
    }
}
