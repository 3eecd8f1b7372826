//! The directory that people read: every agent once, decoded, in order of its name. A node with several agents is shown as
//! each of them, as far as its skills name their agents.
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
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

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

/// What the agents of a node have in common.
#[derive(Debug)]
struct DirectoryNode {
    peer_id: String,
    /// As the node's card says.
    name: String,
    description: String,
    origin: Option<String>,
    verified: bool,
    addresses: Vec<String>,
    registered_at: String,
    expires_at: String,
    /// In passed time.
    expires: Nanos,
    /// The peer id in lower case.
    text: String,
}

/// An agent as it is shown.
#[derive(Debug)]
pub(super) struct DirectoryAgent {
    node: Arc<DirectoryNode>,
    /// Its name on its node, where that has several; else empty.
    agent: String,
    name: String,
    description: String,
    pub(super) skills: Vec<DirectorySkill>,
    /// Everything that a search looks at besides the peer id, in lower case.
    text: String,
    /// What it says, in bytes.
    pub(super) bytes: usize,
}

/// An agent as JSON.
#[derive(Serialize)]
struct AgentView<'a> {
    peer_id: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    agent: &'a str,
    name: &'a str,
    description: &'a str,
    skills: &'a [DirectorySkill],
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<&'a str>,
    verified: bool,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    addresses: &'a [String],
    registered_at: &'a str,
    expires_at: &'a str,
}

impl DirectoryNode {
    fn view<'a>(
        &'a self,
        agent: &'a str,
        (name, description): (&'a str, &'a str),
        skills: &'a [DirectorySkill],
    ) -> AgentView<'a> {
        AgentView {
            peer_id: &self.peer_id,
            agent,
            name,
            description,
            skills,
            origin: self.origin.as_deref(),
            verified: self.verified,
            addresses: &self.addresses,
            registered_at: &self.registered_at,
            expires_at: &self.expires_at,
        }
    }
}

impl Serialize for DirectoryAgent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let said = (self.name.as_str(), self.description.as_str());
        self.node
            .view(&self.agent, said, &self.skills)
            .serialize(serializer)
    }
}

/// The agents of one node, as one relay has them; never empty.
#[derive(Debug)]
pub(super) struct NodeAgents {
    node: Arc<DirectoryNode>,
    /// In order of their names on the node.
    agents: Vec<Arc<DirectoryAgent>>,
}

impl NodeAgents {
    /// The agent with this name on the node.
    pub(super) fn agent(&self, name: &str) -> Option<&DirectoryAgent> {
        self.agents.iter().find(|one| one.agent == name).map(|one| &**one)
    }

    /// The node as its card says, with the skills of all its agents.
    pub(super) fn whole(&self) -> Value {
        if let [only] = &*self.agents
            && only.agent.is_empty()
        {
            return json!(&**only);
        }
        let mut skills: Vec<(&DirectorySkill, &str)> = Vec::new();
        for one in &self.agents {
            skills.extend(one.skills.iter().map(|skill| (skill, one.agent.as_str())));
        }
        skills.sort_by_key(|(skill, _)| &skill.id);
        let skills = skills.into_iter().map(|(skill, agent)| {
            let mut skill = json!(skill);
            if !agent.is_empty() {
                skill["agent"] = agent.into();
            }
            skill
        });
        let names = self.agents.iter().map(|one| one.agent.as_str());
        let said = (self.node.name.as_str(), self.node.description.as_str());
        let mut whole = json!(self.node.view("", said, &[]));
        whole["skills"] = skills.collect();
        whole["agents"] = names.filter(|name| !name.is_empty()).collect();
        whole
    }

    /// The places of its agents in the list.
    fn order(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.agents.iter().map(|one| order(one))
    }
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
    /// Each agent once, by name.
    shown: Arc<Vec<Arc<DirectoryAgent>>>,
    /// The skills of those, once a request has asked for them.
    skills: Option<Arc<Vec<SkillCount>>>,
    expired: Option<Instant>,
}

/// What is known of one peer.
#[derive(Debug, Default)]
struct PeerEntries {
    /// By origin; an empty origin is this relay.
    by_origin: BTreeMap<String, Arc<NodeAgents>>,
    /// Those that are shown, as they stand in the list.
    shown: Option<Arc<NodeAgents>>,
}

impl PeerEntries {
    /// Those to show: what the peer has proven, else what this relay has, else any.
    fn best(&self) -> Option<&Arc<NodeAgents>> {
        let proven = self.by_origin.values().find(|agents| agents.node.verified);
        proven.or_else(|| self.by_origin.values().next())
    }

    /// How many agents come into the list or go out of it when the best are shown; 0 where all keep their places.
    fn moves(&self) -> usize {
        let (shown, best) = (self.shown.as_deref(), self.best().map(|best| &**best));
        if order_of(shown).eq(order_of(best)) {
            return 0;
        }
        [shown, best]
            .map(|agents| agents.map_or(0, |agents| agents.agents.len()))
            .iter()
            .sum()
    }
}

