//! Reads the envelope frames of one inbound stream and hands them on, in order.
//!
//! A stream may idle between frames; a frame that has begun must arrive in time. The one rule: nothing
//! is read that is not paid for from the peer's budget, so a consumer that is slow slows the sender.

use std::{io, sync::Arc, time::Duration};

use agentanycast_core::link::{
    FairQueue, FramePermit, FrameTooLong, InboundFrame, LinkEvent, MAX_FRAME_BYTES,
};
use agentanycast_identity::PeerId;
use bytes::Bytes;
use futures::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout, timeout_at},
};

use super::{
    budget::{FramePayment, PeerBudget, SHORT_FRAME},
    counters::Counters,
    frame::FrameDecoder,
};

/// Longest time from a frame's first byte to its last (wire contract, "Frames"), without the time that
/// the stream waits for its peer's own budget.
const FRAME_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time between two frames. Our own nodes keep one stream open for all their envelopes; the
/// sender opens a new one when it has something to say again.
const IDLE_TIMEOUT: Duration = Duration::from_mins(10);
/// Longest wait for the remote to take the end of our half, on which nothing is ever written.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// The common budget is taken in steps of this size as a frame arrives.
const COVER_STEP: usize = 256 << 10;

/// Why reading ended before the remote's end.
#[derive(Debug, thiserror::Error)]
enum FrameReadError {
    #[error(transparent)]
    TooLong(#[from] FrameTooLong),
    #[error("a frame did not arrive within {} s", FRAME_TIMEOUT.as_secs())]
    Slow,
    #[error("the stream ended inside a frame")]
    Truncated,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("nobody takes frames any more")]
    Unwanted,
}

/// Serves one stream until it ends. Returning drops the stream, which resets what is still open.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    peer: PeerId,
    relay: Option<PeerId>,
    mut stream: S,
    budget: Arc<PeerBudget>,
    events: mpsc::Sender<LinkEvent>,
    counters: Arc<Counters>,
    turns: FairQueue,
) {
    match read_frames(peer, relay, &mut stream, &budget, &events, &counters, &turns).await {
        Ok(()) => {
            // The remote may have gone altogether; then there is nothing to close.
            let _ = timeout(CLOSE_TIMEOUT, stream.close()).await;
        }
        Err(FrameReadError::TooLong(error)) => {
            counters.oversized_frames.increment();
            if counters.complaints.is_first(peer) {
                tracing::warn!(%peer, %error, "inbound stream reset; further ones of this peer are only counted");
            }
        }
        Err(error @ (FrameReadError::Slow | FrameReadError::Truncated)) => {
            counters.broken_frames.increment();
            tracing::debug!(%peer, %error, "inbound stream reset");
        }
        Err(error) => tracing::debug!(%peer, %error, "inbound stream ended"),
    }
}

async fn read_frames<R: AsyncRead + Unpin>(
    peer: PeerId,
    relay: Option<PeerId>,
    stream: &mut R,
    budget: &Arc<PeerBudget>,
    events: &mpsc::Sender<LinkEvent>,
    counters: &Counters,
    turns: &FairQueue,
) -> Result<(), FrameReadError> {
    let mut decoder = FrameDecoder::new(MAX_FRAME_BYTES);
    let mut moves_data = false;
    loop {
        let frame = read_frame(stream, &mut decoder, budget);
        let frame = if moves_data {
            turns.run(frame).await
        } else {
            frame.await
        };
        let Some((bytes, payment)) = frame? else {
            return Ok(());
        };
        // A stream that moves data reads its next frame when it has a turn.
        moves_data = bytes.len() >= SHORT_FRAME;
        counters.frames_in.increment();
        counters.bytes_in.add(bytes.len() as u64);
        let frame = InboundFrame {
            bytes,
            permit: FramePermit::new(payment),
            relay,
        };
        events
            .send(LinkEvent::Frame { peer, frame })
            .await
            .map_err(|_| FrameReadError::Unwanted)?;
    }
}

/// The next frame, paid for; `None` at the end of the stream or when it idles too long.
async fn read_frame<R: AsyncRead + Unpin>(
    stream: &mut R,
    decoder: &mut FrameDecoder,
    budget: &Arc<PeerBudget>,
) -> Result<Option<(Bytes, FramePayment)>, FrameReadError> {
    let Ok(first) = timeout(IDLE_TIMEOUT, stream.read(decoder.space())).await else {
        return Ok(None);
    };
    let mut count = first?;
    if count == 0 {
        return Ok(None);
    }
    let mut deadline = Instant::now() + FRAME_TIMEOUT;
    let mut permit = None;
    loop {
        let complete = decoder.filled(count)?;
        if let Some(claimed) = decoder.claimed()
            && permit.is_none()
        {
            let waiting = Instant::now();
            permit = Some(
                budget
                    .frame(claimed)
                    .await
                    .map_err(|_| FrameReadError::Unwanted)?,
            );
            deadline += waiting.elapsed();
        }
        if let Some(bytes) = complete {
            // An empty frame is complete with its header, and then nothing is claimed any more.
            let permit = match permit {
                Some(permit) => permit,
                None => budget.frame(0).await.map_err(|_| FrameReadError::Unwanted)?,
            };
            return Ok(Some((bytes, permit)));
        }
        let step = cover_and_read(stream, decoder, permit.as_mut());
        count = timeout_at(deadline, step)
            .await
            .map_err(|_| FrameReadError::Slow)??;
        if count == 0 {
            return Err(FrameReadError::Truncated);
        }
    }
}

/// Reads on in a frame whose header may be known; what is read next is paid for first.
async fn cover_and_read<R: AsyncRead + Unpin>(
    stream: &mut R,
    decoder: &mut FrameDecoder,
    permit: Option<&mut FramePayment>,
) -> Result<usize, FrameReadError> {
    if let (Some(permit), Some(claimed)) = (permit, decoder.claimed()) {
        let steps = decoder.arrived() / COVER_STEP + 1;
        permit
            .reserve(claimed.min((steps + 1) * COVER_STEP))
            .await
            .map_err(|_| FrameReadError::Unwanted)?;
    }
    Ok(stream.read(decoder.space()).await?)
}

#[cfg(test)]
mod tests;
