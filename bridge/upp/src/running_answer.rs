//! A task that answers a request: begun, followed, and cancelled if its answer is not wanted any more. Used by
//! `http`.
//!
//! Invariant: a task that was begun has ended, or is being cancelled, when its [`RunningAnswer`] is dropped.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use agentanycast_gateway::{
    GatewayError, TaskHandle,
    caller::Caller,
    is_halt, is_reference,
    labels::is_auth_required,
    tasks::{AwaitedTask, CallerMessage, GatewayTasks},
};
use agentanycast_proto::v1::{self, TaskStatus};
use agentanycast_readers::{excerpt::excerpt, json};
use agentanycast_upp::{
    AssistantMessage, ContentBlock, ErrorCode, Response, StreamEvent, UppError, events_of,
    task_wire::error_of_reason, wire::response_of,
};
use async_stream::try_stream;
use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt as _, stream::BoxStream};
use tokio::{sync::OwnedSemaphorePermit, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    codec::{blocks_of_parts, is_events, text_of, turn_of_artifacts, with_content},
    event_lines::EventLines,
    failure::{of_node, of_task_refusal},
};

/// How long an answer may take. Clients of UPP give up earlier; a task without an end does not hold its place
/// for ever.
const MAX_TIME: Duration = Duration::from_hours(1);

/// How many bytes of content are read apart from one task: the results of a task that is passed on whole have
/// as many.
const MAX_CONTENT_BYTES: usize = 16 << 20;

/// How long is waited before the updates of a task that has not ended are asked for again.
const AGAIN: Duration = Duration::from_secs(1);

/// What becomes of a task, in order.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "an event is moved once, to the reader of its stream"
)]
pub(super) enum AnswerPiece {
    /// An event.
    Event(StreamEvent),
    /// The answer, which is the last piece.
    Done(Box<Response>),
}

/// A task that was begun. Dropping it before the end of the task cancels the task.
pub(super) struct RunningAnswer {
    task: AwaitedTask,
    deadline: Instant,
    stop: CancellationToken,
    is_structured: bool,
    _slot: OwnedSemaphorePermit,
}

impl RunningAnswer {
    /// Begins a task. A caller that drops the future cancels the task, also in the middle of its begin.
    pub(super) async fn begin(
        tasks: &Arc<GatewayTasks>,
        caller: Caller,
        message: CallerMessage,
        stop: CancellationToken,
    ) -> Result<Self, UppError> {
        let slot = tasks.follow_slot().map_err(of_task_refusal)?;
        let task = AwaitedTask::begin(tasks, caller, message).await;
        Ok(Self {
            task: task.map_err(of_task_refusal)?,
            deadline: Instant::now() + MAX_TIME,
            stop,
            is_structured: false,
            _slot: slot,
        })
    }

    /// Whether the answer has to be JSON, which is its data.
    pub(super) fn structured(self, is_structured: bool) -> Self {
        Self {
            is_structured,
            ..self
        }
    }

    /// Waits for the answer.
    pub(super) async fn wait(mut self) -> Result<Response, UppError> {
        let handle = Arc::clone(self.task.handle());
        let task = self
            .in_time(handle.halted())
            .await?
            .map_err(|error| of_node(&error))?;
        self.end(task).await
    }

    /// The events of the agent as they come, then the answer. An agent without events gets those of its
    /// answer.
    pub(super) fn pieces(mut self) -> impl Stream<Item = Result<AnswerPiece, UppError>> + Send {
        try_stream! {
            let mut follower = EventFollower::new(Arc::clone(self.task.handle()));
            let mut has_events = false;
            while let Some(events) = self.in_time(follower.next()).await?.transpose()? {
                for event in events {
                    has_events = true;
                    yield AnswerPiece::Event(event);
                }
            }
            let handle = Arc::clone(self.task.handle());
            let task = self.in_time(handle.halted()).await?.map_err(|error| of_node(&error))?;
            let response = self.end(task).await?;
            if !has_events {
                for event in events_of(&response.message) {
                    yield AnswerPiece::Event(event);
                }
            }
            yield AnswerPiece::Done(Box::new(response));
        }
    }

