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

use super::Coordinator;
use crate::{
    clock::Now,
    delivery::outbox::EnvelopeKind,
    peers::Peers,
    routing::{ACK_TIMEOUT, MAX_REASSIGNED, Routing},
    task::{Role, Status, Task},
    tasks::unless_damaged,
    trace_context::TraceContext,
    wire,
};

/// How long a task is held where envelopes wait for ever.
const MAX_HELD_AGE: Duration = Duration::from_hours(24);

/// Confirmations of one task that wait for its assignee at most: that of its acknowledgement, and that of its offer. An
/// assignee that offers it more often is answered by these.
const CONFIRMATIONS: usize = 2;

impl Coordinator {
    /// A task's assignee has acknowledged it: it stays there. `held`: it waits to be told so.
    pub(super) fn on_accepted(
        &mut self,
        now: Now,
        peer: PeerId,
        id: &str,
        held: bool,
    ) -> Result<(), StoreError> {
        let since = self.routing.on_acknowledged(peer, id);
        if since.is_none() && !held {
            return Ok(());
        }
        let Some(mut task) = self.tasks.edit(id)? else {
            return Ok(());
        };
        // One that has ended meanwhile is not confirmed: its cancel is on its way.
        if task.role != Role::Originator(peer) || task.status.is_terminal() {
            return Ok(());
        }
        if let Some(route) = &mut task.route {
            route.taken = true;
        }
        let metadata = task.metadata.clone();
        let saved = task.save(&mut self.transaction);
        self.on_saved(&saved);
        Routing::on_accepted(&mut self.transaction, now, peer, since);
        if held {
            let payload = Payload::TaskConfirm(TaskConfirmPayload {
                task_id: id.to_owned(),
            });
            let trace = TraceContext::from_metadata(&metadata);
            self.send(now, peer, id, EnvelopeKind::Durable, payload, trace)?;
        }
        Ok(())
    }

    /// Gives what was not taken in time to the next candidates.
    pub(super) fn reassign_silent(&mut self, now: Now) -> Result<(), StoreError> {
        let reason = format!("not acknowledged within {}", wire::human_duration(ACK_TIMEOUT));
        for id in self.routing.due(now) {
            let Some(peer) = self.tasks.indexed(&id).and_then(|known| known.peer) else {
                continue;
            };
            self.routing.on_silent(&mut self.transaction, peer);
            self.try_next_candidate(now, &id, &reason)?;
        }
        Ok(())
    }

    /// Gives a task that its assignee has not taken to the next candidate. False: there is none.
    pub(super) fn try_next_candidate(
        &mut self,
        now: Now,
        id: &str,
        reason: &str,
    ) -> Result<bool, StoreError> {
        let (peers, routing) = (&self.peers, &self.routing);
        let Some(mut task) = self.tasks.edit(id)? else {
            return Ok(false);
        };
        let first = task.role.peer();
        follow_candidates(peers, &mut task);
        let is_there = |peer| is_likely_to_take(peers, routing, peer);
        let next = task.try_next_candidate(now.unix, reason, is_there);
        let (Some(first), Some(next)) = (first, next) else {
            return Ok(false);
        };
        tracing::info!(task = id, %first, %next, reason, "a task goes on to the next agent with its skill");
        let copy = (*task).clone();
        let saved = task.save(&mut self.transaction);
        let task = copy;
        self.on_changed_with(&saved, wire::failover_message(&task).map(Into::into), Vec::new());
        self.routing.on_left(&mut self.transaction, first, id);
        if self.peers.withdraw_task(&mut self.transaction, first, id) {
            // It may have arrived, and only its acknowledgement be missing.
            self.send_cancel(now, first, id, TraceContext::from_metadata(&task.metadata))?;
        }
        if let Err(error) = self.send_message_of(now, next, &task) {
            // The same message fitted before.
            self.end(now, id, Status::Failed, &error.to_string())?;
        }
        self.routing.begin(&mut self.transaction, now, &task);
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
        let (peers, routing) = (&self.peers, &self.routing);
        let Some(mut task) = self.tasks.edit(id)? else {
            return Ok(false);
        };
        let is_its = task.role == Role::Originator(peer);
        follow_candidates(peers, &mut task);
        if !is_its || !task.reopen_route(|other| is_likely_to_take(peers, routing, other)) {
            return Ok(false);
        }
        let saved = task.save(&mut self.transaction);
        self.on_saved(&saved);
        Routing::on_given_back(&mut self.transaction, peer);
        self.try_next_candidate(now, id, reason)
    }

