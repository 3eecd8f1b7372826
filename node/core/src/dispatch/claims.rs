//! Which agent has claimed which task: by its gRPC connection, and whether that is still there.
//!
//! Pure.

use std::{collections::HashMap, time::Duration};

/// The connection of a claim whose claimer is not known any more; real ones count from 1.
const UNKNOWN_CONNECTION: u64 = 0;

/// Who works on a task.
#[derive(Clone, Copy, Debug)]
struct TaskClaim {
    /// The gRPC connection that claimed it.
    connection: u64,
    /// Since when that connection is gone.
    lost_at: Option<Duration>,
    /// The agent's library made it, and the agent has said nothing yet: when the agent ends, the task is
    /// handed out again.
    automatic: bool,
}

/// A claim of which it is not known any more who made it.
pub(crate) struct LostClaim {
    /// The task.
    pub(crate) task: String,
    /// An agent's library had made it.
    pub(crate) automatic: bool,
}

/// The claims of all tasks that have one.
#[derive(Debug, Default)]
pub(super) struct TaskClaims(HashMap<String, TaskClaim>);

impl TaskClaims {
    pub(super) fn claim(&mut self, task: &str, connection: u64, automatic: bool) {
        let claim = TaskClaim {
            connection,
            lost_at: None,
            automatic,
        };
        self.0.insert(task.to_owned(), claim);
    }

    pub(super) fn is_automatic(&self, task: &str) -> bool {
        self.0.get(task).is_some_and(|claim| claim.automatic)
    }

    pub(super) fn is_claimed_by(&self, task: &str, connection: u64) -> bool {
        self.living(task)
            .is_some_and(|claim| claim.connection == connection)
    }

    pub(super) fn is_claimed_by_other(&self, task: &str, connection: u64) -> bool {
        self.living(task)
            .is_some_and(|claim| claim.connection != connection)
    }

    /// Whether its claimer's connection is gone, or not known.
    pub(super) fn is_lost(&self, task: &str) -> bool {
        self.0.get(task).is_some_and(|claim| claim.lost_at.is_some())
    }

    fn living(&self, task: &str) -> Option<&TaskClaim> {
        self.0.get(task).filter(|claim| claim.lost_at.is_none())
    }

    pub(super) fn on_connection_closed(&mut self, now: Duration, connection: u64) {
        let claims = self.0.values_mut();
        for claim in claims.filter(|claim| claim.connection == connection) {
            claim.lost_at = Some(now);
        }
    }

    pub(super) fn restart_grace(&mut self, now: Duration, is_unclaimed: impl Fn(&str) -> bool) {
        for (task, claim) in &mut self.0 {
            if claim.lost_at.is_some() && is_unclaimed(task) {
                claim.lost_at = Some(now);
            }
        }
    }

    pub(super) fn set_lost(&mut self, now: Duration, lost: impl Iterator<Item = LostClaim>) {
        let lost = lost.map(|LostClaim { task, automatic }| (task, lost_at(now, automatic)));
        self.0 = lost.collect();
    }

    pub(super) fn on_automatic_lost(&mut self, now: Duration, task: &str) {
        if let Some(claim) = self.0.get_mut(task).filter(|claim| claim.automatic) {
            claim.lost_at.get_or_insert(now);
        }
    }

    pub(super) fn release(&mut self, now: Duration, task: &str) {
        self.0.insert(task.to_owned(), lost_at(now, true));
    }

    pub(super) fn lost(&self, now: Duration, grace: Duration) -> impl Iterator<Item = &str> {
        let is_over = move |at: Duration| now.saturating_sub(at) > grace;
        let lost = self.0.iter();
        lost.filter(move |(_, claim)| claim.lost_at.is_some_and(is_over))
            .map(|(task, _)| task.as_str())
    }

    pub(super) fn lost_automatic(&self) -> Vec<String> {
        let lost = self.0.iter();
        let lost = lost.filter(|(_, claim)| claim.automatic && claim.lost_at.is_some());
        let mut lost: Vec<String> = lost.map(|(task, _)| task.clone()).collect();
        lost.sort_unstable();
        lost
    }

    pub(super) fn confirm(&mut self, is_on_offer: impl Fn(&str) -> bool) {
        for (task, claim) in self.0.iter_mut().filter(|(_, claim)| claim.automatic) {
            claim.automatic = is_on_offer(task);
        }
    }

    pub(super) fn remove(&mut self, task: &str) {
        self.0.remove(task);
    }
}

fn lost_at(now: Duration, automatic: bool) -> TaskClaim {
    TaskClaim {
        connection: UNKNOWN_CONNECTION,
        lost_at: Some(now),
        automatic,
    }
}
