//! What the engine knows of a network: a [`Link`] to all peers, and the [`LinkEvent`]s that come from it.
//!
//! `net` (libp2p) is a link. The engine asks for peers to be reached and for streams to be opened, writes frames, and is
//! told what came in; it names no network. What a peer sent counts against that peer until its [`FramePermit`] is dropped.

mod fair_queue;
mod frame_batch;
#[cfg(test)]
pub(crate) mod memory;

use std::{error::Error, fmt, io};

use agentanycast_identity::PeerId;
use bytes::Bytes;
use futures::future::BoxFuture;

pub use self::{
    fair_queue::FairQueue,
    frame_batch::{FrameBatch, FrameTooLong, HEADER_BYTES, MAX_FRAME_BYTES, header},
};

/// A way to all peers. Cheap to share: one is held for as long as the engine runs.
pub trait Link: Send + Sync + 'static {
    /// While `wanted` and not connected, the link keeps trying to reach the peer, at the pace that it thinks right.
    fn set_wanted(&self, peer: PeerId, wanted: bool);

    /// Tries to reach the peer now, unless it is connected; returns when the attempt is over, however it ended.
    fn reach(&self, peer: PeerId) -> BoxFuture<'_, ()>;

    /// Opens a stream of frames to a peer that is connected.
    ///
    /// # Errors
    /// Why there is none: for the log, nothing can be done about it but to try again later.
    fn open_stream(&self, peer: PeerId) -> BoxFuture<'_, Result<Box<dyn LinkWriter>, OpenStreamError>>;

    /// The turns of all that moves much data on this node, in and out.
    fn fair_queue(&self) -> &FairQueue;
}

/// Why no stream was opened.
pub type OpenStreamError = Box<dyn Error + Send + Sync>;

/// The outbound end of a stream. Its frames arrive in order, or the stream ends. Dropping it without
/// [`LinkWriter::close`] resets the stream.
pub trait LinkWriter: Send + 'static {
    /// The relay that what is written goes through; `None`: it goes directly.
    fn relay(&self) -> Option<PeerId>;

    /// Writes the frames in order and flushes once. When it returns, the frames are on their way; only an
    /// ACK says that they arrived.
    ///
    /// # Errors
    /// `InvalidInput` when a frame is over [`MAX_FRAME_BYTES`]: then nothing was written and the writer can be used
    /// on. After any other error, as when the future is dropped half way, the writer is of no more use.
    fn write<'a>(&'a mut self, frames: &'a [Bytes]) -> BoxFuture<'a, io::Result<()>>;

    /// As [`LinkWriter::write`], of frames that are encoded already.
    fn write_batch<'a>(&'a mut self, batch: &'a FrameBatch) -> BoxFuture<'a, io::Result<()>>;

    /// Resolves when the remote has closed or reset the stream. Cancel-safe.
    fn closed(&mut self) -> BoxFuture<'_, ()>;

    /// Ends the stream in order: the remote reads what was written, then the end.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// What happens on the network. Nothing here waits in an unbounded queue: of peers only the state that is
/// not told yet is kept, and frames wait on the wire.
#[derive(Debug)]
#[non_exhaustive]
pub enum LinkEvent {
    /// The first connection to the peer stands.
    Connected {
        /// Who.
        peer: PeerId,
    },
    /// One more direct connection to the peer stands; the ones before may be dead without knowing it, so
    /// streams had better be opened anew.
    Renewed {
        /// Who.
        peer: PeerId,
    },
    /// The last connection to the peer is gone. Frames that were read before may still follow.
    Disconnected {
        /// Who.
        peer: PeerId,
    },
    /// One envelope frame. Frames of one stream come in order.
    Frame {
        /// Who sent it, as authenticated by the connection.
        peer: PeerId,
        /// The frame and its claim on memory.
        frame: InboundFrame,
    },
    /// The peer's card, which claims nobody else's identity.
    Card {
        /// Whose.
        peer: PeerId,
        /// The card as it came, encoded: decoded it can take many times as much memory.
        card: Bytes,
    },
    /// The addresses of the peer that are worth keeping over a restart have changed.
    Addresses {
        /// Whose.
        peer: PeerId,
        /// All of them, best first, without `/p2p`; at most 16.
        addrs: Vec<String>,
    },
}

/// One envelope frame as it came, and its claim on memory.
#[derive(Debug)]
pub struct InboundFrame {
    /// The payload, possibly empty.
    pub bytes: Bytes,
    /// Keep it until the frame's effect is kept elsewhere: it holds back the peer's next frames.
    pub permit: FramePermit,
    /// The relay that it came through; `None`: directly.
    pub relay: Option<PeerId>,
}

/// A frame's claim on memory. Dropping it lets the peer's next frame in.
#[must_use = "dropping the permit tells the network that the frame is no longer in memory"]
pub struct FramePermit(Box<dyn fmt::Debug + Send + Sync>);

impl FramePermit {
    /// Holds `claim` until it is dropped.
    pub fn new(claim: impl fmt::Debug + Send + Sync + 'static) -> Self {
        Self(Box::new(claim))
    }
}

impl fmt::Debug for FramePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
