//! The agents that are registered on this node: their names and cards, who listens for them, and which of them a task is
//! for.
//!
//! A task's agent is written with it; none is written for the primary agent, whose queue is also that of a node where no
//! agent is registered. The first agent is the primary one until it is removed.

mod access;
mod node_card;
mod records;
mod registration;
mod shown_cards;
mod skill_index;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use agentanycast_proto::v1::AgentCard;
use lru::LruCache;

use self::{access::RecordedAccess, shown_cards::ShownCards, skill_index::SkillIndex};
use super::{
    agent_choice::{AgentLoad, no_such_agent},
    clock::Now,
    transaction::Transaction,
};
use crate::types::{AgentAccess, AgentOrigin, CallerKey, NodeAgent};

/// Most skills on one card.
const MAX_SKILLS_OF_CARD: usize = 1000;

/// Processes that are known to have listened for one agent.
const MAX_CALLERS_OF_AGENT: usize = 64;

/// An agent of this node.
#[derive(Clone, Debug)]
struct RegisteredAgent {
    card: Arc<AgentCard>,
    origin: AgentOrigin,
    /// The how manieth it is.
    number: u64,
    /// When it listened last, Unix milliseconds.
    last_attached: u64,
    /// Processes that listened for it after they had set its card: they do not set it again when they reconnect.
    callers: BTreeSet<String>,
    /// Tasks that it has and that have not ended.
    open_tasks: usize,
    /// Tasks that failed since one was completed.
    failures: u32,
    /// Skills of earlier cards that the card does not have, and when it lost them, Unix milliseconds.
    former: BTreeMap<String, u64>,
    access: RecordedAccess,
}

/// See the module's text.
pub(crate) struct Agents {
    by_name: BTreeMap<Arc<str>, RegisteredAgent>,
    by_skill: SkillIndex,
    by_former_skill: SkillIndex,
    primary: Option<Arc<str>>,
    next_number: u64,
    /// Tasks that have come without an agent while there was no primary one, and have not ended.
    unassigned: usize,
    /// Most agents.
    max: usize,
    /// The name on the card of several agents; None: that of the primary one.
    node_name: Option<String>,
    /// Of gRPC connections that listen for agents: which.
    bound: HashMap<u64, BTreeSet<Option<Arc<str>>>>,
    pending_cards: LruCache<CallerKey, AgentCard>,
    /// How many are private.
    private: usize,
    shown: ShownCards,
    has_changed: bool,
}

impl Agents {
    /// Whether an agent came by a card.
    pub(crate) fn came_by_card(&self, name: &str) -> bool {
        self.by_name
            .get(name)
            .is_some_and(|agent| agent.origin == AgentOrigin::Card)
    }

