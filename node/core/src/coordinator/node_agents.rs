//! The agents of this node: who is registered, who listens for whom, and whose a new task is.

use std::sync::Arc;

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::AgentCard;

use super::{Coordinator, client_commands::SendTask};
use crate::{
    agent_choice::{AgentList as _, TaskTarget, why_none},
    agents::Agents,
    clock::Now,
    dispatch::ListenerDelivery,
    task::Role,
    tasks::unless_damaged,
    transaction::{Effect, EngineError, ListenerId},
    types::{AgentOrigin, CallerKey, NodeAgent, RegisteredName, RegistrationAccess, agent_name_of_card},
};

/// Who begins to listen.
#[derive(Clone, Debug)]
pub struct ListenRequest {
    /// The caller's gRPC connection; None: it has none.
    pub connection: Option<u64>,
    /// Who that is.
    pub caller: CallerKey,
    /// The registered agent for which it listens; empty: the agent of the card that it has set, else the primary one.
    pub agent: String,
    /// It is told that tasks have ended.
    pub wants_ends: bool,
}

impl ListenRequest {
    /// A caller of which no more is known than its connection, for the agent that it is bound to.
    pub fn on_connection(connection: u64) -> Self {
        Self {
            connection: Some(connection),
            caller: CallerKey::Connection(connection),
            agent: String::new(),
            wants_ends: true,
        }
    }
}

/// What a card that was set belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CardUse {
    /// This agent, which has it now.
    Agent(Arc<str>),
    /// The caller's agent, once it listens. The node's card until then, if no agent is registered.
    Pending,
}

impl Coordinator {
    /// Sets the card of the node while no agent is registered.
    pub(crate) fn set_card(&mut self, card: AgentCard) {
        self.peers.set_own_card(&mut self.transaction, card);
        let card = self.node_card();
        self.transaction.effect(Effect::NodeCard(card));
    }

    /// The card of this node.
    pub(crate) fn node_card(&self) -> Option<Arc<AgentCard>> {
        let dispatch = &self.dispatch;
        let is_attached = |written: Option<&str>| dispatch.has_listeners_of(written);
        self.agents
            .node_card(is_attached)
            .or_else(|| self.peers.own_card().cloned())
    }

    /// Tells the rest of the node its card, if it may be another.
    pub(super) fn tell_node_card(&mut self) {
        if self.agents.take_change() {
            let card = self.node_card();
            self.transaction.effect(Effect::NodeCard(card));
        }
    }

    /// SetAgentCard: the card of the agent for which the caller listens; else it waits until it does.
    pub(crate) fn set_card_of(
        &mut self,
        now: Now,
        caller: CallerKey,
        connection: u64,
        card: AgentCard,
    ) -> Result<CardUse, EngineError> {
        if let Some(agent) = self.agents.agent_of_caller(&caller, connection) {
            let agent = match &caller {
                CallerKey::AgentSocket(_) => agent,
                CallerKey::Process(_) | CallerKey::Connection(_) => {
                    self.renamed_by_card(now, agent, &card)?
                }
            };
            let agent = self.agents.register(
                &mut self.transaction,
                now,
                &agent,
                card,
                AgentOrigin::Card,
                RegistrationAccess::AsBefore,
            )?;
            self.release_for_skills(now)?;
            return Ok(CardUse::Agent(agent));
        }
        Agents::check_card(&card)?;
        if self.agents.is_empty() {
            self.set_card(card.clone());
        }
        self.agents.put_pending_card(caller, card);
        Ok(CardUse::Pending)
    }

    /// An agent that came by a card is called as its card says, if that name is free.
    fn renamed_by_card(
        &mut self,
        now: Now,
        agent: Arc<str>,
        card: &AgentCard,
    ) -> Result<Arc<str>, EngineError> {
        let name = agent_name_of_card(&card.name);
        if *name == *agent || !self.agents.came_by_card(&agent) || self.agents.is_registered(&name) {
            return Ok(agent);
        }
        self.rename_agent(now, &agent, &name)
    }

