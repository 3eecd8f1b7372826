//! Streams that are opened: those in memory, and those that are made of their tasks again after a restart.

use std::{collections::BTreeMap, sync::Arc};

use agentanycast_gateway::{
    TaskHandle,
    caller::CallerIdentity,
    is_reference,
    tasks::{CallerQuery, TaskReader},
};
use agentanycast_proto::v1;
use agentanycast_uamp::{
    delta::Delta,
    envelope::{DEFAULT_WINDOW, EnvelopeId},
    error::{UampCode, UampError, shown},
    window::StreamLog,
};
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;

use super::{UampHandler, label};
use crate::{
    checkpoint::{NOTE, StreamCheckpoint},
    content::{artifact_bytes, mime_of},
    refusals,
    stream::{StreamOrigin, UampStream, merged_end},
    task_events::{TaskEnd, TaskPosition, end_of},
    ticks,
};

/// Most tasks of one stream: those of its receivers.
const MOST_TASKS: usize = 256;

/// A task of a stream that was found again.
struct FoundTask {
    task: v1::Task,
    handle: Arc<dyn TaskHandle>,
}

/// The tasks of a stream by its receivers.
struct FoundStream {
    origin: StreamOrigin,
    window: u64,
    /// `None` of a receiver whose task did not begin.
    tasks: Vec<Option<FoundTask>>,
}

impl UampHandler {
    /// A stream of a caller.
    ///
    /// # Errors
    /// [`UampError::UnknownStream`] for those of others, too.
    pub(crate) async fn open(&self, caller: &CallerIdentity, id: &str) -> Result<Arc<UampStream>, UampError> {
        if let Some(stream) = self.streams.get(caller, id) {
            return Ok(stream);
        }
        self.restore(caller, id).await
    }

    /// Takes an acknowledgement that came as a delta.
    pub(crate) async fn acknowledge(&self, caller: &CallerIdentity, delta: &Delta) -> Result<(), UampError> {
        let Some(through) = delta.acknowledged() else {
            let text = "is not taken of a consumer; it sends progress with {\"ack\": N}";
            return Err(UampError::field("type", text));
        };
        self.open(caller, &delta.stream_id).await?.acknowledge(through)
    }

    async fn restore(&self, caller: &CallerIdentity, id: &str) -> Result<Arc<UampStream>, UampError> {
        let tasks = self.tasks.of_caller(Self::stream_caller(caller, id));
        let query = CallerQuery {
            limit: MOST_TASKS,
            ..CallerQuery::default()
        };
        let listed = tasks
            .list(query)
            .await
            .map_err(|error| refusals::of_node(&error))?;
        let found = self
            .found(listed.tasks)
            .ok_or_else(|| UampError::UnknownStream(shown(id)))?;
        let slot = self.tasks.follow_slot().map_err(refusals::of_task)?;
        let mut log = StreamLog::new(found.window);
        let mut positions = vec![TaskPosition::default(); found.tasks.len()];
        if let Some(checkpoint) = self.checkpoint(&found).await? {
            log = restored_log(&checkpoint, &found, &tasks.reader()).await?;
            for (position, noted) in positions.iter_mut().zip(checkpoint.positions) {
                *position = noted.into();
            }
        }
        let names = found
            .tasks
            .iter()
            .map(|found| Some(found.as_ref()?.task.task_id.clone()));
        let stream = Arc::new(UampStream::new(
            id.to_owned(),
            caller.clone(),
            found.origin,
            names.collect(),
            log,
            positions.clone(),
        ));
        let added = self.streams.add(Arc::clone(&stream))?;
        if Arc::ptr_eq(&added, &stream) {
            self.counters.resumed();
            let mut handles = Vec::new();
            for (at, (found, position)) in found.tasks.into_iter().zip(positions).enumerate() {
                match found {
                    Some(found) => handles.push((at, found.handle, position)),
                    None => stream.fail_receiver(at, &not_begun()),
                }
            }
            self.follow(&stream, handles, slot);
        }
        Ok(added)
    }

    /// The tasks of one envelope among those of a stream; `None`: there are none that it answers.
    fn found(&self, listed: Vec<v1::Task>) -> Option<FoundStream> {
        let text = |task: &v1::Task, name: &str| task.metadata.get(name).cloned().unwrap_or_default();
        let first = listed.first()?;
        if !matches!(text(first, label::INTENT).as_str(), "ask" | "propose") {
            return None;
        }
        let id = text(first, label::ID);
        let (_, count, _) = receiver_of(&text(first, label::RECEIVER))?;
        let mut found = FoundStream {
            origin: StreamOrigin {
                id: EnvelopeId::parse(&id)?,
                from: text(first, label::FROM),
                to: vec!["unknown".to_owned(); count],
                context: super::LABELS.context_of(first).to_owned(),
            },
            window: text(first, label::WINDOW).parse().unwrap_or(DEFAULT_WINDOW),
            tasks: (0..count).map(|_| None).collect(),
        };
        for task in listed {
            let Some((at, _, receiver)) = receiver_of(&text(&task, label::RECEIVER)) else {
                continue;
            };
            if at >= count || text(&task, label::ID) != id {
                continue;
            }
            found.origin.to[at] = receiver;
            let handle = self.node().task(&task.task_id);
            found.tasks[at] = Some(FoundTask { task, handle });
        }
        Some(found)
    }

