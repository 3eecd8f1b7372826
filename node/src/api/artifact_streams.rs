//! The two calls that carry artifacts piece by piece.

use std::{collections::HashSet, sync::Arc, time::Duration};

use agentanycast_core::{ArtifactSender, SendError};
use agentanycast_core::{
    delivery::artifact::CHUNK,
    spool::{ReadError, SpoolEvent, SpoolReader},
    task::{ArtifactGrowth, Output, Streamed, Task},
};
use agentanycast_proto::v1::{
    Artifact, SendStreamingArtifactRequest, SendStreamingArtifactResponse, StreamChunk, StreamEnd,
    StreamEndReason, StreamStart, SubscribeTaskStreamRequest, SubscribeTaskStreamResponse,
    send_streaming_artifact_request as sending, subscribe_task_stream_response as reading,
};
use futures::{FutureExt as _, Stream, StreamExt as _};
use tonic::Status;

use super::{
    Api,
    artifact_content::{self, ArtifactPieces},
    growing_artifact::{self, GrowingArtifact},
    status_of,
};

/// How long the file of a stream that has just begun is waited for.
const FILE_WAIT: Duration = Duration::from_secs(5);

/// How often it is looked for.
const FILE_POLL_INTERVAL: Duration = Duration::from_millis(10);

type StreamResult = Result<SubscribeTaskStreamResponse, Status>;

/// SubscribeTaskStream.
pub(super) async fn read(
    api: Api,
    request: SubscribeTaskStreamRequest,
) -> Result<impl Stream<Item = StreamResult>, Status> {
    if request.from_sequence < 0 || (request.from_sequence > 0 && request.artifact_id.is_empty()) {
        return Err(Status::invalid_argument(
            "from_sequence must be 0 or more, and needs an artifact_id",
        ));
    }
    let (task, mut changes) = api
        .engine()
        .subscribe(request.task_id.clone())
        .await
        .map_err(|error| status_of(&error))?;
    Ok(async_stream::try_stream! {
        let mut task = task;
        let mut served: HashSet<String> = HashSet::new();
        loop {
            for result in wanted(&task, &request.artifact_id) {
                if !served.insert(result.id().to_owned()) {
                    continue;
                }
                match &*result {
                    Output::Whole(artifact) if task.growth(result.id()).is_some() => {
                        if request.from_sequence > 0 {
                            for told in growing_artifact::not_resumed(&task.id, artifact) {
                                yield event(told);
                            }
                            continue;
                        }
                        let (mut growing, start) = GrowingArtifact::new(&task.id, artifact);
                        yield event(start);
                        let mut now = Arc::clone(&result);
                        loop {
                            let growth = task.growth(result.id()).unwrap_or(ArtifactGrowth::Complete);
                            for told in growing.grow(&now, growth) {
                                yield event(told);
                            }
                            if growing.is_over() {
                                break;
                            }
                            if changes.next().await.is_none() {
                                Err(Status::unavailable("the daemon is stopping"))?;
                            }
                            task = *api.engine().task(task.id.clone()).await.map_err(|error| status_of(&error))?;
                            now = wanted(&task, result.id()).pop().unwrap_or(now);
                        }
                    }
                    Output::Whole(artifact) => {
                        for event in whole_artifact_events(&task.id, artifact, &result, request.from_sequence) {
                            yield event;
                        }
                    }
                    Output::Streamed(streamed) => {
                        let Some(mut reader) = open(&api, &task, streamed, request.from_sequence).await? else {
                            for event in lost_stream_events(&task.id, streamed) {
                                yield event;
                            }
                            continue;
                        };
                        let turns = api.engine().transfer_turns().clone();
                        while let Some(event) = turns.run(reader.next()).await.map_err(|error| unreadable(&error))? {
                            let ended = matches!(event, SpoolEvent::End(_));
                            yield response_of(&task.id, &streamed.artifact_id, event);
                            if ended {
                                break;
                            }
                        }
                    }
                }
            }
            let done = !request.artifact_id.is_empty() && served.contains(&request.artifact_id);
            // More may have come while one of them grew.
            if !done && wanted(&task, &request.artifact_id).iter().any(|result| !served.contains(result.id())) {
                continue;
            }
            if task.status.is_terminal() || done {
                break;
            }
            if changes.next().await.is_none() {
                Err(Status::unavailable("the daemon is stopping"))?;
            }
            task = *api.engine().task(task.id.clone()).await.map_err(|error| status_of(&error))?;
        }
    })
}

fn wanted(task: &Task, artifact_id: &str) -> Vec<Arc<Output>> {
    task.results
        .iter()
        .filter(|result| artifact_id.is_empty() || result.id() == artifact_id)
        .cloned()
        .collect()
}

