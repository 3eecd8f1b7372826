//! Agents that end while they have tasks: which tasks count that, are handed out again, or fail.
//!
//! A task counts the end of an agent that it was handed to and that has not reported on it. A claim that the
//! agent's library made by itself is no report ([`Coordinator::claim_for_agent`]). The count is part of the task in
//! the store, in the batch of the turn that counts, so a restart of the daemon keeps it.

use super::{AgentReport, Coordinator};
use crate::{
    clock::Now,
    task::Status,
    tasks::unless_damaged,
    transaction::{EngineError, ListenerId},
};
use agentanycast_store::StoreError;

impl Coordinator {
    /// UpdateTaskStatus by the library of the agent that listens on `connection`, which claims the task
    /// before the agent has said anything. If no listener there was handed the task, it is an ordinary claim.
    pub(crate) fn claim_for_agent(&mut self, now: Now, id: &str, connection: u64) -> Result<(), EngineError> {
        self.check_claim(id, connection)?;
        self.check_is_open(connection)?;
        let is_repeated = self.dispatch.is_claimed_by(id, connection);
        let report = AgentReport {
            automatic_on: Some(connection),
            ..AgentReport::from_status(Status::Working)
        };
        self.on_agent_activity(now, id, report)?;
        let agent = self.agent_of(id);
        self.dispatch
            .claim_automatically(agent.as_deref(), id, connection, is_repeated);
        Ok(())
    }

    /// The agent that listened as `listener` has ended: its process, or its connection. `read` tasks were
    /// sent to it that [`Coordinator::credit`] was not told of. Each task that it had and had not reported on counts
    /// that, and fails when the count is at the limit; the others are handed out again.
    pub(crate) fn agent_ended(
        &mut self,
        now: Now,
        listener: ListenerId,
        read: usize,
    ) -> Result<(), EngineError> {
        let ended = self.dispatch.agent_ended(listener, read);
        let limit = self.limits.max_agent_ends;
        for id in ended {
            let Some(ends) = unless_damaged(self.count_end(now, &id))?.flatten() else {
                continue;
            };
            if limit > 0 && ends >= limit {
                self.observe.count_failed_by_ends();
                let reason = format!("its agent ended {ends} times while it had this task");
                // It is not given back: it would end the agents of other nodes as well.
                self.fail_in_place(now, &id, &reason, false);
                self.notify_agent(now, &id)?;
            }
        }
        let deliveries = self.detach_listener(now, listener);
        self.release_lost(now)?;
        Ok(self.hand_over(now, deliveries)?)
    }

    /// Counts the end of an agent that had the task; how many there are now.
    fn count_end(&mut self, now: Now, id: &str) -> Result<Option<u32>, StoreError> {
        let Some(mut task) = self.tasks.edit(id)?.filter(|task| !task.status.is_terminal()) else {
            return Ok(None);
        };
        task.agent_ends = task.agent_ends.saturating_add(1);
        let ends = task.agent_ends;
        let saved = task.save(&mut self.transaction);
        self.on_saved(&saved);
        self.observe.count_agent_end();
        tracing::warn!(task = id, ends, "an agent ended while it had a task");
        self.dispatch.on_automatic_claim_lost(now, id);
        Ok(Some(ends))
    }

    /// Makes the tasks unclaimed whose agents have ended and had said nothing of them, if another agent
    /// listens. Without one they stay claimed, and fail after the grace time like every other.
    pub(super) fn release_lost(&mut self, now: Now) -> Result<(), StoreError> {
        for id in self.dispatch.lost_automatic_claims() {
            let Some(mut task) = unless_damaged(self.tasks.edit(&id))?.flatten() else {
                continue;
            };
            let agent = task.agent.clone();
            let agent = agent.as_deref();
            let is_attended = self.dispatch.has_listeners_of(agent);
            let is_reserved = self.dispatch.is_reserved(agent, &id);
            if !is_attended || !task.claimed || is_reserved || !task.has_no_report() {
                continue;
            }
            task.claimed = false;
            let saved = task.save(&mut self.transaction);
            self.on_saved(&saved);
            self.dispatch.release_claim(now, &id);
        }
        Ok(())
    }

    /// Whether the task was claimed by an agent's library, and is on offer again since that agent ended.
    pub(in crate::coordinator) fn is_reoffered(&self, id: &str) -> bool {
        let is_unclaimed = || self.tasks.indexed(id).is_some_and(|known| !known.claimed);
        self.dispatch.is_claimed_automatically(id) && is_unclaimed()
    }
}
