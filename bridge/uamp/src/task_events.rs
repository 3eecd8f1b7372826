//! What happens to one task, as it becomes frames of a stream: progress, pieces of results, the end. Used by
//! `stream`.
//!
//! Invariant: the end comes after every piece of every result; pieces of one result come in order and without
//! gaps.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use agentanycast_gateway::{
    GatewayError, TaskHandle, is_reference, is_terminal, labels::is_auth_required, tasks::TaskReader,
};
use agentanycast_proto::v1::{self, TaskStatus};
use agentanycast_uamp::{delta::DeltaType, error::UampError};
use async_stream::stream;
use bytes::Bytes;
use futures::{
    Stream, StreamExt as _,
    stream::{BoxStream, SelectAll},
};
use serde_json::{Map, Value};

use super::content::{artifact_bytes, artifact_value, is_chunked, mime_of, progress, text_of};

/// Largest piece of a result in one event, in bytes: base64 makes 43 KiB of it.
const PIECE: usize = 32 << 10;

/// How long is waited before the updates of a task that has not ended are asked for again.
const AGAIN: Duration = Duration::from_secs(1);

/// What happens to a task.
#[derive(Clone, Debug)]
pub(super) enum FollowEvent {
    /// How far it is.
    Progress(Map<String, Value>),
    /// A piece of a result.
    Piece {
        /// Of which result.
        artifact: String,
        /// Its media type.
        mime: String,
        /// Where the piece begins.
        offset: u64,
        /// The piece.
        bytes: Bytes,
    },
    /// It has ended.
    End(TaskEnd),
    /// The node does not tell of it.
    Lost(GatewayError),
}

/// How a task has ended.
#[derive(Clone, Debug)]
pub(super) struct TaskEnd {
    /// The last delta.
    pub(super) kind: DeltaType,
    /// What it says.
    pub(super) payload: Map<String, Value>,
    /// It was refused by its agent.
    pub(super) is_rejected: bool,
}

impl TaskEnd {
    /// Of a task that did not begin.
    pub(super) fn failed(error: &UampError) -> Self {
        Self {
            kind: DeltaType::Error,
            payload: error.payload(),
            is_rejected: false,
        }
    }
}

/// How far a task was told before: ends of results that were sent as pieces, and the last progress.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TaskPosition {
    pub(super) artifacts: BTreeMap<String, u64>,
    pub(super) progress: Map<String, Value>,
}

impl TaskPosition {
    /// Moves behind a piece.
    fn pass(&mut self, event: &FollowEvent) {
        if let FollowEvent::Piece {
            artifact,
            offset,
            bytes,
            ..
        } = event
        {
            let end = offset + bytes.len() as u64;
            self.artifacts.insert(artifact.clone(), end);
        }
    }
}

/// What happens to a task from a position on.
pub(super) fn events(
    handle: Arc<dyn TaskHandle>,
    reader: TaskReader,
    mut position: TaskPosition,
) -> impl Stream<Item = FollowEvent> + Send + 'static {
    stream! {
        let mut pieces: SelectAll<BoxStream<'static, FollowEvent>> = SelectAll::new();
        let mut begun: BTreeSet<String> = BTreeSet::new();
        let mut updates = handle.updates();
        let mut has_ended = false;
        let mut is_first = true;
        loop {
            let update = tokio::select! {
                Some(piece) = pieces.next(), if !pieces.is_empty() => {
                    position.pass(&piece);
                    yield piece;
                    continue;
                }
                update = updates.next(), if !has_ended => update,
                else => break,
            };
            match update {
                Some(Ok(update)) => {
                    let mut artifacts = update.artifacts.clone();
                    // Updates say nothing of a result until it is whole: one that is being produced is in the task.
                    if update.may_lack_results(is_first) {
                        match reader.read(&*handle).await {
                            Ok(task) => artifacts.extend(task.artifacts),
                            Err(error) => tracing::debug!(%error, "a task was not read while it goes on"),
                        }
                    }
                    is_first = false;
                    for artifact in &artifacts {
                        if is_reference(artifact) && begun.insert(artifact.artifact_id.clone()) {
                            let from = position.artifacts.get(&artifact.artifact_id).copied().unwrap_or(0);
                            pieces.push(referenced(&handle, artifact, from));
                        }
                    }
                    has_ended = is_terminal(update.status);
                    if let Some(payload) = progress_of(update.status, update.message.as_ref())
                        && payload != position.progress
                    {
                        position.progress = payload.clone();
                        yield FollowEvent::Progress(payload);
                    }
                }
                Some(Err(error)) => {
                    yield FollowEvent::Lost(error);
                    return;
                }
                // Some nodes end the updates of a task that asks for input.
                None => {
                    tokio::time::sleep(AGAIN).await;
                    updates = handle.updates();
                }
            }
        }
        let task = match reader.read(&*handle).await {
            Ok(task) => task,
            Err(error) => {
                yield FollowEvent::Lost(error);
                return;
            }
        };
        for artifact in &task.artifacts {
            let told = position.artifacts.get(&artifact.artifact_id).copied();
            // One that was told while it was produced is told to its end, however small it is.
            if told.is_none() && !is_chunked(artifact) {
                continue;
            }
            let from = told.unwrap_or(0);
            if !is_reference(artifact) {
                for piece in pieces_of(artifact, from) {
                    yield piece;
                }
            } else if !begun.contains(&artifact.artifact_id) {
                let mut late = referenced(&handle, artifact, from);
                while let Some(piece) = late.next().await {
                    yield piece;
                }
            }
        }
        yield FollowEvent::End(end_of(&task));
    }
}

