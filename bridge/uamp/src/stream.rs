//! A stream that answers an envelope: the log of its frames, and the pump that fills it from the tasks.
//!
//! Invariant: a frame is noted with the task before a consumer sees it, so that after a restart it has the
//! same number and content.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use agentanycast_gateway::{ErrorKind, Gateway, caller::CallerIdentity};
use agentanycast_proto::v1::TaskNote;
use agentanycast_uamp::{
    conversation::{ConversationEvent, ConversationState},
    delta::{Delta, DeltaType},
    envelope::{EnvelopeId, Intent},
    error::{UampCode, UampError},
    window::{FrameContent, LogRead, StreamLog, delta_of},
};
use futures::{FutureExt as _, Stream, StreamExt as _};
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, watch};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    checkpoint::{NOTE, StreamCheckpoint},
    now_ms, refusals,
    task_events::{FollowEvent, TaskEnd, TaskPosition},
    ticks,
};

/// Events that are taken together before frames are noted.
const BATCH: usize = 32;

/// How long is waited until a note that the node did not take is written again.
const NOTE_AGAIN: Duration = Duration::from_millis(500);

/// Consumers of one stream at a time.
const MOST_READERS: usize = 8;

/// Answers of the sender that are remembered.
const MOST_ANSWERS: usize = 64;

/// What a stream answers.
#[derive(Clone, Debug)]
pub(super) struct StreamOrigin {
    /// The envelope that opened it.
    pub(super) id: EnvelopeId,
    /// Who sent that.
    pub(super) from: String,
    /// Its receivers.
    pub(super) to: Vec<String>,
    /// The conversation.
    pub(super) context: String,
}

/// A stream.
pub(super) struct UampStream {
    pub(super) id: String,
    pub(super) caller: CallerIdentity,
    pub(super) origin: StreamOrigin,
    /// The tasks by receivers; `None` of one that could not begin.
    pub(super) tasks: Vec<Option<String>>,
    content: Mutex<StreamState>,
    changed: watch::Sender<()>,
    /// Wakes the pump: something was acknowledged or read.
    wake: Notify,
    pump: Mutex<Option<AbortOnDropHandle<()>>>,
    readers: AtomicUsize,
    /// Its frames are noted with the first task.
    is_noted: bool,
}

struct StreamState {
    log: StreamLog,
    /// By the diagram of the specification.
    conversation: ConversationState,
    positions: Vec<TaskPosition>,
    ends: Vec<Option<TaskEnd>>,
    answers: VecDeque<EnvelopeId>,
    used: Instant,
}

/// What fills a stream.
pub(super) type TaskEvents = std::pin::Pin<Box<dyn Stream<Item = (u16, FollowEvent)> + Send>>;

impl UampStream {
    pub(super) fn new(
        id: String,
        caller: CallerIdentity,
        origin: StreamOrigin,
        tasks: Vec<Option<String>>,
        log: StreamLog,
        positions: Vec<TaskPosition>,
    ) -> Self {
        let ends = vec![None; tasks.len()];
        Self {
            id,
            caller,
            origin,
            tasks,
            content: Mutex::new(StreamState {
                conversation: conversation_of(&log),
                log,
                positions,
                ends,
                answers: VecDeque::new(),
                used: Instant::now(),
            }),
            changed: watch::Sender::new(()),
            wake: Notify::new(),
            pump: Mutex::new(None),
            readers: AtomicUsize::new(0),
            is_noted: true,
        }
    }

    /// One that is gone after a restart: the tasks are another stream's.
    #[must_use]
    pub(super) fn without_notes(mut self) -> Self {
        self.is_noted = false;
        self
    }

    fn content(&self) -> MutexGuard<'_, StreamState> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills it from now on.
    pub(super) fn start(
        self: &Arc<Self>,
        node: Arc<dyn Gateway>,
        events: TaskEvents,
        stop: CancellationToken,
        slot: tokio::sync::OwnedSemaphorePermit,
    ) {
        let stream = Arc::downgrade(self);
        let pump = tokio::spawn(async move {
            let _slot = slot;
            if let Some(stream) = stream.upgrade() {
                stream.fill(&*node, events, &stop).await;
            }
        });
        *self.pump.lock().unwrap_or_else(PoisonError::into_inner) = Some(AbortOnDropHandle::new(pump));
    }

