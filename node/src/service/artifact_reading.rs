//! Artifacts piece by piece, for a reader.

use std::{collections::HashSet, sync::Arc, time::Duration};

use agentanycast_core::{
    Subscription,
    delivery::artifact::CHUNK,
    spool::{ReadError, SpoolEvent, SpoolReader},
    task::{ArtifactGrowth, Output, Streamed, Task},
};
use agentanycast_proto::v1::{
    Artifact, StreamChunk, StreamEnd, StreamEndReason, StreamStart, SubscribeTaskStreamRequest,
    SubscribeTaskStreamResponse, subscribe_task_stream_response::Event,
};
use futures::Stream;

use super::{
    Service, ServiceError, ServiceResult,
    artifact_content::{self, ArtifactPieces},
    growing_artifact::{self, GrowingArtifact},
};

/// How long the file of a stream that has just begun is waited for.
const FILE_WAIT: Duration = Duration::from_secs(5);

/// How often it is looked for.
const FILE_POLL_INTERVAL: Duration = Duration::from_millis(10);

impl Service {
    /// The artifacts of a task, or one of them, as they come. The next piece is read when the stream is asked for it.
    pub(crate) async fn subscribe_task_stream(
        &self,
        request: SubscribeTaskStreamRequest,
    ) -> ServiceResult<impl Stream<Item = ServiceResult<SubscribeTaskStreamResponse>> + Send + use<>> {
        if request.from_sequence < 0 || (request.from_sequence > 0 && request.artifact_id.is_empty()) {
            return Err(ServiceError::invalid(
                "from_sequence must be 0 or more, and needs an artifact_id",
            ));
        }
        let followed = self.engine().subscribe(request.task_id.clone()).await;
        let (task, changes) = followed.map_err(ServiceError::while_away)?;
        Ok(pieces(self.clone(), request, task, changes))
    }
}

fn pieces(
    service: Service,
    request: SubscribeTaskStreamRequest,
    mut task: Task,
    mut changes: Subscription,
) -> impl Stream<Item = ServiceResult<SubscribeTaskStreamResponse>> + Send {
    async_stream::try_stream! {
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
                                Err(ServiceError::stopping())?;
                            }
                            task = *service.engine().task(task.id.clone()).await.map_err(ServiceError::while_away)?;
                            now = wanted(&task, result.id()).pop().unwrap_or(now);
                        }
                    }
                    Output::Whole(artifact) => {
                        for event in whole_artifact_events(&task.id, artifact, &result, request.from_sequence) {
                            yield event;
                        }
                    }
                    Output::Streamed(streamed) => {
                        let Some(mut reader) = open(&service, &task, streamed, request.from_sequence).await? else {
                            for event in lost_stream_events(&task.id, streamed) {
                                yield event;
                            }
                            continue;
                        };
                        let turns = service.engine().transfer_turns().clone();
                        while let Some(event) = turns.run(reader.next()).await? {
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
                Err(ServiceError::stopping())?;
            }
            task = *service.engine().task(task.id.clone()).await.map_err(ServiceError::while_away)?;
        }
    }
}

fn wanted(task: &Task, artifact_id: &str) -> Vec<Arc<Output>> {
    task.results
        .iter()
        .filter(|result| artifact_id.is_empty() || result.id() == artifact_id)
        .cloned()
        .collect()
}

/// The reader of a stream; None: there is no file, and there will be none.
async fn open(
    service: &Service,
    task: &Task,
    streamed: &Streamed,
    from: i32,
) -> ServiceResult<Option<SpoolReader>> {
    let deadline = tokio::time::Instant::now() + FILE_WAIT;
    if streamed.outcome.is_some() {
        end_file(service, task, streamed).await;
    }
    loop {
        match service
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
            opened => return Ok(Some(opened?)),
        }
    }
}

/// A daemon that fell between the end in the task and the end in the file left a file that readers
/// would follow for ever: it gets its end now.
async fn end_file(service: &Service, task: &Task, streamed: &Streamed) {
    let spool = service.engine().spool();
    let open =
        matches!(spool.size(&task.id, &streamed.artifact_id).await, Ok(Some(size)) if size.end.is_none());
    if open && let Ok(Some(mut writer)) = spool.resume(&task.id, &streamed.artifact_id).await {
        // Another call may be about to write the true end; the first one stands.
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
    [event(Event::StreamStart(start)), event(Event::StreamEnd(end))]
}

fn aborted_end(task_id: &str, artifact_id: &str) -> StreamEnd {
    let why = "the artifact broke off";
    artifact_content::end(task_id, artifact_id, StreamEndReason::Error, why)
}

fn event(event: Event) -> SubscribeTaskStreamResponse {
    SubscribeTaskStreamResponse { event: Some(event) }
}

fn response_of(task_id: &str, artifact_id: &str, from_spool: SpoolEvent) -> SubscribeTaskStreamResponse {
    event(match from_spool {
        SpoolEvent::Start(start) => Event::StreamStart(start),
        SpoolEvent::Chunk {
            sequence,
            data,
            is_last,
        } => Event::StreamChunk(StreamChunk {
            task_id: task_id.to_owned(),
            artifact_id: artifact_id.to_owned(),
            sequence: sequence as i32,
            data,
            is_last,
        }),
        SpoolEvent::End(end) => Event::StreamEnd(end),
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
    let end = artifact_content::end(&task_id, &artifact_id, StreamEndReason::Complete, "");
    let pieces = (from..).zip(ArtifactPieces::new(
        Arc::clone(output),
        from as u64 * CHUNK as u64,
    ));
    let pieces = pieces.map(move |(sequence, data)| {
        event(Event::StreamChunk(StreamChunk {
            task_id: task_id.clone(),
            artifact_id: artifact_id.clone(),
            sequence,
            data,
            is_last: sequence + 1 == chunks,
        }))
    });
    let [start, end] = [Event::StreamStart(start), Event::StreamEnd(end)].map(event);
    std::iter::once(start).chain(pieces).chain(std::iter::once(end))
}
