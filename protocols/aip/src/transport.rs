//! Layer 2: connections that carry text and binary frames. The protocol layer uses [`Transport`], and knows
//! nothing about WebSockets.
//!
//! Invariant: a transport has two halves, so that a peer that does not read does not keep this side from reading.

mod counted_io;
mod endpoint;
mod error;
mod memory;
mod tls;
mod websocket;

use async_trait::async_trait;
use bytes::Bytes;

pub use endpoint::WebSocketEndpoint;
pub use error::TransportError;
pub use memory::memory_pair;
pub use websocket::{WebSocketSettings, accept};

/// The code that ends a connection in good order.
pub const CLOSE_NORMAL: u16 = 1000;

/// One message of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireFrame {
    /// Text.
    Text(String),
    /// Bytes.
    Binary(Bytes),
}

impl WireFrame {
    /// Its bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Binary(bytes) => bytes.len(),
        }
    }
}

/// The half of a connection that sends.
#[async_trait]
pub trait FrameSender: Send {
    /// Sends a frame. A future that is dropped may have sent a part of it: the connection is of no use then.
    ///
    /// # Errors
    /// When the connection has ended.
    async fn send(&mut self, frame: WireFrame) -> Result<(), TransportError>;

    /// Closes the connection. A transport that knows one code only ends in good order by any.
    async fn close(&mut self, code: u16);
}

/// The half of a connection that receives.
#[async_trait]
pub trait FrameReceiver: Send {
    /// The next frame; `None`: the connection has ended. Dropping the future loses nothing.
    ///
    /// # Errors
    /// When the peer broke the rules; the connection has ended then.
    async fn receive(&mut self) -> Option<Result<WireFrame, TransportError>>;

    /// The frame that was received last is not in memory any more. For servers that count memory by client.
    fn release(&mut self) {}
}

/// A connection.
pub struct Transport {
    /// What sends.
    pub sender: Box<dyn FrameSender>,
    /// What receives.
    pub receiver: Box<dyn FrameReceiver>,
}

impl Transport {
    /// A connection of these halves.
    pub fn new(sender: impl FrameSender + 'static, receiver: impl FrameReceiver + 'static) -> Self {
        Self {
            sender: Box::new(sender),
            receiver: Box::new(receiver),
        }
    }
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Transport")
    }
}

/// Makes connections to a service: once, and again after each loss.
#[async_trait]
pub trait Connector: Send + Sync + 'static {
    /// A new connection.
    ///
    /// # Errors
    /// When it is not made.
    async fn connect(&self) -> Result<Transport, TransportError>;

    /// Where it leads, for people and profiles; without secrets.
    fn address(&self) -> String;
}
