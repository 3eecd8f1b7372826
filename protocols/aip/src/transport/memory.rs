//! A connection within this process, for tests and for a device beside its service.

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::{FrameReceiver, FrameSender, Transport, TransportError, WireFrame};

/// Frames that one side may send before the other takes one.
const AHEAD: usize = 16;

/// The two ends of a connection.
pub fn memory_pair() -> (Transport, Transport) {
    let (to_right, from_left) = mpsc::channel(AHEAD);
    let (to_left, from_right) = mpsc::channel(AHEAD);
    (
        Transport::new(MemorySender(Some(to_right)), MemoryReceiver(from_right)),
        Transport::new(MemorySender(Some(to_left)), MemoryReceiver(from_left)),
    )
}

struct MemorySender(Option<mpsc::Sender<WireFrame>>);

#[async_trait]
impl FrameSender for MemorySender {
    async fn send(&mut self, frame: WireFrame) -> Result<(), TransportError> {
        let sender = self.0.as_ref().ok_or(TransportError::Closed)?;
        sender.send(frame).await.map_err(|_| TransportError::Closed)
    }

    async fn close(&mut self, _: u16) {
        self.0 = None;
    }
}

struct MemoryReceiver(mpsc::Receiver<WireFrame>);

#[async_trait]
impl FrameReceiver for MemoryReceiver {
    async fn receive(&mut self) -> Option<Result<WireFrame, TransportError>> {
        self.0.recv().await.map(Ok)
    }
}