    /// Registers an agent by name, or gives it another card. `keeps_skills`: the skills of its last card stay beside those of this
    /// one. As it is registered now.
    pub(crate) fn register_agent(
        &mut self,
        now: Now,
        name: &str,
        mut card: AgentCard,
        keeps_skills: bool,
        access: RegistrationAccess,
    ) -> Result<RegisteredName, EngineError> {
        let made = agent_name_of_card(&card.name);
        let name = if name.is_empty() { made.as_str() } else { name };
        if keeps_skills {
            self.agents.add_last_skills(name, &mut card);
        }
        // The first agent gets what came for a node without one.
        let was_private = self.agents.is_named_private(name);
        let registered = self.agents.register(
            &mut self.transaction,
            now,
            name,
            card,
            AgentOrigin::Service,
            access,
        )?;
        self.after_access_change(now, &registered, was_private)?;
        self.release_for_skills(now)?;
        let (access, access_is_set) = self.agents.access(&registered);
        Ok(RegisteredName {
            name: registered,
            access,
            access_is_set,
        })
    }

    /// Removes an agent for which no program listens; its tasks that have not ended fail. How many did.
    pub(crate) fn remove_agent(&mut self, now: Now, name: &str) -> Result<usize, EngineError> {
        self.check_registered(name)?;
        let written = self.agents.written_name(name);
        let listeners = self.dispatch.listeners_of(written.as_deref());
        if listeners > 0 {
            return Err(EngineError::Precondition(format!(
                "agent {name} listens for tasks (open streams: {listeners}); end its program first"
            )));
        }
        let reason = format!("agent {name} was removed");
        let ids = self.open_tasks_of(written.as_deref());
        for id in &ids {
            self.abandon(now, id, &reason)?;
        }
        let card = self.agents.remove(&mut self.transaction, name);
        if let Some(written) = &written {
            self.dispatch.forget(written);
        }
        self.after_removal(card, false);
        Ok(ids.len())
    }

    /// Forgets agents that came by a card and have not listened for long.
    pub(super) fn forget_agents(&mut self, now: Now) {
        let after = self.limits.agent_forget.as_millis() as u64;
        if after == 0 {
            return;
        }
        for name in self.agents.forgettable(now, after) {
            let written = self.agents.written_name(&name);
            if self.dispatch.has_listeners_of(written.as_deref()) {
                continue;
            }
            tracing::info!(
                agent = &*name,
                "an agent has not listened for long; it is forgotten"
            );
            let was_private = self.agents.is_private(written.as_deref());
            let card = self.agents.remove(&mut self.transaction, &name);
            if let Some(written) = &written {
                self.dispatch.forget(written);
            }
            self.after_removal(card, !was_private);
        }
    }

    /// The last agent's card stays that of the node, as with deployed daemons, unless it was removed on purpose.
    fn after_removal(&mut self, card: Option<Arc<AgentCard>>, keeps_card: bool) {
        if !self.agents.is_empty() {
            return;
        }
        match card.filter(|_| keeps_card) {
            Some(card) => self.peers.set_own_card(&mut self.transaction, (*card).clone()),
            None => self.peers.clear_own_card(&mut self.transaction),
        }
    }

    /// The agents of this node, the earliest registered first.
    pub(crate) fn list_agents(&self) -> Vec<NodeAgent> {
        let dispatch = &self.dispatch;
        self.agents.list(|written| dispatch.listeners_of(written))
    }

    /// Refuses a name that no agent here has.
    pub(super) fn check_registered(&self, name: &str) -> Result<(), EngineError> {
        if self.agents.is_registered(name) {
            return Ok(());
        }
        Err(EngineError::NotRegistered(self.agents.no_such_agent(name)))
    }

    /// Whose a peer's task for this agent or skill is, as it is written with the task: where it names no agent, one that the peer
    /// may use, if there is one.
    pub(super) fn choose_agent_for(
        &mut self,
        now: Now,
        peer: PeerId,
        target: &str,
        skill: &str,
    ) -> Result<Option<Arc<str>>, String> {
        let (list, admission) = self.served_agents(now);
        let task = TaskTarget {
            agent: target,
            skill,
            sender: None,
        };
        list.choose(task, |names| list.usable_to(admission, peer, skill, names))
    }

