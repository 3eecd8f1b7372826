//! Artifacts that the assignee's agent streams, as far as its tasks have them: begun, ended, broken off. The bytes are the
//! data plane's (`engine/artifacts/`).

use agentanycast_proto::v1::{StreamEnd, StreamEndReason, StreamStart, a2a_envelope::Payload};
use agentanycast_store::StoreError;

use super::{AgentReport, Coordinator, StreamRoute, task_of_agent};
use crate::{
    clock::Now,
    delivery::outbox::EnvelopeKind,
    task::{MAX_ID, Output, Role, Status, StreamOutcome, Streamed},
    tasks::unless_damaged,
    trace_context::TraceContext,
    transaction::EngineError,
};

impl Coordinator {
    /// SendStreamingArtifact begins. It claims a task that nobody works on for its connection, so that the task
    /// does not wait for an agent that goes away without ever having reported.
    pub(crate) fn start_stream(
        &mut self,
        now: Now,
        start: &StreamStart,
        connection: u64,
    ) -> Result<StreamRoute, EngineError> {
        let id = &start.task_id;
        if start.artifact_id.is_empty() || start.artifact_id.len() > MAX_ID {
            return Err(EngineError::Invalid(format!(
                "stream_start needs an artifact_id of 1 to {MAX_ID} bytes"
            )));
        }
        self.check_is_open(connection)?;
        let task = task_of_agent(&mut self.tasks, id)?;
        if task.results.iter().any(|known| known.id() == start.artifact_id) {
            return Err(EngineError::Precondition(format!(
                "task {id} has an artifact {} already",
                start.artifact_id
            )));
        }
        let (role, is_sealed) = (task.role, task.sealed.is_some());
        let is_claimed = task.status == Status::Working && task.claimed;
        let is_free = self.check_claim(id, connection).is_ok();
        if !is_claimed {
            self.on_agent_activity(now, id, AgentReport::from_status(Status::Working))?;
        }
        if is_free {
            let agent = self.agent_of(id);
            self.withdraw(id);
            self.dispatch.claim(agent.as_deref(), id, connection);
        }
        if self.dispatch.on_update_sent(id) {
            self.send_claim(now, id)?; // Chunks go to a task that is worked on.
        }
        self.put_stream(
            id,
            Streamed {
                artifact_id: start.artifact_id.clone(),
                name: start.artifact_name.clone(),
                media_type: start.media_type.clone(),
                bytes: 0,
                outcome: None,
            },
        )?;
        Ok(match role {
            // Piece by piece it cannot be sealed.
            Role::Assignee(peer) if !is_sealed && self.peers.is_sequenced(&self.transaction, peer)? => {
                StreamRoute::Peer(peer)
            }
            Role::Assignee(_) => StreamRoute::Whole,
            _ => StreamRoute::Local,
        })
    }

    /// Finished streams that its originator has not got: they go along whole when the task completes.
    pub(crate) fn streams_to_send_whole(&mut self, id: &str) -> Result<Vec<Streamed>, EngineError> {
        let Some(peer) = self
            .tasks
            .indexed(id)
            .filter(|known| known.is_assignee)
            .and_then(|known| known.peer)
        else {
            return Ok(Vec::new());
        };
        let is_ours = self.peers.is_sequenced(&self.transaction, peer)?;
        if is_ours && self.tasks.indexed(id).is_none_or(|known| known.sealed.is_none()) {
            return Ok(Vec::new());
        }
        let Some(task) = self.tasks.read(id)? else {
            return Ok(Vec::new());
        };
        let complete = task.results.iter().filter_map(|result| match &**result {
            Output::Streamed(streamed) if streamed.outcome == Some(StreamOutcome::Complete) => {
                Some(streamed.clone())
            }
            _ => None,
        });
        Ok(complete.collect())
    }

    /// The stream of an artifact ended, sent or received.
    pub(crate) fn end_stream(
        &mut self,
        id: &str,
        artifact_id: &str,
        ended: StreamOutcome,
        bytes: u64,
    ) -> Result<(), EngineError> {
        let Some(task) = self.tasks.read(id)? else {
            return Ok(());
        };
        match task.stream(artifact_id) {
            Some(known) if known.outcome.is_none() => self.put_stream(
                id,
                Streamed {
                    bytes,
                    outcome: Some(ended),
                    ..known.clone()
                },
            ),
            _ => Ok(()),
        }
    }

    fn put_stream(&mut self, id: &str, stream: Streamed) -> Result<(), EngineError> {
        let task = self.tasks.edit(id)?;
        let mut task = task.ok_or_else(|| EngineError::NotFound(id.to_owned()))?;
        let artifact_id = stream.artifact_id.clone();
        let ended = stream.outcome.is_some();
        task.put_stream(stream)?;
        // A subscriber that reads the task's streams learns of a new one by a change without news.
        let new = task.results.iter();
        let new = new.filter(|known| ended && known.id() == artifact_id);
        let new = new.cloned().collect();
        let saved = task.save(&mut self.transaction);
        self.on_changed_with(&saved, None, new);
        Ok(())
    }

    /// Ends a stream with an error that its originator hears of through the queue, whenever it is reached.
    pub(crate) fn break_off_stream(
        &mut self,
        now: Now,
        id: &str,
        artifact_id: &str,
        message: &str,
    ) -> Result<(), EngineError> {
        let Some(task) = self.tasks.read(id)? else {
            return Ok(());
        };
        let Some(stream) = task.stream(artifact_id).filter(|known| known.outcome.is_none()) else {
            return Ok(());
        };
        self.end_stream(id, artifact_id, StreamOutcome::Error, stream.bytes)?;
        if let Role::Assignee(peer) = task.role
            && task.sealed.is_none()
            && self.peers.is_sequenced(&self.transaction, peer)?
        {
            let payload = Payload::StreamEnd(StreamEnd {
                task_id: id.to_owned(),
                artifact_id: artifact_id.to_owned(),
                reason: StreamEndReason::Error as i32,
                error_message: message.to_owned(),
            });
            let trace = TraceContext::from_metadata(&task.metadata);
            self.send(now, peer, id, EnvelopeKind::Durable, payload, trace)?;
        }
        Ok(())
    }

    /// Streams that a stopped daemon left open end with an error: what was not yet acknowledged
    /// existed in its memory only.
    pub(in crate::coordinator) fn break_off_streams(&mut self, now: Now) -> Result<(), StoreError> {
        let mut left: Vec<String> = self
            .tasks
            .index()
            .all()
            .filter(|(_, known)| known.open_streams && known.is_assignee)
            .map(|(id, _)| id.to_owned())
            .collect();
        left.sort_unstable();
        for id in left {
            let Some(task) = unless_damaged(self.tasks.read(&id))?.flatten() else {
                continue;
            };
            for stream in task.open_streams() {
                let message = "the sending daemon was restarted";
                if let Err(error) = self.break_off_stream(now, &id, &stream.artifact_id, message) {
                    tracing::warn!(task = id, artifact = stream.artifact_id, %error, "a stream could not be ended");
                }
            }
        }
        Ok(())
    }
}
