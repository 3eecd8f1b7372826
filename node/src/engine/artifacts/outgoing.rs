//! Sending one artifact: to the originator's daemon on a stream of its own, with a window and
//! resumption, or into this node's own files.

use std::{collections::VecDeque, time::Duration};

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{
    AckPayload, StreamChunk, StreamEnd, StreamEndReason, StreamStart, a2a_envelope::Payload,
};
use bytes::Bytes;
use prost::Message as _;
use tokio::{sync::mpsc, time};

use super::{ACKS, Stop};
use crate::{
    delivery::artifact::{AckEffect, Frame, Outgoing, READ_AHEAD, Refused, split},
    engine::{
        Engine, EngineError, StreamRoute,
        core::{MAX_ENVELOPE, envelope},
        trace::Trace,
    },
    net::FrameWriter,
    spool::{SpoolWriter, WriteError},
    task::Ended,
};

/// Frames written with one flush: 16 chunks of 64 KiB.
const BATCH: usize = 16;

/// Without any acknowledgement for this long the stream is opened anew.
const SILENCE: Duration = Duration::from_secs(15);

/// First and longest wait between two openings.
const REOPEN: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));

/// How long the error end of a dropped stream is tried to be delivered.
const LAST_WORDS: Duration = Duration::from_mins(1);

/// Why an artifact was not sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
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
    road: Option<Road>,
}

enum Road {
    Peer(Box<ToPeer>),
    File(Box<ToFile>),
}

impl ArtifactSender {
    pub(in crate::engine) async fn open(
        engine: Engine,
        start: StreamStart,
        route: StreamRoute,
    ) -> Result<Self, SendError> {
        let stop = engine.artifacts.stop_of(&start.task_id);
        let road = match route {
            StreamRoute::Peer(peer) => Road::Peer(Box::new(ToPeer::new(engine, peer, start, stop))),
            StreamRoute::Local => Road::File(Box::new(ToFile::open(engine, start, stop, None).await?)),
            StreamRoute::Whole => {
                let most = (MAX_ENVELOPE / 2) as u64;
                Road::File(Box::new(ToFile::open(engine, start, stop, Some(most)).await?))
            }
        };
        Ok(Self { road: Some(road) })
    }

    /// Sends a piece of any size; waits while the consumer is behind.
    pub async fn push(&mut self, data: Bytes, is_last: bool) -> Result<(), SendError> {
        match &mut self.road {
            Some(Road::Peer(road)) => road.push(data, is_last).await,
            Some(Road::File(road)) => road.push(data, is_last).await,
            None => Ok(()),
        }
    }

    /// Ends the artifact; returns once the other side has all of it.
    pub async fn finish(mut self, reason: StreamEndReason, message: &str) -> Result<(), SendError> {
        match self.road.take() {
            Some(Road::Peer(mut road)) => road.finish(reason, message).await,
            Some(Road::File(mut road)) => road.finish(reason, message).await,
            None => Ok(()),
        }
    }
}

impl Drop for ArtifactSender {
    fn drop(&mut self) {
        let (Some(road), Ok(runtime)) = (self.road.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        runtime.spawn(async move {
            let message = "the agent broke off";
            let ended = match road {
                Road::Peer(mut road) => {
                    time::timeout(LAST_WORDS, road.finish(StreamEndReason::Error, message)).await
                }
                Road::File(mut road) => {
                    time::timeout(LAST_WORDS, road.finish(StreamEndReason::Error, message)).await
                }
            };
            if !matches!(ended, Ok(Ok(()))) {
                tracing::warn!("the end of a broken-off artifact was not delivered");
            }
        });
    }
}

struct ToFile {
    engine: Engine,
    writer: SpoolWriter,
    stop: Stop,
    most: Option<u64>,
}

impl ToFile {
    async fn open(
        engine: Engine,
        start: StreamStart,
        stop: Stop,
        most: Option<u64>,
    ) -> Result<Self, SendError> {
        let writer = engine.spool().create(&start).await?;
        Ok(Self {
            engine,
            writer,
            stop,
            most,
        })
    }

