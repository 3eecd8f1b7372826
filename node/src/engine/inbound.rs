//! What comes from peers: one frame in; a change, an acknowledgement or a refusal out.
//!
//! The order of questions: is it readable, has it been applied before, may this peer say it, does
//! the task's state allow it. The mark that it was applied is in the same batch as its effect.

mod streams;
mod task_query;

use std::sync::Arc;

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{
    Artifact, Message, SealedKind, SendTaskPayload, TaskCancelPayload, TaskCompletePayload, TaskFailPayload,
    TaskStatusUpdatePayload, a2a_envelope::Payload,
};
use agentanycast_store::StoreError;
use bytes::Bytes;
use prost::Message as _;

use super::{
    admission::sealed_task_id_of,
    client_commands::deadline_of,
    counters::Direction,
    log,
    reject::RefusedEnvelope,
    state::Core,
    task_table::CachedTask,
    trace_context::TraceContext,
    transaction::{EngineError, Now},
};
use crate::{
    delivery::{
        inbox::{self, InboundEnvelope, Malformed},
        outbox::EnvelopeKind,
    },
    task::{Output, Role, Status, Task, TaskTimeline},
};

/// Tasks that are held for one peer's confirmation, which takes it a round trip: what a window has, eight times.
const MAX_HELD: usize = 2048;

/// What to answer.
enum AckDecision {
    /// Its effect is in the batch.
    Accept,
    /// The same, of a task that waits for its originator's confirmation.
    Hold,
    /// It has none, for this reason.
    Refuse(String),
    /// Somebody else answers.
    Later,
}

impl From<EngineError> for AckDecision {
    fn from(error: EngineError) -> Self {
        Self::Refuse(error.to_string())
    }
}

impl Core {
    /// A frame came from a peer. An error means that the store failed: nothing was acknowledged.
    pub fn on_frame(&mut self, now: Now, peer: PeerId, frame: &Bytes) -> Result<(), StoreError> {
        let inbound = match InboundEnvelope::decode(frame) {
            Ok(inbound) => inbound,
            Err(Malformed::DecodesTooLarge(unfolded)) => return self.on_oversized(now, peer, *unfolded),
            Err(error) => {
                self.counters.malformed += 1;
                self.log_refused(peer, "", "", &error.to_string());
                return Ok(());
            }
        };
        if let Payload::SendTask(send) = &inbound.payload {
            self.on_invite(now, peer, &send.invite);
        }
        if self.needs_identity(peer, &inbound)? {
            self.identity_needed = true;
            return Ok(());
        }
        if inbound.epoch != 0 && !self.is_sequenced(peer)? {
            // Known from now on, also if nothing but acknowledgements ever comes.
            self.dedup_of(peer)?.applied.insert(inbound.epoch, 0);
            self.save_dedup(peer)?;
        }
        self.counters
            .message(Direction::Inbound, inbox::type_of(&inbound.payload));
        match inbound.payload {
            Payload::Ack(ack) => return self.on_ack(now, peer, ack),
            Payload::StreamStart(_) | Payload::StreamChunk(_) | Payload::StreamEnd(_)
                if inbound.queue_position.is_none() =>
            {
                return self.on_stream(now, peer, inbound.id, inbound.payload);
            }
            _ => {}
        }
        if self.is_duplicate(peer, &inbound)? {
            return self.on_duplicate(now, peer, inbound);
        }
        log::received(peer, &inbound, false);
        let admitted = self.admit_envelope(now, peer, &inbound);
        let task = inbox::task_id_of(&inbound.payload).to_owned();
        let (sends_task, sealed_task) = match &inbound.payload {
            Payload::SendTask(send) => (true, sealed_task_id_of(send).to_owned()),
            _ => (false, String::new()),
        };
        let InboundEnvelope {
            id,
            queue_position: place,
            joint_ack,
            trace_parent,
            trace_state,
            payload,
            ..
        } = inbound;
        let refused = |id| RefusedEnvelope {
            id,
            queue_position: place,
            task: task.clone(),
            sealed_task: sealed_task.clone(),
            sends_task,
            rejected_claims: Arc::default(),
        };
        if let Err(error) = admitted {
            let refused = RefusedEnvelope {
                rejected_claims: self.rejected_claims_of(peer),
                ..refused(id)
            };
            return self.reject_counted(now, peer, refused, &error.to_string());
        }
        let mut held = false;
        let refusal = match self.apply(now, peer, TraceContext::new(&trace_parent, &trace_state), payload) {
            Ok(AckDecision::Later) => return Ok(()),
            Ok(AckDecision::Accept) => None,
            Ok(AckDecision::Hold) => {
                held = true;
                None
            }
            Ok(AckDecision::Refuse(reason)) => Some(reason),
            // One damaged record must not stop the node whenever a peer names it.
            Err(error @ StoreError::Damaged(_)) => Some(error.to_string()),
            Err(error) => return Err(error),
        };
        if let Some(reason) = refusal {
            return self.refuse(now, peer, refused(id), &reason);
        }
        self.mark_applied(now, peer, &id, place, false)?;
        if held {
            self.ack_held(now, peer, id);
        } else {
            self.ack_joined(now, peer, id, joint_ack);
        }
        Ok(())
    }

