//! What comes from peers of streamed artifacts: whether one may begin, whose the pieces are, how one ends that
//! broke off. The bytes themselves are the data plane's (`engine/artifacts/`).

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{StreamEnd, StreamEndReason, StreamStart, a2a_envelope::Payload};
use agentanycast_store::StoreError;

use super::{AckDecision, Coordinator};
use crate::{
    clock::Now,
    delivery::artifact::{MAX_CHUNK, RejectReason},
    task::{Status, StreamOutcome, Streamed, Task},
    transaction::Effect,
};

/// Artifacts of one task that may be streamed at once: each takes a file and a buffer.
const MAX_OPEN_STREAMS: usize = 64;

impl Coordinator {
    /// The end of a stream that travels in the queue: its sender was restarted, or gave up. The task says
    /// so in this batch; the file follows.
    pub(super) fn on_broken_stream(&mut self, peer: PeerId, end: StreamEnd) -> AckDecision {
        match self.tasks.indexed(&end.task_id) {
            Some(known) if !known.is_assignee && known.peer == Some(peer) => {}
            _ => return AckDecision::Refuse(self.not_yours(peer, &end.task_id)),
        }
        let ended = match end.reason() {
            StreamEndReason::Canceled => StreamOutcome::Canceled,
            _ => StreamOutcome::Error,
        };
        if let Err(error) = self.end_stream(&end.task_id, &end.artifact_id, ended, 0) {
            return error.into();
        }
        let payload = Payload::StreamEnd(end);
        self.transaction.effect(Effect::StreamPiece {
            peer,
            envelope_id: String::new(),
            payload: Box::new(payload),
        });
        AckDecision::Accept
    }

    /// A piece of an artifact's stream. It is acknowledged by whoever writes it down.
    pub(super) fn on_stream(
        &mut self,
        now: Now,
        peer: PeerId,
        envelope_id: String,
        payload: Payload,
    ) -> Result<(), StoreError> {
        let (task_id, start) = match &payload {
            Payload::StreamStart(start) => (&start.task_id, Some(start.clone())),
            Payload::StreamChunk(chunk) => (&chunk.task_id, None),
            Payload::StreamEnd(end) => (&end.task_id, None),
            _ => return Ok(()),
        };
        let task = task_id.clone();
        let is_chunk = matches!(payload, Payload::StreamChunk(_));
        let too_large = match &payload {
            Payload::StreamChunk(chunk) if chunk.data.len() > MAX_CHUNK => {
                Some(RejectReason::ChunkTooLarge(chunk.data.len()).to_string())
            }
            _ => None,
        };
        let refusal = match self.tasks.indexed(task_id) {
            Some(known) if !known.is_assignee && known.peer == Some(peer) => too_large.or_else(|| {
                (is_chunk && !known.open_streams)
                    .then(|| format!("no artifact of task {task_id} is being streamed"))
            }),
            _ => Some(self.not_yours(peer, task_id)),
        };
        let refusal = match (refusal, start) {
            (Some(refusal), _) => Some(refusal),
            (None, Some(start)) => self.accept_stream(now, peer, &envelope_id, start)?,
            (None, None) => {
                self.transaction.effect(Effect::StreamPiece {
                    peer,
                    envelope_id: envelope_id.clone(),
                    payload: Box::new(payload),
                });
                None
            }
        };
        if let Some(reason) = refusal {
            self.observe.count_refused();
            self.observe.log_refused(peer, &task, &envelope_id, &reason);
            if !envelope_id.is_empty() {
                self.ack(now, peer, envelope_id, Some(&reason));
            }
        }
        Ok(())
    }

    /// Opens a stream, or lets one that is known go on. Some: refused.
    fn accept_stream(
        &mut self,
        now: Now,
        peer: PeerId,
        envelope_id: &str,
        start: StreamStart,
    ) -> Result<Option<String>, StoreError> {
        let Some(mut task) = self.tasks.edit(&start.task_id)? else {
            return Ok(Some("no such task".into()));
        };
        if task.stream(&start.artifact_id).is_none() {
            if let Some(refusal) = stream_refusal(&task, &start.artifact_id) {
                return Ok(Some(refusal));
            }
            let record = Streamed {
                artifact_id: start.artifact_id.clone(),
                name: start.artifact_name.clone(),
                media_type: start.media_type.clone(),
                bytes: 0,
                outcome: None,
            };
            if let Err(refused) = task.put_stream(record) {
                return Ok(Some(refused.to_string()));
            }
            if task.status == Status::Submitted {
                // The assignee streams, so it works: its WORKING may come a moment later.
                let _ = task.advance(now.unix, Status::Working, None, Vec::new());
            }
            let saved = task.save(&mut self.transaction);
            self.on_changed_with(&saved, None, Vec::new());
        }
        self.transaction.effect(Effect::StreamAccepted {
            peer,
            start,
            envelope_id: envelope_id.to_owned(),
        });
        Ok(None)
    }
}

/// Why a new stream of this artifact cannot begin.
fn stream_refusal(task: &Task, artifact_id: &str) -> Option<String> {
    if task.results.iter().any(|known| known.id() == artifact_id) {
        return Some(format!("artifact {artifact_id} is there already"));
    }
    if task.status.is_terminal() {
        return Some(format!("task {} is {}", task.id, task.status));
    }
    (task.open_streams().count() >= MAX_OPEN_STREAMS).then(|| {
        format!(
            "{MAX_OPEN_STREAMS} artifacts of task {} are being streamed already",
            task.id
        )
    })
}

/// What ends the open streams of a task; `None` if it has none.
pub(in crate::coordinator) fn stop_streams(task: &Task) -> Option<Effect> {
    let open = task.open_streams();
    let open: Vec<String> = open.map(|stream| stream.artifact_id.clone()).collect();
    let is_incoming = !task.role.is_assignee() && task.role.peer().is_some();
    (!open.is_empty()).then(|| Effect::StopStreams {
        task_id: task.id.clone(),
        incoming: if is_incoming { open } else { Vec::new() },
    })
}