    /// The result of what must not outlast the answer or the gateway.
    async fn in_time<R>(&self, wanted: impl Future<Output = R> + Send) -> Result<R, UppError> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {
                let text = "the gateway stops; the task is cancelled";
                Err(UppError::new(ErrorCode::NetworkError, text).with_status(503))
            }
            () = tokio::time::sleep_until(self.deadline) => {
                let text = format!("the agent has not answered in {} s", MAX_TIME.as_secs());
                Err(UppError::new(ErrorCode::Timeout, text))
            }
            result = wanted => Ok(result),
        }
    }

    /// What a task that has halted answers.
    async fn end(&mut self, task: v1::Task) -> Result<Response, UppError> {
        let said = task.status_message.as_ref();
        match task.status() {
            TaskStatus::Completed => {
                self.task.set_ended();
                let response = self.response(task).await?;
                if self.is_structured {
                    with_data(response)
                } else {
                    Ok(response)
                }
            }
            TaskStatus::Failed | TaskStatus::Rejected => {
                self.task.set_ended();
                Err(error_of_reason(&text_of(said)))
            }
            TaskStatus::Canceled => {
                self.task.set_ended();
                Err(UppError::new(ErrorCode::Cancelled, "the task was cancelled"))
            }
            status if is_auth_required(status, said) => {
                let text = format!("the agent asks for credentials: {}", text_of(said));
                Err(UppError::new(ErrorCode::AuthenticationFailed, text))
            }
            // The question is the answer: the client's next request carries the conversation and its reply.
            _ => Ok(message_of_blocks(blocks_of_message(said))),
        }
    }

    async fn response(&self, mut task: v1::Task) -> Result<Response, UppError> {
        task.artifacts.retain(|artifact| !is_events(artifact));
        let mut left = MAX_CONTENT_BYTES;
        for artifact in &mut task.artifacts {
            if is_reference(artifact) {
                let content = self
                    .in_time(read(&**self.task.handle(), &artifact.artifact_id, left))
                    .await??;
                left -= content.len();
                *artifact = with_content(std::mem::take(artifact), content);
            }
        }
        if let Some(turn) = turn_of_artifacts(&task.artifacts)? {
            return response_of(turn);
        }
        let parts = task.artifacts.iter().map(|artifact| &artifact.parts);
        let mut blocks: Vec<ContentBlock> = parts.flat_map(|parts| blocks_of_parts(parts)).collect();
        // An agent may answer in the closing message alone.
        if blocks.is_empty() {
            blocks = blocks_of_message(task.status_message.as_ref());
        }
        Ok(message_of_blocks(blocks))
    }
}

fn blocks_of_message(message: Option<&v1::Message>) -> Vec<ContentBlock> {
    message
        .map(|message| blocks_of_parts(&message.parts))
        .unwrap_or_default()
}

fn message_of_blocks(blocks: Vec<ContentBlock>) -> Response {
    Response::new(AssistantMessage::new(blocks))
}

/// The same answer, whose data is the JSON that an agent without UPP wrote as text.
fn with_data(mut response: Response) -> Result<Response, UppError> {
    let message = &response.message;
    if response.data.is_some() || !message.tool_calls.is_empty() {
        return Ok(response);
    }
    // The text as a whole, or the last of its blocks that is JSON: some agents say something besides.
    let blocks = message.content.iter().rev().filter_map(|block| match block {
        ContentBlock::Text { text } => Some(text.clone()),
        _ => None,
    });
    let mut texts = std::iter::once(message.text()).chain(blocks);
    let data = texts.find_map(|text| json::value(in_fence(&text).as_bytes()).ok());
    if data.is_none() {
        let said = excerpt(message.text().as_bytes());
        let text = format!("the answer of the agent is not JSON, which `structure` asks for: {said}");
        return Err(UppError::invalid_response(text));
    }
    response.data = data;
    Ok(response)
}