    /// It was applied or refused before: it is answered as it was then.
    fn on_duplicate(&mut self, now: Now, peer: PeerId, inbound: InboundEnvelope) -> Result<(), StoreError> {
        self.counters.duplicates += 1;
        log::received(peer, &inbound, true);
        let refusal = match self.dedup_of(peer)?.refusal(&inbound.id).map(str::to_owned) {
            None => self.refused_before(peer, &inbound.payload)?,
            known => known,
        };
        if let (Some(reason), None, Payload::SendTask(send)) =
            (&refusal, inbound.queue_position, &inbound.payload)
        {
            self.notify_legacy_originator(now, peer, &send.task_id, reason)?; // The first time may have got lost.
        }
        if refusal.is_some() {
            self.ack(now, peer, inbound.id, refusal.as_deref());
        } else if self.holds(peer, &inbound.payload) {
            self.ack_held(now, peer, inbound.id);
        } else {
            self.ack_joined(now, peer, inbound.id, inbound.joint_ack);
        }
        Ok(())
    }

    /// Whether this sends a task that is held here.
    fn holds(&self, peer: PeerId, payload: &Payload) -> bool {
        let Payload::SendTask(send) = payload else {
            return false;
        };
        let known = self.tasks.indexed(&send.task_id);
        known.is_some_and(|known| known.held && known.peer == Some(peer) && !known.status.is_terminal())
    }

    fn apply(
        &mut self,
        now: Now,
        peer: PeerId,
        trace: TraceContext<'_>,
        payload: Payload,
    ) -> Result<AckDecision, StoreError> {
        match payload {
            Payload::SendTask(send) => self.on_send_task(now, peer, trace, send),
            Payload::TaskStatusUpdate(update) => self.on_update(now, peer, update),
            Payload::TaskComplete(complete) => self.on_complete(now, peer, complete),
            Payload::TaskFail(fail) => self.on_fail(now, peer, fail),
            Payload::TaskCancel(cancel) => self.on_cancel(now, peer, &cancel.task_id),
            Payload::TaskConfirm(confirm) => Ok(self
                .on_confirm(now, peer, &confirm.task_id)?
                .map_or(AckDecision::Accept, AckDecision::Refuse)),
            Payload::GetTask(get) => self.on_get_task(now, peer, &get.task_id),
            Payload::GetTaskResponse(response) => self.on_get_task_response(now, peer, response),
            Payload::StreamEnd(end) => Ok(self.on_broken_stream(peer, end)),
            Payload::StreamStart(_) | Payload::StreamChunk(_) => Ok(AckDecision::Refuse(
                "artifacts are streamed outside the queue".into(),
            )),
            Payload::Ack(_) => Ok(AckDecision::Later),
        }
    }

