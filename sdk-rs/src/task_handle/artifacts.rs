//! Artifacts as they come. A pure cursor remembers what was handed out, so that after a lost
//! connection the stream goes on with the next chunk and no artifact comes twice.

use std::collections::{BTreeMap, HashSet};

use agentanycast_proto::v1::{self, subscribe_task_stream_response::Event};
use async_stream::stream;
use bytes::Bytes;

use crate::{
    box_stream::BoxStream,
    error::{self, Error, ErrorKind, Subject},
    node::Node,
    session::NodeClient,
};

/// A step of an artifact that is produced piece by piece.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArtifactEvent {
    /// It begins.
    Start {
        /// Names the artifact within its task.
        artifact_id: String,
        /// What to call it.
        name: String,
        /// MIME type; empty when not given.
        media_type: String,
        /// Free labels.
        metadata: BTreeMap<String, String>,
    },
    /// Its next bytes.
    Chunk {
        /// Which artifact.
        artifact_id: String,
        /// The bytes.
        data: Bytes,
    },
    /// It is over.
    End {
        /// Which artifact.
        artifact_id: String,
        /// Whether it is whole.
        reason: EndReason,
        /// What happened, when it is not whole.
        error: String,
    },
}

/// Why an artifact ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndReason {
    /// It is whole.
    Complete,
    /// Its producer or its reader canceled it.
    Canceled,
    /// Its producer failed or went away.
    Error,
}

impl From<i32> for EndReason {
    fn from(number: i32) -> Self {
        match v1::StreamEndReason::try_from(number) {
            Ok(v1::StreamEndReason::Complete) => Self::Complete,
            Ok(v1::StreamEndReason::Canceled) => Self::Canceled,
            _ => Self::Error,
        }
    }
}

/// What of a task's artifacts has been handed out.
#[derive(Debug, Default)]
struct Cursor {
    /// The one artifact that is wanted; `None` = all.
    only: Option<String>,
    /// The artifact under way, and the sequence of its next chunk.
    current: Option<(String, i32)>,
    finished: HashSet<String>,
}

impl Cursor {
    /// What to ask for next: the rest of the artifact under way, or what is wanted at all.
    fn request(&self, task_id: &str) -> v1::SubscribeTaskStreamRequest {
        let (artifact_id, from_sequence) = self
            .current
            .clone()
            .unwrap_or_else(|| (self.only.clone().unwrap_or_default(), 0));
        v1::SubscribeTaskStreamRequest {
            task_id: task_id.to_owned(),
            artifact_id,
            from_sequence,
        }
    }

    /// Whether a stream that ended cleanly leaves nothing to ask for, given whether it was asked to
    /// resume one artifact.
    fn is_over(&self, resumed: bool) -> bool {
        self.current.is_none() && (!resumed || self.only.is_some())
    }

    /// Takes an event; `None` if it was handed out before.
    fn take(&mut self, event: Event) -> Result<Option<ArtifactEvent>, Error> {
        match event {
            Event::StreamStart(start) => Ok(self.start(start)),
            Event::StreamChunk(chunk) => self.chunk(chunk),
            Event::StreamEnd(end) => Ok(self.end(end)),
        }
    }

    fn start(&mut self, start: v1::StreamStart) -> Option<ArtifactEvent> {
        if self.finished.contains(&start.artifact_id) || self.is_current(&start.artifact_id) {
            return None;
        }
        self.current = Some((start.artifact_id.clone(), 0));
        Some(ArtifactEvent::Start {
            artifact_id: start.artifact_id,
            name: start.artifact_name,
            media_type: start.media_type,
            metadata: start.metadata,
        })
    }

    fn chunk(&mut self, chunk: v1::StreamChunk) -> Result<Option<ArtifactEvent>, Error> {
        let gap = |artifact: &str, sequence: i32| {
            let message = format!("artifact {artifact}: chunk {sequence} came out of order");
            Err(Error::new(ErrorKind::Protocol, message))
        };
        match &mut self.current {
            Some((id, next)) if *id == chunk.artifact_id => {
                if chunk.sequence > *next {
                    return gap(id, chunk.sequence);
                }
                if chunk.sequence < *next {
                    return Ok(None);
                }
                *next += 1;
            }
            _ if self.finished.contains(&chunk.artifact_id) => return Ok(None),
            _ => return gap(&chunk.artifact_id, chunk.sequence),
        }
        Ok(Some(ArtifactEvent::Chunk {
            artifact_id: chunk.artifact_id,
            data: chunk.data,
        }))
    }