    async fn push(&mut self, data: Bytes, is_last: bool) -> Result<(), SendError> {
        if let Some(most) = self.most
            && self.writer.bytes() + data.len() as u64 > most
        {
            return Err(SendError::TooLarge(format!(
                "the originator's daemon takes no streams, and an artifact over {most} bytes does not fit into a message"
            )));
        }
        let mut furthest = self.writer.furthest_reader();
        loop {
            let ahead = furthest
                .borrow_and_update()
                .is_some_and(|read| self.writer.bytes() > read + READ_AHEAD);
            if !ahead {
                break;
            }
            tokio::select! {
                () = self.stop.token.cancelled() => return Err(ended(self.writer.start())),
                changed = furthest.changed() => if changed.is_err() { break },
            }
        }
        if self.stop.token.is_cancelled() {
            return Err(ended(self.writer.start()));
        }
        let chunks: Vec<Bytes> = split(data).collect();
        self.writer.append(&chunks, is_last).await?;
        Ok(())
    }

    async fn finish(&mut self, reason: StreamEndReason, message: &str) -> Result<(), SendError> {
        let StreamStart {
            task_id, artifact_id, ..
        } = self.writer.start().clone();
        self.writer
            .finish(end_of(self.writer.start(), reason, message))
            .await?;
        Ok(self
            .engine
            .end_stream(task_id, artifact_id, ended_as(reason), self.writer.bytes())
            .await?)
    }
}

struct ToPeer {
    engine: Engine,
    peer: PeerId,
    state: Outgoing,
    writer: Option<FrameWriter>,
    reopen_after: Duration,
    ack_sender: mpsc::Sender<AckPayload>,
    acks: mpsc::Receiver<AckPayload>,
    /// Envelopes whose acknowledgement may come, with the first chunk behind each.
    expected: VecDeque<(u32, String)>,
    bytes: u64,
    finished: bool,
    stop: Stop,
}

impl ToPeer {
    fn new(engine: Engine, peer: PeerId, start: StreamStart, stop: Stop) -> Self {
        let (ack_sender, acks) = mpsc::channel(ACKS);
        let start_id = new_id();
        let mut road = Self {
            engine,
            peer,
            state: Outgoing::start(start, start_id.clone()),
            writer: None,
            reopen_after: REOPEN.0,
            ack_sender,
            acks,
            expected: VecDeque::new(),
            bytes: 0,
            finished: false,
            stop,
        };
        road.await_ack(u32::MAX, start_id);
        road
    }

    async fn push(&mut self, data: Bytes, is_last: bool) -> Result<(), SendError> {
        self.bytes += data.len() as u64;
        let mut pieces = split(data).peekable();
        while let Some(piece) = pieces.next() {
            while !self.state.has_room() && !self.state.is_over() {
                self.step(true).await?;
            }
            let id = new_id();
            let last = is_last && pieces.peek().is_none();
            let sequence = self
                .state
                .push_chunk(id.clone(), piece, last)
                .map_err(|refused| refusal(&refused))?;
            self.await_ack(sequence + 1, id);
        }
        self.step(false).await
    }

    async fn finish(&mut self, reason: StreamEndReason, message: &str) -> Result<(), SendError> {
        let id = new_id();
        self.state
            .end(id.clone(), reason, message)
            .map_err(|refused| refusal(&refused))?;
        self.await_ack(u32::MAX, id);
        while !self.finished {
            self.step(true).await?;
        }
        let StreamStart {
            task_id, artifact_id, ..
        } = self.state.stream_start().clone();
        Ok(self
            .engine
            .end_stream(task_id, artifact_id, ended_as(reason), self.bytes)
            .await?)
    }

    /// Writes what may be written and takes in what has come; with `wait`, waits for something.
    async fn step(&mut self, wait: bool) -> Result<(), SendError> {
        if self.stop.token.is_cancelled() {
            return Err(ended(self.state.stream_start()));
        }
        if self.writer.is_none() {
            self.open().await?;
        }
        self.write().await;
        while let Ok(ack) = self.acks.try_recv() {
            self.on_ack(&ack)?;
        }
        if !wait || self.finished || self.writer.is_none() {
            return Ok(());
        }
        let closed = async {
            match &mut self.writer {
                Some(writer) => writer.closed().await,
                None => std::future::pending().await,
            }
        };
        let ack = tokio::select! {
            biased;
            () = self.stop.token.cancelled() => return Err(ended(self.state.stream_start())),
            ack = self.acks.recv() => ack,
            () = closed => None,
            () = time::sleep(SILENCE) => None,
        };
        match ack {
            Some(ack) => self.on_ack(&ack)?,
            None => self.close().await,
        }
        self.write().await;
        Ok(())
    }

