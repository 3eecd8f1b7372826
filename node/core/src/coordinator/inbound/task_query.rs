//! Questions about tasks: what this node answers a peer that asks for one, and what it makes of a peer's answer.

use std::collections::HashMap;

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{self, GetTaskResponsePayload, a2a_envelope::Payload};
use agentanycast_store::StoreError;
use prost::Message as _;

use super::{AckDecision, Coordinator};
use crate::{
    clock::Now, coordinator::client_commands::fits, delivery::outbox::EnvelopeKind, policy::DecisionReason,
    task::Status, trace_context::TraceContext, wire,
};

impl Coordinator {
    pub(super) fn on_get_task(
        &mut self,
        now: Now,
        peer: PeerId,
        id: &str,
    ) -> Result<AckDecision, StoreError> {
        let mut task = match self.tasks.read(id)? {
            Some(task) if task.role.peer() == Some(peer) => task,
            // It was collected; how it ended is on its way.
            None if self.peers.has_queued_about(peer, id) => return Ok(AckDecision::Accept),
            _ => {
                let new = self.peers.current_key(peer);
                return Ok(AckDecision::Refuse(if new == peer {
                    format!("no task {id} between this peer and this node")
                } else {
                    DecisionReason::Replaced(new).message()
                }));
            }
        };
        if fits(wire::messages_len(&task) + wire::results_len(&task), "task").is_err() {
            task.messages.clear(); // The originator takes over the end and the results only.
        }
        // Sizes first: a short question must not cost a copy of a task that does not fit.
        if let Err(error) = fits(wire::results_len(&task), "task") {
            return Ok(error.into());
        }
        let payload = match self
            .external
            .wire_task_for_peer(&mut self.transaction, now, &task)
        {
            Ok(task) => GetTaskResponsePayload { task: Some(task) },
            Err(error) => return Ok(error.into()),
        };
        if let Err(error) = fits(payload.encoded_len(), "task") {
            return Ok(error.into());
        }
        if !self.peers.has_room_to_answer(peer, id, payload.encoded_len()) {
            tracing::debug!(%peer, task = id, "a question is left unanswered: too many answers wait");
            return Ok(AckDecision::Accept);
        }
        let payload = Payload::GetTaskResponse(payload);
        let trace = TraceContext::from_metadata(&task.metadata);
        self.send(now, peer, id, EnvelopeKind::Ephemeral, payload, trace)?;
        Ok(AckDecision::Accept)
    }

    /// The assignee's answer to our question: repairs what got lost, never undoes anything.
    pub(super) fn on_get_task_response(
        &mut self,
        now: Now,
        peer: PeerId,
        response: GetTaskResponsePayload,
    ) -> Result<AckDecision, StoreError> {
        let Some(mut theirs) = response.task else {
            return Ok(AckDecision::Refuse("the response has no task".into()));
        };
        let Some(next) = Status::from_wire(theirs.status) else {
            return Ok(AckDecision::Refuse(format!(
                "{} is no task status",
                theirs.status
            )));
        };
        let ours = match self.tasks.indexed(&theirs.task_id) {
            Some(known) if !known.is_assignee && known.peer == Some(peer) => known.status,
            _ => return Ok(AckDecision::Refuse(self.not_yours(peer, &theirs.task_id))),
        };
        if ours.is_terminal() || ours == next {
            return Ok(AckDecision::Accept);
        }
        if !next.is_terminal() {
            return self.catch_up(now, peer, theirs, next);
        }
        // A streamed artifact is only listed there; what came as a stream stays as it came.
        if let Some(ours) = self.tasks.read(&theirs.task_id)? {
            theirs
                .artifacts
                .retain(|artifact| ours.stream(&artifact.artifact_id).is_none());
        }
        let message = theirs.status_message;
        match next {
            Status::Completed | Status::Failed => {
                self.on_report(now, peer, &theirs.task_id, next, message, theirs.artifacts)
            }
            _ => {
                let reason = message.as_ref().map(wire::text_of).unwrap_or_default();
                self.end(now, &theirs.task_id, next, &reason)?;
                Ok(AckDecision::Accept)
            }
        }
    }

    /// Reports of the assignee may have expired, among them a question that it waits on. Its state is newer
    /// than ours if it has heard all that was said here; otherwise an answer is on its way.
    fn catch_up(
        &mut self,
        now: Now,
        peer: PeerId,
        theirs: v1::Task,
        next: Status,
    ) -> Result<AckDecision, StoreError> {
        let Some(ours) = self.tasks.read(&theirs.task_id)? else {
            return Ok(AckDecision::Accept);
        };
        // Several messages may have one id.
        let mut heard: HashMap<&str, usize> = HashMap::new();
        for said in &theirs.messages {
            *heard.entry(said.message_id.as_str()).or_default() += 1;
        }
        let heard_all = ours.messages.iter().all(|said| {
            let left = heard.get_mut(said.message_id.as_str()).filter(|left| **left > 0);
            left.map(|left| *left -= 1).is_some()
        });
        if next == Status::Submitted || !heard_all {
            return Ok(AckDecision::Accept);
        }
        let message = theirs
            .status_message
            .filter(|said| !ours.has_message_id(&said.message_id));
        self.on_report(now, peer, &theirs.task_id, next, message, Vec::new())
    }
}
