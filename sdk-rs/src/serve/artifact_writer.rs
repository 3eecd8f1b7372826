//! An artifact that is sent piece by piece. A pump task owns the gRPC stream; the writer feeds it
//! through a short channel, so a reader that stops reading stops the writer.

use std::sync::Arc;

use agentanycast_proto::v1::{self, send_streaming_artifact_request::Event};
use async_stream::stream;
use bytes::Bytes;
use tokio::{sync::mpsc, task::JoinHandle};
use tonic::Status;

use crate::{
    error::{self, Error, ErrorKind, Subject},
    node::Node,
    serve::task_inbox::TaskInbox,
    task_handle::get_task,
};

/// Bytes of one chunk at most: what every node takes.
const MAX_CHUNK: usize = 64 << 10;

/// Chunks between the writer and the connection. More would only delay the back-pressure.
const CHUNKS_AHEAD: usize = 4;

/// Writes an artifact piece by piece; made by
/// [`IncomingTask::stream_artifact`](crate::IncomingTask::stream_artifact). Dropping it without
/// [`ArtifactWriter::finish`] ends the artifact with an error that its reader sees.
///
/// When the daemon goes away, each call fails with kind `DaemonUnavailable`, and its reader sees the artifact broken off.
/// Whoever still has the content sends it again, from its start, by another writer.
#[derive(Debug)]
pub struct ArtifactWriter {
    node: Node,
    task_id: String,
    artifact_id: String,
    next_sequence: i32,
    /// Taken when the pump has ended.
    pump: Option<Pump>,
    inbox: Arc<TaskInbox>,
}

#[derive(Debug)]
struct Pump {
    events: mpsc::Sender<Event>,
    outcome: JoinHandle<Result<(), Status>>,
}

impl ArtifactWriter {
    pub(super) async fn open(
        node: &Node,
        conversation: &Arc<TaskInbox>,
        task_id: &str,
        artifact_name: String,
        media_type: String,
    ) -> Result<Self, Error> {
        let artifact_id = uuid::Uuid::new_v4().to_string();
        let (events, queue) = mpsc::channel(CHUNKS_AHEAD);
        let requests = requests(queue, task_id.to_owned(), artifact_id.clone());
        let mut client = node.session().client();
        // The node is kept with its daemon for as long as the artifact is being sent.
        let node = node.clone();
        let kept = node.clone();
        let outcome = tokio::spawn(async move {
            let sent = client.send_streaming_artifact(requests).await.map(drop);
            drop(kept);
            sent
        });
        let pump = Some(Pump { events, outcome });
        let mut writer = Self {
            node,
            task_id: task_id.to_owned(),
            artifact_id,
            next_sequence: 0,
            pump,
            inbox: Arc::clone(conversation),
        };
        let start = v1::StreamStart {
            task_id: writer.task_id.clone(),
            artifact_id: writer.artifact_id.clone(),
            artifact_name,
            media_type,
            ..v1::StreamStart::default()
        };
        writer.send(Event::StreamStart(start)).await?;
        Ok(writer)
    }

    /// Names the artifact within its task.
    pub fn artifact_id(&self) -> &str {
        &self.artifact_id
    }