impl DirectoryView {
    /// Each agent once, by its name.
    pub(super) fn agents(&self) -> Arc<Vec<Arc<DirectoryAgent>>> {
        Arc::clone(&self.shown)
    }

    /// The agents of one node.
    pub(super) fn node(&self, peer: &str) -> Option<Arc<NodeAgents>> {
        self.agents.get(peer)?.shown.clone()
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
        let moves = |peer: &String| self.agents.get(peer).map_or(0, PeerEntries::moves);
        if changed.iter().map(moves).sum::<usize>() > ONE_BY_ONE {
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
                .insert(origin.clone(), Arc::new(agents_of(told, origin)));
        }
    }

    /// Drops the entries that have expired, and adds their peers to `changed`.
    fn expire(&mut self, changed: &mut HashSet<String>) {
        let now = now().passed;
        for (peer, entries) in &mut self.agents {
            let before = entries.by_origin.len();
            entries.by_origin.retain(|_, agents| agents.node.expires > now);
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
            shown.extend(
                entries
                    .shown
                    .iter()
                    .flat_map(|agents| agents.agents.iter().cloned()),
            );
            entries.shown.is_some()
        });
        shown.sort_by(|one, other| order(one).cmp(&order(other)));
        self.shown = Arc::new(shown);
        self.skills = None;
    }

    /// Puts the agents of a node in their places, or takes them out.
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
        if order_of(before.as_deref()).eq(order_of(best.as_deref())) {
            for agent in best.iter().flat_map(|best| &best.agents) {
                if let Ok(at) = at(shown, agent) {
                    shown[at] = Arc::clone(agent);
                }
            }
            return;
        }
        for agent in before.iter().flat_map(|before| &before.agents) {
            if let Ok(at) = at(shown, agent) {
                shown.remove(at);
            }
        }
        for agent in best.iter().flat_map(|best| &best.agents) {
            if let Err(at) = at(shown, agent) {
                shown.insert(at, Arc::clone(agent));
            }
        }
    }
}

/// The order in which agents are shown; no two have the same.
fn order(agent: &DirectoryAgent) -> (&str, &str, &str) {
    (&agent.name, &agent.node.peer_id, &agent.agent)
}

fn order_of(agents: Option<&NodeAgents>) -> impl Iterator<Item = (&str, &str, &str)> {
    agents.into_iter().flat_map(NodeAgents::order)
}

/// The ids of their skills.
fn ids(agents: Option<&NodeAgents>) -> impl Iterator<Item = &str> {
    agents
        .into_iter()
        .flat_map(|agents| &agents.agents)
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
        let has =
            |word: &String| agent.text.contains(word.as_str()) || agent.node.text.contains(word.as_str());
        skill && self.words.iter().all(has)
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

/// The agents that a record tells of: one for each that its skills name, one for the rest.
fn agents_of(told: FederatedRegistration, origin: String) -> NodeAgents {
    let shown_expiry = told.expires_at.map_or(0, nanos_of);
    let left = told.remaining_ms.saturating_mul(SECOND / 1000);
    let mut skills: BTreeMap<String, Vec<DirectorySkill>> = BTreeMap::new();
    for skill in told.skills {
        skills.entry(skill.agent).or_default().push(DirectorySkill {
            id: skill.skill_id,
            description: skill.description,
            tags: skill.tags,
        });
    }
    let node = Arc::new(DirectoryNode {
        text: told.peer_id.to_lowercase(),
        peer_id: told.peer_id,
        name: told.agent_name,
        description: told.agent_description,
        origin: (!origin.is_empty()).then_some(origin),
        verified: !told.proofs.is_empty(),
        addresses: told.addresses,
        registered_at: time(told.registered_at.map_or(0, nanos_of)),
        expires_at: time(shown_expiry),
        expires: now().passed.saturating_add(left),
    });
    let agents = skills
        .into_iter()
        .map(|(agent, skills)| Arc::new(agent_of(&node, agent, skills)));
    NodeAgents {
        agents: agents.collect(),
        node,
    }
}

fn agent_of(node: &Arc<DirectoryNode>, agent: String, skills: Vec<DirectorySkill>) -> DirectoryAgent {
    // A registry knows one name and one description of a node: those of its primary agent, or of the node.
    let (name, description) = if agent.is_empty() || is_name_of(&agent, &node.name) {
        (node.name.clone(), node.description.clone())
    } else {
        (agent.clone(), String::new())
    };
    let mut text = format!("{agent}\n{name}\n{description}");
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
        bytes: node.peer_id.len() + text.len(),
        node: Arc::clone(node),
        agent,
        name,
        description,
        skills,
        text: text.to_lowercase(),
    }
}

/// Whether a node makes this name on it of the name on an agent's card: case and what is no letter or digit aside.
fn is_name_of(agent: &str, card_name: &str) -> bool {
    let plain = |text: &str| -> String {
        let kept = text.chars().filter(char::is_ascii_alphanumeric);
        kept.map(|letter| letter.to_ascii_lowercase()).collect()
    };
    plain(agent) == plain(card_name)
}
