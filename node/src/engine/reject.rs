//! Refusing what a peer sent: it is counted, logged once for each peer, remembered for when it comes again,
//! and answered; a deployed originator, which does not read the outcome, is told by a status update too.
//! The one rule: refusing costs less than what was refused, and a bounded amount in all.

use std::sync::Arc;

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{TaskStatusUpdatePayload, a2a_envelope::Payload};
use agentanycast_store::StoreError;

use super::{refusals::RecentRefusal, state::Core, trace_context::TraceContext, transaction::Now};
use crate::{
    delivery::{dedup::MAX_REASON, inbox::OversizedEnvelope, outbox::EnvelopeKind},
    task::Status,
};

/// Peers whose refusals are logged by name; of more, the counter tells.
const LOGGED_PEERS: usize = 10_000;

/// Answers to questions about tasks that wait for one peer; it asks about as many at once.
pub(super) const MAX_ANSWERS: usize = super::timers::MAX_QUERIES;

/// Bytes of such answers, unless a single one is larger: they are in memory only.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// An envelope that has no effect here.
pub(super) struct RefusedEnvelope {
    pub(super) id: String,
    /// Its place in the peer's queue, if it came from one.
    pub(super) queue_position: Option<(u64, u64)>,
    /// The task that it is about; may be empty.
    pub(super) task: String,
    /// Of a sealed one that it was to begin: its id where it was sealed, as is told beside the box; may be empty.
    pub(super) sealed_task: String,
    /// It was to begin that task, or to add a message to it.
    pub(super) sends_task: bool,
    /// What the peer said of itself and did not count, if that may have decided.
    pub(super) rejected_claims: Arc<[String]>,
}

impl Core {
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
        self.counters.refused += 1;
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
            rejected_claims: unproven,
        } = refused;
        self.refusals.note(now.unix, Some(peer), false, &task, reason);
        if sends_task && self.tasks.indexed(&task).is_none() {
            let refusal = RecentRefusal {
                at: now.unix,
                peer: Some(peer),
                by_peer: false,
                task: task.clone(),
                reason: reason.to_owned(),
                count: 1,
                unproven,
            };
            self.refused_tasks.note(&sealed_task, refusal);
        }
        self.log_refused(peer, &task, &id, reason);
        self.dedup_of(peer)?.refuse(&id, reason);
        if sends_task && place.is_none() {
            self.notify_legacy_originator(now, peer, &task, reason)?;
        }
        self.mark_applied(now, peer, &id, place, true)?;
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
        if goes_on || !self.has_room_to_answer(peer, task, reason.len()) {
            return Ok(());
        }
        let message = self.note(now, reason);
        let payload = Payload::TaskStatusUpdate(TaskStatusUpdatePayload {
            task_id: task.to_owned(),
            status: Status::Rejected.to_wire() as i32,
            message: Some(message),
        });
        self.send(
            now,
            peer,
            task,
            EnvelopeKind::Ephemeral,
            payload,
            TraceContext::default(),
        )
    }

    /// True when no answer about this task waits for the peer, and not too many others do.
    pub(super) fn has_room_to_answer(&self, peer: PeerId, id: &str, bytes: usize) -> bool {
        let Some(queue) = self.queues.get(&peer) else {
            return true;
        };
        let (mut count, mut total) = (0, bytes);
        for entry in queue
            .outbox
            .entries()
            .filter(|entry| entry.kind == EnvelopeKind::Ephemeral)
        {
            if entry.task_id == id {
                return false;
            }
            count += 1;
            total += entry.bytes;
        }
        count < MAX_ANSWERS && (total <= MAX_ANSWER_BYTES || count == 0)
    }

    /// The first of each peer is a warning, more are for whoever looks closely. Ids that are not known are empty.
    pub(super) fn log_refused(&mut self, peer: PeerId, task: &str, envelope: &str, reason: &str) {
        let (task, envelope) = (known_id(task), known_id(envelope));
        if self.refusals_logged.len() < LOGGED_PEERS && self.refusals_logged.insert(peer) {
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