    /// Stops filling it. It goes on from its note when it is opened again.
    pub(super) fn abandon(&self) {
        self.pump.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.changed.send_replace(());
    }

    /// The frame with this number, once it is there; `None`: the stream has ended before it.
    pub(super) async fn next(&self, seq: u64) -> Result<Option<Delta>, UampError> {
        let mut changes = self.changed.subscribe();
        loop {
            {
                let mut state = self.content();
                state.used = Instant::now();
                let receiver = |content: &FrameContent| self.receiver_of(content);
                let before = state.log.deadline().is_none();
                match state.log.read(seq)? {
                    LogRead::Frame(frame) => {
                        let mut delta = delta_of(frame, &self.id, receiver(&frame.content));
                        delta.time_ms = now_ms() - (ticks() - frame.time_ms);
                        if before && state.log.deadline().is_some() {
                            self.wake.notify_one();
                        }
                        return Ok(Some(delta));
                    }
                    LogRead::End => return Ok(None),
                    LogRead::Wait => {}
                }
            }
            if changes.changed().await.is_err() {
                return Ok(None);
            }
        }
    }

    /// The receiver whose frame it is, where there are several.
    fn receiver_of(&self, content: &FrameContent) -> Option<&str> {
        if self.origin.to.len() < 2 {
            return None;
        }
        let (FrameContent::Chunk { task, .. } | FrameContent::Other { task, .. }) = content;
        self.origin.to.get(usize::from(*task)).map(String::as_str)
    }

    /// Takes an acknowledgement of all frames up to this one.
    pub(super) fn acknowledge(&self, through: u64) -> Result<(), UampError> {
        let mut state = self.content();
        state.used = Instant::now();
        state.log.acknowledge(through, ticks())?;
        drop(state);
        self.wake.notify_one();
        Ok(())
    }

    /// Checks that a consumer can read from this frame on.
    fn check_from(&self, from: ReadFrom) -> Result<(), UampError> {
        let log = &mut self.content().log;
        let Err(error) = log.read(from.seq) else {
            return Ok(());
        };
        Err(match from.behind {
            Some((name, last)) => {
                let text = format!(
                    "nothing can be read behind {name} {last}; the stream {}",
                    log.has()
                );
                UampError::coded(UampCode::MissingDelta, text)
            }
            None => error,
        })
    }

    /// Remembers an envelope that answered a question.
    pub(super) fn note_answer(&self, id: EnvelopeId) {
        let mut state = self.content();
        if state.answers.len() == MOST_ANSWERS {
            state.answers.pop_front();
        }
        state.answers.push_back(id);
    }

    /// Whether an envelope answered a question.
    pub(super) fn has_answer(&self, id: EnvelopeId) -> bool {
        self.content().answers.contains(&id)
    }

    /// Whether its last frame is there.
    pub(super) fn is_over(&self) -> bool {
        self.content().log.is_over()
    }

    /// For how long no consumer has used it.
    pub(super) fn unused_for(&self) -> Duration {
        self.over_and_unused_for(Instant::now()).1
    }

    /// Whether its last frame is there, and for how long no consumer has used it.
    pub(super) fn over_and_unused_for(&self, now: Instant) -> (bool, Duration) {
        let state = self.content();
        let unused = match self.readers() {
            0 => now.saturating_duration_since(state.used),
            _ => Duration::ZERO,
        };
        (state.log.is_over(), unused)
    }

    /// How it ended: the intent of the envelope that closes it on a connection, and what that says.
    pub(super) fn end(&self) -> Option<(bool, Map<String, Value>)> {
        let state = self.content();
        if !state.conversation.is_ended() {
            return None;
        }
        let ends: Option<Vec<&TaskEnd>> = state.ends.iter().map(Option::as_ref).collect();
        let ends = ends?;
        let is_done = ends.iter().any(|end| end.kind == DeltaType::Done);
        let is_rejected = ends.iter().all(|end| end.is_rejected);
        if is_rejected {
            let reason = ends.first().and_then(|end| end.payload.get("message")).cloned();
            let mut payload = Map::new();
            payload.insert("denied".to_owned(), true.into());
            payload.insert("reason".to_owned(), reason.unwrap_or_default());
            return Some((false, payload));
        }
        is_done.then(|| (true, Map::from_iter([("stream_id".to_owned(), json!(self.id))])))
    }