    /// The name of an agent as it is written with its tasks; None: no agent is registered.
    pub(super) fn agent_name(&self, written: Option<&str>) -> Option<Arc<str>> {
        written.map(Arc::from).or_else(|| self.agents.primary().cloned())
    }

    /// Why a peer's task for this agent or skill is for none: with the names that the peer may use.
    pub(super) fn refuse_agent(
        &mut self,
        now: Now,
        peer: PeerId,
        target: &str,
        skill: &str,
        reason: String,
    ) -> String {
        if !self.admission.is_enabled() {
            return reason;
        }
        let (list, admission) = self.served_agents(now);
        let names: Vec<&str> = list.names().collect();
        let allowed = list.usable_to(admission, peer, skill, &names);
        why_none(target, skill, allowed.into_iter())
    }

    /// A program begins to listen. The name of the agent; None: the primary one, which has none yet.
    pub(crate) fn listen(
        &mut self,
        now: Now,
        listener: ListenerId,
        request: &ListenRequest,
    ) -> Result<Option<Arc<str>>, EngineError> {
        let agent = self.agent_to_listen_for(now, request)?;
        let name = agent.clone().or_else(|| self.agents.primary().cloned());
        let written = agent.as_deref().and_then(|name| self.agents.written_name(name));
        if let Some(connection) = request.connection {
            self.agents.bind(connection, agent.as_ref());
        }
        if let Some(name) = &name {
            let by_card = request.agent.is_empty() && agent.is_some();
            let caller = by_card.then_some(&request.caller);
            let is_first = !self.dispatch.has_listeners_of(written.as_deref());
            self.agents
                .on_attached(&mut self.transaction, now, name, caller, is_first);
        }
        self.attach_to(now, listener, written, request)?;
        Ok(name)
    }

    fn agent_to_listen_for(
        &mut self,
        now: Now,
        request: &ListenRequest,
    ) -> Result<Option<Arc<str>>, EngineError> {
        if !request.agent.is_empty() {
            self.check_registered(&request.agent)?;
            return Ok(Some(Arc::from(request.agent.as_str())));
        }
        let pending = self.agents.take_pending_card(&request.caller);
        if let CallerKey::AgentSocket(name) = &request.caller {
            let bare = AgentCard {
                name: name.to_string(),
                ..AgentCard::default()
            };
            if pending.is_none() && self.agents.is_registered(name) {
                return Ok(Some(Arc::clone(name)));
            }
            let card = pending.unwrap_or(bare);
            let agent = self.agents.register(
                &mut self.transaction,
                now,
                name,
                card,
                AgentOrigin::Service,
                RegistrationAccess::AsBefore,
            )?;
            self.release_for_skills(now)?;
            return Ok(Some(agent));
        }
        let Some(card) = pending else {
            let connection = request.connection.unwrap_or_default();
            return Ok(self.agents.agent_of_caller(&request.caller, connection));
        };
        let name = agent_name_of_card(&card.name);
        if !self.agents.is_registered(&name)
            && let Some(before) = self.agents.replaceable()
            && !self
                .dispatch
                .has_listeners_of(self.agents.written_name(&before).as_deref())
        {
            self.rename_agent(now, &before, &name)?;
        }
        let agent = self.agents.register(
            &mut self.transaction,
            now,
            &name,
            card,
            AgentOrigin::Card,
            RegistrationAccess::AsBefore,
        )?;
        self.release_for_skills(now)?;
        Ok(Some(agent))
    }

    /// Gives an agent a free name, and its open tasks with it.
    fn rename_agent(&mut self, now: Now, from: &str, to: &str) -> Result<Arc<str>, EngineError> {
        let before = self.agents.written_name(from);
        self.agents.rename(&mut self.transaction, from, to);
        self.admission.rename_agent(&mut self.transaction, from, to);
        let name: Arc<str> = Arc::from(to);
        if let Some(before) = before {
            for id in self.open_tasks_of(Some(&before)) {
                let Some(mut task) = unless_damaged(self.tasks.edit(&id))?.flatten() else {
                    continue;
                };
                task.agent = Some(Arc::clone(&name));
                task.updated_at = now.unix;
                let saved = task.save(&mut self.transaction);
                self.on_saved(&saved);
            }
            self.dispatch.rename(&before, &name);
        }
        Ok(name)
    }

