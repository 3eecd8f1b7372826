//! Tasks sent by skill: given to one candidate after the other until one takes it.
//!
//! A candidate takes a task by acknowledging it. As long as there is another candidate the task is sent
//! *tentatively*: a node of ours holds it back from its agent and says so in its ACK, and the originator, which from
//! then on gives it to nobody else, confirms it. So no two agents work on one task, however late an ACK is: a
//! candidate that was passed over gets a CANCEL instead. A node whose agent has gone away gives the task back, and the
//! next candidate gets it; what no agent has taken there it offers back, and holds until the originator has said whether
//! it stays (docs/protocol.md, "Anycast").

use std::time::Duration;

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{TaskConfirmPayload, TaskFailPayload, a2a_envelope::Payload};
use agentanycast_store::StoreError;

use super::{
    attempts::ACK_TIMEOUT,
    state::Core,
    task_table::unless_damaged,
    trace_context::TraceContext,
    transaction::{Effect, Now, RouteOutcome},
    wire,
};
use crate::{
    delivery::outbox::{EnvelopeKind, OutboxEntry},
    task::{Role, Status, Task},
};

/// How long a task is held where envelopes wait for ever.
const MAX_HELD_AGE: Duration = Duration::from_hours(24);

/// Confirmations of one task that wait for its assignee at most: that of its acknowledgement, and that of its offer. An
/// assignee that offers it more often is answered by these.
const CONFIRMATIONS: usize = 2;

/// Tasks that go on to their next candidates in one turn: bounds the time that it takes.
const MAX_REASSIGNED: usize = 200;

impl Core {
    /// A task that was sent by skill is given to its assignee.
    pub(super) fn begin_attempt(&mut self, now: Now, task: &Task) {
        if let (Some(_), Role::Originator(peer)) = (&task.route, task.role) {
            self.attempts.begin(&task.id, now.mono);
            self.effect(Effect::Routed(RouteOutcome::Assigned(peer)));
        }
    }

    /// Takes up the tasks that the last run left without an answer.
    pub(super) fn resume_attempts(&mut self, now: Now) {
        let routed: Vec<(String, PeerId, bool)> = self
            .tasks
            .all()
            .filter(|(_, known)| known.routed && !known.status.is_terminal())
            .filter_map(|(id, known)| Some((id.to_owned(), known.peer?, known.awaits_assignee)))
            .collect();
        for (id, peer, seeks) in routed {
            self.effect(Effect::Routed(RouteOutcome::Assigned(peer)));
            if seeks {
                self.attempts.begin(&id, now.mono);
            }
        }
    }

    /// A task's assignee has acknowledged it: it stays there. `held`: it waits to be told so.
    pub(super) fn on_accepted(
        &mut self,
        now: Now,
        peer: PeerId,
        id: &str,
        held: bool,
    ) -> Result<(), StoreError> {
        self.attempts.mark_responsive(peer);
        let since = self.attempts.end(id);
        if since.is_none() && !held {
            return Ok(());
        }
        let Some(mut slot) = self.take(id)? else {
            return Ok(());
        };
        // One that has ended meanwhile is not confirmed: its cancel is on its way.
        if slot.task.role != Role::Originator(peer) || slot.task.status.is_terminal() {
            self.tasks.put_unchanged(slot);
            return Ok(());
        }
        if let Some(route) = &mut slot.task.route {
            route.taken = true;
        }
        let metadata = slot.task.metadata.clone();
        self.put(slot);
        // Time in the queue of a peer that was away is no time that it took.
        let after = since.map(|since| now.mono.saturating_sub(since).min(ACK_TIMEOUT));
        self.effect(Effect::Routed(RouteOutcome::Accepted { peer, after }));
        if held {
            let payload = Payload::TaskConfirm(TaskConfirmPayload {
                task_id: id.to_owned(),
            });
            self.send(
                now,
                peer,
                id,
                EnvelopeKind::Durable,
                payload,
                TraceContext::from_metadata(&metadata),
            )?;
        }
        Ok(())
    }

    /// Gives what was not taken in time to the next candidates.
    pub(super) fn reassign_silent(&mut self, now: Now) -> Result<(), StoreError> {
        let reason = format!("not acknowledged within {}", super::human(ACK_TIMEOUT));
        for id in self.attempts.due(now.mono, MAX_REASSIGNED) {
            let Some(peer) = self.tasks.indexed(&id).and_then(|known| known.peer) else {
                continue;
            };
            self.attempts.silent(peer);
            self.effect(Effect::Routed(RouteOutcome::TimedOut(peer)));
            self.try_next_candidate(now, &id, &reason)?;
        }
        Ok(())
    }

