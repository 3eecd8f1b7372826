//! Sending one artifact: to the originator's daemon on a stream of its own, with a window and
//! resumption, or into this node's own files.

mod file_sender;

use std::{collections::VecDeque, sync::atomic::Ordering, time::Duration};

use agentanycast_identity::PeerId;
use agentanycast_limits::Backoff;
use agentanycast_proto::v1::{
    A2aEnvelope, AckPayload, StreamChunk, StreamEnd, StreamEndReason, StreamStart, a2a_envelope::Payload,
};
use bytes::Bytes;
use tokio::{
    sync::mpsc,
    time::{self, Instant},
};

use self::file_sender::FileSender;
use super::{ACKS, OpenSendGuard, StreamStop};
use crate::{
    coordinator::StreamRoute,
    delivery::artifact::{AckEffect, PushError, SendWindow, StreamFrame, StreamRefusal, split},
    handle::Engine,
    link::{FrameBatch, LinkWriter},
    spool::WriteError,
    task::StreamOutcome,
    trace_context::TraceContext,
    transaction::EngineError,
    wire::{MAX_ENVELOPE, envelope},
};

/// Frames written with one flush: 8 chunks of 64 KiB, as much as the layers below take without waiting.
const BATCH: usize = 8;

/// Without any acknowledgement for this long the stream is opened anew.
const ACK_TIMEOUT: Duration = Duration::from_secs(15);

/// The waits between openings that fail.
const REOPEN: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(30));

/// How long the error end of a dropped stream is tried to be delivered on its stream, behind the chunks;
/// then it goes through the queue.
const ABORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why an artifact was not sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The task does not allow it, or the store failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The originator's daemon refused it, or broke the protocol.
    #[error("{0}")]
    Refused(String),
    /// The task ended meanwhile.
    #[error("task {0} has ended; its artifacts are not sent any more")]
    TaskEnded(String),
    /// It does not fit.
    #[error("{0}")]
    TooLarge(String),
    /// This node's own files failed.
    #[error("cannot write the artifact: {0}")]
    Spool(#[from] WriteError),
}

/// The sender of one artifact. Dropping it before [`ArtifactSender::finish`] ends the artifact with
/// reason ERROR.
pub struct ArtifactSender {
    target: Option<ArtifactTarget>,
    /// Until the end of the artifact is kept.
    open: Option<OpenSendGuard>,
}

enum ArtifactTarget {
    Peer(Box<PeerSender>),
    File(Box<FileSender>),
}

impl ArtifactSender {
    /// The sender of an artifact that the task has. If it cannot be sent, the artifact ends here.
    pub(crate) async fn open(
        engine: Engine,
        start: StreamStart,
        route: StreamRoute,
        open: OpenSendGuard,
    ) -> Result<Self, SendError> {
        let stop = engine.streams().stop_of(&start.task_id);
        let most = match route {
            StreamRoute::Peer(peer) => {
                let road = PeerSender::new(engine, peer, start, stop);
                return Ok(Self::new(ArtifactTarget::Peer(Box::new(road)), open));
            }
            StreamRoute::Local => None,
            StreamRoute::Whole => Some((MAX_ENVELOPE / 2) as u64),
        };
        let (task_id, artifact_id) = (start.task_id.clone(), start.artifact_id.clone());
        match FileSender::open(engine.clone(), start, stop, most).await {
            Ok(road) => Ok(Self::new(ArtifactTarget::File(Box::new(road)), open)),
            Err(error) => {
                let ended = engine
                    .end_stream(task_id, artifact_id, StreamOutcome::Error, 0)
                    .await;
                if let Err(error) = ended {
                    tracing::warn!(%error, "the end of an artifact that has no file was not kept");
                }
                Err(error)
            }
        }
    }

    fn new(target: ArtifactTarget, open: OpenSendGuard) -> Self {
        Self {
            target: Some(target),
            open: Some(open),
        }
    }

    /// Takes a piece of any size; waits while the consumer is behind. It is on its way after
    /// [`ArtifactSender::flush`] at the latest.
    pub async fn push(&mut self, data: Bytes, is_last: bool) -> Result<(), SendError> {
        match &mut self.target {
            Some(ArtifactTarget::Peer(road)) => road.push(data, is_last).await,
            Some(ArtifactTarget::File(road)) => road.push(data, is_last).await,
            None => Ok(()),
        }
    }

