//! Agents that end while they have tasks: which tasks count that, are handed out again, or fail.
//!
//! A task counts the end of an agent that it was handed to and that has not reported on it. A claim that the
//! agent's library made by itself is no report ([`Core::claim_for_agent`]). The count is part of the task in
//! the store, in the batch of the turn that counts, so a restart of the daemon keeps it.

use agentanycast_store::StoreError;

use super::{AgentReport, TaskClaim, UNKNOWN_CONNECTION};
use crate::{
    engine::{
        dispatcher::ListenerId,
        state::Core,
        task_table::unless_damaged,
        transaction::{EngineError, Now},
    },
    task::Status,
};

impl Core {
    /// An agent begins to listen for tasks, on this connection.
    pub fn attach_on(&mut self, now: Now, listener: ListenerId, connection: u64) -> Result<(), EngineError> {
        self.listening_on.insert(listener, connection);
        self.attach(now, listener)
    }

    /// UpdateTaskStatus by the library of the agent that listens on `connection`, which claims the task
    /// before the agent has said anything. If no listener there was handed the task, it is an ordinary claim.
    pub fn claim_for_agent(&mut self, now: Now, id: &str, connection: u64) -> Result<(), EngineError> {
        self.check_claim(id, connection)?;
        let is_repeated = self.is_claimed_by(id, connection);
        let report = AgentReport {
            automatic_on: Some(connection),
            ..AgentReport::from_status(Status::Working)
        };
        self.on_agent_activity(now, id, report)?;
        // A claim that the agent made itself stays one.
        if !is_repeated || self.claims.get(id).is_some_and(|claim| claim.automatic) {
            let claim = TaskClaim {
                connection,
                lost_at: None,
                automatic: self.dispatcher.is_reserved(id),
            };
            self.claims.insert(id.to_owned(), claim);
        }
        Ok(())
    }

    /// Whether a listener on this connection has the task, and keeps it although it was claimed.
    pub(super) fn reserve_for(&mut self, connection: u64, id: &str) -> bool {
        let there = self.listening_on.iter().filter(|(_, on)| **on == connection);
        let mut listeners: Vec<ListenerId> = there.map(|(listener, _)| *listener).collect();
        listeners.sort_unstable();
        listeners
            .into_iter()
            .any(|listener| self.dispatcher.reserve_for(listener, id))
    }

    /// Claims of agents' libraries whose tasks are not on offer any more are ordinary ones.
    pub(super) fn confirm_claims(&mut self) {
        for (id, claim) in self.claims.iter_mut().filter(|(_, claim)| claim.automatic) {
            claim.automatic = self.dispatcher.is_on_offer(id);
        }
    }

    /// The agent that listened as `listener` has ended: its process, or its connection. `read` tasks were
    /// sent to it that [`Core::credit`] was not told of. Each task that it had and had not reported on counts
    /// that, and fails when the count is at the limit; the others are handed out again.
    pub fn agent_ended(&mut self, now: Now, listener: ListenerId, read: usize) -> Result<(), EngineError> {
        let ended = self.dispatcher.agent_ended(listener, read);
        let limit = self.limits.max_agent_ends;
        for id in ended {
            let Some(ends) = unless_damaged(self.count_end(now, &id))?.flatten() else {
                continue;
            };
            if limit > 0 && ends >= limit {
                self.counters.failed_by_ends += 1;
                let reason = format!("its agent ended {ends} times while it had this task");
                // It is not given back: it would end the agents of other nodes as well.
                self.fail_in_place(now, &id, &reason, false);
                self.notify_agent(now, &id)?;
            }
        }
        self.listening_on.remove(&listener);
        let deliveries = self.dispatcher.detach(listener, now.mono);
        self.release_lost(now)?;
        Ok(self.hand_over(now, deliveries)?)
    }

    /// Counts the end of an agent that had the task; how many there are now.
    fn count_end(&mut self, now: Now, id: &str) -> Result<Option<u32>, StoreError> {
        let Some(mut slot) = self.take(id)? else {
            return Ok(None);
        };
        if slot.task.status.is_terminal() {
            self.tasks.put_unchanged(slot);
            return Ok(None);
        }
        slot.task.agent_ends = slot.task.agent_ends.saturating_add(1);
        let ends = slot.task.agent_ends;
        self.put(slot);
        self.counters.agent_ends += 1;
        tracing::warn!(task = id, ends, "an agent ended while it had a task");
        if let Some(claim) = self.claims.get_mut(id).filter(|claim| claim.automatic) {
            claim.lost_at.get_or_insert(now.mono);
        }
        Ok(Some(ends))
    }

    /// Makes the tasks unclaimed whose agents have ended and had said nothing of them, if another agent
    /// listens. Without one they stay claimed, and fail after the grace time like every other.
    pub(super) fn release_lost(&mut self, now: Now) -> Result<(), StoreError> {
        if self.dispatcher.idle_since().is_some() {
            return Ok(());
        }
        let lost = self
            .claims
            .iter()
            .filter(|(_, claim)| claim.automatic && claim.lost_at.is_some());
        let mut lost: Vec<String> = lost.map(|(id, _)| id.clone()).collect();
        lost.sort_unstable();
        for id in lost {
            let Some(mut slot) = unless_damaged(self.take(&id))?.flatten() else {
                continue;
            };
            if !slot.task.claimed || self.dispatcher.is_reserved(&id) || !slot.task.has_no_report() {
                self.tasks.put_unchanged(slot);
                continue;
            }
            slot.task.claimed = false;
            self.put(slot);
            let claim = TaskClaim {
                connection: UNKNOWN_CONNECTION,
                lost_at: Some(now.mono),
                automatic: true,
            };
            self.claims.insert(id, claim);
        }
        Ok(())
    }

    /// Whether the task was claimed by an agent's library, and is on offer again since that agent ended.
    pub(in crate::engine) fn is_reoffered(&self, id: &str) -> bool {
        let is_unclaimed = || self.tasks.indexed(id).is_some_and(|known| !known.claimed);
        self.claims.get(id).is_some_and(|claim| claim.automatic) && is_unclaimed()
    }
}