    fn end(&mut self, end: v1::StreamEnd) -> Option<ArtifactEvent> {
        if self.is_current(&end.artifact_id) {
            self.current = None;
        }
        self.finished
            .insert(end.artifact_id.clone())
            .then(|| ArtifactEvent::End {
                artifact_id: end.artifact_id,
                reason: end.reason.into(),
                error: end.error_message,
            })
    }

    fn is_current(&self, artifact_id: &str) -> bool {
        self.current.as_ref().is_some_and(|(id, _)| id == artifact_id)
    }
}

pub(super) fn artifacts(
    node: Node,
    task_id: String,
    only: Option<String>,
) -> BoxStream<Result<ArtifactEvent, Error>> {
    Box::pin(stream! {
        let mut cursor = Cursor { only, ..Cursor::default() };
        let mut backoff = node.session().backoff();
        loop {
            let resumed = cursor.current.is_some();
            let mut events = match subscribe(&node, cursor.request(&task_id)).await {
                Ok(events) => events,
                Err(error) => {
                    yield Err(error);
                    return;
                }
            };
            let loss = loop {
                match events.message().await {
                    Ok(Some(event)) => {
                        backoff.reset();
                        match event.event.map(|event| cursor.take(event)).transpose() {
                            Ok(event) => if let Some(event) = event.flatten() { yield Ok(event) },
                            Err(error) => {
                                yield Err(error);
                                return;
                            }
                        }
                    }
                    Ok(None) => break None,
                    Err(status) if error::is_stream_loss(&status) => break Some(status),
                    Err(status) => {
                        yield Err(error::from_status(status, Subject::Task));
                        return;
                    }
                }
            };
            match loss {
                None if cursor.is_over(resumed) => return,
                // The resumed artifact is whole; the others come next.
                None if cursor.current.is_none() => {}
                loss => {
                    tracing::debug!(task = task_id, ?loss, "the artifacts broke off; subscribing again");
                    if !backoff.pause().await {
                        yield Err(node.session().unavailable());
                        return;
                    }
                }
            }
        }
    })
}

async fn subscribe(
    node: &Node,
    request: v1::SubscribeTaskStreamRequest,
) -> Result<tonic::Streaming<v1::SubscribeTaskStreamResponse>, Error> {
    let rpc = |mut client: NodeClient, request| async move { client.subscribe_task_stream(request).await };
    node.session().call(Subject::Task, request, rpc).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(id: &str) -> Event {
        Event::StreamStart(v1::StreamStart {
            artifact_id: id.to_owned(),
            ..Default::default()
        })
    }

    fn chunk(id: &str, sequence: i32) -> Event {
        let data = vec![sequence as u8].into();
        Event::StreamChunk(v1::StreamChunk {
            artifact_id: id.to_owned(),
            sequence,
            data,
            ..Default::default()
        })
    }

    fn end(id: &str) -> Event {
        let reason = v1::StreamEndReason::Complete.into();
        Event::StreamEnd(v1::StreamEnd {
            artifact_id: id.to_owned(),
            reason,
            ..Default::default()
        })
    }

    fn fresh(cursor: &mut Cursor, events: impl IntoIterator<Item = Event>) -> usize {
        events
            .into_iter()
            .filter(|event| cursor.take(event.clone()).unwrap().is_some())
            .count()
    }

    #[test]
    fn an_interrupted_artifact_goes_on_where_it_stood() {
        let mut cursor = Cursor::default();
        assert_eq!(
            fresh(
                &mut cursor,
                [start("a"), chunk("a", 0), end("a"), start("b"), chunk("b", 0)]
            ),
            5
        );
        let request = cursor.request("t");
        assert_eq!((request.artifact_id.as_str(), request.from_sequence), ("b", 1));
        // The daemon may repeat the start, and chunks that crossed the loss.
        assert_eq!(
            fresh(&mut cursor, [start("b"), chunk("b", 0), chunk("b", 1), end("b")]),
            2
        );
        assert!(!cursor.is_over(true), "c may follow");
        assert_eq!(cursor.request("t").artifact_id, "");
        let replay = [
            start("a"),
            chunk("a", 0),
            end("a"),
            start("b"),
            end("b"),
            start("c"),
            end("c"),
        ];
        assert_eq!(fresh(&mut cursor, replay), 2);
        assert!(cursor.is_over(false));
    }

    #[test]
    fn a_gap_is_an_error() {
        let mut cursor = Cursor::default();
        assert_eq!(fresh(&mut cursor, [start("a")]), 1);
        assert_eq!(
            cursor.take(chunk("a", 1)).unwrap_err().kind(),
            ErrorKind::Protocol
        );
        assert_eq!(
            cursor.take(chunk("z", 0)).unwrap_err().kind(),
            ErrorKind::Protocol
        );
    }
}
