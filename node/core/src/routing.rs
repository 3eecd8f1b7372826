//! Tasks that were sent by skill: which wait for their assignee to take them, and which peers take none. What becomes of
//! each is told to the selection of agents, by which the next ones are routed.

mod attempts;

use std::time::Duration;

use agentanycast_identity::PeerId;

pub(crate) use self::attempts::ACK_TIMEOUT;
use self::attempts::RoutingAttempts;
use super::{
    clock::Now,
    transaction::{Effect, RouteOutcome, Transaction},
};
use crate::task::{Role, Task};

/// Tasks that go on to their next candidates in one transaction: bounds the time that it takes.
pub(crate) const MAX_REASSIGNED: usize = 200;

/// See the module's text.
#[derive(Default)]
pub(crate) struct Routing {
    attempts: RoutingAttempts,
}

impl Routing {
    /// A task that was sent by skill is given to its assignee.
    pub(crate) fn begin(&mut self, transaction: &mut Transaction, now: Now, task: &Task) {
        if let (Some(_), Role::Originator(peer)) = (&task.route, task.role) {
            self.attempts.begin(&task.id, now.mono);
            report(transaction, RouteOutcome::Assigned(peer));
        }
    }

    /// After a start: the task is with this peer. `awaits_assignee`: nobody has acknowledged it yet.
    pub(crate) fn resume(
        &mut self,
        transaction: &mut Transaction,
        now: Now,
        task: &str,
        peer: PeerId,
        awaits_assignee: bool,
    ) {
        report(transaction, RouteOutcome::Assigned(peer));
        if awaits_assignee {
            self.attempts.begin(task, now.mono);
        }
    }

    /// A peer has acknowledged a task. When it was given; None: it was not waited for.
    pub(crate) fn on_acknowledged(&mut self, peer: PeerId, task: &str) -> Option<Duration> {
        self.attempts.mark_responsive(peer);
        self.attempts.end(task)
    }

    /// A peer keeps a task that was given to it at `since`, if that is known.
    pub(crate) fn on_accepted(
        transaction: &mut Transaction,
        now: Now,
        peer: PeerId,
        since: Option<Duration>,
    ) {
        // Time in the queue of a peer that was away is no time that it took.
        let after = since.map(|since| now.mono.saturating_sub(since).min(ACK_TIMEOUT));
        report(transaction, RouteOutcome::Accepted { peer, after });
    }

    /// A task is no longer with the peer: it ended, or went to another one.
    pub(crate) fn on_left(&mut self, transaction: &mut Transaction, peer: PeerId, task: &str) {
        self.attempts.end(task);
        report(transaction, RouteOutcome::Left(peer));
    }

    /// A peer did not acknowledge a task in time.
    pub(crate) fn on_silent(&mut self, transaction: &mut Transaction, peer: PeerId) {
        self.attempts.silent(peer);
        report(transaction, RouteOutcome::TimedOut(peer));
    }

    /// A peer gave a task back that it had taken.
    pub(crate) fn on_given_back(transaction: &mut Transaction, peer: PeerId) {
        report(transaction, RouteOutcome::TimedOut(peer));
    }

    /// A peer refused a task.
    pub(crate) fn on_refused(transaction: &mut Transaction, peer: PeerId) {
        report(transaction, RouteOutcome::Refused(peer));
    }

    /// Tasks that were not taken in time, some of them; each is told once.
    pub(crate) fn due(&mut self, now: Now) -> Vec<String> {
        self.attempts.due(now.mono, MAX_REASSIGNED)
    }

    /// Whether a peer did not take the last task that it was given.
    pub(crate) fn is_silent(&self, peer: PeerId) -> bool {
        self.attempts.is_silent(peer)
    }

    /// Whether time has to be looked after.
    pub(crate) fn needs_clock(&self) -> bool {
        self.attempts.needs_clock()
    }
}

fn report(transaction: &mut Transaction, outcome: RouteOutcome) {
    transaction.effect(Effect::Routed(outcome));
}