    /// Sends what was pushed; to be called before waiting for more.
    pub async fn flush(&mut self) -> Result<(), SendError> {
        match &mut self.target {
            Some(ArtifactTarget::Peer(road)) => road.flush().await,
            Some(ArtifactTarget::File(_)) | None => Ok(()),
        }
    }

    /// The next thing that has to be [attended](ArtifactSender::handle_event) to, also while nothing is pushed:
    /// what was sent may have to be sent again. Cancel-safe.
    pub async fn event(&mut self) -> SendEvent {
        match &mut self.target {
            Some(ArtifactTarget::Peer(road)) => road.event().await,
            Some(ArtifactTarget::File(road)) => {
                road.stopped().await;
                SendEvent(Event::Stopped)
            }
            None => std::future::pending().await,
        }
    }

    /// Acts on an event.
    pub async fn handle_event(&mut self, event: SendEvent) -> Result<(), SendError> {
        match &mut self.target {
            Some(ArtifactTarget::Peer(road)) => road.handle_event(event).await,
            Some(ArtifactTarget::File(road)) => Err(road.task_ended()),
            None => Ok(()),
        }
    }

    /// Ends the artifact; returns once the other side has all of it.
    pub async fn finish(mut self, reason: StreamEndReason, message: &str) -> Result<(), SendError> {
        let done = match &mut self.target {
            Some(ArtifactTarget::Peer(road)) => road.finish(reason, message).await,
            Some(ArtifactTarget::File(road)) => road.finish(reason, message).await,
            None => Ok(()),
        };
        if done.is_ok() {
            self.target = None;
        }
        done
    }
}

impl Drop for ArtifactSender {
    fn drop(&mut self) {
        let (Some(road), Ok(runtime)) = (self.target.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        let (message, open) = ("the agent broke off", self.open.take());
        match road {
            ArtifactTarget::Peer(mut road) => {
                drop(runtime.spawn(async move { road.break_off(message, open).await }));
            }
            ArtifactTarget::File(mut road) => drop(runtime.spawn(async move {
                let _open = open;
                if let Err(error) = road.finish(StreamEndReason::Error, message).await {
                    tracing::warn!(%error, "the end of a broken-off artifact was not kept");
                }
            })),
        }
    }
}

/// Something that an [`ArtifactSender`] has to act on.
#[derive(Debug)]
pub struct SendEvent(Event);

#[derive(Debug)]
enum Event {
    Stopped,
    Ack(AckPayload),
    /// The stream was closed, or nothing was acknowledged on it for too long.
    Broken,
    /// It is time to open a stream.
    Open,
}

struct PeerSender {
    engine: Engine,
    peer: PeerId,
    state: SendWindow,
    link: PeerStream,
    reopen: Backoff,
    ack_sender: mpsc::Sender<AckPayload>,
    acks: mpsc::Receiver<AckPayload>,
    /// Envelopes whose acknowledgement may come, with the first chunk behind each.
    expected: VecDeque<(u32, String)>,
    bytes: u64,
    finished: bool,
    /// The other side has ended the artifact.
    refused: bool,
    stop: StreamStop,
}

enum PeerStream {
    Open {
        writer: Box<dyn LinkWriter>,
        /// When the stream was opened or something was last acknowledged.
        heard: Instant,
    },
    Down {
        retry_at: Instant,
    },
}

impl PeerSender {
    fn new(engine: Engine, peer: PeerId, start: StreamStart, stop: StreamStop) -> Self {
        let (ack_sender, acks) = mpsc::channel(ACKS);
        let start_id = new_id();
        let mut road = Self {
            engine,
            peer,
            state: SendWindow::start(start, start_id.clone()),
            link: PeerStream::Down {
                retry_at: Instant::now(),
            },
            reopen: REOPEN,
            ack_sender,
            acks,
            expected: VecDeque::new(),
            bytes: 0,
            finished: false,
            refused: false,
            stop,
        };
        road.engine.streams().enter();
        road.await_ack(u32::MAX, start_id);
        road
    }