    /// What was noted of a stream with its first task.
    async fn checkpoint(&self, found: &FoundStream) -> Result<Option<StreamCheckpoint>, UampError> {
        let Some(first) = found.tasks.iter().flatten().next() else {
            return Ok(None);
        };
        let notes = self.node().notes(&first.task.task_id).await;
        let notes = notes.map_err(|error| refusals::of_node(&error))?;
        let noted = notes.iter().find(|note| note.name == NOTE);
        Ok(noted.and_then(|note| serde_json::from_slice(&note.content).ok()))
    }
}

/// Why a receiver has no task.
fn not_begun() -> UampError {
    UampError::coded(UampCode::BackendBusy, "the task of this receiver did not begin")
}

/// What a label says of its receiver: which it is, of how many, and its name.
fn receiver_of(label: &str) -> Option<(usize, usize, String)> {
    let (place, receiver) = label.split_once(' ')?;
    let (at, count) = place.split_once('/')?;
    let count: usize = count.parse().ok()?;
    (1..=MOST_TASKS)
        .contains(&count)
        .then(|| Some((at.parse().ok()?, count, receiver.to_owned())))
        .flatten()
}

/// The log that was noted, with the bytes of its chunks read again.
async fn restored_log(
    checkpoint: &StreamCheckpoint,
    found: &FoundStream,
    reader: &TaskReader,
) -> Result<StreamLog, UampError> {
    let busy = |text: &str| UampError::coded(UampCode::BackendBusy, text.to_owned());
    let mut whole: Vec<Option<v1::Task>> = Vec::new();
    for found in &found.tasks {
        whole.push(match found {
            Some(found) => {
                let read = reader.read(&*found.handle).await;
                Some(read.map_err(|error| refusals::of_node(&error))?)
            }
            None => None,
        });
    }
    let mut pieces: BTreeMap<(u16, String), (String, u64, Bytes)> = BTreeMap::new();
    for (at, artifact, from, to) in checkpoint.ranges() {
        let place = usize::from(at);
        let task = whole.get(place).zip(found.tasks.get(place));
        let known = task.and_then(|(task, found)| {
            let mut artifacts = task.as_ref()?.artifacts.iter();
            let known = artifacts.find(|known| known.artifact_id == artifact)?;
            Some((known, found.as_ref()?))
        });
        let Some((known, found)) = known else {
            return Err(busy("a result of this stream cannot be read now"));
        };
        let bytes = range_of(known, &*found.handle, from, to).await;
        let bytes = bytes.ok_or_else(|| busy("a result of this stream cannot be read again"))?;
        pieces.insert((at, artifact), (mime_of(known), from, bytes));
    }
    let contents = checkpoint.contents(
        |task, artifact, offset, length| {
            let (mime, from, bytes) = pieces.get(&(task, artifact.to_owned()))?;
            let at = usize::try_from(offset.checked_sub(*from)?).ok()?;
            let end = at.checked_add(length)?;
            (end <= bytes.len()).then(|| (mime.clone(), bytes.slice(at..end)))
        },
        || {
            let end = |task: &Option<v1::Task>| {
                Some(
                    task.as_ref()
                        .map_or_else(|| TaskEnd::failed(&not_begun()), end_of),
                )
            };
            let ends: Vec<Option<TaskEnd>> = whole.iter().map(end).collect();
            merged_end(&ends, &found.origin.to)
        },
    );
    let contents = contents.ok_or_else(|| busy("this stream cannot be read again"))?;
    let mut log = StreamLog::resumed(checkpoint.window, checkpoint.acked);
    for content in contents {
        log.restore(content, ticks());
    }
    log.publish();
    Ok(log)
}

/// Some bytes of a result.
async fn range_of(artifact: &v1::Artifact, handle: &dyn TaskHandle, from: u64, to: u64) -> Option<Bytes> {
    let (from, to) = (usize::try_from(from).ok()?, usize::try_from(to).ok()?);
    if !is_reference(artifact) {
        let bytes = artifact_bytes(artifact);
        return (to <= bytes.len()).then(|| bytes.slice(from..to));
    }
    let mut stream = handle.stream(&artifact.artifact_id);
    let mut kept = BytesMut::new();
    let mut at = 0;
    while at < to {
        let piece = stream.next().await?.ok()?;
        let begin = from.saturating_sub(at).min(piece.len());
        let end = (to - at).min(piece.len());
        if begin < end {
            kept.extend_from_slice(&piece[begin..end]);
        }
        at += piece.len();
    }
    Some(kept.freeze())
}