/// The reader of a stream; None: there is no file, and there will be none.
async fn open(api: &Api, task: &Task, streamed: &Streamed, from: i32) -> Result<Option<SpoolReader>, Status> {
    let deadline = tokio::time::Instant::now() + FILE_WAIT;
    if streamed.outcome.is_some() {
        end_file(api, task, streamed).await;
    }
    loop {
        match api
            .engine()
            .spool()
            .reader(&task.id, &streamed.artifact_id, from as u32)
            .await
        {
            Err(ReadError::NotFound)
                if streamed.outcome.is_none() && tokio::time::Instant::now() < deadline =>
            {
                tokio::time::sleep(FILE_POLL_INTERVAL).await;
            }
            Err(ReadError::NotFound) => return Ok(None),
            opened => return opened.map(Some).map_err(|error| unreadable(&error)),
        }
    }
}

/// A daemon that fell between the end in the task and the end in the file left a file that readers
/// would follow for ever: it gets its end now.
async fn end_file(api: &Api, task: &Task, streamed: &Streamed) {
    let spool = api.engine().spool();
    let open =
        matches!(spool.size(&task.id, &streamed.artifact_id).await, Ok(Some(size)) if size.end.is_none());
    if open && let Ok(Some(mut writer)) = spool.resume(&task.id, &streamed.artifact_id).await {
        // Somebody else may be about to write the true end; the first one stands.
        let end = aborted_end(&task.id, &streamed.artifact_id);
        if let Err(error) = writer.finish(end).await {
            tracing::warn!(task = task.id, artifact = streamed.artifact_id, %error, "an artifact could not be ended");
        }
    }
}

/// The events of a stream of which nothing is kept.
fn lost_stream_events(task_id: &str, streamed: &Streamed) -> [SubscribeTaskStreamResponse; 2] {
    let start = StreamStart {
        task_id: task_id.to_owned(),
        artifact_id: streamed.artifact_id.clone(),
        artifact_name: streamed.name.clone(),
        media_type: streamed.media_type.clone(),
        ..StreamStart::default()
    };
    let end = aborted_end(task_id, &streamed.artifact_id);
    [
        event(reading::Event::StreamStart(start)),
        event(reading::Event::StreamEnd(end)),
    ]
}

fn aborted_end(task_id: &str, artifact_id: &str) -> StreamEnd {
    StreamEnd {
        task_id: task_id.to_owned(),
        artifact_id: artifact_id.to_owned(),
        reason: StreamEndReason::Error as i32,
        error_message: "the artifact broke off".into(),
    }
}

fn unreadable(error: &ReadError) -> Status {
    match error {
        ReadError::NotFound | ReadError::Removed => Status::not_found(error.to_string()),
        ReadError::TooManyReaders => Status::resource_exhausted(error.to_string()),
        _ => Status::data_loss(error.to_string()),
    }
}

fn event(event: reading::Event) -> SubscribeTaskStreamResponse {
    SubscribeTaskStreamResponse { event: Some(event) }
}

fn response_of(task_id: &str, artifact_id: &str, from_spool: SpoolEvent) -> SubscribeTaskStreamResponse {
    event(match from_spool {
        SpoolEvent::Start(start) => reading::Event::StreamStart(start),
        SpoolEvent::Chunk {
            sequence,
            data,
            is_last,
        } => reading::Event::StreamChunk(StreamChunk {
            task_id: task_id.to_owned(),
            artifact_id: artifact_id.to_owned(),
            sequence: sequence as i32,
            data,
            is_last,
        }),
        SpoolEvent::End(end) => reading::Event::StreamEnd(end),
    })
}

/// A whole artifact as a stream, made as it is read.
fn whole_artifact_events(
    task_id: &str,
    artifact: &Artifact,
    output: &Arc<Output>,
    from: i32,
) -> impl Iterator<Item = SubscribeTaskStreamResponse> + use<> {
    let (task_id, artifact_id) = (task_id.to_owned(), artifact.artifact_id.clone());
    let chunks = artifact_content::length(artifact).div_ceil(CHUNK as u64) as i32;
    let start = StreamStart {
        total_chunks: chunks,
        ..artifact_content::start(&task_id, artifact)
    };
    let end = StreamEnd {
        task_id: task_id.clone(),
        artifact_id: artifact_id.clone(),
        reason: StreamEndReason::Complete as i32,
        error_message: String::new(),
    };
    let pieces = (from..).zip(ArtifactPieces::new(
        Arc::clone(output),
        from as u64 * CHUNK as u64,
    ));
    let pieces = pieces.map(move |(sequence, data)| {
        event(reading::Event::StreamChunk(StreamChunk {
            task_id: task_id.clone(),
            artifact_id: artifact_id.clone(),
            sequence,
            data,
            is_last: sequence + 1 == chunks,
        }))
    });
    let [start, end] = [reading::Event::StreamStart(start), reading::Event::StreamEnd(end)].map(event);
    std::iter::once(start).chain(pieces).chain(std::iter::once(end))
}

