//! An artifact piece by piece, from the agent that makes it.

use agentanycast_core::ArtifactSender;
use agentanycast_proto::v1::{
    SendStreamingArtifactRequest, StreamEndReason, send_streaming_artifact_request::Event,
};
use futures::{FutureExt as _, Stream, StreamExt as _};

use super::{Caller, Service, ServiceError};

/// What an agent sends of an artifact, or the error with which its face breaks off. That is given back as it is.
pub(crate) trait SentPieces<E>:
    Stream<Item = Result<SendStreamingArtifactRequest, E>> + Unpin + Send
{
}

impl<E, S: Stream<Item = Result<SendStreamingArtifactRequest, E>> + Unpin + Send> SentPieces<E> for S {}

impl Service {
    /// SendStreamingArtifact. It takes the next piece when there is room for it.
    pub(crate) async fn send_artifact<E: From<ServiceError>>(
        &self,
        mut requests: impl SentPieces<E>,
        caller: &Caller,
    ) -> Result<(), E> {
        let Some(Event::StreamStart(start)) = event_of(requests.next().await)? else {
            return Err(ServiceError::invalid(
                "the first message of SendStreamingArtifact must be stream_start",
            )
            .into());
        };
        if start.task_id.is_empty() {
            return Err(ServiceError::invalid("stream_start has no task_id").into());
        }
        let (task_id, artifact_id) = (start.task_id.clone(), start.artifact_id.clone());
        let opened = self.engine().stream_artifact(start, caller.connection).await;
        let mut sender = opened.map_err(ServiceError::from)?;
        let mut expected = 0;
        let mut last = false;
        let belongs = |task: &str, artifact: &str| {
            if (task.is_empty() || task == task_id) && (artifact.is_empty() || artifact == artifact_id) {
                Ok(())
            } else {
                Err(ServiceError::invalid(
                    "a piece of another artifact came on this stream",
                ))
            }
        };
        loop {
            match next_while_sending(&mut requests, &mut sender).await? {
                Some(Event::StreamChunk(chunk)) => {
                    belongs(&chunk.task_id, &chunk.artifact_id)?;
                    if chunk.sequence != expected || last {
                        return Err(ServiceError::invalid(format!(
                        "chunk {} came where chunk {expected} or the end was expected; sequences count from 0 without gaps",
                        chunk.sequence
                    )).into());
                    }
                    expected += 1;
                    last = chunk.is_last;
                    sender
                        .push(chunk.data, chunk.is_last)
                        .await
                        .map_err(ServiceError::from)?;
                }
                Some(Event::StreamEnd(end)) => {
                    belongs(&end.task_id, &end.artifact_id)?;
                    let reason = match StreamEndReason::try_from(end.reason) {
                        Ok(StreamEndReason::Unspecified) => StreamEndReason::Complete,
                        Ok(reason) => reason,
                        Err(_) => {
                            let text = format!("{} is no reason that a stream can end for", end.reason);
                            return Err(ServiceError::invalid(text).into());
                        }
                    };
                    let finished = sender.finish(reason, &end.error_message).await;
                    return Ok(finished.map_err(ServiceError::from)?);
                }
                None if last => {
                    let finished = sender.finish(StreamEndReason::Complete, "").await;
                    return Ok(finished.map_err(ServiceError::from)?);
                }
                Some(Event::StreamStart(_)) | None => {
                    // Dropping the sender ends the artifact with reason ERROR.
                    return Err(ServiceError::invalid("the stream ended without stream_end").into());
                }
            }
        }
    }
}

/// The next event of the agent. What it has sent so far is on its way while it is waited for, and what
/// becomes of that is looked after.
async fn next_while_sending<E: From<ServiceError>>(
    requests: &mut impl SentPieces<E>,
    sender: &mut ArtifactSender,
) -> Result<Option<Event>, E> {
    if let Some(request) = requests.next().now_or_never() {
        return event_of(request);
    }
    sender.flush().await.map_err(ServiceError::from)?;
    loop {
        let event = tokio::select! {
            biased;
            request = requests.next() => return event_of(request),
            event = sender.event() => event,
        };
        sender.handle_event(event).await.map_err(ServiceError::from)?;
    }
}

fn event_of<E: From<ServiceError>>(
    request: Option<Result<SendStreamingArtifactRequest, E>>,
) -> Result<Option<Event>, E> {
    match request.transpose()? {
        None => Ok(None),
        Some(request) => match request.event {
            Some(event) => Ok(Some(event)),
            None => Err(ServiceError::invalid("a message of SendStreamingArtifact is empty").into()),
        },
    }
}
