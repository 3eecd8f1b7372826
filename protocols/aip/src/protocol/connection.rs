//! A connection as messages: frames are decoded, announced binary frames are paired, and middleware sees them.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::time::{Instant, timeout_at};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{AipProtocol, AnyMessage, CustomMessage, Outbox, ProtocolError, Side};
use crate::{
    messages::{
        BINARY_DATA, BinaryHeader, DecodeError, FILE_TRANSFER_COMPLETE, FILE_TRANSFER_START, TransferFrame,
        decode_checked, type_of, unreadable_order, unreadable_results,
    },
    transport::{FrameReceiver, Transport, TransportError, WireFrame},
};

/// How long the last frames of a connection may take to leave.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// How long is read on once nothing can be sent any more: the peer may have said why before it closed.
const READ_ON: Duration = Duration::from_secs(1);

/// Texts of this size are parsed on a thread of their own: 100 MiB take a good part of a second.
const LARGE: usize = 1 << 20;

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
    /// Nothing can be sent any more.
    ended: CancellationToken,
    read_until: Option<Instant>,
    _writer: AbortOnDropHandle<()>,
}

impl Connection {
    /// The connection over `transport`.
    pub fn new(protocol: Arc<AipProtocol>, transport: Transport) -> Self {
        let ended = CancellationToken::new();
        let (outbox, writer) = Outbox::new(Arc::clone(protocol.pipeline()), transport.sender, ended.clone());
        Self {
            protocol,
            receiver: transport.receiver,
            outbox,
            announced: None,
            ended,
            read_until: None,
            _writer: writer,
        }
    }

    /// What sends on this connection.
    pub const fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// The next thing that the peer sent; `None`: the connection has ended. After [`ProtocolError::Transport`] it
    /// has ended too; other errors concern one frame. Dropping the future loses a frame only while a
    /// large one is parsed or middleware waits.
    ///
    /// # Errors
    /// When a frame is not valid.
    pub async fn next(&mut self) -> Option<Result<Received, ProtocolError>> {
        loop {
            let frame = if self.ended.is_cancelled() {
                let until = *self.read_until.get_or_insert_with(|| Instant::now() + READ_ON);
                if Instant::now() >= until {
                    return None;
                }
                timeout_at(until, self.receiver.receive()).await.ok()??
            } else {
                tokio::select! {
                    biased;
                    frame = self.receiver.receive() => frame?,
                    () = self.ended.cancelled() => continue,
                }
            };
            let received = match frame {
                Ok(frame) => self.understand(frame).await,
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

    async fn understand(&mut self, frame: WireFrame) -> Result<Received, ProtocolError> {
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
        if text.len() < LARGE {
            return parse(&self.protocol, &text);
        }
        let protocol = Arc::clone(&self.protocol);
        let parsed = tokio::task::spawn_blocking(move || parse(&protocol, &text)).await;
        parsed.unwrap_or(Err(ProtocolError::Transport(TransportError::Closed)))
    }

    fn check_size(&self, size: usize) -> Result<(), DecodeError> {
        let max = self.protocol.limits().bytes;
        if size > max {
            return Err(DecodeError::TooLarge { size, max });
        }
        Ok(())
    }
}

/// What a text is to this side. One that cannot be read and answers something is the answer that it cannot.
fn parse(protocol: &AipProtocol, text: &str) -> Result<Received, ProtocolError> {
    // Byte order marks and lone surrogates have one meaning only. The text stays UTF-8.
    let mended = agentanycast_readers::json::mended(text.as_bytes());
    let text = std::str::from_utf8(&mended).unwrap_or(text);
    read(protocol, text).or_else(|error| {
        let ProtocolError::Decode(decode) = &error else {
            return Err(error);
        };
        let answer = match protocol.side() {
            Side::Service => unreadable_results(text, decode).map(AnyMessage::Client),
            Side::Client => unreadable_order(text, decode).map(AnyMessage::Server),
        };
        answer.map(Received::Message).ok_or(error)
    })
}

fn read(protocol: &AipProtocol, text: &str) -> Result<Received, ProtocolError> {
    let limits = protocol.limits();
    let kind = type_of(text, limits)?;
    if matches!(
        kind.as_str(),
        BINARY_DATA | FILE_TRANSFER_START | FILE_TRANSFER_COMPLETE
    ) {
        return Ok(Received::Transfer(decode_checked(text, limits)?));
    }
    if !protocol.side().receives(&kind) && protocol.handles(&kind) {
        let value = serde_json::from_str(text).map_err(|error| DecodeError::invalid(&error))?;
        return Ok(Received::Custom(CustomMessage { kind, value }));
    }
    Ok(Received::Message(match protocol.side() {
        Side::Service => AnyMessage::Client(decode_checked(text, limits)?),
        Side::Client => AnyMessage::Server(decode_checked(text, limits)?),
    }))
}
