//! Tasks that wait for a skill: their agent had it a short time ago and does not list it now, as a device that has just connected
//! again and is asked for its tools.
//!
//! Invariant: such a task is offered to no listener. Its agent gets it when it lists the skill again; it ends REJECTED when the
//! agent has not listed the skill for `agent_grace`.

use std::sync::Arc;

use agentanycast_store::StoreError;

use super::Coordinator;
use crate::{clock::Now, task::Status, tasks::unless_damaged, transaction::EngineError};

impl Coordinator {
    /// Whether a new task for this skill waits until `agent`, which was chosen for it, lists the skill again.
    pub(super) fn awaits_skill(&self, now: Now, target: &str, skill: &str, agent: Option<&str>) -> bool {
        let since = self.former_since(now);
        target.is_empty() && self.agents.has_lost_skill(agent, skill, since)
    }

    /// Skills that agents lost before this moment, Unix milliseconds, are theirs no more.
    pub(super) fn former_since(&self, now: Now) -> u64 {
        let grace = self.limits.agent_grace.as_millis() as u64;
        now.unix.saturating_sub(grace)
    }

    /// An agent has another card: it gets the tasks that waited for that.
    pub(super) fn release_for_skills(&mut self, now: Now) -> Result<(), EngineError> {
        for id in self.tasks.index().awaiting_skill() {
            let skill = unless_damaged(self.tasks.read(&id))?.flatten();
            let skill = skill.map(|task| task.skill.clone()).unwrap_or_default();
            let agent = self.agent_of(&id);
            if self.agents.has_skill(agent.as_deref(), &skill) {
                self.release_for_skill(now, &id)?;
            }
        }
        Ok(())
    }

    fn release_for_skill(&mut self, now: Now, id: &str) -> Result<(), StoreError> {
        let Some(mut task) = unless_damaged(self.tasks.edit(id))?.flatten() else {
            return Ok(());
        };
        task.awaits_skill = false;
        let saved = task.save(&mut self.transaction);
        self.on_saved(&saved);
        self.notify_agent(now, id)
    }

    /// Refuses the tasks whose agents have not listed their skills again in time.
    pub(super) fn refuse_without_skill(&mut self, now: Now) -> Result<(), StoreError> {
        let since = self.former_since(now);
        self.agents.forget_former(&mut self.transaction, since);
        for id in self.tasks.index().awaiting_skill() {
            let Some(task) = unless_damaged(self.tasks.read(&id))?.flatten() else {
                continue;
            };
            let (skill, agent) = (task.skill.clone(), task.agent.clone());
            let agent: Option<&str> = agent.as_deref();
            if self.agents.has_skill(agent, &skill) {
                self.release_for_skill(now, &id)?;
            } else if !self.agents.has_lost_skill(agent, &skill, since) {
                let name: Option<Arc<str>> = self.agent_name(agent);
                let reason = format!(
                    "agent {} had the skill {skill} and has not listed it again for {} s",
                    name.as_deref().unwrap_or_default(),
                    self.limits.agent_grace.as_secs()
                );
                self.end_in_place(now, &id, Status::Rejected, &reason, false);
            }
        }
        Ok(())
    }
}