    /// Nobody has listened for this agent for long: what others could have is offered back to its originators, and nobody's here until
    /// they have answered. False: there is more of it.
    pub(super) fn offer_back(&mut self, now: Now, agent: Option<&str>) -> Result<bool, StoreError> {
        let mut waiting: Vec<String> = self
            .tasks
            .index()
            .all()
            .filter(|(_, known)| {
                known.returnable && !known.held && !known.claimed && known.status == Status::Submitted
            })
            .filter(|(_, known)| known.agent.as_deref() == agent)
            // Whoever is away could not answer, and the task would be nobody's until it is back.
            .filter(|(_, known)| known.peer.is_some_and(|peer| self.peers.is_connected(peer)))
            .map(|(id, _)| id.to_owned())
            .take(MAX_REASSIGNED)
            .collect();
        waiting.sort_unstable();
        for id in &waiting {
            let Some(mut task) = unless_damaged(self.tasks.edit(id))?.flatten() else {
                continue;
            };
            let Role::Assignee(peer) = task.role else {
                continue;
            };
            task.returnable = false;
            task.held = true;
            task.updated_at = now.unix;
            let metadata = task.metadata.clone();
            let saved = task.save(&mut self.transaction);
            self.on_saved(&saved);
            self.withdraw(id);
            tracing::info!(task = id, %peer, "no agent has come for a task; it is offered back");
            let payload = Payload::TaskFail(TaskFailPayload {
                task_id: id.clone(),
                error_message: "no agent listens there".to_owned(),
                returned: true,
                held: true,
                ..TaskFailPayload::default()
            });
            let trace = TraceContext::from_metadata(&metadata);
            self.send(now, peer, id, EnvelopeKind::Durable, payload, trace)?;
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
        let waiting = self.peers.count_durable_about(peer, id, CONFIRMATIONS);
        if !self.is_to_confirm(peer, id) || waiting >= CONFIRMATIONS {
            return Ok(());
        }
        let payload = Payload::TaskConfirm(TaskConfirmPayload {
            task_id: id.to_owned(),
        });
        let trace = TraceContext::default();
        self.send(now, peer, id, EnvelopeKind::Durable, payload, trace)
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

    /// The originator of a task that is held here says that it is this node's.
    pub(super) fn on_confirm(
        &mut self,
        now: Now,
        peer: PeerId,
        id: &str,
    ) -> Result<Option<String>, StoreError> {
        let Some(mut task) = self.tasks.edit(id)? else {
            return Ok(Some(format!("no task {id}")));
        };
        if task.role != Role::Assignee(peer) {
            return Ok(Some(format!("task {id} was not sent by this peer")));
        }
        if !task.held || task.status.is_terminal() {
            // What ended while it was held nobody has told its originator.
            return Ok(task.held.then(|| format!("task {id} has ended here")));
        }
        task.held = false;
        // Before it was offered back, an agent may have seen it.
        let is_first = task.returnable;
        let saved = task.save(&mut self.transaction);
        self.on_saved(&saved);
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
        let before = self
            .transaction
            .clock_ms(now)
            .saturating_sub(patience.as_millis() as u64);
        for id in self.tasks.index().held_since(before) {
            let reason = format!(
                "not confirmed by its originator within {}",
                wire::human_duration(patience)
            );
            unless_damaged(self.end(now, &id, Status::Rejected, &reason))?;
        }
        Ok(())
    }
}

/// The candidates of a task may have changed their keys since they were named.
fn follow_candidates(peers: &Peers, task: &mut Task) {
    if let (Some(first), Some(route)) = (task.role.peer(), &mut task.route) {
        peers.follow_candidates(first, &mut route.candidates);
    }
}

/// Whether a candidate is likely to take a task.
fn is_likely_to_take(peers: &Peers, routing: &Routing, peer: PeerId) -> bool {
    peers.is_connected(peer) && !routing.is_silent(peer)
}