    fn open_tasks_of(&self, written: Option<&str>) -> Vec<String> {
        let unended = self.tasks.index().unended();
        let its = unended.filter(|(_, known)| known.is_assignee && known.agent.as_deref() == written);
        let mut ids: Vec<String> = its.map(|(id, _)| id.to_owned()).collect();
        ids.sort_unstable();
        ids
    }

    /// A listener is gone.
    pub(super) fn detach_listener(&mut self, now: Now, listener: ListenerId) -> Vec<ListenerDelivery> {
        if !self.dispatch.is_listening(listener) {
            return Vec::new();
        }
        let written = self.dispatch.agent_of_listener(listener);
        let deliveries = self.dispatch.detach(now, listener);
        let name = self.agent_name(written.as_deref());
        if let Some(name) = name.filter(|_| !self.dispatch.has_listeners_of(written.as_deref())) {
            self.agents.on_detached(&mut self.transaction, now, &name);
        }
        deliveries
    }

    /// Whose a new task is: of this node's agents, or as its sender asks of another node. To a caller of a gateway of whom nobody
    /// knows who it is, open agents alone are named, and chosen where it names none. Where none is open, the one that would be
    /// chosen refuses it.
    pub(super) fn agent_for_new(
        &mut self,
        now: Now,
        role: Role,
        request: &SendTask,
    ) -> Result<Option<Arc<str>>, EngineError> {
        let (target, skill) = (request.target_agent.as_str(), request.skill.as_str());
        match role {
            Role::Both => {}
            Role::External if !target.is_empty() => {
                return Err(EngineError::Invalid(
                    "target_agent is for tasks that are sent to a peer".to_owned(),
                ));
            }
            Role::Originator(_) | Role::Assignee(_) | Role::External => {
                return Ok((!target.is_empty()).then(|| Arc::from(target)));
            }
        }
        let sender = request
            .sender
            .and_then(|connection| self.agents.agent_on(connection));
        let task = TaskTarget {
            agent: target,
            skill,
            sender: sender.as_deref(),
        };
        let (list, _) = self.served_agents(now);
        let chosen = if request.is_of_stranger() {
            let chosen = list.choose(task, |names| list.open_among(names));
            chosen.map_err(|_| {
                let names: Vec<&str> = list.names().collect();
                why_none(target, skill, list.open_among(&names).into_iter())
            })
        } else {
            list.choose(task, <[_]>::to_vec)
        };
        chosen.map_err(EngineError::NotRegistered)
    }

    /// Refuses the report of a caller that listens for other agents only.
    pub(crate) fn check_is_its_agent(&self, id: &str, connection: u64) -> Result<(), EngineError> {
        let Some(known) = self.tasks.indexed(id).filter(|known| known.is_assignee) else {
            return Ok(());
        };
        if self.agents.may_report(connection, known.agent.as_deref()) {
            return Ok(());
        }
        let agent = self.agent_name(known.agent.as_deref());
        Err(EngineError::Denied(format!(
            "task {id} is of agent {}; the caller listens for another one",
            agent.as_deref().unwrap_or_default()
        )))
    }

    /// Which of this node's agents other than the one on this connection have a skill, or had it a short time ago: None: none;
    /// else whether one that has it listens. `is_stranger`: open agents only.
    pub(crate) fn local_agents_with(
        &self,
        skill: &str,
        sender: Option<u64>,
        is_stranger: bool,
    ) -> Option<bool> {
        let sender = sender.and_then(|connection| self.agents.agent_on(connection));
        let dispatch = &self.dispatch;
        let is_attached = |written: Option<&str>| dispatch.has_listeners_of(written);
        let is_candidate = |name: &str| {
            let is_closed = || self.agents.is_named_private(name);
            Some(name) != sender.as_deref() && !(is_stranger && is_closed())
        };
        self.agents.with_skill(skill, is_candidate, is_attached)
    }
}