    /// Sends bytes at once; waits while the reader is behind. Few large writes are cheaper than many
    /// small ones, since each is at least one chunk on the wire.
    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) -> Result<(), Error> {
        for piece in bytes.as_ref().chunks(MAX_CHUNK) {
            let sequence = self.next_sequence;
            self.next_sequence = sequence.checked_add(1).ok_or_else(|| {
                Error::new(
                    ErrorKind::LimitExceeded,
                    "the artifact has more chunks than can be counted",
                )
            })?;
            let (task_id, artifact_id) = (self.task_id.clone(), self.artifact_id.clone());
            let chunk = v1::StreamChunk {
                task_id,
                artifact_id,
                sequence,
                data: Bytes::copy_from_slice(piece),
                is_last: false,
            };
            self.send(Event::StreamChunk(chunk)).await?;
        }
        Ok(())
    }

    /// Ends the artifact as whole; returns when the other side has it all. When the daemon goes away before it answers, the
    /// task says whether it had it all.
    pub async fn finish(mut self) -> Result<(), Error> {
        match self.end_as_whole().await {
            Err(error) if error.kind() == ErrorKind::DaemonUnavailable && self.has_arrived().await => Ok(()),
            ended => ended,
        }
    }

    async fn end_as_whole(&mut self) -> Result<(), Error> {
        let end = end(
            &self.task_id,
            &self.artifact_id,
            v1::StreamEndReason::Complete,
            "",
        );
        self.send(end).await?;
        self.outcome().await
    }

    /// Whether the daemon has the artifact whole; waits until it is back.
    async fn has_arrived(&self) -> bool {
        let Ok(task) = get_task(&self.node, &self.task_id).await else {
            return false;
        };
        let mut artifacts = task.artifacts.iter();
        artifacts.any(|artifact| artifact.id == self.artifact_id && artifact.is_whole())
    }

    /// Ends the artifact as broken, with a reason that its reader sees.
    pub async fn abort(mut self, reason: &str) -> Result<(), Error> {
        let end = end(
            &self.task_id,
            &self.artifact_id,
            v1::StreamEndReason::Error,
            reason,
        );
        self.send(end).await?;
        self.outcome().await
    }

    async fn send(&mut self, event: Event) -> Result<(), Error> {
        let Some(pump) = &self.pump else {
            return Err(self.ended_early());
        };
        if pump.events.send(event).await.is_ok() {
            return Ok(());
        }
        // The pump ended before the artifact did: the daemon refused it or went away.
        self.outcome().await?;
        Err(self.ended_early())
    }

    async fn outcome(&mut self) -> Result<(), Error> {
        let Some(Pump { events, outcome }) = self.pump.take() else {
            return Err(self.ended_early());
        };
        drop(events);
        match outcome.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(status)) if error::is_connection_loss(&status, Subject::Task) => {
                let message = format!(
                    "the daemon went away while artifact {} was sent",
                    self.artifact_id
                );
                Err(Error::new(ErrorKind::DaemonUnavailable, message).because(status))
            }
            Ok(Err(status)) => Err(error::from_status(status, Subject::Task)),
            Err(error) => Err(self.ended_early().because(error)),
        }
    }

    fn ended_early(&self) -> Error {
        let message = format!("artifact {} ended before it was whole", self.artifact_id);
        Error::new(ErrorKind::ArtifactAborted, message)
    }
}

impl Drop for ArtifactWriter {
    fn drop(&mut self) {
        // Without its sender the pump ends the artifact as broken; the task's end waits for that.
        let Some(Pump { events, outcome }) = self.pump.take() else {
            return;
        };
        drop(events);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            self.inbox
                .add_closing(runtime.spawn(async move { drop(outcome.await) }));
        }
    }
}

fn end(task_id: &str, artifact_id: &str, reason: v1::StreamEndReason, error_message: &str) -> Event {
    Event::StreamEnd(v1::StreamEnd {
        task_id: task_id.to_owned(),
        artifact_id: artifact_id.to_owned(),
        reason: reason.into(),
        error_message: error_message.to_owned(),
    })
}

/// The stream of requests; it never ends without an end of the artifact.
fn requests(
    mut queue: mpsc::Receiver<Event>,
    task_id: String,
    artifact_id: String,
) -> impl futures::Stream<Item = v1::SendStreamingArtifactRequest> + Send + 'static {
    stream! {
        let mut ended = false;
        while let Some(event) = queue.recv().await {
            ended = matches!(event, Event::StreamEnd(_));
            yield v1::SendStreamingArtifactRequest { event: Some(event) };
        }
        if !ended {
            let end = end(&task_id, &artifact_id, v1::StreamEndReason::Error, "its producer gave up");
            yield v1::SendStreamingArtifactRequest { event: Some(end) };
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;

    #[tokio::test]
    async fn a_dropped_writer_ends_its_artifact_with_an_error() {
        let (events, queue) = mpsc::channel(1);
        drop(events);
        let sent: Vec<_> = requests(queue, "t".to_owned(), "a".to_owned()).collect().await;
        let Some(Event::StreamEnd(end)) = &sent[0].event else {
            panic!("{sent:?}")
        };
        assert_eq!(end.reason(), v1::StreamEndReason::Error);
    }
}