    fn on_send_task(
        &mut self,
        now: Now,
        peer: PeerId,
        trace: TraceContext<'_>,
        send: SendTaskPayload,
    ) -> Result<AckDecision, StoreError> {
        let Some(mut message) = send.message else {
            return Ok(AckDecision::Refuse("the task has no message".into()));
        };
        if self.tasks.indexed(&send.task_id).is_some() {
            return self.on_further_message(now, peer, &send.task_id, message, send.further);
        }
        if send.further {
            // Its task has ended and was collected; it must not begin another one.
            return Ok(AckDecision::Refuse(format!("no task {}", send.task_id)));
        }
        if let Err(error) = self.check_tasks_from(peer) {
            return Ok(error.into());
        }
        if send.tentative && self.dispatcher.idle_since().is_some() {
            return Ok(AckDecision::Refuse("no agent listens here".to_owned())); // Others may have one that does.
        }
        if send.tentative && self.tasks.held_for(peer) >= MAX_HELD {
            return Ok(AckDecision::Refuse(format!(
                "{MAX_HELD} tasks of this peer are held here for its confirmation, the limit; confirm or cancel some"
            )));
        }
        let mut metadata = send.metadata;
        let opened = match self.unseal_first_message(now, &mut message, &mut metadata) {
            Ok(opened) => opened,
            Err(reason) => return Ok(AckDecision::Refuse(reason)),
        };
        let deadline = match deadline_of(&metadata) {
            Ok(deadline) => deadline,
            Err(error) => return Ok(error.into()),
        };
        if let Some(opened) = &opened {
            self.remember_sealed(now, opened, &send.task_id);
        }
        trace.write_if_absent(&mut metadata);
        let traced = self.enter_trace(&mut metadata);
        let task = Task {
            id: send.task_id,
            context_id: send.context_id,
            role: Role::Assignee(peer),
            status: Status::Submitted,
            status_message: None,
            messages: vec![Arc::new(message)],
            results: Vec::new(),
            skill: send.target_skill_id,
            metadata,
            created_at: now.unix,
            updated_at: now.unix,
            deadline,
            claimed: false,
            agent_ends: 0,
            route: None,
            held: send.tentative,
            returnable: send.tentative && send.takes_offers,
            traced,
            external: None,
            group: None,
            sealed: opened.map(|opened| opened.sealed),
            arrived_at: None,
            timeline: TaskTimeline::arrived(self.inbound_path),
        };
        let id = task.id.clone();
        self.put(CachedTask::new(task));
        if send.tentative {
            return Ok(AckDecision::Hold);
        }
        self.notify_agent(now, &id)?;
        Ok(AckDecision::Accept)
    }

    fn on_further_message(
        &mut self,
        now: Now,
        peer: PeerId,
        id: &str,
        mut message: Message,
        further: bool,
    ) -> Result<AckDecision, StoreError> {
        // A peer of ours numbers its envelopes, so that each is applied once, and says which are further ones.
        let comes_once = further && self.is_sequenced(peer)?;
        let Some(mut slot) = self.take(id)? else {
            return Ok(AckDecision::Refuse(format!("no task {id}")));
        };
        if slot.task.role != Role::Assignee(peer) {
            self.tasks.put_unchanged(slot);
            return Ok(AckDecision::Refuse(format!(
                "task id {id} is in use by another originator"
            )));
        }
        let kind = match self.unseal_further_message(&slot.task, &mut message) {
            Ok(kind) => kind,
            Err(reason) => {
                self.tasks.put_unchanged(slot);
                return Ok(AckDecision::Refuse(reason));
            }
        };
        // Another message may have the same id: clients choose them, over HTTP as they like.
        if !comes_once && slot.task.has_message(&message) {
            self.tasks.put_unchanged(slot);
            return Ok(AckDecision::Accept);
        }
        // Those of a sealed task have ids of their own.
        if kind == SealedKind::Task
            || kind == SealedKind::Further && slot.task.has_message_id(&message.message_id)
        {
            self.tasks.put_unchanged(slot);
            return Ok(AckDecision::Refuse(
                "the message is not taken: it has come before".to_owned(),
            ));
        }
        if let Err(refused) = slot.task.answer(now.unix, message) {
            self.tasks.put_unchanged(slot);
            return Ok(AckDecision::Refuse(refused.to_string()));
        }
        self.put_changed(slot, Vec::new());
        self.notify_agent(now, id)?;
        Ok(AckDecision::Accept)
    }

