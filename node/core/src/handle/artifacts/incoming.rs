//! Receiving one artifact: chunks to the spool, acknowledgements to the sender, the end to the core.

use std::time::Duration;

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{StreamChunk, StreamEnd, StreamEndReason, StreamStart, a2a_envelope::Payload};
use prost::Message as _;
use tokio::{sync::mpsc, time};

use super::StreamStop;
use crate::{
    delivery::artifact::{ReceiveWindow, RejectReason, StreamVerdict},
    handle::Engine,
    link::FramePermit,
    spool::{SpoolWriter, WriteError},
    task::StreamOutcome,
};

/// Chunks written at once: 1 MiB takes about 0.2 ms, for which the rest of the daemon waits.
const BATCH: usize = 16;

/// Silence after which what is written is acknowledged, due or not.
const ACK_DELAY: Duration = Duration::from_millis(20);

/// Silence after which the receiver ends; the next START of the artifact begins another one.
const IDLE: Duration = Duration::from_mins(10);

/// How long a full disk is waited for before the same chunks are tried again.
const DISK_FULL: Duration = Duration::from_secs(1);

/// How often; then the artifact ends with the reason.
const DISK_FULL_TRIES: u32 = 60;

/// A piece of the artifact, with the envelope to acknowledge (none: it came through the queue).
pub(crate) struct ArtifactPiece {
    pub(crate) peer: PeerId,
    pub(crate) envelope_id: String,
    pub(crate) payload: Payload,
    /// Until the piece is dealt with it counts against its peer's share of memory: a peer that sends faster
    /// than the disk takes is slowed.
    pub(crate) _permit: Option<FramePermit>,
}

/// Receives one artifact until its end, the end of its task, or a long silence.
pub(super) async fn receive(
    engine: Engine,
    (task, artifact): (String, String),
    mut pieces: mpsc::Receiver<ArtifactPiece>,
    stop: StreamStop,
) {
    let max_bytes = engine.stream_room();
    let mut receiver = ArtifactReceiver {
        engine,
        task,
        artifact,
        state: ReceiveWindow::new(max_bytes),
        writer: None,
    };
    let mut batch = Vec::with_capacity(BATCH);
    let cause = receiver.run(&mut batch, &mut pieces, &stop).await;
    if let Err(error) = cause {
        tracing::warn!(task = receiver.task, artifact = receiver.artifact, %error, "an artifact broke off");
        receiver
            .break_off(StreamEndReason::Error, &error.to_string())
            .await;
        // What came behind it is not left without an answer.
        pieces.close();
        while let Some(piece) = batch.pop() {
            receiver.refuse(piece, &error).await;
        }
        while let Some(piece) = pieces.recv().await {
            receiver.refuse(piece, &error).await;
        }
    }
}

