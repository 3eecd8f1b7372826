//! Streamed artifacts: the road of their bytes. The core decides whether a stream may begin and
//! what its end means for the task; in between chunks go past it, so that a large artifact never
//! holds up a task.
//!
//! Received: one task per artifact writes its chunks to the spool and acknowledges windows
//! ([`incoming`]). Sent: [`ArtifactSender`] is driven by the agent's own call ([`outgoing`]).

mod incoming;
mod open_sends;
mod outgoing;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{
    AckPayload, Artifact, Part, RawPart, StreamStart, TextPart, a2a_envelope::Payload, part::Content,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use self::outgoing::{ArtifactSender, SendError};
use self::{
    incoming::ArtifactPiece,
    open_sends::{OpenSendGuard, OpenSends},
};
use super::Engine;
use crate::{
    link::FramePermit,
    spool::{ReadError, Spool},
    task::{StreamOutcome, Streamed},
    transaction::EngineError,
    wire,
};

/// Acknowledgements that wait for one sender: a window of chunks, START and END.
const ACKS: usize = 128;

/// Chunks of 64 KiB that all senders together hold un-acknowledged: 32 MiB. Each holds its share of them, and
/// no more than its window.
const UNACKED: usize = 512;

/// Least share of a sender, however many there are: enough to keep its stream moving.
const MIN_SHARE: usize = 4;

/// Pieces that wait for one receiver. A sender that keeps to the window has 66 in flight.
const MAX_QUEUED_PIECES: usize = 128;

/// What the shell and the senders share: who waits for which acknowledgement, and which tasks'
/// streams have to stop.
#[derive(Clone, Default)]
pub(crate) struct StreamRegistry {
    registered: Arc<Mutex<StreamRegistryState>>,
    senders: Arc<AtomicUsize>,
    chunks: Arc<AtomicU64>,
    open_sends: OpenSends,
}

#[derive(Default)]
struct StreamRegistryState {
    acks: HashMap<(PeerId, String), mpsc::Sender<AckPayload>>,
    stops: HashMap<String, (usize, CancellationToken)>,
}

impl StreamRegistry {
    fn lock(&self) -> MutexGuard<'_, StreamRegistryState> {
        self.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Chunks that were given to be sent.
    pub(crate) fn chunks_sent(&self) -> u64 {
        self.chunks.load(Ordering::Relaxed)
    }

    /// A sender comes, or goes.
    fn enter(&self) {
        self.senders.fetch_add(1, Ordering::Relaxed);
    }

    fn leave(&self) {
        self.senders.fetch_sub(1, Ordering::Relaxed);
    }

    /// Chunks that each sender may hold un-acknowledged.
    fn share(&self) -> usize {
        (UNACKED / self.senders.load(Ordering::Relaxed).max(1)).max(MIN_SHARE)
    }

    fn expect_ack(&self, peer: PeerId, envelope_id: String, sender: mpsc::Sender<AckPayload>) {
        self.lock().acks.insert((peer, envelope_id), sender);
    }

    fn forget_ack(&self, peer: PeerId, envelope_id: String) {
        self.lock().acks.remove(&(peer, envelope_id));
    }

    fn on_ack(&self, peer: PeerId, ack: AckPayload) {
        let waiting = self
            .lock()
            .acks
            .get(&(peer, ack.acknowledged_envelope_id.clone()))
            .cloned();
        if let Some(sender) = waiting {
            // Full: the sender is behind, and a later acknowledgement says the same and more.
            let _ = sender.try_send(ack);
        }
    }

    /// Waits until artifacts of the task that other connections send have ended, for a bounded time.
    pub(super) async fn end_of_others(&self, task_id: &str, connection: u64) {
        self.open_sends.end_of_others(task_id, connection).await;
    }

    /// An agent begins an artifact on this connection.
    pub(super) fn begin_send(&self, task_id: &str, connection: u64) -> OpenSendGuard {
        self.open_sends.begin(task_id, connection)
    }

    /// Cancelled when the task ends.
    fn stop_of(&self, task_id: &str) -> StreamStop {
        let mut registered = self.lock();
        let (users, token) = registered.stops.entry(task_id.to_owned()).or_default();
        *users += 1;
        StreamStop {
            registry: self.clone(),
            task_id: task_id.to_owned(),
            token: token.clone(),
        }
    }

    fn stop(&self, task_id: &str) {
        if let Some((_, token)) = self.lock().stops.get(task_id) {
            token.cancel();
        }
    }
}

/// Tells when a task has ended; its entry goes with the last one who asks.
struct StreamStop {
    registry: StreamRegistry,
    task_id: String,
    token: CancellationToken,
}

impl Drop for StreamStop {
    fn drop(&mut self) {
        let mut registered = self.registry.lock();
        if let Some((users, _)) = registered.stops.get_mut(&self.task_id) {
            *users -= 1;
            if *users == 0 {
                registered.stops.remove(&self.task_id);
            }
        }
    }
}

/// The shell's side: hands pieces and acknowledgements to whoever waits for them.
pub(crate) struct StreamRouter {
    engine: Engine,
    registry: StreamRegistry,
    receivers: HashMap<(String, String), mpsc::Sender<ArtifactPiece>>,
    collected: FileRemovals,
}

/// Collected tasks whose files are still to be removed, and whether somebody is at it.
#[derive(Clone, Default)]
struct FileRemovals(Arc<Mutex<(Vec<String>, bool)>>);

impl FileRemovals {
    /// Notes a task; true: nobody is at it, so the caller has to see to it.
    fn push(&self, task_id: String) -> bool {
        let mut collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        collected.0.push(task_id);
        !std::mem::replace(&mut collected.1, true)
    }