    fn on_update(
        &mut self,
        now: Now,
        peer: PeerId,
        update: TaskStatusUpdatePayload,
    ) -> Result<AckDecision, StoreError> {
        let Some(next) = Status::from_wire(update.status) else {
            return Ok(AckDecision::Refuse(format!(
                "{} is no task status",
                update.status
            )));
        };
        self.on_report(now, peer, &update.task_id, next, update.message, Vec::new())
    }

    fn on_complete(
        &mut self,
        now: Now,
        peer: PeerId,
        complete: TaskCompletePayload,
    ) -> Result<AckDecision, StoreError> {
        self.on_report(
            now,
            peer,
            &complete.task_id,
            Status::Completed,
            complete.message,
            complete.artifacts,
        )
    }

    fn on_fail(&mut self, now: Now, peer: PeerId, fail: TaskFailPayload) -> Result<AckDecision, StoreError> {
        if fail.returned {
            let reason = super::short(&fail.error_message);
            if fail.held {
                let known = self.tasks.indexed(&fail.task_id);
                if !known.is_some_and(|known| !known.is_assignee && known.peer == Some(peer)) {
                    return Ok(AckDecision::Refuse(self.not_yours(peer, &fail.task_id)));
                }
                self.on_offered_back(now, peer, &fail.task_id, &reason)?;
                return Ok(AckDecision::Accept);
            }
            if self.give_to_another(now, peer, &fail.task_id, &reason)? {
                return Ok(AckDecision::Accept);
            }
        }
        let message = match fail.message {
            Some(message) => message,
            None => self.note(now, fail.error_message),
        };
        self.on_report(
            now,
            peer,
            &fail.task_id,
            Status::Failed,
            Some(message),
            Vec::new(),
        )
    }

    /// The assignee says how its task stands.
    fn on_report(
        &mut self,
        now: Now,
        peer: PeerId,
        id: &str,
        next: Status,
        message: Option<Message>,
        artifacts: Vec<Artifact>,
    ) -> Result<AckDecision, StoreError> {
        let Some(mut slot) = self.take_assigned_to(peer, id)? else {
            if !next.is_terminal() {
                self.notify_collected(now, peer, id)?;
            }
            return Ok(AckDecision::Refuse(self.not_yours(peer, id)));
        };
        if artifacts
            .iter()
            .any(|artifact| artifact.artifact_id.len() > crate::task::MAX_ID)
        {
            self.tasks.put_unchanged(slot);
            return Ok(AckDecision::Refuse("an artifact id over 256 bytes".into()));
        }
        // The ids of a deployed peer's envelopes are forgotten in the end; what it said is not.
        let known = message
            .as_ref()
            .is_some_and(|message| slot.task.has_message_id(&message.message_id));
        if known && !next.is_terminal() && !self.is_sequenced(peer)? {
            self.tasks.put_unchanged(slot);
            return Ok(AckDecision::Accept);
        }
        // Each side has a clock by which a deadline passes.
        if next == Status::Failed && slot.task.status == next {
            self.tasks.put_unchanged(slot);
            return Ok(AckDecision::Accept);
        }
        let bytes = message.as_ref().map_or(0, Message::encoded_len);
        if !next.is_terminal()
            && let Err(error) = self.check_task_bytes(&slot.task, bytes)
        {
            self.tasks.put_unchanged(slot);
            return Ok(error.into());
        }
        let before = slot.task.results.len();
        if let Err(refused) = slot.task.advance(now.unix, next, message, artifacts) {
            let over = slot.task.status.is_terminal() && !next.is_terminal();
            self.tasks.put_unchanged(slot);
            if over && !self.has_queued_about(peer, id) {
                self.notify_legacy_assignee(now, peer, id)?;
            }
            return Ok(AckDecision::Refuse(refused.to_string()));
        }
        let new: Vec<Arc<Output>> = slot.task.results[before..].to_vec();
        slot.task.arrived_at.get_or_insert(now.unix);
        self.put_changed(slot, new);
        if !self.is_sequenced(peer)? {
            self.on_accepted(now, peer, id, false)?;
            self.task_arrived(peer, id);
        }
        Ok(AckDecision::Accept)
    }