    /// Whether none is registered.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Whether there is one of this name.
    pub(crate) fn is_registered(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// The name, if there is an agent of it.
    pub(crate) fn registered(&self, name: &str) -> Option<&Arc<str>> {
        self.by_name.get_key_value(name).map(|(name, _)| name)
    }

    /// The name of the primary agent.
    pub(crate) fn primary(&self) -> Option<&Arc<str>> {
        self.primary.as_ref()
    }

    /// What is written with the tasks of this agent: nothing if it is the primary one.
    pub(crate) fn written_name(&self, name: &str) -> Option<Arc<str>> {
        match self.by_name.get_key_value(name) {
            Some((name, _)) if self.primary.as_ref() != Some(name) => Some(Arc::clone(name)),
            _ => None,
        }
    }

    /// Whether the only agent came by a card: it gets every task, whatever skill that is for, as with deployed daemons.
    fn takes_all(&self) -> bool {
        self.replaceable().is_some()
    }

    /// Whether this agent, as it is written with tasks, has the skill; one that gets every task has all.
    pub(crate) fn has_skill(&self, written: Option<&str>, skill: &str) -> bool {
        let name = written.or(self.primary.as_deref());
        self.takes_all() || name.is_some_and(|name| self.by_skill.agents(skill).any(|with| **with == *name))
    }

    /// Whether this agent, as it is written with tasks, has lost the skill at this moment or later.
    pub(crate) fn has_lost_skill(&self, written: Option<&str>, skill: &str, since: u64) -> bool {
        let name = written.or(self.primary.as_deref());
        !self.takes_all() && name.is_some_and(|name| self.lost_at(name, skill) >= Some(since))
    }

    /// When this agent lost the skill, Unix milliseconds; None: it has it, or never had it.
    fn lost_at(&self, name: &str, skill: &str) -> Option<u64> {
        self.by_name.get(name)?.former.get(skill).copied()
    }

    /// Skills that agents lost before this moment are theirs no more.
    pub(crate) fn forget_former(&mut self, transaction: &mut Transaction, before: u64) {
        for name in self.by_former_skill.all_agents() {
            let Some(agent) = self.by_name.get_mut(&name) else {
                continue;
            };
            let forgotten: Vec<String> = agent
                .former
                .extract_if(.., |_, lost_at| *lost_at < before)
                .map(|(skill, _)| skill)
                .collect();
            for skill in &forgotten {
                self.by_former_skill.remove(skill, &name);
            }
            if !forgotten.is_empty() {
                self.write(transaction, &name);
            }
        }
    }

    /// Adds the skills of an agent's last card to its new one, as many as a card may have.
    pub(crate) fn add_last_skills(&self, name: &str, card: &mut AgentCard) {
        let Some(last) = self.by_name.get(name) else {
            return;
        };
        let known: BTreeSet<String> = card.skills.iter().map(|skill| skill.id.clone()).collect();
        let room = MAX_SKILLS_OF_CARD.saturating_sub(card.skills.len());
        let kept = last.card.skills.iter().filter(|skill| !known.contains(&skill.id));
        card.skills.extend(kept.take(room).cloned());
    }

    /// The names of all.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_name.keys()
    }

    /// Says that no agent here has this name.
    pub(crate) fn no_such_agent(&self, name: &str) -> String {
        no_such_agent(name, self.by_name.keys().map(|name| &**name))
    }

