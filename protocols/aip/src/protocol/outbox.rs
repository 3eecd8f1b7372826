//! What leaves a connection: a queue of bounded size and one task that sends.
//!
//! Invariant: frames that were sent together stay together, and a peer that takes nothing for [`WRITE_TIMEOUT`] loses
//! its connection.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{AnyMessage, ProtocolError, pipeline::Pipeline};
use crate::transport::{FrameSender, TransportError, WireFrame};

/// How long a peer may take no frame. 100 MiB within it are 14 Mbit/s.
pub const WRITE_TIMEOUT: Duration = Duration::from_mins(1);

/// Sends that wait.
const QUEUE: usize = 64;

/// A unit of waiting bytes.
const KIB: usize = 1 << 10;

enum Outgoing {
    Frames(Vec<WireFrame>, OwnedSemaphorePermit),
    Close(u16),
}

/// Sends on a connection. Clones send on the same one.
#[derive(Clone)]
pub struct Outbox {
    pipeline: Arc<Pipeline>,
    queue: mpsc::Sender<Outgoing>,
    /// KiB that may still wait.
    room: Arc<Semaphore>,
    all: u32,
}

impl Outbox {
    /// The outbox of a connection that sends by `sender`, and the task that sends. The task ends when the connection
    /// does, and cancels `ended`.
    pub(super) fn new(
        pipeline: Arc<Pipeline>,
        sender: Box<dyn FrameSender>,
        ended: CancellationToken,
    ) -> (Self, AbortOnDropHandle<()>) {
        let (queue, waiting) = mpsc::channel(QUEUE);
        // Room for one largest message, and others beside it.
        let all = (pipeline.limits.bytes.div_ceil(KIB) + KIB).min(Semaphore::MAX_PERMITS / 2);
        let outbox = Self {
            pipeline,
            queue,
            room: Arc::new(Semaphore::new(all)),
            all: all as u32,
        };
        let writer = tokio::spawn(write(sender, waiting, ended));
        (outbox, AbortOnDropHandle::new(writer))
    }

    /// Sends a message, after middleware. It waits while too much is queued.
    ///
    /// # Errors
    /// When the message is too large, or the connection has ended.
    pub async fn send(&self, message: impl Into<AnyMessage> + Send) -> Result<(), ProtocolError> {
        let Some(message) = self.pipeline.outgoing(message.into()).await else {
            return Ok(());
        };
        let text = message.encode(&self.pipeline.limits)?;
        self.send_frames(vec![WireFrame::Text(text)]).await
    }

    /// Sends frames, one directly behind the other.
    ///
    /// # Errors
    /// When the connection has ended.
    pub async fn send_frames(&self, frames: Vec<WireFrame>) -> Result<(), ProtocolError> {
        let closed = || ProtocolError::Transport(TransportError::Closed);
        let size: usize = frames.iter().map(WireFrame::size).sum();
        let size = u32::try_from(size.div_ceil(KIB))
            .unwrap_or(u32::MAX)
            .min(self.all);
        let permit = Arc::clone(&self.room)
            .acquire_many_owned(size)
            .await
            .map_err(|_| closed())?;
        let sent = self.queue.send(Outgoing::Frames(frames, permit)).await;
        sent.map_err(|_| closed())
    }

    /// Closes the connection once what was sent before has left.
    pub async fn close(&self, code: u16) {
        let _ = self.queue.send(Outgoing::Close(code)).await;
    }

    /// Completes when the connection has ended.
    pub async fn closed(&self) {
        self.queue.closed().await;
    }
}

async fn write(
    mut sender: Box<dyn FrameSender>,
    mut waiting: mpsc::Receiver<Outgoing>,
    ended: CancellationToken,
) {
    let _ended = ended.drop_guard();
    while let Some(outgoing) = waiting.recv().await {
        match outgoing {
            Outgoing::Close(code) => {
                waiting.close();
                sender.close(code).await;
                return;
            }
            Outgoing::Frames(frames, _permit) => {
                for frame in frames {
                    match timeout(WRITE_TIMEOUT, sender.send(frame)).await {
                        Ok(Ok(())) => {}
                        Ok(Err(_)) => return,
                        Err(_) => {
                            tracing::debug!("a peer of AIP takes no frames and loses its connection");
                            return;
                        }
                    }
                }
            }
        }
    }
}