    /// A deployed assignee does not read the outcome of an acknowledgement, and knows no deadlines: that its
    /// task has ended here it learns by a cancel.
    pub(super) fn notify_legacy_assignee(
        &mut self,
        now: Now,
        peer: PeerId,
        id: &str,
    ) -> Result<(), StoreError> {
        if self.is_sequenced(peer)? {
            return Ok(());
        }
        self.send_cancel(now, peer, id, TraceContext::default())
    }

    /// It works on a task that ended here so long ago that it was collected. Whatever it made the id up from:
    /// nothing is written for it, and only so many answers wait.
    fn notify_collected(&mut self, now: Now, peer: PeerId, id: &str) -> Result<(), StoreError> {
        let payload = TaskCancelPayload {
            task_id: id.to_owned(),
        };
        if self.tasks.indexed(id).is_some()
            || self.is_sequenced(peer)?
            || !self.has_room_to_answer(peer, id, payload.encoded_len())
        {
            return Ok(());
        }
        let payload = Payload::TaskCancel(payload);
        self.send(
            now,
            peer,
            id,
            EnvelopeKind::Ephemeral,
            payload,
            TraceContext::default(),
        )
    }

    fn on_cancel(&mut self, now: Now, peer: PeerId, id: &str) -> Result<AckDecision, StoreError> {
        let Some(task) = self.tasks.read(id)? else {
            return Ok(AckDecision::Refuse(format!("no task {id}")));
        };
        if task.role != Role::Assignee(peer) {
            return Ok(AckDecision::Refuse(format!(
                "task {id} was not sent by this peer"
            )));
        }
        self.end(now, id, Status::Canceled, "")?;
        Ok(AckDecision::Accept)
    }

    /// True when something about this task waits for the peer.
    pub(super) fn has_queued_about(&self, peer: PeerId, id: &str) -> bool {
        let queue = self.queues.get(&peer);
        queue.is_some_and(|queue| queue.outbox.entries().any(|entry| entry.task_id == id))
    }

    fn take_assigned_to(&mut self, peer: PeerId, id: &str) -> Result<Option<Box<CachedTask>>, StoreError> {
        match self.tasks.indexed(id) {
            Some(known) if !known.is_assignee && known.peer == Some(peer) => self.take(id),
            _ => Ok(None),
        }
    }

    fn not_yours(&self, peer: PeerId, id: &str) -> String {
        match self.tasks.indexed(id) {
            Some(_) => format!("task {id} was not sent to {peer}"),
            None => format!("no task {id}"),
        }
    }

    /// Something came back for a task: its deployed peer has it, even if the acknowledgement, which
    /// such a peer sends only once, got lost.
    fn task_arrived(&mut self, peer: PeerId, id: &str) {
        let Some(queue) = self.queues.get_mut(&peer) else {
            return;
        };
        let arrived: Vec<u64> = queue
            .outbox
            .entries()
            .take(crate::delivery::outbox::WINDOW)
            .filter(|entry| entry.kind == EnvelopeKind::SendTask && entry.task_id == id)
            .map(|entry| entry.sequence)
            .take(1)
            .collect();
        for sequence in arrived {
            let entry = self
                .queues
                .get_mut(&peer)
                .and_then(|queue| queue.outbox.remove(sequence));
            if let Some(entry) = entry {
                self.on_left_queue(peer, &entry);
            }
        }
    }
}
