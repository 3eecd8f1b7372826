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

pub(super) use self::streams::stop_streams;

use super::{
    Coordinator, admission::sealed_task_id_of, client_commands::deadline_of, reject::RefusedEnvelope,
    shortened,
};
use crate::{
    clock::Now,
    delivery::{
        inbox::{self, InboundEnvelope, Malformed},
        outbox::EnvelopeKind,
    },
    observe::log,
    task::{Output, Role, Status, Task, TaskTimeline},
    tasks::{TaskEdit, Tasks},
    trace_context::TraceContext,
    transaction::EngineError,
    types::Direction,
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

impl Coordinator {
    /// A frame came from a peer. An error means that the store failed: nothing was acknowledged.
    pub(crate) fn on_frame(&mut self, now: Now, peer: PeerId, frame: &Bytes) -> Result<(), StoreError> {
        let inbound = match InboundEnvelope::decode(frame) {
            Ok(inbound) => inbound,
            Err(Malformed::DecodesTooLarge(unfolded)) => return self.on_oversized(now, peer, *unfolded),
            Err(error) => {
                self.observe.count_malformed();
                self.observe.log_refused(peer, "", "", &error.to_string());
                return Ok(());
            }
        };
        if let Payload::SendTask(send) = &inbound.payload {
            self.on_invite(now, peer, &send.invite);
        }
        if self.needs_identity(now, peer, &inbound)? {
            self.admission.set_identity_needed();
            return Ok(());
        }
        self.peers
            .note_epoch(&mut self.transaction, peer, inbound.epoch)?;
        self.observe
            .count_envelope(Direction::Inbound, inbox::type_of(&inbound.payload));
        match inbound.payload {
            Payload::Ack(ack) => return self.on_ack(now, peer, ack),
            Payload::StreamStart(_) | Payload::StreamChunk(_) | Payload::StreamEnd(_)
                if inbound.queue_position.is_none() =>
            {
                return self.on_stream(now, peer, inbound.id, inbound.payload);
            }
            _ => {}
        }
        if self.peers.is_duplicate(&self.transaction, peer, &inbound)? {
            return self.on_duplicate(now, peer, inbound);
        }
        self.on_first(now, peer, inbound)
    }

    /// An envelope came for the first time: it is applied or refused, and answered.
    fn on_first(&mut self, now: Now, peer: PeerId, inbound: InboundEnvelope) -> Result<(), StoreError> {
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
        self.peers
            .mark_applied(&mut self.transaction, now, peer, &id, place, false)?;
        if held {
            self.ack_held(now, peer, id);
        } else {
            self.ack_accepted(now, peer, id, joint_ack);
        }
        Ok(())
    }

    /// It was applied or refused before: it is answered as it was then.
    fn on_duplicate(&mut self, now: Now, peer: PeerId, inbound: InboundEnvelope) -> Result<(), StoreError> {
        self.observe.count_duplicate();
        log::received(peer, &inbound, true);
        let refusal = match self.peers.refusal_of(&self.transaction, peer, &inbound.id)? {
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
            self.ack_accepted(now, peer, inbound.id, inbound.joint_ack);
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
        mut send: SendTaskPayload,
    ) -> Result<AckDecision, StoreError> {
        let Some(mut message) = send.message.take() else {
            return Ok(AckDecision::Refuse("the task has no message".into()));
        };
        if self.tasks.indexed(&send.task_id).is_some() {
            return self.on_further_message(now, peer, &send.task_id, message, send.further);
        }
        if send.further {
            // Its task has ended and was collected; it must not begin another one.
            return Ok(AckDecision::Refuse(format!("no task {}", send.task_id)));
        }
        if let Err(error) = self.tasks.check_tasks_from(peer) {
            return Ok(error.into());
        }
        let (agent, awaits_skill) = match self.agent_for_sent(now, peer, &send) {
            Ok(found) => found,
            Err(reason) => return Ok(AckDecision::Refuse(reason)),
        };
        let mut metadata = send.metadata;
        let opened =
            match self
                .external
                .unseal_first_message(self.transaction.me(), now, &mut message, &mut metadata)
            {
                Ok(opened) => opened,
                Err(reason) => return Ok(AckDecision::Refuse(reason)),
            };
        let deadline = match deadline_of(&metadata) {
            Ok(deadline) => deadline,
            Err(error) => return Ok(error.into()),
        };
        if let Some(opened) = &opened {
            self.external
                .remember_sealed(&mut self.transaction, now, opened, &send.task_id);
        }
        trace.write_if_absent(&mut metadata);
        let traced = self.observe.enter_trace(&mut self.transaction, &mut metadata);
        let task = Task {
            skill: send.target_skill_id,
            metadata,
            deadline,
            agent,
            held: send.tentative,
            awaits_skill,
            returnable: send.tentative && send.takes_offers,
            traced,
            sealed: opened.map(|opened| opened.sealed),
            timeline: TaskTimeline::arrived(self.transaction.inbound_path()),
            ..Task::submitted(
                send.task_id,
                send.context_id,
                Role::Assignee(peer),
                message,
                now.unix,
            )
        };
        let id = task.id.clone();
        self.insert_task(task);
        if send.tentative {
            return Ok(AckDecision::Hold);
        }
        self.notify_agent(now, &id)?;
        Ok(AckDecision::Accept)
    }

    /// The agent that a peer's task is for, and whether the task waits until that lists its skill again.
    ///
    /// # Errors
    /// No agent here takes it.
    fn agent_for_sent(
        &mut self,
        now: Now,
        peer: PeerId,
        send: &SendTaskPayload,
    ) -> Result<(Option<Arc<str>>, bool), String> {
        let (target, skill) = (&send.target_agent, &send.target_skill_id);
        let agent = self
            .choose_agent_for(now, peer, target, skill)
            .map_err(|reason| self.refuse_agent(now, peer, target, skill, reason))?;
        let awaits_skill = self.awaits_skill(now, target, skill, agent.as_deref());
        if send.tentative
            && let Some(reason) = self.why_not_held(peer, agent.as_deref(), awaits_skill)
        {
            return Err(reason);
        }
        Ok((agent, awaits_skill))
    }

    /// Why a task that its originator can still give to another node is not held here: one that has an agent for it now may take it.
    fn why_not_held(&self, peer: PeerId, agent: Option<&str>, awaits_skill: bool) -> Option<String> {
        if awaits_skill {
            return Some("no agent has the skill now".to_owned());
        }
        if !self.dispatch.has_listeners_of(agent) {
            return Some("no agent listens here".to_owned());
        }
        (self.tasks.index().held_for(peer) >= MAX_HELD).then(|| {
            format!(
                "{MAX_HELD} tasks of this peer are held here for its confirmation, the limit; confirm or cancel some"
            )
        })
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
        let comes_once = further && self.peers.is_sequenced(&self.transaction, peer)?;
        let Some(mut task) = self.tasks.edit(id)? else {
            return Ok(AckDecision::Refuse(format!("no task {id}")));
        };
        if task.role != Role::Assignee(peer) {
            return Ok(AckDecision::Refuse(format!(
                "task id {id} is in use by another originator"
            )));
        }
        let kind = match self.external.unseal_further_message(&task, &mut message) {
            Ok(kind) => kind,
            Err(reason) => return Ok(AckDecision::Refuse(reason)),
        };
        // Another message may have the same id: clients choose them, over HTTP as they like.
        if !comes_once && task.has_message(&message) {
            return Ok(AckDecision::Accept);
        }
        // Those of a sealed task have ids of their own.
        if kind == SealedKind::Task || kind == SealedKind::Further && task.has_message_id(&message.message_id)
        {
            return Ok(AckDecision::Refuse(
                "the message is not taken: it has come before".to_owned(),
            ));
        }
        if let Err(refused) = task.answer(now.unix, message) {
            return Ok(AckDecision::Refuse(refused.to_string()));
        }
        let saved = task.save(&mut self.transaction);
        self.on_changed(&saved, Vec::new());
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
            let reason = shortened(&fail.error_message);
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
            None => self.transaction.node_message(now, fail.error_message),
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
        let Some(mut task) = assigned_task(&mut self.tasks, peer, id)? else {
            if !next.is_terminal() {
                self.notify_collected(now, peer, id)?;
            }
            return Ok(AckDecision::Refuse(self.not_yours(peer, id)));
        };
        if artifacts
            .iter()
            .any(|artifact| artifact.artifact_id.len() > crate::task::MAX_ID)
        {
            return Ok(AckDecision::Refuse("an artifact id over 256 bytes".into()));
        }
        // The ids of a deployed peer's envelopes are forgotten in the end; what it said is not.
        let is_known = message
            .as_ref()
            .is_some_and(|message| task.has_message_id(&message.message_id));
        let is_sequenced = self.peers.is_sequenced(&self.transaction, peer)?;
        if is_known && !next.is_terminal() && !is_sequenced {
            return Ok(AckDecision::Accept);
        }
        // Each side has a clock by which a deadline passes.
        if next == Status::Failed && task.status == next {
            return Ok(AckDecision::Accept);
        }
        let bytes = message.as_ref().map_or(0, Message::encoded_len);
        if !next.is_terminal()
            && let Err(error) = task.check_bytes(bytes)
        {
            return Ok(error.into());
        }
        let before = task.results.len();
        if let Err(refused) = task.advance(now.unix, next, message, artifacts) {
            let is_over = task.status.is_terminal() && !next.is_terminal();
            if is_over && !self.peers.has_queued_about(peer, id) {
                self.notify_legacy_assignee(now, peer, id)?;
            }
            return Ok(AckDecision::Refuse(refused.to_string()));
        }
        let new: Vec<Arc<Output>> = task.results[before..].to_vec();
        task.arrived_at.get_or_insert(now.unix);
        let saved = task.save(&mut self.transaction);
        self.on_changed(&saved, new);
        if !is_sequenced {
            self.on_accepted(now, peer, id, false)?;
            self.peers.on_task_arrived(&mut self.transaction, peer, id);
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
        if self.peers.is_sequenced(&self.transaction, peer)? {
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
            || self.peers.is_sequenced(&self.transaction, peer)?
            || !self.peers.has_room_to_answer(peer, id, payload.encoded_len())
        {
            return Ok(());
        }
        let payload = Payload::TaskCancel(payload);
        let trace = TraceContext::default();
        self.send(now, peer, id, EnvelopeKind::Ephemeral, payload, trace)
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

    /// A duplicate SEND_TASK whose task, or whose message, is not here was refused the first time.
    pub(super) fn refused_before(
        &mut self,
        peer: PeerId,
        payload: &Payload,
    ) -> Result<Option<String>, StoreError> {
        let Payload::SendTask(send) = payload else {
            return Ok(None);
        };
        let message = send
            .message
            .as_ref()
            .map_or("", |message| message.message_id.as_str());
        Ok(match self.tasks.read(&send.task_id)? {
            Some(task)
                if task.role == Role::Assignee(peer)
                    && (message.is_empty() || task.has_message_id(message)) =>
            {
                None
            }
            // It was collected; how it ended is on its way.
            None if self.peers.has_queued_about(peer, &send.task_id) => None,
            _ => Some("it was refused before, or its task was collected".into()),
        })
    }

    fn not_yours(&self, peer: PeerId, id: &str) -> String {
        match self.tasks.indexed(id) {
            Some(_) => format!("task {id} was not sent to {peer}"),
            None => format!("no task {id}"),
        }
    }
}

/// A task that was sent from here to this peer.
fn assigned_task<'a>(
    tasks: &'a mut Tasks,
    peer: PeerId,
    id: &str,
) -> Result<Option<TaskEdit<'a>>, StoreError> {
    match tasks.indexed(id) {
        Some(known) if !known.is_assignee && known.peer == Some(peer) => tasks.edit(id),
        _ => Ok(None),
    }
}
