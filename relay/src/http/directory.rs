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
    /// In lower case.
    pub(super) text: String,
}

/// All agents.
#[derive(Debug, Default)]
pub(super) struct Directory {
    /// By peer, then by origin; an empty origin is this relay.
    agents: HashMap<String, BTreeMap<String, Arc<Agent>>>,
    cursor: u64,
    /// Each peer once, by name.
    shown: Arc<Vec<Arc<Agent>>>,
    read: Option<Instant>,
}

impl Directory {
    /// Everybody, up to date.
    pub(super) fn read(&mut self, handle: &Handle) -> Arc<Vec<Arc<Agent>>> {
        if self.read.is_some_and(|read| read.elapsed() < FRESH) {
            return Arc::clone(&self.shown);
        }
        let reader = Reader {
            relay: "",
            everything: true,
        };
        loop {
            let page = handle.changes(self.cursor, PAGE, reader);
            self.cursor = page.cursor;
            for told in page.records {
                self.take(told, handle.me());
            }
            if !page.more {
                break;
            }
        }
        self.arrange();
        Arc::clone(&self.shown)
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

    /// Drops who has expired, and puts the others in order.
    fn arrange(&mut self) {
        let now = now();
        self.agents.retain(|_, of_peer| {
            of_peer.retain(|_, agent| agent.expires > now);
            !of_peer.is_empty()
        });
        // Of several records of a peer the one that it has proven stands, then that of this relay (an empty origin).
        let shown = self.agents.values().filter_map(|of_peer| {
            let proven = of_peer.values().find(|agent| agent.verified);
            proven.or_else(|| of_peer.values().next()).cloned()
        });
        let mut shown: Vec<_> = shown.collect();
        shown.sort_by(|a, b| (&a.name, &a.peer_id).cmp(&(&b.name, &b.peer_id)));
        self.shown = Arc::new(shown);
        self.read = Some(Instant::now());
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
        skill && agent.text.contains(&self.text)
    }
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
        for (tag, value) in &skill.tags {
            text.push('\n');
            text.push_str(tag);
            text.push(':');
            text.push_str(value);
        }
    }
    let said = skills.iter().map(|skill| skill.description.len());
    let bytes = text.len() + said.sum::<usize>();
    Agent {
        bytes,
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