/// What an agent sends of an artifact.
pub(super) trait SentPieces:
    Stream<Item = Result<SendStreamingArtifactRequest, Status>> + Unpin + Send
{
}

impl<S: Stream<Item = Result<SendStreamingArtifactRequest, Status>> + Unpin + Send> SentPieces for S {}

/// SendStreamingArtifact.
pub(super) async fn send(
    api: &Api,
    mut requests: impl SentPieces,
    connection: u64,
) -> Result<SendStreamingArtifactResponse, Status> {
    let Some(sending::Event::StreamStart(start)) = next(&mut requests).await? else {
        return Err(Status::invalid_argument(
            "the first message of SendStreamingArtifact must be stream_start",
        ));
    };
    if start.task_id.is_empty() {
        return Err(Status::invalid_argument("stream_start has no task_id"));
    }
    let (task_id, artifact_id) = (start.task_id.clone(), start.artifact_id.clone());
    let mut sender = api
        .engine()
        .stream_artifact(start, connection)
        .await
        .map_err(refused)?;
    let mut expected = 0;
    let mut last = false;
    let belongs = |task: &str, artifact: &str| {
        if (task.is_empty() || task == task_id) && (artifact.is_empty() || artifact == artifact_id) {
            Ok(())
        } else {
            Err(Status::invalid_argument(
                "a piece of another artifact came on this stream",
            ))
        }
    };
    loop {
        match next_while_sending(&mut requests, &mut sender).await? {
            Some(sending::Event::StreamChunk(chunk)) => {
                belongs(&chunk.task_id, &chunk.artifact_id)?;
                if chunk.sequence != expected || last {
                    return Err(Status::invalid_argument(format!(
                        "chunk {} came where chunk {expected} or the end was expected; sequences count from 0 without gaps",
                        chunk.sequence
                    )));
                }
                expected += 1;
                last = chunk.is_last;
                sender.push(chunk.data, chunk.is_last).await.map_err(refused)?;
            }
            Some(sending::Event::StreamEnd(end)) => {
                belongs(&end.task_id, &end.artifact_id)?;
                let reason = match StreamEndReason::try_from(end.reason) {
                    Ok(StreamEndReason::Unspecified) => StreamEndReason::Complete,
                    Ok(reason) => reason,
                    Err(_) => {
                        let text = format!("{} is no reason that a stream can end for", end.reason);
                        return Err(Status::invalid_argument(text));
                    }
                };
                return finish(sender, reason, &end.error_message).await;
            }
            None if last => return finish(sender, StreamEndReason::Complete, "").await,
            Some(sending::Event::StreamStart(_)) | None => {
                // Dropping the sender ends the artifact with reason ERROR.
                return Err(Status::invalid_argument("the stream ended without stream_end"));
            }
        }
    }
}

async fn finish(
    sender: ArtifactSender,
    reason: StreamEndReason,
    message: &str,
) -> Result<SendStreamingArtifactResponse, Status> {
    sender.finish(reason, message).await.map_err(refused)?;
    Ok(SendStreamingArtifactResponse {})
}

/// The next event of the agent. What it has sent so far is on its way while it is waited for, and what
/// becomes of that is looked after.
async fn next_while_sending(
    requests: &mut impl SentPieces,
    sender: &mut ArtifactSender,
) -> Result<Option<sending::Event>, Status> {
    if let Some(request) = requests.next().now_or_never() {
        return event_of(request);
    }
    sender.flush().await.map_err(refused)?;
    loop {
        let event = tokio::select! {
            biased;
            request = requests.next() => return event_of(request),
            event = sender.event() => event,
        };
        sender.handle_event(event).await.map_err(refused)?;
    }
}

async fn next(requests: &mut impl SentPieces) -> Result<Option<sending::Event>, Status> {
    event_of(requests.next().await)
}

#[allow(clippy::result_large_err, reason = "a status is what the agent gets")]
fn event_of(
    request: Option<Result<SendStreamingArtifactRequest, Status>>,
) -> Result<Option<sending::Event>, Status> {
    match request.transpose()? {
        None => Ok(None),
        Some(request) => match request.event {
            Some(event) => Ok(Some(event)),
            None => Err(Status::invalid_argument(
                "a message of SendStreamingArtifact is empty",
            )),
        },
    }
}

#[allow(clippy::needless_pass_by_value, reason = "used with map_err")]
fn refused(error: SendError) -> Status {
    let text = error.to_string();
    match error {
        SendError::Engine(error) => status_of(&error),
        SendError::Refused(_) | SendError::TaskEnded(_) => Status::failed_precondition(text),
        SendError::TooLarge(_) => Status::resource_exhausted(text),
        SendError::Spool(error) if error.is_full() => Status::resource_exhausted(text),
        SendError::Spool(_) => Status::unavailable(text),
    }
}