    /// Whether a candidate is likely to take a task.
    fn is_there(&self, peer: PeerId) -> bool {
        self.connected.contains(&peer) && !self.attempts.is_silent(peer)
    }

    /// Those who were named may have changed their keys since.
    fn follow_candidates_of(&self, task: &mut Task) {
        if let (Some(first), Some(route)) = (task.role.peer(), &mut task.route) {
            self.follow_candidates(first, &mut route.candidates);
        }
    }

    /// Gives a task that its assignee has not taken to the next candidate. False: there is none.
    pub(super) fn try_next_candidate(
        &mut self,
        now: Now,
        id: &str,
        reason: &str,
    ) -> Result<bool, StoreError> {
        let Some(mut slot) = self.take(id)? else {
            return Ok(false);
        };
        let first = slot.task.role.peer();
        self.follow_candidates_of(&mut slot.task);
        let next = slot
            .task
            .try_next_candidate(now.unix, reason, |peer| self.is_there(peer));
        let (Some(first), Some(next)) = (first, next) else {
            self.tasks.put_unchanged(slot);
            return Ok(false);
        };
        tracing::info!(task = id, %first, %next, reason, "a task goes on to the next agent with its skill");
        let task = slot.task.clone();
        self.put_with(slot, wire::failover_message(&task).map(Into::into), Vec::new());
        self.attempts.end(id);
        self.effect(Effect::Routed(RouteOutcome::Left(first)));
        if self.withdraw(first, id) {
            // It may have arrived, and only its acknowledgement be missing.
            self.send_cancel(now, first, id, TraceContext::from_metadata(&task.metadata))?;
        }
        if let Err(error) = self.send_message_of(now, next, &task) {
            // The same message fitted before.
            self.end(now, id, Status::Failed, &error.to_string())?;
        }
        self.begin_attempt(now, &task);
        Ok(true)
    }

    /// The agent at a task's assignee is gone, and the task comes back: another one may do it. False: there is no other,
    /// or it is not to be done again.
    pub(super) fn give_to_another(
        &mut self,
        now: Now,
        peer: PeerId,
        id: &str,
        reason: &str,
    ) -> Result<bool, StoreError> {
        let Some(mut slot) = self.take(id)? else {
            return Ok(false);
        };
        let is_its = slot.task.role == Role::Originator(peer);
        self.follow_candidates_of(&mut slot.task);
        if !is_its || !slot.task.reopen_route(|other| self.is_there(other)) {
            self.tasks.put_unchanged(slot);
            return Ok(false);
        }
        self.put(slot);
        self.effect(Effect::Routed(RouteOutcome::TimedOut(peer)));
        self.try_next_candidate(now, id, reason)
    }

    /// No agent has been here for long: what others could have is offered back to its originators, and nobody's here until
    /// they have answered. False: there is more of it.
    pub(super) fn offer_back(&mut self, now: Now) -> Result<bool, StoreError> {
        let mut waiting: Vec<String> = self
            .tasks
            .all()
            .filter(|(_, known)| {
                known.returnable && !known.held && !known.claimed && known.status == Status::Submitted
            })
            // Whoever is away could not answer, and the task would be nobody's until it is back.
            .filter(|(_, known)| known.peer.is_some_and(|peer| self.connected.contains(&peer)))
            .map(|(id, _)| id.to_owned())
            .take(MAX_REASSIGNED)
            .collect();
        waiting.sort_unstable();
        for id in &waiting {
            let Some(mut slot) = unless_damaged(self.take(id))?.flatten() else {
                continue;
            };
            let Role::Assignee(peer) = slot.task.role else {
                self.tasks.put_unchanged(slot);
                continue;
            };
            slot.task.returnable = false;
            slot.task.held = true;
            slot.task.updated_at = now.unix;
            let trace = slot.task.metadata.clone();
            self.put(slot);
            self.dispatcher.withdraw(id);
            tracing::info!(task = id, %peer, "no agent has come for a task; it is offered back");
            let payload = Payload::TaskFail(TaskFailPayload {
                task_id: id.clone(),
                error_message: "no agent listens there".to_owned(),
                returned: true,
                held: true,
                ..TaskFailPayload::default()
            });
            self.send(
                now,
                peer,
                id,
                EnvelopeKind::Durable,
                payload,
                TraceContext::from_metadata(&trace),
            )?;
        }
        Ok(waiting.len() < MAX_REASSIGNED)
    }

