//! The directory that people read: every agent once, decoded, in order of its name.
//!
//! Every look brings it up to date first, by what has changed since the last look. So an agent whose
//! registration was answered is seen, a relay whose directory is not used pays nothing for it, and the
//! registry's lock is held for a page at a time.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use agentanycast_proto::v1::FederatedRegistration;
use serde::Serialize;

use super::health::time;
use crate::{
    clock::{Nanos, SECOND, now},
    registry::{ChangesReader, nanos_of},
    registry_handle::Handle,
};

/// Records that are read at a time.
const PAGE: usize = 1000;

/// How often it is looked for agents that have expired. One is shown for so much longer.
const EXPIRE_EVERY: Duration = Duration::from_millis(300);

/// Most agents that are put in their places one by one; where more have changed, all are sorted anew.
const ONE_BY_ONE: usize = 256;

/// A skill as it is shown.
#[derive(Clone, Debug, Serialize)]
pub(super) struct DirectorySkill {
    pub(super) id: String,
    description: String,
    pub(super) tags: BTreeMap<String, String>,
}

/// An agent as it is shown.
#[derive(Clone, Debug, Serialize)]
pub(super) struct DirectoryAgent {
    pub(super) peer_id: String,
    name: String,
    description: String,
    pub(super) skills: Vec<DirectorySkill>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    verified: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    addresses: Vec<String>,
    registered_at: String,
    expires_at: String,
    /// In passed time.
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
pub(super) struct AgentFilter {
    pub(super) skill: Option<String>,
    /// Each `NAME:VALUE`; either may have colons.
    pub(super) tags: Vec<String>,
    /// Each in lower case, and all of them wanted.
    pub(super) words: Vec<String>,
}

/// A skill, and how many have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SkillCount {
    pub(super) id: String,
    /// Counted by agents and not by entries: an agent may be registered at several relays.
    pub(super) agents: usize,
}

/// The words of a search, as [`AgentFilter`] has them.
pub(super) fn words_of(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_lowercase).collect()
}

/// All agents.
#[derive(Debug, Default)]
pub(super) struct DirectoryView {
    /// By peer.
    agents: HashMap<String, PeerEntries>,
    cursor: u64,
    /// Each peer once, by name.
    shown: Arc<Vec<Arc<DirectoryAgent>>>,
    /// The skills of those, once a request has asked for them.
    skills: Option<Arc<Vec<SkillCount>>>,
    expired: Option<Instant>,
}

/// What is known of one peer.
#[derive(Debug, Default)]
struct PeerEntries {
    /// By origin; an empty origin is this relay.
    by_origin: BTreeMap<String, Arc<DirectoryAgent>>,
    /// The one that is shown, as it stands in the list.
    shown: Option<Arc<DirectoryAgent>>,
}

impl PeerEntries {
    /// The one to show: what the peer has proven, else what this relay has, else any.
    fn best(&self) -> Option<&Arc<DirectoryAgent>> {
        let proven = self.by_origin.values().find(|agent| agent.verified);
        proven.or_else(|| self.by_origin.values().next())
    }
}

impl DirectoryView {
    /// Each agent once, by its name.
    pub(super) fn agents(&self) -> Arc<Vec<Arc<DirectoryAgent>>> {
        Arc::clone(&self.shown)
    }

    /// Those of most agents first.
    pub(super) fn skills(&mut self) -> Arc<Vec<SkillCount>> {
        let shown = &self.shown;
        Arc::clone(self.skills.get_or_insert_with(|| Arc::new(count_skills(shown))))
    }

    /// Brings it up to date.
    pub(super) fn refresh(&mut self, handle: &Handle) {
        let mut changed = HashSet::new();
        let reader = ChangesReader {
            relay: "",
            everything: true,
        };
        loop {
            let page = handle.changes(self.cursor, PAGE, reader);
            self.cursor = page.cursor;
            for told in page.records {
                changed.insert(told.peer_id.clone());
                self.take(told, handle.me());
            }
            if !page.more {
                break;
            }
        }
        if self.expired.is_none_or(|last| last.elapsed() >= EXPIRE_EVERY) {
            self.expire(&mut changed);
            self.expired = Some(Instant::now());
        }
        if changed.len() > ONE_BY_ONE {
            self.arrange();
        } else {
            for peer in changed {
                self.place(&peer);
            }
        }
    }

    fn take(&mut self, told: FederatedRegistration, me: &str) {
        let origin = if told.origin_relay_id == me {
            String::new()
        } else {
            told.origin_relay_id.clone()
        };
        let entries = self.agents.entry(told.peer_id.clone()).or_default();
        if told.tombstone {
            entries.by_origin.remove(&origin);
        } else {
            entries
                .by_origin
                .insert(origin.clone(), Arc::new(agent(told, origin)));
        }
    }

