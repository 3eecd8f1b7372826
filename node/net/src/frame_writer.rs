//! The outbound end of an envelope stream. Frames are written one after the other and flushed once per
//! call. The one rule: after a failure, or after the remote has closed, the stream is never touched
//! again; whoever wants to go on opens a new one.

use std::{fmt, io, sync::Arc, time::Duration};

use agentanycast_core::link::{self, FrameBatch, HEADER_BYTES, LinkWriter};
use agentanycast_identity::PeerId;
use bytes::Bytes;
use futures::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, future::BoxFuture};
use libp2p::Stream;
use tokio::time::timeout;

use super::counters::Counters;

/// Longest time in which the remote may take nothing of what we write. A slow road that moves is no
/// failure: a frame of 16 MiB needs longer than this on 10 Mbit/s.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for the remote to have read everything and to end its half.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Reads of what a remote sends against the direction of the stream.
const MAX_IGNORED_READS: usize = 64;
/// Small frames are put together up to this size, so that they leave in one packet.
const BATCH_BYTES: usize = 32 << 10;
/// Written at once at most, so that progress shows.
const PIECE_BYTES: usize = 256 << 10;

/// Writes envelope frames to one peer. Dropping it without [`FrameWriter::close`] resets the stream.
pub struct FrameWriter {
    peer: PeerId,
    relay: Option<PeerId>,
    stream: Stream,
    counters: Arc<Counters>,
    /// The stream failed, was closed, or a write was abandoned half way.
    over: bool,
}

impl FrameWriter {
    pub(super) fn new(peer: PeerId, relay: Option<PeerId>, stream: Stream, counters: Arc<Counters>) -> Self {
        Self {
            peer,
            relay,
            stream,
            counters,
            over: false,
        }
    }

    /// Who reads at the other end.
    pub fn peer(&self) -> PeerId {
        self.peer
    }

    /// The relay that what is written goes through; `None`: it goes directly.
    pub fn relay(&self) -> Option<PeerId> {
        self.relay
    }

    /// Writes the frames in order and flushes once. When it returns, the frames are on their way; only an
    /// ACK says that they arrived.
    ///
    /// # Errors
    /// `InvalidInput` when a frame is over 16 MiB: then nothing was written and the writer can be used
    /// on. `TimedOut` when nothing moved for 10 s, and any error of the stream: then, as when the future
    /// is dropped half way, the writer is of no more use.
    pub async fn write(&mut self, frames: &[Bytes]) -> io::Result<()> {
        for frame in frames {
            link::header(frame.len()).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        }
        if self.over {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.over = true;
        write_frames(&mut self.stream, frames).await?;
        self.over = false;
        self.counters.frames_out.add(frames.len() as u64);
        self.counters
            .bytes_out
            .add(frames.iter().map(|frame| frame.len() as u64).sum());
        Ok(())
    }

    /// As [`FrameWriter::write`], of frames that are encoded already.
    pub async fn write_batch(&mut self, batch: &FrameBatch) -> io::Result<()> {
        if self.over {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.over = true;
        write_all(&mut self.stream, batch.wire()).await?;
        in_time(self.stream.flush()).await?;
        self.over = false;
        self.counters.frames_out.add(batch.frames());
        let headers = batch.frames() * HEADER_BYTES as u64;
        self.counters.bytes_out.add(batch.wire().len() as u64 - headers);
        Ok(())
    }

    /// Resolves when the remote has closed or reset the stream, as deployed peers do after 30 s without
    /// a frame. Cancel-safe.
    pub async fn closed(&mut self) {
        if self.over {
            return;
        }
        // Any end is an end, in order or not.
        let _ = read_to_end(&mut self.stream).await;
        self.over = true;
    }

    /// Ends the stream in order: the remote reads what was written, then the end. Waits for the remote to
    /// end its half too, 10 s at most: if we let go of the stream before, the remote could see a reset
    /// before it has read, or even before it has agreed on the protocol.
    pub async fn close(mut self) {
        if self.over {
            return;
        }
        let closing = async {
            self.stream.close().await?;
            read_to_end(&mut self.stream).await
        };
        if !matches!(timeout(CLOSE_TIMEOUT, closing).await, Ok(Ok(()))) {
            tracing::debug!(peer = %self.peer, "the end of a stream was not answered; it is reset");
        }
    }
}

impl LinkWriter for FrameWriter {
    fn relay(&self) -> Option<PeerId> {
        self.relay
    }

    fn write<'a>(&'a mut self, frames: &'a [Bytes]) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(Self::write(self, frames))
    }

    fn write_batch<'a>(&'a mut self, batch: &'a FrameBatch) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(Self::write_batch(self, batch))
    }

    fn closed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(Self::closed(self))
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(Self::close(*self))
    }
}

impl fmt::Debug for FrameWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameWriter")
            .field("peer", &self.peer)
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}

/// Writes `frames` and flushes.
pub(super) async fn write_frames<W: AsyncWrite + Unpin>(stream: &mut W, frames: &[Bytes]) -> io::Result<()> {
    let mut batch = Vec::new();
    for frame in frames {
        let header =
            link::header(frame.len()).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        if batch.len() + HEADER_BYTES + frame.len() > BATCH_BYTES {
            write_all(stream, &batch).await?;
            batch.clear();
        }
        batch.extend_from_slice(&header);
        // The beginning of a long frame goes with its header: alone in a packet that would cost as much as
        // a full one.
        let (together, rest) = frame.split_at(frame.len().min(BATCH_BYTES - HEADER_BYTES));
        batch.extend_from_slice(together);
        if !rest.is_empty() {
            write_all(stream, &batch).await?;
            batch.clear();
            write_all(stream, rest).await?;
        }
    }
    write_all(stream, &batch).await?;
    in_time(stream.flush()).await
}

/// Waits for the remote's end of a stream on which it has nothing to say. What it says all the same is
/// dropped; if it goes on for long, that ends the stream too.
async fn read_to_end<R: AsyncRead + Unpin>(stream: &mut R) -> io::Result<()> {
    let mut ignored = [0; 64];
    for _ in 0..MAX_IGNORED_READS {
        if stream.read(&mut ignored).await? == 0 {
            return Ok(());
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

async fn write_all<W: AsyncWrite + Unpin>(stream: &mut W, bytes: &[u8]) -> io::Result<()> {
    for piece in bytes.chunks(PIECE_BYTES) {
        in_time(stream.write_all(piece)).await?;
    }
    Ok(())
}

async fn in_time(step: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    timeout(WRITE_TIMEOUT, step)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
