//! A connection as messages: frames are decoded, announced binary frames are paired, and middleware sees them.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{AipProtocol, AnyMessage, CustomMessage, Outbox, ProtocolError, Side};
use crate::{
    messages::{
        BINARY_DATA, BinaryHeader, DecodeError, FILE_TRANSFER_COMPLETE, FILE_TRANSFER_START, TransferFrame,
        decode_checked, type_of,
    },
    transport::{FrameReceiver, Transport, WireFrame},
};

/// How long the last frames of a connection may take to leave.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// Something that a peer sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Received {
    /// A message of the protocol.
    Message(AnyMessage),
    /// A message of a type that has a handler of its own.
    Custom(CustomMessage),
    /// The frame that begins or ends a file.
    Transfer(TransferFrame),
    /// A binary frame with the header that announced it.
    Binary(BinaryHeader, Bytes),
}

/// A connection of an endpoint.
pub struct Connection {
    protocol: Arc<AipProtocol>,
    receiver: Box<dyn FrameReceiver>,
    outbox: Outbox,
    announced: Option<BinaryHeader>,
    ended: CancellationToken,
    _writer: AbortOnDropHandle<()>,
}

impl Connection {
    /// The connection over `transport`.
    pub fn new(protocol: Arc<AipProtocol>, transport: Transport) -> Self {
        let ended = CancellationToken::new();
        let (outbox, writer) = Outbox::new(Arc::clone(&protocol), transport.sender, ended.clone());
        Self {
            protocol,
            receiver: transport.receiver,
            outbox,
            announced: None,
            ended,
            _writer: writer,
        }
    }

    /// What sends on this connection.
    pub const fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// The next thing that the peer sent; `None`: the connection has ended. After [`ProtocolError::Transport`] it
    /// has ended too; other errors concern one frame. Dropping the future loses nothing, unless middleware waits.
    ///
    /// # Errors
    /// When a frame is not valid.
    pub async fn next(&mut self) -> Option<Result<Received, ProtocolError>> {
        loop {
            let frame = tokio::select! {
                biased;
                () = self.ended.cancelled() => return None,
                frame = self.receiver.receive() => frame?,
            };
            let received = match frame {
                Ok(frame) => self.understand(frame),
                Err(error) => return Some(Err(error.into())),
            };
            self.receiver.release();
            match received {
                Ok(Received::Message(message)) => {
                    if let Some(message) = self.protocol.incoming(message).await {
                        return Some(Ok(Received::Message(message)));
                    }
                }
                // It is returned with its binary frame.
                Ok(Received::Transfer(TransferFrame::Binary(header))) => self.announced = Some(header),
                other => return Some(other),
            }
        }
    }

    /// Closes the connection once what was sent before has left, at most so long after this.
    pub async fn shut_down(&mut self, code: u16) {
        let left = async {
            self.outbox.close(code).await;
            self.ended.cancelled().await;
        };
        let _ = tokio::time::timeout(CLOSE_WITHIN, left).await;
    }

    fn understand(&mut self, frame: WireFrame) -> Result<Received, ProtocolError> {
        let text = match (frame, self.announced.take()) {
            (WireFrame::Binary(bytes), Some(header)) => {
                self.check_size(bytes.len())?;
                return Ok(Received::Binary(header, bytes));
            }
            (WireFrame::Binary(_), None) => {
                let text = "a binary frame came without a frame \"binary_data\" before it";
                return Err(ProtocolError::Unexpected(text.to_owned()));
            }
            (WireFrame::Text(_), Some(_)) => {
                let text = "a binary frame has to follow the frame \"binary_data\"";
                return Err(ProtocolError::Unexpected(text.to_owned()));
            }
            (WireFrame::Text(text), None) => text,
        };
        let limits = self.protocol.limits();
        let kind = type_of(&text, limits)?;
        if matches!(
            kind.as_str(),
            BINARY_DATA | FILE_TRANSFER_START | FILE_TRANSFER_COMPLETE
        ) {
            return Ok(Received::Transfer(decode_checked(&text, limits)?));
        }
        if !self.protocol.side().receives(&kind) && self.protocol.handles(&kind) {
            let value = serde_json::from_str(&text).map_err(|error| DecodeError::Invalid {
                reason: error.to_string(),
            })?;
            return Ok(Received::Custom(CustomMessage { kind, value }));
        }
        Ok(Received::Message(match self.protocol.side() {
            Side::Service => AnyMessage::Client(decode_checked(&text, limits)?),
            Side::Client => AnyMessage::Server(decode_checked(&text, limits)?),
        }))
    }

    fn check_size(&self, size: usize) -> Result<(), DecodeError> {
        let max = self.protocol.limits().bytes;
        if size > max {
            return Err(DecodeError::TooLarge { size, max });
        }
        Ok(())
    }
}