/// Why an artifact cannot go on.
#[derive(Debug, thiserror::Error)]
enum ReceiveError {
    #[error(transparent)]
    Write(#[from] WriteError),
    /// What came of it is not to be taken; its sender has been told.
    #[error(transparent)]
    Rejected(#[from] RejectReason),
}

struct ArtifactReceiver {
    engine: Engine,
    task: String,
    artifact: String,
    state: ReceiveWindow,
    writer: Option<SpoolWriter>,
}

impl ArtifactReceiver {
    /// After an error `batch` has what was not acted on, the last one first.
    async fn run(
        &mut self,
        batch: &mut Vec<ArtifactPiece>,
        pieces: &mut mpsc::Receiver<ArtifactPiece>,
        stop: &StreamStop,
    ) -> Result<(), ReceiveError> {
        self.resume().await?;
        let mut peer = None;
        loop {
            let mut furthest = self.writer.as_ref().map(SpoolWriter::furthest_reader);
            let waiting = if self.state.flush_is_due() {
                ACK_DELAY
            } else {
                IDLE
            };
            tokio::select! {
                biased;
                () = stop.token.cancelled() => {
                    // What came before the end of the task counts; its own end may be among it.
                    while let Ok(piece) = pieces.try_recv() {
                        batch.push(piece);
                    }
                    if !self.turn(batch).await? {
                        self.break_off(StreamEndReason::Canceled, "the task has ended").await;
                    }
                    return Ok(());
                }
                taken = pieces.recv_many(batch, BATCH) => {
                    if taken == 0 {
                        return Ok(());
                    }
                    peer = batch.last().map(|piece| piece.peer);
                    if self.turn(batch).await? {
                        return Ok(());
                    }
                    self.update_allowance();
                    self.acknowledge(peer, false).await;
                }
                Ok(()) = changed(&mut furthest) => {
                    self.update_allowance();
                    self.acknowledge(peer, false).await;
                }
                () = time::sleep(waiting) => {
                    if waiting == IDLE {
                        return Ok(());
                    }
                    self.update_allowance();
                    self.acknowledge(peer, true).await;
                }
            }
        }
    }

    /// Goes on with what is in the file, if there is one.
    async fn resume(&mut self) -> Result<(), WriteError> {
        if let Some(writer) = self.engine.spool().resume(&self.task, &self.artifact).await? {
            self.state = ReceiveWindow::resume(
                writer.bytes().saturating_add(self.engine.stream_room()),
                writer.next_sequence(),
                writer.bytes(),
                writer.has_last(),
                writer.end().is_some(),
            );
            self.writer = Some(writer);
        }
        Ok(())
    }

    /// [`ArtifactReceiver::take`] when it is this artifact's turn.
    async fn turn(&mut self, batch: &mut Vec<ArtifactPiece>) -> Result<bool, ReceiveError> {
        let turns = self.engine.transfer_turns().clone();
        turns.run(self.take(batch)).await
    }

    /// Acts on a batch of pieces, in order. True: the artifact has ended.
    async fn take(&mut self, batch: &mut Vec<ArtifactPiece>) -> Result<bool, ReceiveError> {
        if let Some(writer) = &self.writer {
            // All artifacts share the quota.
            let room = self.engine.stream_room();
            self.state.set_max_bytes(writer.bytes().saturating_add(room));
        }
        let mut accepted: Vec<StreamChunk> = Vec::new();
        batch.reverse();
        while let Some(piece) = batch.pop() {
            match piece.payload {
                Payload::StreamChunk(chunk) => {
                    if let Err(reject) = self
                        .on_chunk(piece.peer, piece.envelope_id, chunk, &mut accepted)
                        .await
                    {
                        self.write(&mut accepted).await?;
                        return Err(reject.into());
                    }
                }
                Payload::StreamStart(start) => {
                    self.write(&mut accepted).await?;
                    self.on_start(piece.peer, piece.envelope_id, start).await?;
                }
                Payload::StreamEnd(end) => {
                    self.write(&mut accepted).await?;
                    if self.on_end(piece.peer, piece.envelope_id, end).await? {
                        batch.clear();
                        return Ok(true);
                    }
                }
                _ => {}
            }
        }
        self.write(&mut accepted).await?;
        Ok(false)
    }

    async fn on_start(
        &mut self,
        peer: PeerId,
        envelope_id: String,
        start: StreamStart,
    ) -> Result<(), ReceiveError> {
        if let StreamVerdict::Reject(reject) = self.state.on_start(&envelope_id, start.encoded_len()) {
            self.answer(peer, envelope_id, Some(reject.to_string())).await;
            return Err(reject.into());
        }
        if self.writer.is_none() {
            match self.engine.spool().create(&start).await {
                Ok(writer) => self.writer = Some(writer),
                Err(error) => {
                    self.answer(peer, envelope_id, Some(error.to_string())).await;
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    async fn on_chunk(
        &mut self,
        peer: PeerId,
        envelope_id: String,
        chunk: StreamChunk,
        accepted: &mut Vec<StreamChunk>,
    ) -> Result<(), RejectReason> {
        if self.writer.is_none() {
            return Ok(()); // No START yet on this side of a restart; the sender begins again with one.
        }
        match self
            .state
            .on_chunk(&envelope_id, chunk.sequence, chunk.data.len(), chunk.is_last)
        {
            StreamVerdict::Accept => accepted.push(chunk),
            StreamVerdict::Duplicate => {}
            StreamVerdict::Reject(reject) => {
                self.answer(peer, envelope_id, Some(reject.to_string())).await;
                return Err(reject);
            }
        }
        Ok(())
    }

    async fn on_end(
        &mut self,
        peer: PeerId,
        envelope_id: String,
        end: StreamEnd,
    ) -> Result<bool, ReceiveError> {
        if end.reason != StreamEndReason::Complete as i32 {
            self.begin_empty().await?;
        }
        match self.state.on_end() {
            StreamVerdict::Reject(reject) => {
                self.answer(peer, envelope_id, Some(reject.to_string())).await;
                return Ok(false);
            }
            StreamVerdict::Accept | StreamVerdict::Duplicate => self.finish(end).await?,
        }
        self.answer(peer, envelope_id, None).await;
        Ok(true)
    }

    /// Of an artifact of which nothing ever came there has to be a file all the same, so that its readers
    /// learn that nothing will.
    async fn begin_empty(&mut self) -> Result<(), WriteError> {
        if self.writer.is_none() {
            let start = StreamStart {
                task_id: self.task.clone(),
                artifact_id: self.artifact.clone(),
                ..StreamStart::default()
            };
            self.state.on_start("", start.encoded_len());
            self.writer = Some(self.engine.spool().create(&start).await?);
        }
        Ok(())
    }

    /// Makes the end durable: first in the file, then in the task.
    async fn finish(&mut self, end: StreamEnd) -> Result<(), WriteError> {
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        let given = end.reason;
        writer.finish(end).await?;
        // A file that had ended keeps its end.
        let reason = writer.end().map_or(given, |end| end.reason);
        let ended = match StreamEndReason::try_from(reason) {
            Ok(StreamEndReason::Complete) => StreamOutcome::Complete,
            Ok(StreamEndReason::Canceled) => StreamOutcome::Canceled,
            _ => StreamOutcome::Error,
        };
        let bytes = writer.bytes();
        self.keep_end(ended, bytes).await;
        Ok(())
    }

    async fn keep_end(&self, ended: StreamOutcome, bytes: u64) {
        let (task, artifact) = (self.task.clone(), self.artifact.clone());
        if let Err(error) = self.engine.end_stream(task, artifact, ended, bytes).await {
            tracing::warn!(task = self.task, artifact = self.artifact, %error, "the end of an artifact was not kept");
        }
    }

    /// Ends the artifact from this side.
    async fn break_off(&mut self, reason: StreamEndReason, message: &str) {
        let end = StreamEnd {
            task_id: self.task.clone(),
            artifact_id: self.artifact.clone(),
            reason: reason as i32,
            error_message: message.to_owned(),
        };
        let ended = match self.begin_empty().await {
            Ok(()) => self.finish(end).await,
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            tracing::warn!(task = self.task, artifact = self.artifact, %error, "an artifact's file could not be ended");
            self.keep_end(StreamOutcome::Error, 0).await;
        }
    }

    async fn write(&mut self, accepted: &mut Vec<StreamChunk>) -> Result<(), WriteError> {
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        if accepted.is_empty() {
            return Ok(());
        }
        let last = accepted.last().is_some_and(|chunk| chunk.is_last);
        let data: Vec<bytes::Bytes> = accepted.drain(..).map(|chunk| chunk.data).collect();
        for attempt in 1.. {
            match writer.append(&data, last).await {
                Ok(next) => {
                    self.state.on_written(next);
                    return Ok(());
                }
                // Nothing is acknowledged meanwhile, so the sender waits too.
                Err(error) if error.is_disk_full() && attempt < DISK_FULL_TRIES => {
                    tracing::error!(task = self.task, %error, "no room for an artifact; trying again");
                    time::sleep(DISK_FULL).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Lets acknowledgements follow the most advanced reader.
    fn update_allowance(&mut self) {
        if let Some(writer) = &self.writer {
            self.state.set_allowance(*writer.furthest_reader().borrow());
        }
    }

    async fn acknowledge(&mut self, peer: Option<PeerId>, flush: bool) {
        let Some(peer) = peer else { return };
        let due = if flush {
            self.state.flush()
        } else {
            self.state.ack_due()
        };
        if let Some(ack) = due {
            self.send_ack(peer, ack.envelope_id, None, Some(ack.next_sequence))
                .await;
        }
    }

    async fn refuse(&self, piece: ArtifactPiece, why: &ReceiveError) {
        self.answer(piece.peer, piece.envelope_id, Some(why.to_string()))
            .await;
    }

    async fn answer(&self, peer: PeerId, envelope_id: String, refused: Option<String>) {
        let next = refused.is_none().then(|| self.state.next_sequence());
        if !envelope_id.is_empty() {
            self.send_ack(peer, envelope_id, refused, next).await;
        }
    }

    async fn send_ack(&self, peer: PeerId, envelope_id: String, refused: Option<String>, next: Option<u32>) {
        let next = next.and_then(|next| i32::try_from(next).ok());
        let sent = self.engine.ack_stream(peer, envelope_id, refused, next).await;
        if let Err(error) = sent {
            tracing::debug!(%peer, %error, "an artifact's acknowledgement was not sent");
        }
    }
}

async fn changed(
    furthest: &mut Option<tokio::sync::watch::Receiver<Option<u64>>>,
) -> Result<(), tokio::sync::watch::error::RecvError> {
    match furthest {
        Some(furthest) => furthest.changed().await,
        None => std::future::pending().await,
    }
}