    async fn push(&mut self, data: Bytes, is_last: bool) -> Result<(), SendError> {
        self.bytes += data.len() as u64;
        let mut pieces = split(data).peekable();
        while let Some(piece) = pieces.next() {
            while !self.has_room() && !self.state.is_over() {
                self.step().await?;
            }
            let id = new_id();
            let last = is_last && pieces.peek().is_none();
            let sequence = self
                .state
                .push_chunk(id.clone(), piece, last)
                .map_err(|refused| refusal(&refused))?;
            self.engine.streams().chunks.fetch_add(1, Ordering::Relaxed);
            self.await_ack(sequence + 1, id);
            if self.state.unsent() >= BATCH {
                self.flush().await?;
            }
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.state.has_room() && self.state.unacked() < self.engine.streams().share()
    }

    async fn finish(&mut self, reason: StreamEndReason, message: &str) -> Result<(), SendError> {
        let id = new_id();
        self.state
            .end(id.clone(), reason, message)
            .map_err(|refused| refusal(&refused))?;
        self.await_ack(u32::MAX, id);
        while !self.finished {
            self.step().await?;
        }
        let StreamStart {
            task_id, artifact_id, ..
        } = self.state.stream_start().clone();
        Ok(self
            .engine
            .end_stream(task_id, artifact_id, ended_as(reason), self.bytes)
            .await?)
    }

    /// Ends the artifact with an error, whatever state it is in: no artifact stays open because its agent
    /// has gone. The end goes through the queue at once if it is waited for.
    async fn break_off(&mut self, message: &str, open: Option<OpenSendGuard>) {
        let hurried = async {
            match &open {
                Some(open) => open.hurried().await,
                None => std::future::pending().await,
            }
        };
        let finishing = self.finish(StreamEndReason::Error, message);
        let done = tokio::select! {
            done = time::timeout(ABORT_TIMEOUT, finishing) => done.ok(),
            () = hurried => None,
        };
        let known = match done {
            Some(Ok(())) => return,
            // The other side ends its part with the task.
            Some(Err(SendError::TaskEnded(_))) => Some(StreamOutcome::Canceled),
            _ if self.refused => Some(StreamOutcome::Error),
            _ => None,
        };
        let StreamStart {
            task_id, artifact_id, ..
        } = self.state.stream_start().clone();
        let ended = if let Some(outcome) = known {
            let bytes = self.bytes;
            self.engine.end_stream(task_id, artifact_id, outcome, bytes).await
        } else {
            self.engine
                .break_off_stream(task_id, artifact_id, message.to_owned())
                .await
        };
        if let Err(error) = ended {
            tracing::warn!(%error, "the end of a broken-off artifact was not kept");
        }
    }

    /// Sends what can be sent, then waits for something and acts on it.
    async fn step(&mut self) -> Result<(), SendError> {
        self.flush().await?;
        if self.finished {
            return Ok(());
        }
        let event = self.event().await;
        self.handle_event(event).await
    }

    async fn event(&mut self) -> SendEvent {
        let awaits_ack = self.state.awaits_ack();
        let stopped = self.stop.token.cancelled();
        SendEvent(match &mut self.link {
            PeerStream::Down { retry_at } => tokio::select! {
                biased;
                () = stopped => Event::Stopped,
                () = time::sleep_until(*retry_at) => Event::Open,
            },
            PeerStream::Open { writer, heard } => tokio::select! {
                biased;
                () = stopped => Event::Stopped,
                Some(ack) = self.acks.recv() => Event::Ack(ack),
                () = writer.closed() => Event::Broken,
                () = time::sleep_until(*heard + ACK_TIMEOUT), if awaits_ack => Event::Broken,
            },
        })
    }

    async fn handle_event(&mut self, event: SendEvent) -> Result<(), SendError> {
        match event.0 {
            Event::Stopped => return Err(ended(self.state.stream_start())),
            Event::Ack(ack) => self.on_ack(&ack)?,
            Event::Broken => self.close(),
            Event::Open => self.open().await,
        }
        self.flush().await
    }

    async fn open(&mut self) {
        match self.engine.link().open_stream(self.peer).await {
            Ok(writer) => {
                self.link = PeerStream::Open {
                    writer,
                    heard: Instant::now(),
                };
                self.state.on_stream_opened();
            }
            Err(error) => {
                tracing::debug!(peer = %self.peer, %error, "no stream for an artifact");
                self.link = PeerStream::Down {
                    retry_at: Instant::now() + self.reopen.next_wait(),
                };
                // Whoever waits longest has the most reason to look for the peer.
                self.engine.link().reach(self.peer).await;
            }
        }
    }

    /// Takes in what has come and writes what may be written.
    async fn flush(&mut self) -> Result<(), SendError> {
        if self.stop.token.is_cancelled() {
            return Err(ended(self.state.stream_start()));
        }
        loop {
            while let Ok(ack) = self.acks.try_recv() {
                self.on_ack(&ack)?;
            }
            // Not kept between two batches: a hundred silent streams would each hold half a MiB.
            let mut batch = FrameBatch::default();
            while batch.frames() < BATCH as u64 {
                let Some(frame) = self.state.next_frame() else {
                    break;
                };
                let envelope = self.envelope(frame);
                if !batch.push(&envelope) {
                    return Err(SendError::TooLarge(
                        "a piece of the artifact fits into no frame".into(),
                    ));
                }
            }
            let PeerStream::Open { writer, .. } = &mut self.link else {
                return Ok(());
            };
            if batch.is_empty() {
                return Ok(());
            }
            let turns = self.engine.transfer_turns();
            if let Err(error) = turns.run(writer.write_batch(&batch)).await {
                tracing::debug!(peer = %self.peer, %error, "an artifact's stream broke");
                self.close();
                return Ok(());
            }
        }
    }

    /// Lets go of the stream; the next one is opened at once.
    fn close(&mut self) {
        self.state.on_stream_closed();
        let down = PeerStream::Down {
            retry_at: Instant::now(),
        };
        if let PeerStream::Open { writer, .. } = std::mem::replace(&mut self.link, down) {
            tokio::spawn(writer.close());
        }
    }

    fn on_ack(&mut self, ack: &AckPayload) -> Result<(), SendError> {
        if let PeerStream::Open { heard, .. } = &mut self.link {
            *heard = Instant::now();
        }
        match self.state.on_ack(ack) {
            AckEffect::Ignored => {}
            AckEffect::Progress { acknowledged } => {
                self.reopen.reset();
                while self
                    .expected
                    .front()
                    .is_some_and(|(behind, _)| *behind <= acknowledged)
                {
                    if let Some((_, id)) = self.expected.pop_front() {
                        self.engine.streams().forget_ack(self.peer, id);
                    }
                }
            }
            AckEffect::Refused(refusal) => {
                self.refused = matches!(refusal, StreamRefusal::ByPeer(_));
                return Err(SendError::Refused(refusal.to_string()));
            }
            AckEffect::Finished => self.finished = true,
        }
        Ok(())
    }

    /// Enters an envelope whose acknowledgement may come. `behind`: the first chunk behind it;
    /// `u32::MAX` for START and END, which stay until the sender goes.
    fn await_ack(&mut self, behind: u32, id: String) {
        self.engine
            .streams()
            .expect_ack(self.peer, id.clone(), self.ack_sender.clone());
        if behind == u32::MAX {
            self.expected.push_back((behind, id));
        } else {
            self.insert_expected(behind, id);
        }
    }

    fn insert_expected(&mut self, behind: u32, id: String) {
        let at = self.expected.partition_point(|(other, _)| *other < behind);
        self.expected.insert(at, (behind, id));
    }

    fn envelope(&self, frame: StreamFrame) -> A2aEnvelope {
        let start = self.state.stream_start();
        let (id, payload) = match frame {
            StreamFrame::Start { id } => (id, Payload::StreamStart(start.clone())),
            StreamFrame::Chunk {
                id,
                sequence,
                data,
                is_last,
            } => (
                id,
                Payload::StreamChunk(StreamChunk {
                    task_id: start.task_id.clone(),
                    artifact_id: start.artifact_id.clone(),
                    sequence: sequence as i32,
                    data,
                    is_last,
                }),
            ),
            StreamFrame::End {
                id,
                reason,
                error_message,
            } => (id, Payload::StreamEnd(end_of(start, reason, &error_message))),
        };
        envelope(id, self.engine.now(), payload, TraceContext::default())
    }
}

impl Drop for PeerSender {
    fn drop(&mut self) {
        self.engine.streams().leave();
        for (_, id) in self.expected.drain(..) {
            self.engine.streams().forget_ack(self.peer, id);
        }
    }
}

fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

fn end_of(start: &StreamStart, reason: StreamEndReason, message: &str) -> StreamEnd {
    StreamEnd {
        task_id: start.task_id.clone(),
        artifact_id: start.artifact_id.clone(),
        reason: reason as i32,
        error_message: message.to_owned(),
    }
}

fn ended_as(reason: StreamEndReason) -> StreamOutcome {
    match reason {
        StreamEndReason::Complete => StreamOutcome::Complete,
        StreamEndReason::Canceled => StreamOutcome::Canceled,
        _ => StreamOutcome::Error,
    }
}

fn ended(start: &StreamStart) -> SendError {
    SendError::TaskEnded(start.task_id.clone())
}

fn refusal(refused: &PushError) -> SendError {
    match refused {
        PushError::TooManyChunks | PushError::ChunkTooLarge(_) => SendError::TooLarge(refused.to_string()),
        _ => SendError::Refused(refused.to_string()),
    }
}