/// The pieces of a result that is read as a stream, from an offset on.
fn referenced(
    handle: &Arc<dyn TaskHandle>,
    artifact: &v1::Artifact,
    from: u64,
) -> BoxStream<'static, FollowEvent> {
    let (name, mime) = (artifact.artifact_id.clone(), mime_of(artifact));
    let mut bytes = handle.stream(&name);
    let told = stream! {
        let mut at = 0_u64;
        while let Some(read) = bytes.next().await {
            let mut read = match read {
                Ok(read) => read,
                // What is missing of the result is told by the state of the task.
                Err(error) => {
                    tracing::debug!(%error, artifact = name, "a result broke off");
                    return;
                }
            };
            let skipped = usize::try_from(from.saturating_sub(at)).unwrap_or(usize::MAX).min(read.len());
            at += skipped as u64;
            read = read.slice(skipped..);
            while !read.is_empty() {
                let piece = read.split_to(read.len().min(PIECE));
                let offset = at;
                at += piece.len() as u64;
                yield FollowEvent::Piece { artifact: name.clone(), mime: mime.clone(), offset, bytes: piece };
            }
        }
    };
    told.boxed()
}

/// The pieces of a result that is there whole, from an offset on.
fn pieces_of(artifact: &v1::Artifact, from: u64) -> Vec<FollowEvent> {
    let bytes = artifact_bytes(artifact);
    let mime = mime_of(artifact);
    let mut at = usize::try_from(from).unwrap_or(usize::MAX).min(bytes.len());
    let mut pieces = Vec::new();
    while at < bytes.len() {
        let end = (at + PIECE).min(bytes.len());
        pieces.push(FollowEvent::Piece {
            artifact: artifact.artifact_id.clone(),
            mime: mime.clone(),
            offset: at as u64,
            bytes: bytes.slice(at..end),
        });
        at = end;
    }
    pieces
}

/// The progress of a state; `None` for a state that says nothing.
fn progress_of(status: TaskStatus, message: Option<&v1::Message>) -> Option<Map<String, Value>> {
    let state = match status {
        TaskStatus::Working => "working",
        TaskStatus::InputRequired => "input_required",
        _ => return None,
    };
    let mut payload = progress(state, &text_of(message));
    if is_auth_required(status, message) {
        payload.insert("auth_required".to_owned(), true.into());
    }
    Some(payload)
}

pub(super) fn end_of(task: &v1::Task) -> TaskEnd {
    let text = text_of(task.status_message.as_ref());
    let mut payload = Map::new();
    let mut say = |name: &str, value: Value| payload.insert(name.to_owned(), value);
    let kind = match task.status() {
        TaskStatus::Completed => {
            say("artifacts", task.artifacts.iter().map(artifact_value).collect());
            DeltaType::Done
        }
        TaskStatus::Canceled => DeltaType::Cancel,
        TaskStatus::Rejected => {
            say("code", "4.03".into());
            say("denied", true.into());
            DeltaType::Error
        }
        _ => DeltaType::Error,
    };
    let is_error = kind == DeltaType::Error;
    if !text.is_empty() {
        say("message", text.into());
    } else if is_error {
        say("message", "the agent gave no reason".into());
    }
    TaskEnd {
        kind,
        payload,
        is_rejected: task.status() == TaskStatus::Rejected,
    }
}
