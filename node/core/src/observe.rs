//! What this node has done, for people and their tools: counters, what was refused last, log lines, spans.

pub(crate) mod log;
mod refusals;
mod refused_tasks;
mod spans;

use std::{collections::HashSet, sync::Arc, time::Duration};

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::EnvelopeType;

use self::{refusals::RecentRefusals, refused_tasks::RefusedTasks};
use super::{
    transaction::{EngineLimits, Transaction},
    types::{Direction, EngineCounters, RecentRefusal},
};
use crate::{
    policy::Decision,
    task::{Status, Task},
};

/// Peers whose refusals are logged by name; of more, the counter tells.
const MAX_LOGGED_PEERS: usize = 10_000;

/// See the module's text.
pub(crate) struct Observe {
    counters: EngineCounters,
    refusals: RecentRefusals,
    refused_tasks: RefusedTasks,
    /// Peers of which a refused envelope was logged as a warning.
    logged: HashSet<PeerId>,
    /// Share of the traces that begin here that are recorded; None: this node takes no part in traces.
    trace_share: Option<f64>,
}

impl Observe {
    pub(crate) fn new(limits: &EngineLimits) -> Self {
        Self {
            counters: EngineCounters::default(),
            refusals: RecentRefusals::default(),
            refused_tasks: RefusedTasks::default(),
            logged: HashSet::new(),
            trace_share: limits.trace_share,
        }
    }

    /// What was done since the start.
    pub(crate) fn counters(&self) -> &EngineCounters {
        &self.counters
    }

    /// Whether spans are made at all.
    pub(crate) fn traces(&self) -> bool {
        self.trace_share.is_some()
    }

    /// A task was written; `before` is the status that it had, None for a new one.
    pub(crate) fn task_saved(&mut self, transaction: &mut Transaction, task: &Task, before: Option<Status>) {
        if before == Some(task.status) {
            return;
        }
        log::status_reached(task);
        if task.traced.is_some() && task.status.is_terminal() {
            spans::trace_end(transaction, task);
        }
        let took = Duration::from_millis(task.updated_at.saturating_sub(task.created_at));
        self.counters.task(task.role, task.status, took);
    }

    /// Envelopes came, or were put into queues.
    pub(crate) fn count_envelope(&mut self, direction: Direction, kind: EnvelopeType) {
        self.counters.message(direction, kind);
    }

    /// An envelope came that cannot be read.
    pub(crate) fn count_malformed(&mut self) {
        self.counters.malformed += 1;
    }

    /// An envelope came that was seen before.
    pub(crate) fn count_duplicate(&mut self) {
        self.counters.duplicates += 1;
    }

    /// An envelope was refused for what is in it.
    pub(crate) fn count_refused(&mut self) {
        self.counters.refused += 1;
    }

    /// A new task was not let in.
    pub(crate) fn count_turned_away(&mut self, decision: &Decision) {
        self.counters.turned_away(decision);
    }

    /// An envelope expired undelivered.
    pub(crate) fn count_expired(&mut self) {
        self.counters.expired += 1;
    }

    /// An agent ended while it had a task on which it had not reported.
    pub(crate) fn count_agent_end(&mut self) {
        self.counters.agent_ends += 1;
    }

    /// A task failed since too many agents had ended while they had it.
    pub(crate) fn count_failed_by_ends(&mut self) {
        self.counters.failed_by_ends += 1;
    }

    /// The store has passed a barrier, which took so long.
    pub(crate) fn count_barrier(&mut self, took: Duration) {
        self.counters.barrier(took);
    }

    /// Something was refused: by this peer, or here; None: this node's own agent or bridge asked.
    pub(crate) fn note_refusal(
        &mut self,
        at: u64,
        peer: Option<PeerId>,
        by_peer: bool,
        task: &str,
        reason: &str,
    ) {
        self.refusals.note(at, peer, by_peer, task, reason);
    }

    /// A new task of a peer was refused. `sealed_task`: its id where it was sealed, empty if it was not.
    pub(crate) fn note_refused_task(
        &mut self,
        at: u64,
        peer: PeerId,
        task: &str,
        sealed_task: &str,
        reason: &str,
        rejected_claims: Arc<[String]>,
    ) {
        let refusal = RecentRefusal {
            at,
            peer: Some(peer),
            by_peer: false,
            task: task.to_owned(),
            reason: reason.to_owned(),
            count: 1,
            unproven: rejected_claims,
        };
        self.refused_tasks.note(sealed_task, refusal);
    }

    /// What was refused last, the newest first.
    pub(crate) fn newest_refusals(&self) -> impl Iterator<Item = &RecentRefusal> {
        self.refusals.newest()
    }

    /// Tasks of peers that were refused under this id, or sealed under it; the newest first.
    pub(crate) fn refused_tasks<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a RecentRefusal> {
        self.refused_tasks.of_task(id)
    }

    /// Logs that an envelope was refused. The first of each peer is a warning, more are for who looks closely. Ids that are
    /// not known are empty.
    pub(crate) fn log_refused(&mut self, peer: PeerId, task: &str, envelope: &str, reason: &str) {
        let (task, envelope) = (known_id(task), known_id(envelope));
        if self.logged.len() < MAX_LOGGED_PEERS && self.logged.insert(peer) {
            tracing::warn!(
                %peer, task, envelope, reason,
                "refused an envelope; further ones of this peer are counted, and told at debug"
            );
        } else {
            tracing::debug!(%peer, task, envelope, reason, "refused an envelope");
        }
    }
}

fn known_id(id: &str) -> Option<&str> {
    (!id.is_empty()).then_some(id)
}