    /// What was noted so far; None: nothing, and nobody is at it any more.
    fn take(&self) -> Option<Vec<String>> {
        let mut collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        collected.1 = !collected.0.is_empty();
        Some(std::mem::take(&mut collected.0)).filter(|tasks| !tasks.is_empty())
    }
}

impl StreamRouter {
    pub(crate) fn new(engine: Engine, registry: StreamRegistry) -> Self {
        Self {
            engine,
            registry,
            receivers: HashMap::new(),
            collected: FileRemovals::default(),
        }
    }

    /// A stream was accepted, for the first time or again.
    pub(crate) fn on_start(
        &mut self,
        peer: PeerId,
        start: StreamStart,
        envelope_id: String,
        permit: Option<FramePermit>,
    ) {
        let receiver = self.receiver((start.task_id.clone(), start.artifact_id.clone()));
        let _ = receiver.try_send(ArtifactPiece {
            peer,
            envelope_id,
            payload: Payload::StreamStart(start),
            _permit: permit,
        });
    }

    /// A chunk or the end.
    pub(crate) fn on_piece(
        &mut self,
        peer: PeerId,
        envelope_id: String,
        payload: Payload,
        permit: Option<FramePermit>,
    ) {
        let key = match &payload {
            Payload::StreamChunk(chunk) => (chunk.task_id.clone(), chunk.artifact_id.clone()),
            Payload::StreamEnd(end) => (end.task_id.clone(), end.artifact_id.clone()),
            _ => return,
        };
        let receiver = match (
            self.receivers.get(&key).filter(|receiver| !receiver.is_closed()),
            &payload,
        ) {
            (Some(receiver), _) => receiver.clone(),
            // The end of a stream whose sender was restarted may come first after our own restart.
            (None, Payload::StreamEnd(_)) => self.receiver(key),
            (None, _) => return, // START comes first on every stream; its sender starts again.
        };
        // Full: its sender does not keep to the window, and gets no acknowledgement.
        let _ = receiver.try_send(ArtifactPiece {
            peer,
            envelope_id,
            payload,
            _permit: permit,
        });
    }

    /// A peer acknowledged what no queue waits for.
    pub(crate) fn on_ack(&self, peer: PeerId, ack: AckPayload) {
        self.registry.on_ack(peer, ack);
    }

    /// The task has ended. Artifacts that its peer was sending end, also those that have no receiver: after a start, or
    /// after a long silence.
    pub(crate) fn stop(&mut self, task_id: &str, incoming: Vec<String>) {
        for artifact_id in incoming {
            drop(self.receiver((task_id.to_owned(), artifact_id)));
        }
        self.registry.stop(task_id);
    }

    /// The task was removed: its files go, one task after the other. What a crash leaves is removed at the
    /// next start.
    pub(crate) fn remove_files(&self, task_id: String) {
        if !self.collected.push(task_id) {
            return;
        }
        let (spool, collected) = (self.engine.spool().clone(), self.collected.clone());
        tokio::spawn(async move {
            while let Some(tasks) = collected.take() {
                if let Err(error) = spool.remove_tasks(tasks).await {
                    tracing::warn!(%error, "artifact files of a collected task could not be removed");
                }
            }
        });
    }

    fn receiver(&mut self, key: (String, String)) -> mpsc::Sender<ArtifactPiece> {
        if let Some(receiver) = self.receivers.get(&key).filter(|receiver| !receiver.is_closed()) {
            return receiver.clone();
        }
        self.receivers.retain(|_, receiver| !receiver.is_closed());
        let (sender, pieces) = mpsc::channel(MAX_QUEUED_PIECES);
        let stop = self.registry.stop_of(&key.0);
        tokio::spawn(incoming::receive(self.engine.clone(), key.clone(), pieces, stop));
        self.receivers.insert(key, sender.clone());
        sender
    }
}

/// A streamed artifact with its content; an error when it has more than `most` bytes. One that did
/// not end well is listed by reference, with what happened.
pub(super) async fn assembled(
    spool: &Spool,
    task: &str,
    streamed: &Streamed,
    most: u64,
) -> Result<Artifact, EngineError> {
    if streamed.outcome != Some(StreamOutcome::Complete) {
        let mut listed = wire::streamed_reference(task, streamed);
        if streamed.outcome.is_some()
            && let Ok(Some(size)) = spool.size(task, &streamed.artifact_id).await
            && let Some(end) = size.end.filter(|end| !end.error_message.is_empty())
        {
            wire::set_part_metadata(&mut listed, wire::STREAM_ERROR, &end.error_message);
        }
        return Ok(listed);
    }
    let too_large = || {
        EngineError::Exhausted(format!(
            "artifact {} is larger than {most} bytes",
            streamed.artifact_id
        ))
    };
    if streamed.bytes > most {
        return Err(too_large());
    }
    let content = match spool.assemble(task, &streamed.artifact_id, most).await {
        Ok(content) => content,
        Err(error) => return Err(unreadable(&error, streamed)),
    };
    let content = match std::str::from_utf8(&content) {
        Ok(text) if streamed.media_type.starts_with("text/") => Content::TextPart(TextPart {
            text: text.to_owned(),
        }),
        _ => Content::RawPart(RawPart {
            data: content.to_vec(),
            filename: streamed.name.clone(),
        }),
    };
    Ok(Artifact {
        artifact_id: streamed.artifact_id.clone(),
        name: streamed.name.clone(),
        parts: vec![Part {
            content: Some(content),
            media_type: streamed.media_type.clone(),
            ..Part::default()
        }],
        size_bytes: 0,
    })
}

fn unreadable(error: &ReadError, streamed: &Streamed) -> EngineError {
    EngineError::Store(format!(
        "artifact {} cannot be read: {error}",
        streamed.artifact_id
    ))
}