    /// A reader, for as long as what is returned is kept.
    pub(super) fn reader(self: &Arc<Self>) -> StreamReader {
        self.readers.fetch_add(1, Relaxed);
        StreamReader(Arc::clone(self))
    }

    /// Readers at a time.
    pub(super) fn readers(&self) -> usize {
        self.readers.load(Relaxed)
    }

    /// Ends of receivers whose tasks did not begin.
    pub(super) fn fail_receiver(&self, task: usize, error: &UampError) {
        let end = TaskEnd::failed(error);
        let mut state = self.content();
        if let Some(place) = state.ends.get_mut(task) {
            *place = Some(end);
        }
    }

    async fn fill(&self, node: &dyn Gateway, mut events: TaskEvents, stop: &CancellationToken) {
        let mut is_open = true;
        loop {
            let (deadline, has_room, is_over) = {
                let log = &self.content().log;
                (log.deadline(), log.has_room(), log.is_over())
            };
            if is_over {
                return;
            }
            let late = async {
                match deadline {
                    Some(at) => {
                        let left = u64::try_from(at - ticks()).unwrap_or(0);
                        tokio::time::sleep(Duration::from_millis(left)).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.wake.notified() => {}
                () = late => {
                    if self.content().log.expire(ticks()) {
                        tracing::info!(stream = self.id, "a stream ended, since its consumer acknowledges nothing");
                    }
                }
                event = events.next(), if is_open && has_room => match event {
                    Some((task, event)) => {
                        self.take(task, event);
                        for _ in 0..BATCH {
                            if !self.content().log.has_room() {
                                break;
                            }
                            let Some(Some((task, event))) = events.next().now_or_never() else { break };
                            self.take(task, event);
                        }
                    }
                    None => is_open = false,
                },
            }
            self.publish(node).await;
        }
    }

    /// What happened to a task, into the log.
    fn take(&self, task: u16, event: FollowEvent) {
        let mut state = self.content();
        let state = &mut *state;
        let several = self.tasks.len() > 1;
        match event {
            FollowEvent::Progress(payload) => state.log.push(task, DeltaType::Progress, payload),
            FollowEvent::Piece {
                artifact,
                mime,
                offset,
                bytes,
            } => state.log.push_chunk(task, &artifact, &mime, offset, bytes),
            FollowEvent::End(end) => {
                if let Some(place) = state.ends.get_mut(usize::from(task)) {
                    *place = Some(end);
                }
                if let Some((kind, payload)) = merged_end(&state.ends, &self.origin.to) {
                    state.log.push_end(kind, payload);
                } else if several {
                    let state_word = Map::from_iter([("state".to_owned(), json!("ended"))]);
                    state.log.push(task, DeltaType::Patch, state_word);
                }
            }
            FollowEvent::Lost(error) => {
                let error = match error.kind() {
                    ErrorKind::TaskNotFound => {
                        UampError::coded(UampCode::BackendBusy, "the node does not have the task any more")
                    }
                    _ => refusals::of_node(&error),
                };
                state.log.push_end(DeltaType::Error, error.payload());
            }
        }
    }

    /// Numbers what the window has room for, notes it, and lets consumers see it.
    async fn publish(&self, node: &dyn Gateway) {
        let checkpoint = {
            let mut state = self.content();
            let state = &mut *state;
            let first = state.log.next_seq();
            if !state.log.release(ticks()) {
                self.changed.send_replace(());
                return;
            }
            for frame in state.log.unacked().filter(|frame| frame.seq >= first) {
                advance(&mut state.positions, &frame.content);
            }
            StreamCheckpoint::of(&state.log, &state.positions)
        };
        if let Some(checkpoint) = checkpoint.filter(|_| self.is_noted) {
            self.note(node, &checkpoint).await;
        }
        let mut state = self.content();
        state.log.publish();
        state.conversation = conversation_of(&state.log);
        drop(state);
        self.changed.send_replace(());
    }

    async fn note(&self, node: &dyn Gateway, checkpoint: &StreamCheckpoint) {
        let Some(task) = self.tasks.iter().flatten().next() else {
            return;
        };
        let note = TaskNote {
            name: NOTE.to_owned(),
            owner: "uamp".to_owned(),
            content: serde_json::to_vec(checkpoint).unwrap_or_default(),
            ..TaskNote::default()
        };
        loop {
            match node.put_note(task, note.clone(), 0).await {
                Ok(_) => return,
                Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Busy) => {
                    tracing::warn!(task, %error, "a stream could not be noted; it is tried again");
                    tokio::time::sleep(NOTE_AGAIN).await;
                }
                Err(error) => {
                    tracing::warn!(task, %error, "a stream was not noted; a restart begins it anew");
                    return;
                }
            }
        }
    }
}

/// Where a consumer begins to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadFrom {
    /// The first frame.
    pub(super) seq: u64,
    /// What the consumer said, if that is the frame before: how it is called, and the number.
    behind: Option<(&'static str, u64)>,
}

impl ReadFrom {
    /// At this frame.
    pub(super) fn at(seq: u64) -> Self {
        Self { seq, behind: None }
    }