    /// Drops the entries that have expired, and adds their peers to `changed`.
    fn expire(&mut self, changed: &mut HashSet<String>) {
        let now = now().passed;
        for (peer, entries) in &mut self.agents {
            let before = entries.by_origin.len();
            entries.by_origin.retain(|_, agent| agent.expires > now);
            if entries.by_origin.len() < before {
                changed.insert(peer.clone());
            }
        }
    }

    /// Puts all in order.
    fn arrange(&mut self) {
        let mut shown = Vec::with_capacity(self.agents.len());
        self.agents.retain(|_, entries| {
            entries.shown = entries.best().cloned();
            shown.extend(entries.shown.clone());
            entries.shown.is_some()
        });
        shown.sort_by(|one, other| order(one).cmp(&order(other)));
        self.shown = Arc::new(shown);
        self.skills = None;
    }

    /// Puts one in its place, or takes it out.
    fn place(&mut self, peer: &str) {
        let Some(entries) = self.agents.get_mut(peer) else {
            return;
        };
        let best = entries.best().cloned();
        let before = std::mem::replace(&mut entries.shown, best.clone());
        if best.is_none() {
            self.agents.remove(peer);
        }
        if !ids(before.as_deref()).eq(ids(best.as_deref())) {
            self.skills = None;
        }
        let shown = Arc::make_mut(&mut self.shown);
        let at = |shown: &[Arc<DirectoryAgent>], agent: &DirectoryAgent| {
            shown.binary_search_by(|other| order(other).cmp(&order(agent)))
        };
        match (before, best) {
            (Some(before), Some(best)) if order(&before) == order(&best) => {
                if let Ok(at) = at(shown, &best) {
                    shown[at] = best;
                }
            }
            (before, best) => {
                if let Some(Ok(at)) = before.map(|before| at(shown, &before)) {
                    shown.remove(at);
                }
                if let Some(best) = best
                    && let Err(at) = at(shown, &best)
                {
                    shown.insert(at, best);
                }
            }
        }
    }
}

/// The order in which agents are shown; no two have the same.
fn order(agent: &DirectoryAgent) -> (&str, &str) {
    (&agent.name, &agent.peer_id)
}

/// The ids of its skills.
fn ids(agent: Option<&DirectoryAgent>) -> impl Iterator<Item = &str> {
    agent
        .into_iter()
        .flat_map(|agent| &agent.skills)
        .map(|skill| skill.id.as_str())
}

impl DirectorySkill {
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

impl AgentFilter {
    pub(super) fn matches(&self, agent: &DirectoryAgent) -> bool {
        let tags = |skill: &DirectorySkill| self.tags.iter().all(|wanted| skill.has(wanted));
        let skill = match &self.skill {
            Some(id) => agent.skills.iter().any(|skill| skill.id == *id && tags(skill)),
            None => self.tags.is_empty() || agent.skills.iter().any(tags),
        };
        skill && self.words.iter().all(|word| agent.text.contains(word.as_str()))
    }
}

fn count_skills(agents: &[Arc<DirectoryAgent>]) -> Vec<SkillCount> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for skill in agents.iter().flat_map(|agent| &agent.skills) {
        *counts.entry(&skill.id).or_default() += 1;
    }
    let mut skills: Vec<SkillCount> = counts
        .into_iter()
        .map(|(id, agents)| SkillCount {
            id: id.to_owned(),
            agents,
        })
        .collect();
    skills.sort_unstable_by(|a, b| b.agents.cmp(&a.agents).then_with(|| a.id.cmp(&b.id)));
    skills
}

fn agent(told: FederatedRegistration, origin: String) -> DirectoryAgent {
    let shown_expiry = told.expires_at.map_or(0, nanos_of);
    let left = told.remaining_ms.saturating_mul(SECOND / 1000);
    let skills: Vec<DirectorySkill> = told
        .skills
        .into_iter()
        .map(|skill| DirectorySkill {
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
    DirectoryAgent {
        bytes: text.len(),
        peer_id: told.peer_id,
        name: told.agent_name,
        description: told.agent_description,
        skills,
        origin: (!origin.is_empty()).then_some(origin),
        verified: !told.proofs.is_empty(),
        addresses: told.addresses,
        registered_at: time(told.registered_at.map_or(0, nanos_of)),
        expires_at: time(shown_expiry),
        expires: now().passed.saturating_add(left),
        text: text.to_lowercase(),
    }
}