    async fn open(&mut self) -> Result<(), SendError> {
        loop {
            match self.engine.net.open_stream(self.peer).await {
                Ok(writer) => {
                    self.writer = Some(writer);
                    self.state.on_stream_opened();
                    return Ok(());
                }
                Err(error) => tracing::debug!(peer = %self.peer, %error, "no stream for an artifact"),
            }
            tokio::select! {
                () = self.stop.token.cancelled() => return Err(ended(self.state.stream_start())),
                () = time::sleep(self.reopen_after) => {}
            }
            self.reopen_after = (self.reopen_after * 2).min(REOPEN.1);
            if !self.engine.net.is_connected(self.peer) {
                // Whoever waits longest has the most reason to look for the peer.
                let _ = self.engine.net.dial(self.peer, Vec::new()).await;
            }
        }
    }

    async fn write(&mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            while batch.len() < BATCH {
                let Some(frame) = self.state.next_frame() else {
                    break;
                };
                batch.push(self.encode(frame));
            }
            let Some(writer) = &mut self.writer else { return };
            if batch.is_empty() {
                return;
            }
            if let Err(error) = writer.write(&batch).await {
                tracing::debug!(peer = %self.peer, %error, "an artifact's stream broke");
                self.close().await;
                return;
            }
            batch.clear();
        }
    }

    async fn close(&mut self) {
        self.state.on_stream_closed();
        if let Some(writer) = self.writer.take() {
            writer.close().await;
        }
    }

    fn on_ack(&mut self, ack: &AckPayload) -> Result<(), SendError> {
        match self.state.on_ack(ack) {
            AckEffect::Ignored => {}
            AckEffect::Progress { acknowledged } => {
                self.reopen_after = REOPEN.0;
                while self
                    .expected
                    .front()
                    .is_some_and(|(behind, _)| *behind <= acknowledged)
                {
                    if let Some((_, id)) = self.expected.pop_front() {
                        self.engine.artifacts.forget_ack(self.peer, id);
                    }
                }
            }
            AckEffect::Refused(refusal) => return Err(SendError::Refused(refusal.to_string())),
            AckEffect::Finished => self.finished = true,
        }
        Ok(())
    }

    /// Enters an envelope whose acknowledgement may come. `behind`: the first chunk behind it;
    /// `u32::MAX` for START and END, which stay until the sender goes.
    fn await_ack(&mut self, behind: u32, id: String) {
        self.engine
            .artifacts
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

    fn encode(&self, frame: Frame) -> Bytes {
        let start = self.state.stream_start();
        let (id, payload) = match frame {
            Frame::Start { id } => (id, Payload::StreamStart(start.clone())),
            Frame::Chunk {
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
            Frame::End {
                id,
                reason,
                error_message,
            } => (id, Payload::StreamEnd(end_of(start, reason, &error_message))),
        };
        envelope(id, self.engine.clock.now(), payload, Trace::default())
            .encode_to_vec()
            .into()
    }
}

impl Drop for ToPeer {
    fn drop(&mut self) {
        for (_, id) in self.expected.drain(..) {
            self.engine.artifacts.forget_ack(self.peer, id);
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

fn ended_as(reason: StreamEndReason) -> Ended {
    match reason {
        StreamEndReason::Complete => Ended::Complete,
        StreamEndReason::Canceled => Ended::Canceled,
        _ => Ended::Error,
    }
}

fn ended(start: &StreamStart) -> SendError {
    SendError::TaskEnded(start.task_id.clone())
}

fn refusal(refused: &Refused) -> SendError {
    match refused {
        Refused::TooManyChunks | Refused::ChunkTooLarge(_) => SendError::TooLarge(refused.to_string()),
        _ => SendError::Refused(refused.to_string()),
    }
}