/// What stands in the fence of Markdown in which models like to put their JSON.
fn in_fence(text: &str) -> &str {
    let inside = || {
        let text = text.trim().strip_prefix("```")?.strip_suffix("```")?;
        Some(text.strip_prefix("json").unwrap_or(text))
    };
    inside().unwrap_or(text)
}

/// The content of a result of at most so many bytes.
async fn read(handle: &dyn TaskHandle, artifact: &str, most: usize) -> Result<Bytes, UppError> {
    let mut content = BytesMut::new();
    let mut pieces = handle.stream(artifact);
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| of_node(&error))?;
        if content.len() + piece.len() > most {
            let text = format!("the results of the agent have more than {MAX_CONTENT_BYTES} bytes");
            return Err(UppError::invalid_response(text));
        }
        content.extend_from_slice(&piece);
    }
    Ok(content.freeze())
}

/// Reads the event streams of a task, one after the other, until the task halts.
struct EventFollower {
    handle: Arc<dyn TaskHandle>,
    updates: BoxStream<'static, Result<agentanycast_gateway::Update, GatewayError>>,
    /// Streams that were seen; a task has a bounded number of results.
    begun: BTreeSet<String>,
    waiting: VecDeque<String>,
    current: Option<(BoxStream<'static, Result<Bytes, GatewayError>>, EventLines)>,
    status: TaskStatus,
    /// An update has come.
    is_followed: bool,
}

impl EventFollower {
    fn new(handle: Arc<dyn TaskHandle>) -> Self {
        Self {
            updates: handle.updates(),
            handle,
            begun: BTreeSet::new(),
            waiting: VecDeque::new(),
            current: None,
            status: TaskStatus::Submitted,
            is_followed: false,
        }
    }

    /// Further events; `None` once the task has halted and its streams were read.
    async fn next(&mut self) -> Option<Result<Vec<StreamEvent>, UppError>> {
        loop {
            if self.current.is_none()
                && let Some(id) = self.waiting.pop_front()
            {
                self.current = Some((self.handle.stream(&id), EventLines::default()));
            }
            let has_halted = is_halt(self.status);
            // Streams of a task that did not complete may have no end.
            if has_halted && (self.current.is_none() || self.status != TaskStatus::Completed) {
                return None;
            }
            tokio::select! {
                biased;
                piece = next_piece(&mut self.current), if self.current.is_some() => match piece {
                    Some(events) => return Some(events),
                    None => self.current = None,
                },
                update = self.updates.next(), if !has_halted => match update {
                    Some(Ok(update)) => if let Err(error) = self.take(update).await {
                        return Some(Err(error));
                    },
                    Some(Err(error)) => return Some(Err(of_node(&error))),
                    None => {
                        tokio::time::sleep(AGAIN).await;
                        self.updates = self.handle.updates();
                    }
                },
            }
        }
    }

    async fn take(&mut self, update: agentanycast_gateway::Update) -> Result<(), UppError> {
        self.status = update.status;
        let is_first = !std::mem::replace(&mut self.is_followed, true);
        let artifacts = if update.may_lack_results(is_first) {
            let task = self.handle.snapshot().await;
            task.map_err(|error| of_node(&error))?.artifacts
        } else {
            update.artifacts
        };
        for artifact in artifacts {
            let is_new = |begun: &mut BTreeSet<String>| begun.insert(artifact.artifact_id.clone());
            if is_events(&artifact) && is_reference(&artifact) && is_new(&mut self.begun) {
                self.waiting.push_back(artifact.artifact_id);
            }
        }
        Ok(())
    }
}

/// The events of the next bytes; `None` at the end of the stream.
async fn next_piece(
    current: &mut Option<(BoxStream<'static, Result<Bytes, GatewayError>>, EventLines)>,
) -> Option<Result<Vec<StreamEvent>, UppError>> {
    let (stream, lines) = current.as_mut()?;
    match stream.next().await? {
        Ok(bytes) => Some(lines.take(&bytes)),
        // The end of the task tells why its stream broke off.
        Err(error) => {
            tracing::debug!(%error, "the events of an agent broke off");
            None
        }
    }
}
