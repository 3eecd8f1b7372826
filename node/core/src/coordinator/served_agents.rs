//! This node's agents as the rule of their choice asks about them, and which of them a peer may use.

use std::sync::Arc;

use agentanycast_identity::PeerId;

use super::Coordinator;
use crate::{
    admission::Admission,
    agent_choice::{AgentList, AgentLoad, TaskTarget, choose},
    agents::Agents,
    clock::Now,
    dispatch::Dispatch,
    policy::AskedFor,
};

/// See the module's text.
pub(super) struct ServedAgents<'a> {
    agents: &'a Agents,
    dispatch: &'a Dispatch,
    /// Skills that agents lost before this moment, Unix milliseconds, are theirs no more.
    former_since: u64,
}

impl Coordinator {
    /// The agents as they are now, and the part that knows who may use them.
    pub(super) fn served_agents(&mut self, now: Now) -> (ServedAgents<'_>, &mut Admission) {
        let list = ServedAgents {
            former_since: self.former_since(now),
            agents: &self.agents,
            dispatch: &self.dispatch,
        };
        (list, &mut self.admission)
    }
}

impl ServedAgents<'_> {
    /// Whose a task is, as it is written with the task; `usable` as in [`choose`].
    ///
    /// # Errors
    /// Why it is nobody's.
    pub(super) fn choose<'a>(
        &'a self,
        task: TaskTarget<'_>,
        usable: impl FnOnce(&[&'a str]) -> Vec<&'a str>,
    ) -> Result<Option<Arc<str>>, String> {
        let chosen = choose(self, task, usable)?;
        Ok(chosen.and_then(|name| self.agents.written_name(name)))
    }

    /// Those of these agents that a peer may use for a skill.
    pub(super) fn usable_to<'a>(
        &self,
        admission: &mut Admission,
        peer: PeerId,
        skill: &str,
        names: &[&'a str],
    ) -> Vec<&'a str> {
        let asked = names.iter().map(|name| AskedFor {
            skill,
            agent: name,
            is_private: self.agents.is_named_private(name),
        });
        let allowed = admission.allowed_to_peer(peer, asked);
        let usable = names.iter().zip(allowed).filter(|(_, is_allowed)| *is_allowed);
        usable.map(|(name, _)| *name).collect()
    }

    /// Those of these agents that are open.
    pub(super) fn open_among<'a>(&self, names: &[&'a str]) -> Vec<&'a str> {
        let mut names = names.to_vec();
        names.retain(|name| !self.agents.is_named_private(name));
        names
    }

    /// Whether a program listens for an agent, as it is written with tasks.
    fn is_attached(&self, written: Option<&str>) -> bool {
        self.dispatch.has_listeners_of(written)
    }
}

impl AgentList for ServedAgents<'_> {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.agents.names().map(|name| &**name)
    }

    fn registered(&self, name: &str) -> Option<&str> {
        self.agents.registered(name).map(|name| &**name)
    }

    fn primary(&self) -> Option<&str> {
        self.agents.primary().map(|name| &**name)
    }

    fn is_private(&self, name: &str) -> bool {
        self.agents.is_named_private(name)
    }

    fn has_service(&self) -> bool {
        self.agents.has_service()
    }

    fn with_skill(&self, skill: &str) -> Vec<AgentLoad<'_>> {
        self.agents
            .loads_with_skill(skill, |written| self.is_attached(written))
    }

    fn lost_skill(&self, skill: &str) -> Vec<AgentLoad<'_>> {
        let since = self.former_since;
        self.agents
            .loads_of_former(skill, since, |written| self.is_attached(written))
    }
}