    /// The assignee has no agent for a task that it holds: another one gets it, or it waits there.
    pub(super) fn on_offered_back(
        &mut self,
        now: Now,
        peer: PeerId,
        id: &str,
        reason: &str,
    ) -> Result<(), StoreError> {
        if self.give_to_another(now, peer, id, reason)? {
            return self.send_cancel(now, peer, id, TraceContext::default());
        }
        // What has ended here its assignee is being told.
        if !self.is_to_confirm(peer, id) || self.confirmations_of(peer, id) >= CONFIRMATIONS {
            return Ok(());
        }
        let payload = Payload::TaskConfirm(TaskConfirmPayload {
            task_id: id.to_owned(),
        });
        self.send(
            now,
            peer,
            id,
            EnvelopeKind::Durable,
            payload,
            TraceContext::default(),
        )
    }

    /// Whether a task was sent from here by skill, and this peer, which has it, is to know that it is its own.
    fn is_to_confirm(&self, peer: PeerId, id: &str) -> bool {
        self.tasks.indexed(id).is_some_and(|known| {
            !known.is_assignee
                && known.routed
                && known.peer == Some(peer)
                && known.status == Status::Submitted
        })
    }

    /// Confirmations of a task that wait for its assignee, as far as they count.
    fn confirmations_of(&self, peer: PeerId, id: &str) -> usize {
        let Some(queue) = self.queues.get(&peer) else {
            return 0;
        };
        let confirm = |entry: &&OutboxEntry| entry.task_id == id && entry.kind == EnvelopeKind::Durable;
        queue.outbox.entries().filter(confirm).take(CONFIRMATIONS).count()
    }

    /// Takes a SEND_TASK out of a peer's queue. True: the peer may have got it all the same.
    fn withdraw(&mut self, peer: PeerId, id: &str) -> bool {
        let Some(queue) = self.queues.get_mut(&peer) else {
            return false;
        };
        let Some((entry, was_sent)) = queue.outbox.withdraw(id) else {
            return false; // The peer has refused it.
        };
        self.on_left_queue(peer, &entry);
        was_sent
    }

    /// The originator of a task that is held here says that it is this node's.
    pub(super) fn on_confirm(
        &mut self,
        now: Now,
        peer: PeerId,
        id: &str,
    ) -> Result<Option<String>, StoreError> {
        let Some(mut slot) = self.take(id)? else {
            return Ok(Some(format!("no task {id}")));
        };
        if slot.task.role != Role::Assignee(peer) {
            self.tasks.put_unchanged(slot);
            return Ok(Some(format!("task {id} was not sent by this peer")));
        }
        if !slot.task.held || slot.task.status.is_terminal() {
            // What ended while it was held nobody has told its originator.
            let ended = slot.task.held.then(|| format!("task {id} has ended here"));
            self.tasks.put_unchanged(slot);
            return Ok(ended);
        }
        slot.task.held = false;
        // Before it was offered back, an agent may have seen it.
        let is_first = slot.task.returnable;
        self.put(slot);
        if is_first {
            self.notify_agent(now, id)?;
        } else {
            self.notify_agent_again(now, id)?;
        }
        Ok(None)
    }

    /// A candidate took the task, and does not learn that it is its own: it never works on it.
    pub(super) fn confirmation_failed(
        &mut self,
        now: Now,
        peer: PeerId,
        id: &str,
        reason: &str,
    ) -> Result<(), StoreError> {
        if self.is_to_confirm(peer, id) && self.end(now, id, Status::Failed, reason)? {
            self.send_cancel(now, peer, id, TraceContext::default())?;
        }
        Ok(())
    }

    /// Ends what was held for so long that its originator has given the confirmation up too.
    pub(super) fn release_expired_held(&mut self, now: Now) -> Result<(), StoreError> {
        let patience = self.limits.offline_ttl.unwrap_or(MAX_HELD_AGE);
        let before = self.clock_ms(now).saturating_sub(patience.as_millis() as u64);
        for id in self.tasks.held_since(before) {
            let reason = format!(
                "not confirmed by its originator within {}",
                super::human(patience)
            );
            unless_damaged(self.end(now, &id, Status::Rejected, &reason))?;
        }
        Ok(())
    }
}