    /// Behind this frame, which the consumer has named so; `None`: there is no number behind it.
    pub(super) fn behind(name: &'static str, last: u64) -> Option<Self> {
        let seq = last.checked_add(1)?;
        Some(Self {
            seq,
            behind: Some((name, last)),
        })
    }
}

/// Lets a consumer read a stream from this frame on; what is before it is acknowledged.
///
/// # Errors
/// [`UampCode::MissingDelta`] of a frame that is not there any more, [`UampCode::BackendBusy`] when too many
/// read it.
pub(super) fn begin_reading(stream: &UampStream, from: ReadFrom) -> Result<(), UampError> {
    if stream.readers() >= MOST_READERS {
        let text = format!("{MOST_READERS} consumers read this stream, the most at a time");
        return Err(UampError::coded(UampCode::BackendBusy, text));
    }
    stream.check_from(from)?;
    match from.seq.checked_sub(1) {
        Some(seen) => stream.acknowledge(seen),
        None => Ok(()),
    }
}

/// Keeps a stream that is being read.
pub(super) struct StreamReader(pub(super) Arc<UampStream>);

impl Drop for StreamReader {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, Relaxed);
        self.0.content().used = Instant::now();
    }
}

/// Where the conversation of a stream is: an ask or a subscription opened it, its last delta may have ended it.
fn conversation_of(log: &StreamLog) -> ConversationState {
    let opened = ConversationEvent::Envelope(Intent::Ask);
    let state = ConversationState::New.apply(opened).unwrap_or_default();
    match log.unacked().last().map(|frame| &frame.content) {
        Some(FrameContent::Other { kind, .. }) => {
            state.apply(ConversationEvent::Delta(*kind)).unwrap_or(state)
        }
        _ => state,
    }
}

/// Moves a task's position behind a frame.
pub(super) fn advance(positions: &mut [TaskPosition], content: &FrameContent) {
    match content {
        FrameContent::Chunk {
            task,
            artifact,
            offset,
            bytes,
            ..
        } => {
            if let Some(position) = positions.get_mut(usize::from(*task)) {
                position
                    .artifacts
                    .insert(artifact.clone(), offset + bytes.len() as u64);
            }
        }
        FrameContent::Other {
            task,
            kind: DeltaType::Progress,
            payload,
        } => {
            if let Some(position) = positions.get_mut(usize::from(*task)) {
                position.progress.clone_from(payload);
            }
        }
        FrameContent::Other { .. } => {}
    }
}

/// The terminal frame once all tasks have ended: that of the only one, or the results of all.
pub(super) fn merged_end(ends: &[Option<TaskEnd>], to: &[String]) -> Option<(DeltaType, Map<String, Value>)> {
    let all: Vec<&TaskEnd> = ends.iter().map(Option::as_ref).collect::<Option<_>>()?;
    if let [only] = all.as_slice() {
        return Some((only.kind, only.payload.clone()));
    }
    let has = |kind: DeltaType| all.iter().any(|end| end.kind == kind);
    let kind = [DeltaType::Done, DeltaType::Error]
        .into_iter()
        .find(|kind| has(*kind))
        .unwrap_or(DeltaType::Cancel);
    let results: Vec<Value> = all
        .iter()
        .zip(to)
        .map(|(end, receiver)| {
            let mut result = end.payload.clone();
            result.insert("receiver".to_owned(), receiver.as_str().into());
            result.insert("type".to_owned(), end.kind.as_str().into());
            Value::Object(result)
        })
        .collect();
    let mut payload = Map::new();
    payload.insert("results".to_owned(), results.into());
    if kind == DeltaType::Error {
        payload.insert("message".to_owned(), "no receiver completed it".into());
    }
    Some((kind, payload))
}

#[cfg(test)]
mod tests;
