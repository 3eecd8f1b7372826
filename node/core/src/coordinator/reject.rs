//! Refusing what a peer sent: it is counted, logged once for each peer, remembered for when it comes again,
//! and answered; a deployed originator, which does not read the outcome, is told by a status update too.
//! The one rule: refusing costs less than what was refused, and a bounded amount in all.

use std::sync::Arc;

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{TaskStatusUpdatePayload, a2a_envelope::Payload};
use agentanycast_store::StoreError;

use super::Coordinator;
use crate::{
    clock::Now,
    delivery::{dedup::MAX_REASON, inbox::OversizedEnvelope, outbox::EnvelopeKind},
    task::Status,
    trace_context::TraceContext,
};

/// An envelope that has no effect here.
pub(super) struct RefusedEnvelope {
    pub id: String,
    /// Its place in the peer's queue, if it came from one.
    pub queue_position: Option<(u64, u64)>,
    /// The task that it is about; may be empty.
    pub task: String,
    /// Of a sealed one that it was to begin: its id where it was sealed, as is told beside the box; may be empty.
    pub sealed_task: String,
    /// It was to begin that task, or to add a message to it.
    pub sends_task: bool,
    /// What the peer said of itself and did not count, if that may have decided.
    pub rejected_claims: Arc<[String]>,
}

impl Coordinator {
    /// An envelope came that would take too much memory: it was not decoded.
    pub(super) fn on_oversized(
        &mut self,
        now: Now,
        peer: PeerId,
        unfolded: OversizedEnvelope,
    ) -> Result<(), StoreError> {
        let OversizedEnvelope {
            id,
            queue_position: place,
            sends_task,
            reason,
        } = unfolded;
        let refused = RefusedEnvelope {
            id,
            queue_position: place,
            sends_task: sends_task.is_some(),
            task: sends_task.unwrap_or_default(),
            sealed_task: String::new(),
            rejected_claims: Arc::default(),
        };
        self.refuse(now, peer, refused, &reason)
    }

    /// Answers an envelope that has no effect, for this reason.
    pub(super) fn refuse(
        &mut self,
        now: Now,
        peer: PeerId,
        refused: RefusedEnvelope,
        reason: &str,
    ) -> Result<(), StoreError> {
        self.observe.count_refused();
        self.reject_counted(now, peer, refused, reason)
    }

    /// The same of one that was counted.
    pub(super) fn reject_counted(
        &mut self,
        now: Now,
        peer: PeerId,
        refused: RefusedEnvelope,
        reason: &str,
    ) -> Result<(), StoreError> {
        // Whatever the reason repeats of what was sent, the answer is short.
        let reason = &reason[..reason.floor_char_boundary(MAX_REASON)];
        let RefusedEnvelope {
            id,
            queue_position: place,
            task,
            sealed_task,
            sends_task,
            rejected_claims,
        } = refused;
        self.observe
            .note_refusal(now.unix, Some(peer), false, &task, reason);
        if sends_task && self.tasks.indexed(&task).is_none() {
            self.observe
                .note_refused_task(now.unix, peer, &task, &sealed_task, reason, rejected_claims);
        }
        self.observe.log_refused(peer, &task, &id, reason);
        self.peers
            .remember_refusal(&self.transaction, peer, &id, reason)?;
        if sends_task && place.is_none() {
            self.notify_legacy_originator(now, peer, &task, reason)?;
        }
        self.peers
            .mark_applied(&mut self.transaction, now, peer, &id, place, true)?;
        self.ack(now, peer, id, Some(reason));
        Ok(())
    }

    /// A deployed originator does not read the outcome of an acknowledgement: it learns of a refused
    /// task by a status update, unless the task is one that goes on here.
    pub(super) fn notify_legacy_originator(
        &mut self,
        now: Now,
        peer: PeerId,
        task: &str,
        reason: &str,
    ) -> Result<(), StoreError> {
        // A task that is this peer's own here, in either role, goes its own way.
        let goes_on = self
            .tasks
            .indexed(task)
            .is_some_and(|known| known.peer == Some(peer));
        if goes_on || !self.peers.has_room_to_answer(peer, task, reason.len()) {
            return Ok(());
        }
        let message = self.transaction.node_message(now, reason);
        let payload = Payload::TaskStatusUpdate(TaskStatusUpdatePayload {
            task_id: task.to_owned(),
            status: Status::Rejected.to_wire() as i32,
            message: Some(message),
        });
        let trace = TraceContext::default();
        self.send(now, peer, task, EnvelopeKind::Ephemeral, payload, trace)
    }
}
