//! Streams that are opened: those in memory, and those that are made of their tasks again after a restart.

use std::{collections::BTreeMap, sync::Arc};

use agentanycast_gateway::{TaskHandle, is_reference, tasks::CallerQuery};
use agentanycast_proto::v1;
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;

use super::{UampHandler, label};
use crate::{
    delta::Delta,
    envelope::{DEFAULT_WINDOW, EnvelopeId},
    error::{UampCode, UampError, shown},
    gateway::{
        checkpoint::{NOTE, StreamCheckpoint},
        content::{artifact_bytes, mime_of},
        refusals,
        stream::{StreamOrigin, UampStream, merged_end},
        task_events::{TaskEnd, TaskPosition, end_of},
        ticks,
    },
    window::StreamLog,
};

/// Most tasks of one stream: those of its receivers.
const MOST_TASKS: usize = 256;

/// A task of a stream that was found again.
struct FoundTask {
    at: usize,
    receiver: String,
    task: v1::Task,
    handle: Arc<dyn TaskHandle>,
}

impl UampHandler {
    /// A stream of a caller.
    ///
    /// # Errors
    /// [`UampError::UnknownStream`] for those of others, too.
    pub(crate) async fn open(&self, caller: &str, id: &str) -> Result<Arc<UampStream>, UampError> {
        if let Some(stream) = self.streams.get(caller, id) {
            return Ok(stream);
        }
        self.restore(caller, id).await
    }

    /// Takes an acknowledgement that came as a delta.
    pub(crate) async fn acknowledge(&self, caller: &str, delta: &Delta) -> Result<(), UampError> {
        let Some(through) = delta.acknowledged() else {
            let text = "is not taken of a consumer; it sends progress with {\"ack\": N}";
            return Err(UampError::field("type", text));
        };
        self.open(caller, &delta.stream_id).await?.acknowledge(through)
    }

    async fn restore(&self, caller: &str, id: &str) -> Result<Arc<UampStream>, UampError> {
        let unknown = || UampError::UnknownStream(shown(id));
        let tasks = self.tasks.of_caller(Self::stream_caller(caller, id));
        let query = CallerQuery {
            limit: MOST_TASKS,
            ..CallerQuery::default()
        };
        let listed = tasks
            .list(query)
            .await
            .map_err(|error| refusals::of_node(&error))?;
        let mut found: Vec<FoundTask> = Vec::new();
        for task in listed.tasks {
            let Some((at, receiver)) = task
                .metadata
                .get(label::RECEIVER)
                .and_then(|text| receiver_of(text))
            else {
                continue;
            };
            let handle = self.node().task(&task.task_id);
            found.push(FoundTask {
                at,
                receiver,
                task,
                handle,
            });
        }
        found.sort_by_key(|found| found.at);
        let first = found.first().ok_or_else(unknown)?;
        let text = |name: &str| first.task.metadata.get(name).map_or("", String::as_str);
        let intent = text(label::INTENT);
        if !matches!(intent, "ask" | "propose") {
            return Err(unknown());
        }
        let origin = StreamOrigin {
            id: EnvelopeId::parse(text(label::ID)).ok_or_else(unknown)?,
            from: text(label::FROM).to_owned(),
            to: found.iter().map(|found| found.receiver.clone()).collect(),
            context: super::LABELS.context_of(&first.task).to_owned(),
        };
        let window = text(label::WINDOW).parse().unwrap_or(DEFAULT_WINDOW);
        let notes = self.node().notes(&first.task.task_id).await;
        let notes = notes.map_err(|error| refusals::of_node(&error))?;
        let noted = notes.iter().find(|note| note.name == NOTE);
        let checkpoint =
            noted.and_then(|note| serde_json::from_slice::<StreamCheckpoint>(&note.content).ok());
        let slot = self.tasks.follow_slot().map_err(refusals::of_task)?;
        let reader = tasks.reader();
        let mut log = StreamLog::new(window);
        let mut positions = vec![TaskPosition::default(); found.len()];
        if let Some(checkpoint) = checkpoint {
            log = restored_log(&checkpoint, &found, &reader, &origin.to).await?;
            for (position, noted) in positions.iter_mut().zip(checkpoint.positions) {
                *position = noted.into();
            }
        }
        let names = found
            .iter()
            .map(|found| Some(found.task.task_id.clone()))
            .collect();
        let stream = Arc::new(UampStream::new(
            id.to_owned(),
            caller.to_owned(),
            origin,
            names,
            log,
            positions.clone(),
        ));
        let added = self.streams.add(Arc::clone(&stream))?;
        if Arc::ptr_eq(&added, &stream) {
            self.counters.resumed();
            let handles = found.into_iter().zip(positions);
            let handles = handles.map(|(found, position)| (found.at, found.handle, position));
            self.follow(&stream, handles.collect(), slot);
        }
        Ok(added)
    }
}

/// What a label says of its receiver.
fn receiver_of(label: &str) -> Option<(usize, String)> {
    let (place, receiver) = label.split_once(' ')?;
    let (at, _) = place.split_once('/')?;
    Some((at.parse().ok()?, receiver.to_owned()))
}

/// The log as it was noted, with the bytes of its chunks read again.
async fn restored_log(
    checkpoint: &StreamCheckpoint,
    found: &[FoundTask],
    reader: &agentanycast_gateway::tasks::TaskReader,
    to: &[String],
) -> Result<StreamLog, UampError> {
    let busy = |text: &str| UampError::coded(UampCode::BackendBusy, text.to_owned());
    let mut whole: Vec<v1::Task> = Vec::new();
    for found in found {
        let read = reader.read(&*found.handle).await;
        whole.push(read.map_err(|error| refusals::of_node(&error))?);
    }
    let mut pieces: BTreeMap<(u16, String), (String, u64, Bytes)> = BTreeMap::new();
    for (at, artifact, from, to) in checkpoint.ranges() {
        let task = whole.get(usize::from(at)).zip(found.get(usize::from(at)));
        let known = task.and_then(|(task, found)| {
            let known = task
                .artifacts
                .iter()
                .find(|known| known.artifact_id == artifact)?;
            Some((known, found))
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
            let ends: Vec<Option<TaskEnd>> = whole.iter().map(|task| Some(end_of(task))).collect();
            merged_end(&ends, to)
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