    /// These agents, as the rule of their choice sees them; `is_attached` says for which, as they are written with tasks, a program
    /// listens.
    fn loads<'a>(
        &'a self,
        names: impl Iterator<Item = &'a Arc<str>>,
        is_attached: impl Fn(Option<&str>) -> bool,
    ) -> Vec<AgentLoad<'a>> {
        let of_name = |name: &'a Arc<str>| {
            let agent = self.by_name.get(name)?;
            Some(AgentLoad {
                name,
                is_attached: is_attached(self.written_name(name).as_deref()),
                open_tasks: agent.open_tasks,
                failures: agent.failures,
                last_attached: agent.last_attached,
            })
        };
        names.filter_map(of_name).collect()
    }

    /// The agents with a skill.
    pub(crate) fn loads_with_skill(
        &self,
        skill: &str,
        is_attached: impl Fn(Option<&str>) -> bool,
    ) -> Vec<AgentLoad<'_>> {
        self.loads(self.by_skill.agents(skill), is_attached)
    }

    /// The agents that have lost a skill since this moment, Unix milliseconds.
    pub(crate) fn loads_of_former(
        &self,
        skill: &str,
        since: u64,
        is_attached: impl Fn(Option<&str>) -> bool,
    ) -> Vec<AgentLoad<'_>> {
        let former = self.by_former_skill.agents(skill);
        self.loads(
            former.filter(|name| self.lost_at(name, skill) >= Some(since)),
            is_attached,
        )
    }

    /// Whether an agent was registered by name.
    pub(crate) fn has_service(&self) -> bool {
        let mut agents = self.by_name.values();
        agents.any(|agent| agent.origin == AgentOrigin::Service)
    }

    /// Whether an agent that `is_candidate` wants has the skill, or lost it a short time ago, and whether one that has it listens.
    pub(crate) fn with_skill(
        &self,
        skill: &str,
        is_candidate: impl Fn(&str) -> bool,
        is_attached: impl Fn(Option<&str>) -> bool,
    ) -> Option<bool> {
        let mut others = self
            .by_skill
            .agents(skill)
            .filter(|name| is_candidate(name))
            .peekable();
        if others.peek().is_some() {
            return Some(others.any(|name| is_attached(self.written_name(name).as_deref())));
        }
        let mut former = self.by_former_skill.agents(skill);
        former.any(|name| is_candidate(name)).then_some(false)
    }

    /// The access of an agent and whether its owner has said so; `None`: it was registered before there was access.
    pub(crate) fn access(&self, name: &str) -> (Option<AgentAccess>, bool) {
        let agent = self.by_name.get(name);
        agent.map_or((None, false), |agent| (agent.access.access, agent.access.is_set))
    }

    /// The card of an agent.
    pub(crate) fn card(&self, name: &str) -> Option<Arc<AgentCard>> {
        Some(Arc::clone(&self.by_name.get(name)?.card))
    }

    /// The agent that is called so: by its name, or else by that on its card.
    pub(crate) fn called(&self, name: &str) -> Option<&Arc<str>> {
        let by_name = self.by_name.get_key_value(name);
        let by_card = || self.by_name.iter().find(|(_, agent)| agent.card.name == name);
        by_name.or_else(by_card).map(|(name, _)| name)
    }

    /// Whether an agent, as it is written with tasks, is for peers only that were let in.
    pub(crate) fn is_private(&self, written: Option<&str>) -> bool {
        let name = written.or(self.primary.as_deref());
        name.is_some_and(|name| self.is_named_private(name))
    }

    /// The same of an agent by its name.
    pub(crate) fn is_named_private(&self, name: &str) -> bool {
        self.has_private()
            && self
                .by_name
                .get(name)
                .is_some_and(|agent| agent.access.is_private())
    }

    /// Whether some agent is private.
    pub(crate) fn has_private(&self) -> bool {
        self.private > 0
    }

    /// The agents that have a skill, or lost it a short time ago.
    pub(crate) fn all_with_skill<'a>(&'a self, skill: &'a str) -> impl Iterator<Item = &'a Arc<str>> {
        let former = self.by_former_skill.agents(skill);
        self.by_skill.agents(skill).chain(former)
    }

    /// The only agent, if it came by a card: if no program listens for it, an agent with another card takes its place.
    pub(crate) fn replaceable(&self) -> Option<Arc<str>> {
        let (name, agent) = self.by_name.first_key_value()?;
        let is_replaceable = self.by_name.len() == 1 && agent.origin == AgentOrigin::Card;
        is_replaceable.then(|| Arc::clone(name))
    }

    /// Agents that came by a card, for which no program began or ended to listen for `after` milliseconds, and that have no task:
    /// to be forgotten, unless a program listens.
    pub(crate) fn forgettable(&self, now: Now, after: u64) -> Vec<Arc<str>> {
        let is_old = |agent: &RegisteredAgent| now.unix.saturating_sub(agent.last_attached) > after;
        self.by_name
            .iter()
            .filter(|(_, agent)| agent.origin == AgentOrigin::Card)
            .filter(|(_, agent)| agent.open_tasks == 0 && is_old(agent))
            .map(|(name, _)| Arc::clone(name))
            .collect()
    }

    /// A caller has set a card and may listen with it.
    pub(crate) fn put_pending_card(&mut self, caller: CallerKey, card: AgentCard) {
        self.pending_cards.put(caller, card);
    }

    /// The card that a caller has set and not listened with yet.
    pub(crate) fn take_pending_card(&mut self, caller: &CallerKey) -> Option<AgentCard> {
        self.pending_cards.pop(caller)
    }

    /// The agent that a caller has listened for, with a card that it had set.
    pub(crate) fn agent_of_caller(&self, caller: &CallerKey, connection: u64) -> Option<Arc<str>> {
        let process = match caller {
            CallerKey::AgentSocket(name) => {
                return self.by_name.get_key_value(name).map(|(name, _)| Arc::clone(name));
            }
            CallerKey::Process(process) => Some(process),
            CallerKey::Connection(_) => None,
        };
        let mut agents = self.by_name.iter();
        if let Some(process) = process {
            let known = agents.find(|(_, agent)| agent.callers.contains(&**process));
            return known.map(|(name, _)| Arc::clone(name));
        }
        self.agent_on(connection)
    }

    /// The only agent that is listened for on this connection.
    pub(crate) fn agent_on(&self, connection: u64) -> Option<Arc<str>> {
        let mut named = self.bound.get(&connection)?.iter().flatten();
        named.next().cloned().filter(|_| named.next().is_none())
    }

    /// Calls on this connection are of this agent; None: of one that is not known.
    pub(crate) fn bind(&mut self, connection: u64, agent: Option<&Arc<str>>) {
        self.bound.entry(connection).or_default().insert(agent.cloned());
    }

    /// A process that has set a card listens for an agent, or anybody.
    pub(crate) fn on_attached(
        &mut self,
        transaction: &mut Transaction,
        now: Now,
        name: &Arc<str>,
        caller: Option<&CallerKey>,
        is_first: bool,
    ) {
        let name = Arc::clone(name);
        let Some(agent) = self.by_name.get_mut(&name) else {
            return;
        };
        agent.last_attached = now.unix;
        if let Some(CallerKey::Process(process)) = caller {
            while agent.callers.len() >= MAX_CALLERS_OF_AGENT && !agent.callers.contains(&**process) {
                agent.callers.pop_first();
            }
            agent.callers.insert((**process).to_owned());
        }
        self.write(transaction, &name);
        if is_first {
            self.changed();
        }
    }

    /// No program listens for an agent any more.
    pub(crate) fn on_detached(&mut self, transaction: &mut Transaction, now: Now, name: &Arc<str>) {
        let Some(agent) = self.by_name.get_mut(name) else {
            return;
        };
        agent.last_attached = now.unix;
        self.write(transaction, name);
        self.changed();
    }

    /// A gRPC connection is gone.
    pub(crate) fn on_connection_closed(&mut self, connection: u64) {
        self.bound.remove(&connection);
        self.pending_cards.pop(&CallerKey::Connection(connection));
    }

    /// Whether a caller on this connection may report on tasks of this agent, as it is written with them: one that listens for
    /// agents may for theirs, everybody else for all.
    pub(crate) fn may_report(&self, connection: u64, agent: Option<&str>) -> bool {
        let Some(bound) = self.bound.get(&connection) else {
            return true;
        };
        let primary = self.primary.as_deref();
        bound.iter().any(|name| match (name.as_deref(), agent) {
            (None, _) => true,
            (Some(name), Some(agent)) => name == agent,
            (Some(name), None) => Some(name) == primary,
        })
    }

    /// A task of an agent, as it is written with the task, has come.
    pub(crate) fn on_task_begun(&mut self, agent: Option<&str>) {
        if let Some(agent) = self.agent_mut(agent) {
            agent.open_tasks += 1;
        } else if agent.is_none() {
            self.unassigned += 1;
        }
    }

    /// A task of an agent has ended.
    pub(crate) fn on_task_ended(&mut self, agent: Option<&str>, has_failed: bool) {
        if agent.is_none() && self.primary.is_none() {
            self.unassigned = self.unassigned.saturating_sub(1);
        }
        if let Some(agent) = self.agent_mut(agent) {
            agent.open_tasks = agent.open_tasks.saturating_sub(1);
            agent.failures = if has_failed {
                agent.failures.saturating_add(1)
            } else {
                0
            };
        }
    }

    fn agent_mut(&mut self, written: Option<&str>) -> Option<&mut RegisteredAgent> {
        let name = written.or(self.primary.as_deref())?;
        self.by_name.get_mut(name)
    }

    /// All of them, the earliest registered first.
    pub(crate) fn list(&self, listeners_of: impl Fn(Option<&str>) -> usize) -> Vec<NodeAgent> {
        let mut all: Vec<(&Arc<str>, &RegisteredAgent)> = self.by_name.iter().collect();
        all.sort_by_key(|(_, agent)| agent.number);
        let shown = all.into_iter().map(|(name, agent)| NodeAgent {
            name: Arc::clone(name),
            card: Arc::clone(&agent.card),
            origin: agent.origin,
            is_primary: self.primary.as_ref() == Some(name),
            listeners: listeners_of(self.written_name(name).as_deref()),
            open_tasks: agent.open_tasks,
            last_attached: agent.last_attached,
            access: agent.access.access,
            access_is_set: agent.access.is_set,
        });
        shown.collect()
    }

    /// Whether the card of the node may be another since the last call.
    pub(crate) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// Others may see other agents than before.
    pub(crate) fn rights_changed(&mut self) {
        self.has_changed = true;
    }

    fn changed(&mut self) {
        self.shown.forget();
        self.has_changed = true;
    }
}
